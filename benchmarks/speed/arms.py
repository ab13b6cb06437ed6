"""S30: what a launch costs a service: S17's requests to one arm, and to two arms or three with the guardrails' tests.

Services are started and loaded in turns, each for some seconds, so that what else the machine does falls on all of them
alike. Ratios are those of neighbouring turns, and their median is printed. ZOOSIM_ROUNDS sets how many turns there are.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import zoosim
from benchmarks.speed.serving import DECISIONS, FEEDBACKS, Load, make_model, send
from tests.serving.process import ServiceProcess, serving

POLICY = "adaptive"
ONE_ARM = "one arm"
PLANS: dict[str, Mapping[str, Any] | None] = {
    ONE_ARM: None,
    "two arms and guardrails": {"steps": [0.5], "holdback": 0.0},
    "the same with a holdback": {"steps": [0.5]},
}
"""Services by what decides in them, each with the plan of its launch."""

SECONDS, WARM_UP = 15, 5
TURNED_AWAY = 429
"""The status of what comes when the machine is too busy; it counts neither as a decision nor as an error."""

ROUNDS = int(os.environ.get("ZOOSIM_ROUNDS", "5"))


class Turn(NamedTuple):
    """One service's answers in some seconds of load.

    Attributes:
        median, p99: Of decisions, in milliseconds.
        decision_cost: Processor time of the service's process per decision, feedback included, in milliseconds.
        learning_cost: The same of its learner.
        answered: How many decisions were answered.
        turned_away: How many requests were told to come back.
    """

    median: float
    p99: float
    decision_cost: float
    learning_cost: float
    answered: int
    turned_away: int


def main() -> None:
    """Print the latency and the processor time of each service, and their ratios to one arm."""
    turns: dict[str, list[Turn]] = {name: [] for name in PLANS}
    # What a learner that was killed still wrote may be in the way of removing the folder.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        model = make_model(folder, POLICY)
        for number in range(ROUNDS):
            for place, (what, plan) in enumerate(PLANS.items()):
                # One service at a time: others that stand beside it look for rows a hundred times a second.
                with serving(folder / f"service-{number}-{place}", model, wait=5.0) as service:
                    if plan is not None:
                        zoosim.deploy("launch", model, url=service.url, plan=plan, why="S30")
                    asyncio.run(send(service.url, DECISIONS, FEEDBACKS, WARM_UP))
                    turns[what].append(measure_turn(service))
    for what, of_service in turns.items():
        ratios = "" if what == ONE_ARM else f"; times one arm: {ratios_to(of_service, turns[ONE_ARM])}"
        print(f"S30 {POLICY}, {what}: {figures(of_service)}{ratios}")


def measure_turn(service: ServiceProcess, prefixes: Sequence[str] = ("",)) -> Turn:
    """Return how a service answers S17's requests for `SECONDS`, sent to its loops in turns, and at what cost."""
    before = processor_seconds(service.pid), processor_seconds(service.learner())
    load: Load = asyncio.run(send(service.url, DECISIONS, FEEDBACKS, SECONDS, prefixes))
    decided = len(load.seconds["decide"])
    wrong = {status: count for status, count in load.statuses.items() if status >= 400 and status != TURNED_AWAY}
    assert not wrong, f"answers with an error: {wrong}"
    median, p99 = np.quantile(np.array(load.seconds["decide"]) * 1e3, (0.5, 0.99))
    after = processor_seconds(service.pid), processor_seconds(service.learner())
    costs = [1e3 * (now - then) / decided for now, then in zip(after, before, strict=True)]
    return Turn(float(median), float(p99), costs[0], costs[1], len(load.chances), load.statuses[TURNED_AWAY])


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has taken so far, by Linux's count."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])  # fields 14 and 15 of the line, which begin behind the name
    return (user + system) / os.sysconf("SC_CLK_TCK")


def figures(turns: list[Turn]) -> str:
    """Return the medians over turns in words."""
    median, p99, decision_cost, learning_cost = np.median(np.array([turn[:4] for turn in turns]), axis=0)
    return (
        f"decisions p50 {median:.2f} ms, p99 {p99:.1f} ms; processor time per decision {decision_cost:.2f} ms, "
        f"of the learner {learning_cost:.2f} ms"
    )


def ratios_to(turns: list[Turn], beside: list[Turn]) -> str:
    """Return the medians of the ratios of turns to those beside them, in words."""
    ratios = np.array([turn[:4] for turn in turns]) / np.array([turn[:4] for turn in beside])
    median, p99, decision_cost, learning_cost = np.median(ratios, axis=0)
    return f"p50 {median:.2f}, p99 {p99:.2f}, processor {decision_cost:.2f}, learner {learning_cost:.2f}"
