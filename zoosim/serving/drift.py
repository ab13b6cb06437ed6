"""Changes of what a service decides on against the first period of its log, looked for in a process of its own."""

import asyncio
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from zoosim.core.action_space import PRODUCTS
from zoosim.core.errors import DataError, StoreError, ZoosimError
from zoosim.logs.drift import find_drift
from zoosim.serving.served_log import read_served_log
from zoosim.serving.store.address import Address

SECONDS = 60.0
"""Seconds for which a result is answered again: to look takes the time of reading the log."""

PATIENCE = 19
"""Niceness of the process, so that decisions go first."""


class DriftWatch:
    """Looks at the log when it is asked, one look at a time."""

    def __init__(self, address: Address, now: Callable[[], float]) -> None:
        """Name the log; `now` returns the seconds of a clock that never goes back."""
        self._address = address
        self._now = now
        self._looking = asyncio.Lock()
        self._looked_at: dict[int, tuple[float, dict[str, Any]]] = {}
        self._process: SpawnProcess | None = None

    async def report(self, window: int) -> dict[str, Any]:
        """Return what changed, as `Drift.as_dict` says it, or why that cannot be said as `note`.

        Args:
            window: Decisions of the first period, and of each window.

        Raises:
            ConfigError: there are too few.
            StoreError: the log does not answer, or the service is closed.
        """
        async with self._looking:
            earlier = self._looked_at.get(window)
            if earlier is not None and self._now() - earlier[0] < SECONDS:
                return earlier[1]
            outcome = await asyncio.to_thread(self._look, window)
            if isinstance(outcome, DataError):  # too few decisions so far
                outcome = {"findings": [], "note": str(outcome)}
            if isinstance(outcome, ZoosimError):
                raise outcome
            # The last one alone: who asks may name any size.
            self._looked_at = {window: (self._now(), outcome)}
            return outcome

    def close(self) -> None:
        """End a look that goes on."""
        if self._process is not None:
            self._process.terminate()

    def _look(self, window: int) -> dict[str, Any] | ZoosimError:
        """Return what a process of its own finds, or what it raises."""
        spawn = multiprocessing.get_context("spawn")
        receiver, sender = spawn.Pipe(duplex=False)
        self._process = spawn.Process(target=_send, args=(sender, self._address, window), daemon=True)
        self._process.start()
        sender.close()
        with receiver:
            try:
                outcome: dict[str, Any] | ZoosimError = receiver.recv()
            except EOFError:
                outcome = StoreError("drift: the process that reads the log ended; ask again")
        self._process.join()
        self._process = None
        return outcome


def _send(sender: Connection, address: Address, window: int) -> None:
    """Send what changed in a log, or why that cannot be said."""
    os.nice(PATIENCE)
    try:
        log = read_served_log(address, action_space=PRODUCTS).log
        sender.send(find_drift(log, window=window).as_dict())
    except ZoosimError as error:
        sender.send(error)
