"""The process that workers are forked from starts before tests choose caches of their own.

Compiled functions are kept in the folder that is chosen when it starts; in a test's own one, each would compile anew.
"""

import pytest

from zoosim.arena.backends.local import worker_context


@pytest.fixture(scope="session", autouse=True)
def _process_for_workers() -> None:
    worker_context()
