"""Backends, which compute the trials of a run: processes of this machine, or the workers of an executor."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Report = Callable[..., None]
"""Takes what a task tells of on its way."""


class Work(ABC, Generic[T, R]):
    """What is done with each task. It and the tasks can be pickled; where it is done it leaves nothing behind."""

    @abstractmethod
    def compute(self, task: T, report: Report) -> R:
        """Return the result of a task, all of it: whoever computed it may be another machine, and is not asked again.

        Args:
            task: The task.
            report: Takes what there is to tell on the way.
        """

    @abstractmethod
    def lost(self, task: T, reason: str) -> R:
        """Return the result of a task that whoever computed it has died of."""

    def loaded(self, task: T) -> T:
        """Return a task with all that it takes, where that is much to hold for all of them: when its turn comes."""
        return task

    def stays(self, task: T) -> bool:
        """Return whether a task has to be computed in this process."""
        return False

    def trusted(self, task: T) -> bool:
        """Return whether a task cannot be what killed a process, and is tried again together with others."""
        return True

    def files(self, tasks: Sequence[T]) -> Mapping[str, Path]:
        """Return the files that tasks read, by what they call them: other machines do not have them."""
        return {}

    def fault(self, task: T) -> str:
        """Return what keeps a machine that a task was sent to from computing it as its sender would; empty if none."""
        return ""


class Backend(Protocol):
    """Computes independent tasks, in any order and in any number of processes; results do not depend on either."""

    @property
    def jobs(self) -> int | None:
        """The number of tasks that are computed at once; None where nobody can say."""
        ...

    def run(self, work: Work[T, R], tasks: Sequence[T], report: Report) -> Generator[R, Any, None]:
        """Yield the result of each task as soon as it is there, in any order. Whoever takes no more of them closes it.

        Args:
            work: What is done with each task.
            tasks: The tasks.
            report: Called in this process with what tasks tell of on the way.
        """
        ...
