"""A bound on what is made for a file by what it holds: a header of a kilobyte may declare a network of gigabytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from zoosim.core.errors import DataError

_held: ContextVar[int | None] = ContextVar("_held", default=None)


@contextmanager
def holding(numbers: int) -> Iterator[None]:
    """Make `claim` refuse what is larger than a file that holds so many numbers."""
    before = _held.set(numbers)
    try:
        yield
    finally:
        _held.reset(before)


def claim(numbers: int) -> None:
    """Refuse with `DataError` to draw so many numbers of a state for a file that holds fewer."""
    held = _held.get()
    if held is not None and numbers > held:
        raise DataError(f"its arrays hold {held:,} numbers, expected at least {numbers:,} by its task and parameters")
