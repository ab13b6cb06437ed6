"""One loop while it runs: its service, its learner, what answers its requests, and what is done beside these."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from zoosim.core.blame import one_line
from zoosim.core.errors import ZoosimError
from zoosim.serving.application import Application
from zoosim.serving.console.sessions import Sessions
from zoosim.serving.loops.learners import DRAIN_SECONDS, LearnerProcess
from zoosim.serving.service import Service
from zoosim.serving.throttle import Throttle
from zoosim.serving.upkeep import Upkeep

LEARNER_STARTS = 30.0
"""Seconds for which visitors wait for the learner's first report, at most."""

SECONDS_BETWEEN_CLEANINGS = 60.0

Answer = TypeVar("Answer")

logger = logging.getLogger("zoosim.serving")


class RunningLoop:
    """A loop that answers requests, an ASGI application, until it is closed.

    Attributes:
        service: What decides.
        metrics: Its figures.
    """

    def __init__(self, service: Service, learners: LearnerProcess, sessions: Sessions | None = None) -> None:
        """Begin to learn, and to do what is done beside requests.

        Args:
            service: What decides, open.
            learners: The process in which it learns.
            sessions: Who may ask, where several loops share that.
        """
        self.service = service
        self._learner = learners.learn(service)
        self._stopping = asyncio.Event()
        application = Application(service, self._stopping, sessions)
        self.metrics = application.metrics
        self._application = application.starlette()
        self._direct = application.direct
        self._jobs = [asyncio.create_task(job) for job in (tick(service), clean(service.upkeep))]
        self._open_requests = 0
        self._all_answered = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._counted(self._application(scope, receive, send))

    async def answer_directly(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the answer to a request that is answered directly."""
        return await self._counted(self._direct.answer(scope, receive))

    async def _counted(self, answering: Awaitable[Answer]) -> Answer:
        """Return an answer once it is there; the request is open until then."""
        self._open_requests += 1
        try:
            return await answering
        finally:
            self._open_requests -= 1
            if not self._open_requests:
                self._all_answered.set()

    async def wait_until_learned(self) -> None:
        """Wait until it decides by what its learner has learned, for `LEARNER_STARTS` seconds at most."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._learner.has_reported.wait(), LEARNER_STARTS)

    def knowledge(self) -> str:
        """Return in words where its log lies, and what decides."""
        return f"{self.service.address.text()}; {self.service.knowledge()}"

    def end_streams(self) -> None:
        """End answers that would go on for ever."""
        self._stopping.set()

    async def close(self) -> None:
        """Answer the requests that have come, of which no more may come, and end with all that was taken in learned."""
        self.end_streams()
        await self._drain()
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        # The order counts. A last tick closes what feedback came in; the learner then reads the log to its end and
        # writes a snapshot; and the service shares that before it gives up its lease and the lock of its folder.
        await _try(self.service.tick, "what was taken in last is learned after the next start", Throttle())
        await asyncio.get_running_loop().run_in_executor(None, self._learner.stop)
        # In a thread, too: to close a log takes the time of the disk, in which other loops answer.
        await asyncio.get_running_loop().run_in_executor(None, self.service.close)

    async def _drain(self) -> None:
        """Wait until all requests are answered, for `DRAIN_SECONDS` at most."""
        self._all_answered.clear()
        if self._open_requests:
            try:
                await asyncio.wait_for(self._all_answered.wait(), DRAIN_SECONDS)
            except TimeoutError:
                logger.warning("%d requests were not answered in %d s", self._open_requests, DRAIN_SECONDS)


async def tick(service: Service) -> None:
    """Let time pass for a service, for ever."""
    throttle = Throttle()
    while True:
        await asyncio.sleep(service.settings.tick)
        await _try(service.tick, "the log is not brought up to date for now", throttle)


async def clean(upkeep: Upkeep) -> None:
    """Remove old rows of a service's log, for ever."""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_CLEANINGS)
        await _try(upkeep.clean, "old rows stay for now", Throttle())


async def _try(step: Callable[[], Awaitable[Any]], complaint: str, throttle: Throttle) -> None:
    """Take a step that follows again; where it fails, a line says so, and nothing ends without one.

    An unexpected error, a fault of ours, is told with its traceback.
    """
    try:
        await step()
    except Exception as error:
        if throttle.allows():
            is_expected = isinstance(error, ZoosimError | OSError)
            logger.warning("%s: %s", complaint, one_line(error), exc_info=None if is_expected else error)
