"""What all tests share: less work to collect them, and the process that workers are forked from.

That process starts before tests choose caches of their own: compiled functions are kept in the folder that is chosen
when it starts; in a test's own one, each would compile anew.
"""

import gc
import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from zoosim.arena.backends.local import worker_context

TESTS = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def _process_for_workers() -> None:
    worker_context()


def pytest_configure() -> None:
    """Look for garbage less often, which took 6 s of 92 in which kernels were compiled, and takes 2.5 now."""
    gc.set_threshold(50_000, 20, 10)


def pytest_collection(session: pytest.Session) -> None:
    """Import the test modules in an order of each xdist worker's own, where all of them are to be collected.

    On a fresh checkout pytest rewrites each module's assertions, which is half of the time of collecting, and keeps the
    result beside it. Workers that begin with the same module each rewrite all; those that begin apart read what the
    others have rewritten.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    paths = [path.relative_to(TESTS.parent) for path in sorted(TESTS.rglob("test_*.py"))]
    names = [".".join(path.with_suffix("").parts) for path in paths]
    number = int(worker.removeprefix("gw"))
    first = number * len(names) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for name in names[first:] + names[:first]:
        # What cannot be imported, or skips its tests, does so again when it is collected.
        with suppress(Exception, pytest.skip.Exception):
            import_module(name)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what thousands of collected tests are made of: a second each time else."""
    gc.collect()
    gc.freeze()
