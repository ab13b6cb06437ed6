"""Ray as a `concurrent.futures.Executor`."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import ray


class RayExecutor(Executor):
    """Runs each call as a task of the cluster that this process has joined by `ray.init`."""

    def __init__(self, **options: Any) -> None:
        """Take options of Ray's tasks, such as `num_cpus=2` or `resources`; a task takes one core by default."""
        self._options = {"num_cpus": 1, **options}
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Return the future of a call."""
        if fn not in self._remote:  # exported to the cluster once
            self._remote[fn] = ray.remote(**self._options)(fn)
        future: Future[Any] = self._remote[fn].remote(*args, **kwargs).future()
        return future
