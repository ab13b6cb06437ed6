"""Workers are as those that each start anew: they import what this process does, in whatever state it is."""

import os
import sys
from pathlib import Path

import pytest

from tests.commands import ROOT, new_process

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
