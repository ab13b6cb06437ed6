"""What a service runs on: its time, its log, its threads and its random bytes, each through one seam.

Whatever else a service does follows from the requests that it gets. So with simulated ones, in place of those of this
machine, whole days of several services run in one thread and come out the same for one seed.
"""

import queue
import secrets
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Protocol

from zoosim.serving.clock import Clock
from zoosim.serving.store.address import Address, open_store
from zoosim.serving.store.base import Store

Handler = Callable[[Sequence[Any]], None]
"""Takes all items that waited for a worker, in the order in which they were put."""


class Worker(Protocol):
    """Works off items beside the event loop: nobody waits for a batch to fill up, and what waits goes together."""

    def put(self, item: Any) -> None:
        """Hand over an item, in any thread."""
        ...

    def close(self) -> None:
        """Work off what waits, and end."""
        ...


class ThreadWorker:
    """A worker that is a thread."""

    def __init__(self, name: str, handle: Handler) -> None:
        """Start the thread.

        Args:
            name: What debuggers call it.
            handle: Called with the items that wait; it must not raise.
        """
        self._handle = handle
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # In the context of whoever starts it, by which lines of the log name a loop.
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name=name, daemon=True)
        self._thread.start()

    def put(self, item: Any) -> None:
        """Hand over an item, in any thread."""
        self._queue.put(item)

    def close(self) -> None:
        """Work off what waits, and end the thread."""
        self._queue.put(_END)
        self._thread.join()

    def _run(self) -> None:
        is_over = False
        while not is_over:
            items = [self._queue.get()]
            while not self._queue.empty():
                items.append(self._queue.get())
            is_over = items[-1] is _END
            if is_over:
                items.pop()
            if items:
                self._handle(items)


_END = object()


def _random_bytes(size: int) -> bytes:
    return secrets.token_bytes(size)


@dataclass(frozen=True)
class Machine:
    """The machine that a service runs on, by default this one.

    Attributes:
        clock: Gives rows of the log their times, and measures durations.
        open_store: Opens the log at an address, for reading alone where its second argument is True.
        start_worker: Starts a worker of a name, which hands items to a function.
        random_bytes: Returns so many bytes that nobody can guess.
    """

    clock: Clock = field(default_factory=Clock)
    open_store: Callable[[Address, bool], Store] = open_store
    start_worker: Callable[[str, Handler], Worker] = ThreadWorker
    random_bytes: Callable[[int], bytes] = _random_bytes
