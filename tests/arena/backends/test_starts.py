"""Workers start wherever they can, and whoever starts them: threads, daemons, after processes were killed."""

import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.commands import ROOT, new_process
from zoosim.arena.backends import Work
from zoosim.arena.backends.local import Local, without_main
from zoosim.core.errors import ConfigError

START = "from tests.arena.backends.test_starts import run_tasks\n"
KILLED = """
import os, signal
from multiprocessing import forkserver
run_tasks()
os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
print(*run_tasks())
"""
KILLED_FIRST = """
import os, signal
from multiprocessing import forkserver
ensure_running = forkserver.ensure_running
def start_and_kill():
    ensure_running()
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
forkserver.ensure_running = start_and_kill
print(*run_tasks())
"""
STILL_THERE = """
from multiprocessing import forkserver
run_tasks()
connect = forkserver._forkserver.connect_to_new_process
failures = [EOFError] * 3
def connect_later(fds):
    if failures:
        raise failures.pop()
    return connect(fds)
forkserver._forkserver.connect_to_new_process = forkserver.connect_to_new_process = connect_later
print(*run_tasks())
"""


class Double(Work[int, int]):
    def compute(self, task: int, report: Callable[..., None]) -> int:
        return 2 * task

    def lost(self, task: int, reason: str) -> int:
        return -1


class ProcessOf(Double):
    def compute(self, task: int, report: Callable[..., None]) -> int:
        return os.getpid()

    def trusted(self, task: int) -> bool:
        return False


def run_tasks(work: Work[int, int] | None = None, *, isolate: bool = False) -> list[int]:
    return sorted(Local(2, isolate=isolate).run(work or Double(), [1, 2, 3], print))


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
@pytest.mark.parametrize(
    "script",
    [KILLED, KILLED_FIRST, STILL_THERE],
    ids=["killed between", "killed while it starts", "killed, and not gone yet"],
)
def test_workers_start_without_the_process_that_they_are_forked_from(script: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = new_process([sys.executable, "-c", START + script], cwd=tmp_path, env=environment, timeout=120)
    assert ended.out.split() == ["2", "4", "6"], ended.err


def test_workers_start_where_no_socket_fits_into_the_folder_for_temporary_files(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    ended = new_process([sys.executable, "-c", START + "print(*run_tasks())"], cwd=tmp_path, env=environment)
    assert ended.out.split() == ["2", "4", "6"], ended.err
    assert not list(folder.iterdir())


def test_a_daemon_computes_all_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python lets daemons start no processes."""
    monkeypatch.setattr(multiprocessing.current_process(), "daemon", True)
    assert set(run_tasks(ProcessOf())) == {os.getpid()}
    with pytest.raises(ConfigError, match=r"^isolate: .*leave it out"):
        run_tasks(ProcessOf(), isolate=True)


def test_threads_hide_the_main_module_one_after_another() -> None:
    """A thread that shows it again, while another's workers start, would let those run a script of the user's."""
    main = sys.modules["__main__"]
    before = main.__spec__

    def count_shown(_: int) -> int:
        shown = 0
        for _ in range(2_000):
            with without_main():
                shown += main.__spec__ is not None or hasattr(main, "__file__")
        return shown

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(count_shown, range(4))) == 0
    assert main.__spec__ is before
