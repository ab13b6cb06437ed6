"""The loops of a service: opened from their folder, added and removed while requests go on."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from zoosim.core.blame import one_line
from zoosim.core.errors import StoreError, ZoosimError
from zoosim.core.number_format import counted
from zoosim.serving.console.sessions import Sessions
from zoosim.serving.folder import keep_content
from zoosim.serving.log_lines import LOOP
from zoosim.serving.loops.folder import LoopFile, LoopsFolder, check_name
from zoosim.serving.loops.learners import LearnerProcess
from zoosim.serving.loops.running import RunningLoop
from zoosim.serving.refusals import Conflict, NotFound
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings, read_loop_settings

logger = logging.getLogger("zoosim.serving")


class FailedLoop(NamedTuple):
    """A loop that could not be opened, and why."""

    reason: str


class Loops:
    """The loops of a service, by name.

    Attributes:
        folder: Where they lie.
        running: Those that answer.
        failed: Those that could not be opened.
    """

    def __init__(self, folder: LoopsFolder, settings: Settings, learners: LearnerProcess, sessions: Sessions) -> None:
        """Hold none yet.

        Args:
            folder: Where they lie, locked by this process.
            settings: Settings of the service.
            learners: The process in which they learn.
            sessions: Who may ask.
        """
        self.folder = folder
        self.running: dict[str, RunningLoop] = {}
        self.failed: dict[str, FailedLoop] = {}
        self._settings = settings
        self._learners = learners
        self._sessions = sessions
        self._changing = asyncio.Lock()
        self._is_stopping = False

    async def open(self, stopping: asyncio.Event) -> None:
        """Open all loops of the folder, one after another; one that cannot be opened stops no other.

        Args:
            stopping: Set once the service is told to stop: no further one is opened then.
        """
        self.folder.forget_models()
        for name, reason in self.folder.unserved().items():
            logger.warning("loop %s: %s", name, reason)
        for name in self.folder.names():
            if stopping.is_set():
                return
            try:
                self.running[name] = await self._opened(name)
            except Exception as error:  # a policy of the user's own may raise anything
                logger.error("loop %s: cannot be opened: %s", name, one_line(error))
                self.failed[name] = FailedLoop(one_line(error))

    async def wait_until_learned(self) -> None:
        """Wait until each loop decides by what its learner has learned."""
        for running in list(self.running.values()):
            await running.wait_until_learned()

    def knowledge(self) -> str:
        """Return in words which loops there are."""
        if not self.running and not self.failed:
            return "no loops yet: zoosim loops add NAME"
        failed = f"; {', '.join(self.failed)} cannot be opened" if self.failed else ""
        return f"{counted(len(self.running), 'loop')}: {', '.join(self.running) or 'none'}{failed}"

    def keep_model(self, content: bytes) -> str:
        """Keep a model, the content of its file, for a loop that is added later; return its digest.

        Raises:
            DataError, ConfigError: it is none, or one that no service decides by.
            StoreError: there is no room for it.
        """
        try:
            return keep_content(self.folder.path, content)[0]
        except OSError as error:
            raise StoreError(f"model: cannot be kept ({error.strerror}); make room, and send it again") from None

    async def add(self, name: str, model: str, settings: Mapping[str, Any]) -> bool:
        """Add a loop while the others go on; once this returns, it answers, and is there after a restart.

        Args:
            name: Its name. A folder of that name that holds the log of a loop is taken up.
            model: The digest of its model, which was kept; empty for that of its log, or to grow one.
            settings: Its own settings.

        Returns:
            True; False where it was there already, just so.

        Raises:
            Conflict: another loop has the name.
            ConfigError: it cannot be made so.
            DataError: the model, or the log in its folder, is broken.
            StoreError: it cannot be kept.
        """
        check_name(name)
        read_loop_settings(self._settings, settings, self.folder.folder(name), f"loop {name}")
        # As a task of its own, which goes on where whoever asked is gone: a loop is added whole, or not.
        return await asyncio.shield(asyncio.create_task(self._add(name, model, settings)))

    async def _add(self, name: str, model: str, settings: Mapping[str, Any]) -> bool:
        async with self._changing:
            self._check_stopping()
            if name in self.running or name in self.failed:
                if self._is_alike(name, model, settings):
                    return False
                raise Conflict(f"loop {name}: is there already; name another one, or remove it first")
            undo = await asyncio.to_thread(self.folder.add, name, model, settings)
            try:
                running = await self._opened(name)
            except BaseException:
                await asyncio.to_thread(undo)
                raise
            await running.wait_until_learned()
            self.running[name] = running
            logger.info("loop %s was added", name)
            return True

    async def remove(self, name: str) -> Path:
        """Remove a loop while the others go on: what it was asked is answered and learned; return where its log is.

        Raises:
            NotFound: there is none of the name.
            StoreError: its folder cannot be moved; the loop goes on.
        """
        return await asyncio.shield(asyncio.create_task(self._remove(name)))

    async def _remove(self, name: str) -> Path:
        async with self._changing:
            self._check_stopping()
            self.check_known(name)
            running = self.running.pop(name, None)
            failed = self.failed.pop(name, None)
            if running is not None:
                await running.close()
            try:
                target = await asyncio.to_thread(self.folder.remove, name, datetime.now(UTC))
            except StoreError:
                if failed is None:
                    self.running[name] = await self._opened(name)
                else:
                    self.failed[name] = failed
                raise
            logger.info("loop %s was removed; its log is in %s", name, target)
            return target

    def check_known(self, name: str) -> None:
        """Refuse the name of no loop: `NotFound`."""
        if name not in self.running and name not in self.failed:
            names = ", ".join(sorted([*self.running, *self.failed])) or "none"
            raise NotFound(f"loop: got {name}, which this service does not have; expected one of: {names}")

    async def answer(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a loop.

        Raises:
            NotFound: there is none of the name.
            StoreError: it could not be opened.
        """
        running = self.running.get(name)
        if running is None:
            self.check_known(name)
            raise StoreError(f"loop {name}: cannot be opened: {self.failed[name].reason}")
        LOOP.set(name)
        await running(scope, receive, send)

    async def answer_directly(self, name: str, scope: Scope, receive: Receive) -> Response | None:
        """Return the answer to a request of a loop that runs, where it is answered directly."""
        running = self.running.get(name)
        if running is None:
            return None
        LOOP.set(name)
        return await running.answer_directly(scope, receive)

    def end_streams(self) -> None:
        """End answers that would go on for ever."""
        self._is_stopping = True
        for running in self.running.values():
            running.end_streams()

    async def close(self) -> None:
        """Close all loops, once none is being added or removed."""
        self._is_stopping = True
        async with self._changing:
            await asyncio.gather(*(running.close() for running in self.running.values()))

    async def _opened(self, name: str) -> RunningLoop:
        """Return a loop that is opened, in a task whose lines of the log name it."""
        context = copy_context()
        context.run(LOOP.set, name)
        return await asyncio.create_task(self._open(name), context=context)

    async def _open(self, name: str) -> RunningLoop:
        loop = asyncio.get_running_loop()
        settings = self.folder.settings(name, self._settings)
        # In a thread, since models are loaded, and some compiled, for seconds, in which other loops answer.
        service = await asyncio.to_thread(partial(Service, settings, self.folder.model(name), loop))
        try:
            return RunningLoop(service, self._learners, self._sessions)
        except OSError as error:
            await asyncio.to_thread(service.close)
            raise StoreError(f"loop {name}: its learner cannot be started ({error.strerror}); try again") from None

    def _is_alike(self, name: str, model: str, settings: Mapping[str, Any]) -> bool:
        """Return whether a loop was added just so, as where a request comes again whose answer was lost."""
        with contextlib.suppress(ZoosimError):
            wanted = LoopFile(self.folder.model_name(model), dict(settings))
            return name in self.running and self.folder.read(name) == wanted
        return False

    def _check_stopping(self) -> None:
        if self._is_stopping:
            raise StoreError("the service is told to stop; add or remove loops once it runs again")
