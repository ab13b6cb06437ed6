"""Runs of simulated days, and what came of them."""

import atexit
import gc
import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from time import process_time

from tests.simulation.checks import violations_of
from tests.simulation.day import Day
from tests.simulation.faults import Fault
from tests.simulation.hosts import Models
from tests.simulation.policy import known_policy, make_models
from zoosim.serving.bodies import DecisionAnswer
from zoosim.serving.refusals import Acknowledgement

MEMORY = Path("/dev/shm")
"""Folder in memory, where there is one: nothing of a simulation need outlive it."""


class Report:
    """What came of days.

    Attributes:
        violations: What was violated, each with its seed.
        faults: How often each fault point was reached.
        seconds: Seconds of the processor that the days took.
        decisions, feedbacks: How many were answered.
        rows: How many rows the logs got.
        digest: A digest of all that was logged and answered.
    """

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.faults = Counter[Fault]()
        self.seconds = 0.0
        self.decisions = self.feedbacks = self.rows = 0
        self.digest = ""

    def add(self, other: "Report") -> None:
        """Add what came of other days."""
        self.violations += other.violations
        self.faults.update(other.faults)
        self.seconds += other.seconds
        self.decisions += other.decisions
        self.feedbacks += other.feedbacks
        self.rows += other.rows
        self.digest += other.digest


def run_days(seeds: Iterable[int]) -> Report:
    """Simulate the days of some seeds, and check them."""
    report = Report()
    with known_policy():
        for seed in seeds:
            report.add(_run_day(seed))
    return report


def _run_day(seed: int) -> Report:
    report = Report()
    folder = _folder() / f"day-{seed}"
    # What is collected has `finally` blocks; and learners freeze all objects, which nothing would collect any more.
    gc.disable()
    began = process_time()
    try:
        day = Day(seed, _models(has_clocks=seed % 2 == 1), folder)
        try:
            with day.parts():
                day.run()
                report.violations = [f"seed {seed}: {violation}" for violation in violations_of(day, folder / "check")]
        except Exception as error:
            report.violations = [f"seed {seed}: the simulation ended: {error!r}"]
        report.seconds = process_time() - began
        report.faults = day.faults.counts
        report.rows = len(day.log.archive)
        answers = [operation.answer for operation in day.clients.history]
        report.decisions = sum(isinstance(answer, DecisionAnswer) for answer in answers)
        report.feedbacks = sum(isinstance(answer, Acknowledgement) for answer in answers)
        said = [*day.log.archive.values(), *(str(operation) for operation in day.clients.history)]
        report.digest = hashlib.sha256(repr(said).encode()).hexdigest()
        day.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        gc.unfreeze()
        gc.enable()
    return report


@cache
def _folder() -> Path:
    folder = Path(mkdtemp(prefix="zoosim-simulation-", dir=MEMORY if MEMORY.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _models(has_clocks: bool) -> Models:
    return make_models(_folder() / "models", has_clocks)
