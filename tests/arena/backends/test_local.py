"""Workers are as those that each start anew: they import what this process does, in whatever state it is."""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.commands import ROOT, new_process
from zoosim.arena.backends import Work
from zoosim.arena.backends.local import Local, start_pool, without_main

SCRIPT = """
import sys
sys.path.insert(0, {root!r})
import zoosim
from zoosim.arena.backends.local import start_pool, without_main
{body}
"""


def run_script(body: str, cwd: Path, *flags: str) -> str:
    """Run a script that finds zoosim by a path of its own; return what it prints."""
    (cwd / "script.py").write_text(SCRIPT.format(root=str(ROOT), body=body))
    (cwd / "elsewhere").mkdir(exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    words = [sys.executable, *flags, str(cwd / "script.py")]
    ended = new_process(words, cwd=cwd / "elsewhere", env=environment, timeout=100)
    assert ended.code == 0, ended.err
    return ended.out


@pytest.mark.parametrize("flags", [(), ("-E",)], ids=["plain", "-E"])
def test_workers_import_from_where_the_program_does(flags: tuple[str, ...], tmp_path: Path) -> None:
    """Not from the working directory, nor another zoosim that is installed."""
    (tmp_path / "found.py").write_text("import zoosim\n\n\ndef place():\n    return zoosim.__file__\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "zoosim.py").write_text("raise RuntimeError('of the working directory')\n")
    (tmp_path / "elsewhere" / "numba.py").write_text("raise RuntimeError('of the working directory')\n")
    body = "import found\nwith start_pool(1) as pool, without_main():\n    print(pool.submit(found.place).result())"
    assert run_script(body, tmp_path, *flags) == f"{ROOT / 'zoosim' / '__init__.py'}\n"


def test_a_forked_process_starts_workers_of_its_own(tmp_path: Path) -> None:
    """The process that its parent's workers are forked from is no child of its own."""
    body = (
        "import os\n"
        "for _ in range(2):\n"
        "    with start_pool(1) as pool, without_main():\n"
        "        print(pool.submit(abs, -1).result(), flush=True)\n"
        "    child = os.fork()\n"
        "    if child:\n"
        "        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert run_script(body, tmp_path) == "1\n1\n"


def draw(_: int) -> float:
    time.sleep(0.5)  # so that each worker draws once
    return float(np.random.random())  # noqa: NPY002


def test_workers_draw_different_numbers_without_a_seed() -> None:
    with start_pool(2) as pool, without_main():
        assert len(set(pool.map(draw, range(2)))) == 2


def raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class ReportAndWait(Work[int, None]):
    def compute(self, task: int, report: Callable[..., None]) -> None:
        report("begun")
        time.sleep(100)

    def lost(self, task: int, reason: str) -> None:
        pass


def test_an_interrupt_ends_no_other_children() -> None:
    own = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(100,))
    own.start()
    with pytest.raises(KeyboardInterrupt):
        list(Local(2).run(ReportAndWait(), [0, 1], raise_interrupt))
    own.join(0.2)
    assert own.is_alive()
    own.kill()
    own.join()
