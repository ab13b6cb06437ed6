"""Run the command line in a process that another one watches: code of the user's cannot end it unnoticed.

A policy may call `os._exit(0)`, crash the interpreter, or never return. The command's process says when it is done, and
what has a time limit; the process that was started waits for that word, and tells what happened where it does not come.
Compiled code answers no signal while it runs: a command that does not end soon after one is killed.
"""

import atexit
import gc
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP")

GRACE = 10
"""Whole seconds from a signal until a command that goes on is killed."""

_channel: int | None = None
"""Pipe from the command's process to the one that watches it; None in one that nobody watches."""


def watch(name: str, command: Callable[[], None], interrupted: str) -> NoReturn:
    """Run a command, which ends by `SystemExit`, in a process of its own, and end as it does.

    Args:
        name: What the command is called in the line that tells of its end, where it ended before it was done.
        command: The command.
        interrupted: The line for a command that a signal ended, or that was killed since it did not end after one; exit
            code 130.
    """
    if not hasattr(os, "fork"):
        command()
        sys.exit(0)
    # Before the fork: what a buffer still holds would be printed twice.
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        status_read, status_write = os.pipe()
        lifeline, lifeline_write = os.pipe()
        process = os.fork()
    except OSError as error:  # no more files or processes are allowed
        sys.exit(_stop(f"{name} cannot start another process: {error.strerror}"))
    if process == 0:
        os.close(status_read)
        os.close(lifeline_write)  # the other end: it closes when the process that watches ends
        _run(command, status_write, lifeline)
    os.close(status_write)
    os.close(lifeline)
    watched = _Watch(name, process, status_read, interrupted)
    signal.signal(signal.SIGALRM, watched.kill)
    for forwarded in FORWARDED:
        number = getattr(signal, forwarded)
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, watched.interrupt)
    sys.exit(watched.exit_code())


def end_quickly() -> None:
    """Spare this process a last look through all its objects for unused ones, which takes up to a second."""
    atexit.register(gc.freeze)


def limit_time(seconds: float | None, what: str) -> None:
    """Limit the time of what comes next; where nobody watches, nothing is limited.

    Args:
        seconds: The limit; None for any time.
        what: What it is the limit of, for the message.
    """
    _tell({"limit": seconds, "what": what})


def _run(command: Callable[[], None], status_write: int, lifeline: int) -> NoReturn:
    """Run the command in the process that is watched, and say with which exit code it ended."""
    global _channel
    _channel = status_write
    end_quickly()
    threading.Thread(target=_end_with_watcher, args=(lifeline,), daemon=True).start()
    code: Any = 1  # of an error that nobody expected Python prints the traceback, and exits with this code
    try:
        command()
        code = 0
    except SystemExit as end:
        code = end.code
        raise
    finally:
        _tell({"done": code if isinstance(code, int) else 0 if code is None else 1})
    sys.exit(0)


def _end_with_watcher(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)


def _tell(message: dict[str, Any]) -> None:
    if _channel is not None:
        os.write(_channel, json.dumps(message).encode() + b"\n")


class _Watch:
    """The watching process's knowledge of the other one."""

    def __init__(self, name: str, process: int, status: int, interrupted: str) -> None:
        self._name = name
        self._interrupted = interrupted
        self._is_killed = False
        self._process = process
        self._status = status
        self._deadline: float | None = None
        self._seconds = 0.0
        self._what = ""
        self._code: int | None = None

    def interrupt(self, number: int, _: object) -> None:
        """Pass a signal on, and wait no longer than `GRACE` for the end."""
        _send(self._process, number)
        if not signal.getitimer(signal.ITIMER_REAL)[0]:
            signal.alarm(GRACE)

    def kill(self, *_: object) -> None:
        """End a process that did not end after a signal."""
        self._is_killed = True
        _send(self._process, signal.SIGKILL)

    def exit_code(self) -> int:
        """Return the exit code of the command; where it was not done, say why, and return 1."""
        while self._listen():
            pass
        is_late = self._deadline is not None and time.monotonic() >= self._deadline
        if is_late:
            _send(self._process, signal.SIGKILL)
        _, status = os.waitpid(self._process, 0)
        if is_late:
            return _stop(f"{self._what} took longer than {self._seconds:g} s, and was stopped")
        if self._code is not None:
            return self._code
        # Of a signal to end a process ends without a word while it has no handler of its own yet.
        if self._is_killed or _is_interrupted(status):
            print(f"zoosim: {self._interrupted}", file=sys.stderr)
            return 130
        during = f" during {self._what}" if self._what else ""
        return _stop(f"{self._name} ended before it was done{during}: {_reason(status)}")

    def _listen(self) -> bool:
        """Take in what the process says; False when it says no more, or time is over."""
        left = None if self._deadline is None else self._deadline - time.monotonic()
        if left is not None and left <= 0.0:
            return False
        ready, _, _ = select.select([self._status], [], [], left)
        if not ready:
            return True
        text = os.read(self._status, 65_536)
        for line in text.splitlines():
            self._take_in(json.loads(line))
        return bool(text) and self._code is None  # once done: a process left behind may hold the pipe open

    def _take_in(self, message: dict[str, Any]) -> None:
        if "done" in message:
            self._code = message["done"]
            self._deadline = None
            return
        self._what = message["what"]
        self._seconds = message["limit"] or 0.0
        self._deadline = None if message["limit"] is None else time.monotonic() + message["limit"]


def _is_interrupted(status: int) -> bool:
    """Return whether a process ended by one of the signals that tell it to."""
    code = os.waitstatus_to_exitcode(status)
    return code < 0 and signal.Signals(-code).name in FORWARDED


def _reason(status: int) -> str:
    """Say how a process ended."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"code that it ran ended its process with exit code {code}, as os._exit does"
    if -code == signal.SIGKILL:
        return "its process was killed, maybe for its memory"
    return f"its process crashed ({signal.Signals(-code).name})"


def _send(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:  # it has just ended
        return


def _stop(line: str) -> int:
    print(f"zoosim: {line}", file=sys.stderr)
    return 1
