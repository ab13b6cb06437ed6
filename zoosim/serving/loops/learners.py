"""The process in which loops learn: a thread for each, which reads the loop's log and tells its service.

One process for all loops of a service, since each process would hold another copy of all that is imported, some 135 MB.
Within it each loop has a thread of its own, so that one whose log cannot be read, or whose learner fails, keeps no
other waiting: compiled kernels run side by side, and what is learned is a function of one log alone.
"""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextvars import Context, copy_context
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

from zoosim.core.blame import one_line
from zoosim.core.errors import DataError
from zoosim.serving.learner import LearnerJob, LogLearner
from zoosim.serving.log_lines import LOOP, write_json_lines
from zoosim.serving.machine import Machine
from zoosim.serving.publishing import decode
from zoosim.serving.store.base import LostRows

if TYPE_CHECKING:  # the learners' process needs none of what answers requests
    from zoosim.serving.service import Service

DRAIN_SECONDS = 5
"""Seconds that learners may take to end once they are told to stop."""

LOOKS = 1.0
"""Seconds between two looks at whether the service, which is the parent of its learners' process, is still there."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Seconds before what ended is started again; each further pause is twice as long.

Else a learner that ends at once, as at a broken row, would load models without pause, on a core that visitors need.
"""

SECONDS_PER_THREAD = 0.0005
"""For which one learner keeps the interpreter while others want it."""

BEGIN, WHOLE, STOP, END = "begin", "whole", "stop", "end"
"""Messages of a service: begin to learn, send the whole state next, write a snapshot and end; and end the process."""

NEWS, ENDED = "news", "ended"
"""Messages of a learner: what it has learned; and that it has ended."""

STOPPED, BROKEN, LOST = "was stopped", "cannot go on", "has learned from rows that the log has lost"
"""Why a learner ended."""

logger = logging.getLogger("zoosim.serving")


class Letter(NamedTuple):
    """A message between a service and its learners: of which learner, of which kind, and what it says."""

    learner: int
    kind: str
    content: Any = None


class LearnerThread:
    """A learner in the learners' process, and the service that it works for, as `LogLearner` sees that.

    Attributes:
        wants_whole: Whether the next message is to hold the whole state.
        has_ended: Whether it learns no more.
    """

    def __init__(self, number: int, loop: str, job: LearnerJob, mailbox: "Mailbox") -> None:
        """Start the thread.

        Args:
            number: Which learner of the process it is.
            loop: The name of the loop, for lines of the log; empty for the only one.
            job: What to learn from.
            mailbox: How it reaches its service.
        """
        self.wants_whole = False
        self.has_ended = False
        self._number = number
        self._mailbox = mailbox
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(loop, job), name=f"learner {loop}", daemon=True)
        self._thread.start()

    def send(self, content: bytes) -> None:
        """Send what was learned."""
        self._mailbox.send(Letter(self._number, NEWS, content))

    def wants_stop(self) -> bool:
        """Return whether the service is gone, or said stop."""
        # A service that was killed says nothing, but its children get another parent.
        return self._stopping.is_set() or self._mailbox.is_orphan()

    def wait(self, seconds: float) -> None:
        """Wait, at most until it is to stop."""
        self._stopping.wait(seconds)

    def take(self, letter: Letter) -> None:
        """Do what the service says."""
        if letter.kind == WHOLE:
            self.wants_whole = True
        elif letter.kind == STOP:
            self.stop()

    def stop(self) -> None:
        """Let it write a snapshot and end."""
        self._stopping.set()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join(DRAIN_SECONDS)

    def _run(self, loop: str, job: LearnerJob) -> None:
        LOOP.set(loop)
        why = self._learn(job)
        self.has_ended = True  # before the service hears of it, and lets another one begin
        with contextlib.suppress(OSError):  # the service is gone
            self._mailbox.send(Letter(self._number, ENDED, why))

    def _learn(self, job: LearnerJob) -> str:
        """Learn until told to stop; return why it ended."""
        try:
            with contextlib.closing(LogLearner(job, self, Machine())) as learner:
                learner.run()
        except (BrokenPipeError, EOFError, ConnectionResetError):
            pass
        except LostRows as error:
            logger.warning(str(error))
            return LOST
        except DataError as error:
            logger.warning(str(error))
            return BROKEN
        except Exception as error:  # a fault, which must not end the process in which others learn
            logger.exception("the learner failed: %s", one_line(error))
            return BROKEN
        return STOPPED


class Mailbox:
    """The learners' end of the connection with their service."""

    def __init__(self, service: int, connection: Connection) -> None:
        """Speak to a service, by its process id."""
        self._service = service
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, letter: Letter) -> None:
        """Send a message; raises `OSError` where the service is gone."""
        with self._sending:
            self._connection.send(letter)

    def receive(self) -> Letter:
        """Return the next message; END where the service is gone."""
        try:
            while not self._connection.poll(LOOKS):
                if self.is_orphan():
                    return Letter(0, END)
            letter: Letter = self._connection.recv()
        except (EOFError, OSError):
            return Letter(0, END)
        return letter

    def is_orphan(self) -> bool:
        """Return whether the service is gone."""
        return os.getppid() != self._service


def run_learners(service: int, connection: Connection) -> None:
    """Learn what a service asks for until it says that this is over, or is gone."""
    # A terminal sends Ctrl-C to all processes of the command, and a supervisor may send SIGTERM to all of a service.
    # The learners must outlive both: the service still stores what has come in, and says stop once the log holds it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    sys.setswitchinterval(SECONDS_PER_THREAD)
    write_json_lines()
    mailbox = Mailbox(service, connection)
    learners: dict[int, LearnerThread] = {}
    while (letter := mailbox.receive()).kind != END:
        learner = learners.get(letter.learner)
        if learner is not None and not learner.has_ended:
            learner.take(letter)
        elif letter.kind == BEGIN:
            loop, job = letter.content
            learners[letter.learner] = LearnerThread(letter.learner, loop, job, mailbox)
    for each in learners.values():
        each.stop()
    for each in learners.values():
        each.join()


class Learner:
    """The learner of one service, as the service's process sees it.

    Attributes:
        number: Which learner of the process it is.
        is_stopping: Whether it was told to stop.
        has_ended: Set while it does not run.
        has_reported: Set once what it has learned was taken over for the first time, or it ended.
    """

    def __init__(self, service: "Service", number: int, process: "LearnerProcess") -> None:
        self.number = number
        self.is_stopping = False
        self.has_ended = threading.Event()
        self.has_reported = asyncio.Event()
        self._service = service
        self._process = process
        self._job = LearnerJob(service.address, service.settings.snapshot)
        self._loop_name = LOOP.get()
        # What is done for it in the event loop belongs to its loop in lines of the log.
        self._context = copy_context()
        self._pause = FIRST_PAUSE
        self._changing = threading.Lock()

    def begin(self) -> None:
        """Let it learn, from the newest snapshot on, unless it does or is to stop."""
        with self._changing:
            if not self.is_stopping:
                self.has_ended.clear()
                self._process.send(Letter(self.number, BEGIN, (self._loop_name, self._job)))

    def ask_for_whole(self) -> None:
        """Ask for the whole state, which this process has lost."""
        self._process.send(Letter(self.number, WHOLE))

    def stop(self) -> None:
        """Let it write a snapshot, and wait until it has ended; where that takes too long, its process is killed."""
        with self._changing:
            self.is_stopping = True
            self._process.send(Letter(self.number, STOP))
        if not self.has_ended.wait(DRAIN_SECONDS):
            self._process.kill()
        self._process.forget(self)

    def take(self, letter: Letter) -> None:
        """Take over what it says, in the watcher's thread."""
        if letter.kind == ENDED:
            self.note_end()
            self._begin_again(letter.content)
            return
        self._pause = FIRST_PAUSE
        # In the event loop, where decisions are made: a state changes between two of them, never within one.
        self._tell(self._service.current.take, decode(letter.content))
        self._tell(self.has_reported.set)

    def note_end(self) -> None:
        """Note that it ended; nobody need wait for its report any more."""
        self.has_ended.set()
        self._tell(self.has_reported.set)

    def _begin_again(self, why: str) -> None:
        """Let it learn again after a pause, unless that was asked for."""
        # What decides here learned from rows that are gone, too, so the service must not write on top of what is left.
        if why == LOST:
            self._tell(self._service.refuse_to_write, "the log has lost rows; start again")
        if not self.is_stopping:
            self._tell(logger.warning, "the learner %s; it starts again", why)
            self._tell(self._process.call_later, self._pause, self.begin)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _tell(self, call: Callable[..., Any], *values: Any) -> None:
        self._process.tell(self._context, call, *values)


# A process and not a thread of the service: while learning held the interpreter, requests would wait. It holds nothing
# that does not follow from logs, so it may be killed at any moment, and is simply started again.
class LearnerProcess:
    """The process in which the loops of a service learn, started with the first, and again whenever it ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start none yet: a service whose start is refused needs none.

        Args:
            loop: The event loop of the services.
        """
        self._loop = loop
        self._learners: dict[int, Learner] = {}
        self._newest = 0
        self._sending = threading.Lock()
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None

    def learn(self, service: "Service") -> Learner:
        """Let a service learn in this process."""
        if self._watcher is None:
            self._start()
            self._watcher = threading.Thread(target=self._watch, name="learner watcher", daemon=True)
            self._watcher.start()
        self._newest += 1
        learner = Learner(service, self._newest, self)
        service.current.ask_learner = learner.ask_for_whole
        # Before it begins: should the process end in between, the watcher lets all learners begin in the next one. To
        # begin twice in one process does no harm.
        self._learners[learner.number] = learner
        learner.begin()
        return learner

    def forget(self, learner: Learner) -> None:
        """Keep nothing of a learner that was stopped."""
        self._learners.pop(learner.number, None)

    def stop(self) -> None:
        """End the process once all learners have written a snapshot; kill it if that takes too long."""
        # Before the message, so that the watcher does not start another process when this one ends.
        self._stopping.set()
        if self._watcher is None:
            return
        self.send(Letter(0, END))
        self._process.join(DRAIN_SECONDS)
        self.kill()
        self._watcher.join(1)

    def kill(self) -> None:
        """Kill the process; the watcher starts another, unless this one is to stop."""
        if self._process.is_alive():
            self._process.kill()

    def send(self, letter: Letter) -> None:
        """Send a message; where the process has just ended, the watcher begins anew anyway."""
        with self._sending, contextlib.suppress(OSError):
            self._connection.send(letter)

    def tell(self, context: Context, call: Callable[..., Any], *values: Any) -> None:
        """Call something in the event loop, from any thread, unless that is over."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *values, context=context)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something later, in the event loop."""
        self._loop.call_later(seconds, call)

    def _start(self) -> None:
        """Start it; where that fails, the process and the connection stay those of the one that ended."""
        # Not by fork, which would copy locks that other threads of this process hold at that moment.
        context = multiprocessing.get_context("spawn")
        connection, theirs = context.Pipe()
        process = context.Process(target=run_learners, args=(os.getpid(), theirs), name="zoosim learner")
        # This process must not keep the learners' end open: it would never read the end of the pipe when they die.
        with theirs:
            process.start()
        with self._sending:
            self._connection = connection
            self._process = process

    def _watch(self) -> None:
        """Hand on what learners say; start their process again when it ends."""
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                letter: Letter = self._connection.recv()
                pause = FIRST_PAUSE
                learner = self._learners.get(letter.learner)
                if learner is not None:
                    learner.take(letter)
            except (EOFError, OSError):
                self._process.join()
                for learner in list(self._learners.values()):
                    learner.note_end()
                if self._stopping.wait(pause):
                    return
                logger.warning("the learner ended with code %s; it starts again", self._process.exitcode)
                pause = min(2 * pause, LONGEST_PAUSE)
                self._start_again()

    def _start_again(self) -> None:
        try:
            self._start()
        except OSError as error:  # the connection is still that of the old one: so the next round tries again
            logger.error("the learner cannot be started: %s", error)
            return
        for learner in list(self._learners.values()):
            learner.begin()
