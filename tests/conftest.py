"""The process that workers are forked from starts before tests choose caches of their own.

Compiled functions are kept in the folder that is chosen when it starts; in a test's own one, each would compile anew.
"""

import gc

import pytest

from zoosim.arena.backends.local import worker_context


@pytest.fixture(scope="session", autouse=True)
def _process_for_workers() -> None:
    worker_context()


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what thousands of collected tests are made of: a second each time else."""
    gc.collect()
    gc.freeze()
