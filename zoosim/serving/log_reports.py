"""Reports that take reading the whole log, such as what changed in it, made in a process of their own."""

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
from zoosim.serving.forecasts.report import scores_in
from zoosim.serving.served_log import read_served_log
from zoosim.serving.store.address import Address

SECONDS = 60.0
"""Seconds for which a report is answered again: to make it takes the time of reading the log."""

PATIENCE = 19
"""Niceness of the process, so that decisions go first."""

Report = dict[str, Any]


def drift_report(address: Address, window: int) -> Report:
    """Return what changed in a log, as `Drift.as_dict` says it, or why that cannot be said as `note`.

    Args:
        address: Where the log lies.
        window: Decisions of the first period, and of each window.
    """
    try:
        return find_drift(read_served_log(address, action_space=PRODUCTS).log, window=window).as_dict()
    except DataError as error:  # too few decisions so far
        return {"findings": [], "note": str(error)}


def forecast_report(address: Address) -> Report:
    """Return the forecasts in a log, each with what came as far as that is told."""
    return {"forecasts": [score.as_dict() for score in scores_in(address)]}


class LogReports:
    """Makes reports on a log when they are asked for, one at a time."""

    def __init__(self, address: Address, now: Callable[[], float]) -> None:
        """Name the log; `now` returns the seconds of a clock that never goes back."""
        self._address = address
        self._now = now
        self._is_busy = asyncio.Lock()
        self._made: dict[Callable[..., Report], tuple[tuple[Any, ...], float, Report]] = {}
        self._process: SpawnProcess | None = None

    async def report(self, make: Callable[..., Report], *arguments: Any) -> Report:
        """Return what `make` returns of the address of the log and the arguments.

        Raises:
            ConfigError: as it does.
            StoreError: the log does not answer, or the service is closed.
        """
        async with self._is_busy:
            earlier = self._made.get(make)
            if earlier is not None and earlier[0] == arguments and self._now() - earlier[1] < SECONDS:
                return earlier[2]
            outcome = await asyncio.to_thread(self._in_a_process, make, arguments)
            if isinstance(outcome, ZoosimError):
                raise outcome
            # The last one of each kind alone: who asks may name any size of windows.
            self._made[make] = (arguments, self._now(), outcome)
            return outcome

    def newest(self, make: Callable[..., Report]) -> Report | None:
        """Return the newest report that was made so; None for none."""
        made = self._made.get(make)
        return None if made is None else made[2]

    def close(self) -> None:
        """End the report that is being made."""
        if self._process is not None:
            self._process.terminate()

    def _in_a_process(self, make: Callable[..., Report], arguments: tuple[Any, ...]) -> Report | ZoosimError:
        """Return what a process of its own returns or raises."""
        spawn = multiprocessing.get_context("spawn")
        receiver, sender = spawn.Pipe(duplex=False)
        self._process = spawn.Process(target=_send, args=(sender, make, self._address, arguments), daemon=True)
        self._process.start()
        sender.close()
        with receiver:
            try:
                outcome: Report | ZoosimError = receiver.recv()
            except EOFError:
                outcome = StoreError("log: the process that reads it ended; ask again")
        self._process.join()
        self._process = None
        return outcome


def _send(sender: Connection, make: Callable[..., Report], address: Address, arguments: tuple[Any, ...]) -> None:
    """Send a report, or why there is none."""
    os.nice(PATIENCE)
    try:
        sender.send(make(address, *arguments))
    except ZoosimError as error:
        sender.send(error)
