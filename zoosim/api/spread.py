"""Have an evaluation ask policies on the workers of an executor."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zoosim.core.extras import needs_extra

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from zoosim.off_policy.actions.product_weights import Spread


@contextmanager
def open_spread(executor: "Executor | str | None") -> "Iterator[Spread | None]":
    """Yield what has blocks of rows weighed by an executor's workers; None without an executor.

    Raises:
        ConfigError: the executor is of no use, or the extra `lab` is not installed.
    """
    if executor is None:
        yield None
        return
    needs_extra("evaluate: executor", "lab")
    from zoosim.api.runs import open_backend
    from zoosim.arena.backends.judging import spread_over

    with open_backend(None, executor, isolate=False) as backend:
        yield spread_over(backend)
