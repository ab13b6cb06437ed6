"""An event loop whose time is simulated, with processes that can be paused and killed, all in one thread.

Time jumps to the next thing that is due. What a process calls for later carries its process in the context of the
call: what is due for a process that is paused waits, and what is due for one that was killed is dropped, as if its
machine had lost power between two steps.
"""

import asyncio
import contextlib
import contextvars
import heapq
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from zoosim.serving.machine import Handler

Context = contextvars.Context | None
Due = tuple[float, int, "Call", "Process"]
"""When a call is due, what orders calls of one moment, the call, and the process that makes it."""


class Process:
    """A process that is simulated.

    Attributes:
        name: What messages call it.
        is_alive: Whether it has not been killed.
        paused_until: The time at which it goes on.
        is_waiting: Whether one of its steps waits for time to pass, in the midst of which it does nothing else.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.paused_until = 0.0
        self.is_waiting = False
        self.held: list[Due] = []


OUTSIDE = Process("the world")
_process: contextvars.ContextVar[Process] = contextvars.ContextVar("process", default=OUTSIDE)


class Call:
    """A call that is due later, with the part of `asyncio.TimerHandle` that tasks and sleeps use, at half its cost."""

    __slots__ = ("_when", "args", "callback", "context", "is_cancelled")

    def __init__(self, when: float, callback: Callable[..., Any], args: Sequence[Any], context: Context) -> None:
        self.callback = callback
        self.args = args
        self.context = contextvars.copy_context() if context is None else context
        self.is_cancelled = False
        self._when = when

    def when(self) -> float:
        """Return when it is due."""
        return self._when

    def cancel(self) -> None:
        """Let it not be made; it is passed over once it is due."""
        self.is_cancelled = True


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop of simulated time.

    Attributes:
        failures: What went wrong in callbacks and tasks that nobody awaits.
        slowness: By how much steps of other threads and machines take longer than usual.
    """

    def __init__(self, rng: Random) -> None:
        """Begin at time 0; delays of threads are drawn by `rng`."""
        super().__init__()
        self.failures: list[str] = []
        self.slowness = 1.0
        self._draw = rng.random
        self._now = 0.0
        self._count = 0
        self._due: list[Due] = []
        self._thread: SimulatedWorker | None = None
        # What was killed stays until the end: were it collected, its `finally` blocks would run at moments that hang on
        # the collector.
        self._tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        """Return the seconds since the simulation began."""
        return self._now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context = None
    ) -> Call:
        """Call something at a time, in the process that asks for it."""
        process = _process.get() if context is None else context.get(_process, OUTSIDE)
        call = Call(when, callback, args, context)
        self._count += 1
        heapq.heappush(self._due, (when if when > self._now else self._now, self._count, call, process))
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context = None
    ) -> Call:
        """Call something after some seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context = None
    ) -> Call:
        """Call something behind what is ready already."""
        return self.call_at(self._now, callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context = None
    ) -> Call:
        """Call something; what a thread asks for comes later, in the order in which the thread asks."""
        if self._thread is None:
            return self.call_soon(callback, *args, context=context)
        return self.call_at(self._thread.answered_at(), callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Call a function at one moment between now and the time at which its outcome is known."""
        done = self.create_future()
        self.call_later(self.delay(), self._run_outside, func, args, done)
        return done

    def _run_outside(self, func: Callable[..., Any], args: Sequence[Any], done: "asyncio.Future[Any]") -> None:
        try:
            result = func(*args)
        except Exception as error:
            self.call_later(self.delay(), _fail, done, error)
        else:
            self.call_later(self.delay(), _succeed, done, result)

    def delay(self) -> float:
        """Return for how long a step of another thread or machine takes: milliseconds, and now and then seconds."""
        unit = self._draw()
        return self.slowness * (0.001 + 0.02 * unit**4 / (1.001 - unit))

    def start(self, process: Process, function: Callable[..., Any], *args: Any) -> None:
        """Call a function in a process."""
        context = contextvars.copy_context()
        context.run(_process.set, process)
        self.call_soon(function, *args, context=context)

    def spawn(self, process: Process, job: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run what a function returns in a process."""
        self.start(process, lambda: self.create_task(job()))

    def run_until(self, time: float) -> None:
        """Let time pass, up to a moment."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while self._due and self._due[0][0] <= time:
                self._run_next()
            self._now = max(self._now, time)
        finally:
            asyncio._set_running_loop(before)

    def wait(self, seconds: float) -> None:
        """Let time pass in the midst of a step, for all but the process that waits."""
        process = _process.get()
        process.is_waiting = True
        try:
            self.run_until(self._now + seconds)
        finally:
            process.is_waiting = False
            for entry in process.held:
                heapq.heappush(self._due, entry)
            process.held = []

    def _run_next(self) -> None:
        entry = heapq.heappop(self._due)
        when, count, call, process = entry
        if call.is_cancelled or not process.is_alive:
            return
        if process.is_waiting:
            process.held.append(entry)
            return
        if process.paused_until > self._now and process.paused_until > when:
            heapq.heappush(self._due, (process.paused_until, count, call, process))
            return
        self._now = max(self._now, when)
        try:
            call.context.run(call.callback, *call.args)
        except Exception as error:
            self.failures.append(f"{process.name}: {call.callback}: {error!r}")

    def create_future(self) -> "asyncio.Future[Any]":
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> "asyncio.Task[Any]":
        """Run a coroutine in the process that asks for it."""
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Note what went wrong where nobody awaits it."""
        error = context.get("exception")
        if error is not None:
            self.failures.append(f"{_process.get().name}: {context['message']}: {error!r}")

    def get_debug(self) -> bool:
        """Return False: nothing is measured."""
        return False

    def is_running(self) -> bool:
        """Return whether this is the loop that runs now."""
        return asyncio._get_running_loop() is self

    def close(self) -> None:
        """Drop all that is due."""
        self._due.clear()
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            job = task.get_coro()
            if not task.done() and isinstance(job, Coroutine):
                with contextlib.suppress(RuntimeError):
                    job.close()
        self._tasks.clear()
        super().close()


class SimulatedWorker:
    """A worker whose batches are worked off after some time, with all that was put by then."""

    def __init__(self, loop: SimulatedLoop, handle: Handler) -> None:
        self._loop = loop
        self._handle = handle
        self._items: list[Any] = []
        self._is_due = False
        self._answers_at = 0.0

    def put(self, item: Any) -> None:
        """Hand over an item."""
        self._items.append(item)
        self._come_again()

    def close(self) -> None:
        """Work off what waits."""
        self._work()

    def answered_at(self) -> float:
        """Return when the event loop hears of what the thread of this worker has to say."""
        self._answers_at = max(self._answers_at, self._loop.time() + self._loop.delay())
        return self._answers_at

    def _come_again(self) -> None:
        if not self._is_due:
            self._is_due = True
            # Behind the answer to its last batch, which the store was busy with.
            self._loop.call_at(max(self._loop.time(), self._answers_at) + self._loop.delay(), self._work_on)

    def _work_on(self) -> None:
        self._is_due = False
        self._work()

    def _work(self) -> None:
        items = self._items
        self._items = []
        if not items:
            return
        before = self._loop._thread
        self._loop._thread = self
        try:
            self._handle(items)
        finally:
            self._loop._thread = before


def _succeed(done: "asyncio.Future[Any]", result: Any) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: "asyncio.Future[Any]", error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
