"""Have an evaluation ask policies on the workers of an executor."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from zoosim.core.extras import needs_extra

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from zoosim.off_policy.actions.product_weights import Spread


def open_spread(executor: "Executor | str") -> "AbstractContextManager[Spread]":
    """Return what has blocks of rows weighed by an executor's workers, of whom none is asked before it is entered.

    Raises:
        ConfigError: the executor is of no use, or the extra `lab` is not installed.
    """
    needs_extra("evaluate: executor", "lab")
    from zoosim.arena.backends.clusters import check_executor

    check_executor(executor)
    return _entered(executor)


@contextmanager
def _entered(executor: "Executor | str") -> "Iterator[Spread]":
    from zoosim.api.runs import open_backend
    from zoosim.arena.backends.judging import spread_over

    with open_backend(None, executor, isolate=False) as backend, spread_over(backend) as spread:
        yield spread
