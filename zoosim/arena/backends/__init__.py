"""Backends, which compute the trials of a run: on this machine for now."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[T, Callable[..., None]], R]
"""A function (task, report) that computes a task, and may report lines on the way."""


class Backend(Protocol):
    """Computes independent tasks, in any order and in any number of processes; results do not depend on either."""

    def run(
        self,
        work: Work[T, R],
        tasks: Sequence[T],
        *,
        report: Callable[..., None],
        stays: Callable[[T], bool],
        trusted: Callable[[T], bool],
        lost: Callable[[T], R],
    ) -> list[R]:
        """Return `work(task, report)` of each task, in any order.

        Args:
            work: What computes a task; it can be pickled.
            tasks: The tasks; they can be pickled.
            report: Called in this process with what `work` reported.
            stays: Whether a task has to be computed in this process.
            trusted: Whether a task cannot be what killed a process, and is tried again together with others.
            lost: Gives the result of a task whose process died.
        """
        ...
