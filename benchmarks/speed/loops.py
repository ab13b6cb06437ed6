"""S34: five loops in one service beside one loop, at the same 300 decisions and 100 feedbacks per second in all.

In the same run: five loops while a sixth is added, asked and removed again and again; whether the logs hold each
decision that was answered; and how much memory is the service's own, and its learners'.
"""

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.speed.arms import ROUNDS, WARM_UP, Turn, figures, measure_turn, ratios_to
from benchmarks.speed.serving import DECISIONS, FEEDBACKS, make_model, send
from tests.serving.loops.several import decisions_in
from tests.serving.process import ServiceProcess, serving, serving_loops
from zoosim.core.number_format import counted
from zoosim.serving.client import Client
from zoosim.serving.loops.client import LoopsClient

POLICY = "adaptive"
NAMES = ("home", "product", "basket", "search", "mail")
SALE = "sale"
"""The loop that comes and goes."""

ASKED = 50
"""Decisions that it is asked for each time."""

WAIT = 5.0
TIMEOUT = 120.0
ONE, FIVE, CHANGING = "one loop", "five loops", "five loops while a sixth comes and goes"


class Change(NamedTuple):
    """A loop that came and went: how many of its decisions were answered, and how many its log holds."""

    answered: int
    logged: int


class Changes:
    """Adds a loop, asks it and removes it, again and again, beside what is measured."""

    def __init__(self, url: str, model: bytes) -> None:
        """Name the service, and the content of the model's file."""
        self.made: list[Change] = []
        self._url = url
        self._model = model
        self._is_over = threading.Event()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Let loops come and go until the block ends."""
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _run(self) -> None:
        with LoopsClient(self._url, timeout=TIMEOUT) as loops:
            while not self._is_over.is_set():
                loops.add(SALE, self._model)
                with Client(self._url, timeout=TIMEOUT, loop=SALE) as shop:
                    ids = {shop.decide({"x0": 1.0}).id for _ in range(ASKED)}
                log = Path(loops.remove(SALE))
                self.made.append(Change(len(ids), decisions_in(log)))


def main() -> None:
    """Print how one loop and five answer, what that costs, and what is lost while loops come and go."""
    turns: dict[str, list[Turn]] = {ONE: [], FIVE: [], CHANGING: []}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        model = make_model(folder, POLICY)
        for number in range(ROUNDS):
            with serving(folder / f"one-{number}", model, wait=WAIT) as service:
                asyncio.run(send(service.url, DECISIONS, FEEDBACKS, WARM_UP))
                turns[ONE].append(measure_turn(service))
                print(f"S34 {ONE}: {memory_of(service)}")
            _measure_five(folder / f"five-{number}", model, turns)
    for what, of_service in turns.items():
        beside = "" if what == ONE else f"; times one loop: {ratios_to(of_service, turns[ONE])}"
        away = sum(turn.turned_away for turn in of_service)
        print(f"S34 {POLICY}, {what}: {figures(of_service)}{beside}; {counted(away, 'request')} turned away")


def _measure_five(folder: Path, model: Path, turns: dict[str, list[Turn]]) -> None:
    prefixes = [f"/loops/{name}" for name in NAMES]
    content = model.read_bytes()
    with serving_loops(folder, wait=WAIT) as service:
        with LoopsClient(service.url, timeout=TIMEOUT) as loops:
            for name in NAMES:
                loops.add(name, content)
        warm_up = asyncio.run(send(service.url, DECISIONS, FEEDBACKS, WARM_UP, prefixes))
        turns[FIVE].append(measure_turn(service, prefixes))
        print(f"S34 {FIVE}: {memory_of(service)}")
        changes = Changes(service.url, content)
        with changes.going_on():
            turns[CHANGING].append(measure_turn(service, prefixes))
        assert service.stop() == 0
    answered = len(warm_up.chances) + turns[FIVE][-1].answered + turns[CHANGING][-1].answered
    logged = sum(decisions_in(folder / name) for name in NAMES)
    sixth_answered = sum(change.answered for change in changes.made)
    sixth_logged = sum(change.logged for change in changes.made)
    times = counted(len(changes.made), "time")
    print(
        f"S34 {CHANGING}: {answered:,} decisions of five answered, {logged:,} in their logs; a sixth came and went "
        f"{times}, {sixth_answered:,} of its decisions answered, {sixth_logged:,} in its logs"
    )


def memory_of(service: ServiceProcess) -> str:
    """Return how much memory a service and its learners have each for themselves."""
    return f"{_own_memory(service.pid)} MB of the service's own, {_own_memory(service.learner())} MB of its learners'"


def _own_memory(pid: int) -> int:
    """Return the megabytes of a process that it shares with no other, by Linux's account."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))]
    return sum(kilobytes) // 1_000
