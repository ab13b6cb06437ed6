"""S24: clocks that jump: set by a second, an hour or a hundred days, at random moments, forward and back.

Services without HTTP live for days of a clock that this moves: visits every two minutes, clicks after five, `keep_days`
of 1, and snapshots as a learner writes them. At random moments one wall clock is set, and set back; then it is set
again, and its service is stopped and started while it is wrong, and again once it is right. Of two services on one log
each has a wall clock of its own. Rows that are gone are held against when they really came, and their own times.
"""

import asyncio
import contextlib
import logging
import math
import os
import sys
import tempfile
from collections import deque
from functools import partial
from pathlib import Path

import numpy as np

from tests.serving.mock_time import MockTime
from tests.serving.shop import PRODUCTS, make_model
from tests.serving.valkey import valkey_server
from zoosim.core.durations import MICROSECONDS
from zoosim.serving.bodies import DecideBody, FeedbackBody
from zoosim.serving.folder import SNAPSHOTS, load_served_model
from zoosim.serving.machine import Machine
from zoosim.serving.replica import Replica
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings
from zoosim.serving.snapshots import write_snapshot
from zoosim.serving.store.address import open_store, parse_address

DAY = 86_400.0
JUMPS = {"1 s": 1.0, "1 h": 3_600.0, "100 days": 100 * DAY}
STEP = 120.0
"""Seconds between two visits."""

STEPS_PER_CLEANING = 60
WAIT = 600.0
CLICKS = 0.3
"""The share of visits that click, after half of the wait."""

KEEP_DAYS = 1
SEED = 0


class Life:
    """Services of one log, their clocks, and what became of visits and rows.

    Attributes:
        visits: How many visits there were.
        clicks: How many of them clicked.
        late: How many clicks came when the wait was over by the log.
        ages: How many days old each row was that was removed, by the rows' own times.
        youngest: The least of what these ages really were.
        replica: What the log comes to.
    """

    def __init__(self, stores: list[str], model: Path, jump: float, seed: int) -> None:
        """Start the services, the first with a model."""
        self._stores = stores
        self._times = [MockTime() for _ in stores]
        self._jump = jump
        self._rng = np.random.default_rng(seed)
        self._services = [self._started(number, None if number else model) for number in range(len(stores))]
        self._log = open_store(parse_address(stores[0]), read_only=True)
        folder = self._services[0].folder
        self.replica = Replica(partial(load_served_model, folder), self._log.rows)
        self._came: dict[int, tuple[int, int]] = {}  # by position: when a row really came, and its own time
        self._clicking: deque[tuple[int, str]] = deque()
        self.visits = self.clicks = self.late = 0
        self.ages: list[float] = []
        self.youngest = math.inf

    async def run(self, steps: int) -> None:
        """Live for some steps, until all waits are over."""
        set_at, back_at, set_again, stopped_at, right_again = np.sort(
            self._rng.choice(np.arange(10, steps - 30), 5, replace=False)
        )
        victim = int(self._rng.integers(len(self._stores)))
        for step in range(steps):
            if step in (set_at, set_again):
                self._times[victim].set_wall(self._jump)
            if step in (back_at, right_again):
                self._times[victim].set_wall(-self._jump)
            if step in (stopped_at, right_again):
                self._services[victim].close()
                self._services[victim] = self._started(victim, None)
            if step < steps - 20:
                await self._visit()
            await self._go_on(step)
        for service in self._services:
            service.close()
        self._log.close()

    def _started(self, number: int, model: Path | None) -> Service:
        settings = Settings(store=self._stores[number], wait=WAIT, keep_days=KEEP_DAYS)
        return Service(settings, model, asyncio.get_running_loop(), Machine(self._times[number].clock()))

    async def _visit(self) -> None:
        service = self._services[int(self._rng.integers(len(self._services)))]
        name = f"visit {self.visits}"
        self.visits += 1
        await service.decide(DecideBody(candidates=[*PRODUCTS], decision_id=name))
        if self._rng.random() < CLICKS:
            self._clicking.append((self._times[0].true + round(WAIT / 2 * MICROSECONDS), name))
        while self._clicking and self._clicking[0][0] <= self._times[0].true:
            _, clicked = self._clicking.popleft()
            outcome = await service.give_feedback(clicked, FeedbackBody({"click": 1.0}))
            self.clicks += 1
            self.late += outcome.status == "late"

    async def _go_on(self, step: int) -> None:
        """Let time pass; tick, and now and then write snapshots and remove old rows."""
        for time in self._times:
            time.pass_by(STEP)
        for service in self._services:
            service._store.keep_time(service.clock.now)  # as a thread of it does every second
            service.current.due = self.replica.due()  # as its learner does
            await service.tick()
        while rows := self._log.read(self.replica.position, 1_000):
            for row in rows:
                self._came[row.seq] = self._times[0].true, row.time
                self.replica.apply(row)
        if step % STEPS_PER_CLEANING == 0:
            for service in self._services:
                write_snapshot(service.folder / SNAPSHOTS, self.replica)
                await service.upkeep.clean()
            self._note_removed()

    def _note_removed(self) -> None:
        (oldest,) = self._log.read(0, 1)
        newest = self._came[self.replica.position]
        for seq in [seq for seq in self._came if seq < oldest.seq]:
            came = self._came.pop(seq)
            true_age, age = ((now - then) / MICROSECONDS / DAY for now, then in zip(newest, came, strict=True))
            self.ages.append(age)
            self.youngest = min(self.youngest, true_age)


def live(stores: list[str], model: Path, jump: float, seed: int, steps: int) -> tuple[Life, list[str]]:
    """Return a life with clocks that are set by so many seconds, and what the services said of clocks."""
    lines = _Lines()

    async def run() -> Life:
        life = Life(stores, model, jump, seed)
        await life.run(steps)
        return life

    logger = logging.getLogger("zoosim.serving")
    logger.addHandler(lines)
    logger.propagate = False
    try:
        return asyncio.run(run()), lines.lines
    finally:
        logger.removeHandler(lines)
        logger.propagate = True


class _Lines(logging.Handler):
    """Keeps what is said of clocks."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        if record.getMessage().startswith("clock: "):
            self.lines.append(record.getMessage())


def main() -> None:
    """Print what became of rows and waits; exit with 1 where a clock removed a row, or kept a wait open."""
    days = float(os.environ.get("ZOOSIM_DAYS", "2"))
    steps = round(days * DAY / STEP)
    is_sound = True
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        server = opened.enter_context(valkey_server(folder / "valkey"))
        model = make_model(folder)
        number = 0
        for words, jump in JUMPS.items():
            for way, sign in (("forward", 1), ("back", -1)):
                for services in ("one service on SQLite", "two services on Valkey"):
                    number += 1
                    life_folder = folder / f"{number}"
                    stores = [f"sqlite:{life_folder}"]
                    if "two" in services:
                        stores = [server.store(f"life{number}", life_folder / name) for name in "ab"]
                    life, lines = live(stores, model, sign * jump, SEED + number, steps)
                    is_sound &= report(f"{services}, {words} {way}", life, lines)
    if not is_sound:
        sys.exit(1)


def report(name: str, life: Life, lines: list[str]) -> bool:
    """Print the line of a life; return whether no clock removed a row or kept a wait open."""
    too_young = sum(age < KEEP_DAYS for age in life.ages)
    defaults = life.replica.champion.join.counts["default"]
    expected = life.visits - life.clicks + life.late
    is_open = len(life.replica.champion.join)
    print(
        f"S24 {name}: of {life.visits:,} visits {life.clicks:,} clicked, {life.late} of them answered late; "
        f"{defaults:,} of {expected:,} others earned the default, {is_open} are open; {len(life.ages):,} rows removed, "
        f"{too_young} younger than keep_days ({KEEP_DAYS}) by their own times "
        f"(really {life.youngest:.2f} days at least); {len(lines)} lines said"
    )
    for line in lines:
        print(f"    {line}", file=sys.stderr)
    return not too_young and not is_open and defaults == expected and bool(lines)


if __name__ == "__main__":
    main()
