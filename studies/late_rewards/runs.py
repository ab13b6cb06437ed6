"""Play the gauntlet with late rewards: every policy meets the same visitors under each delay."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from studies.cache import kept_array
from studies.reached import percent_of_oracle
from studies.work import rows_by_task
from zoosim.arena.plan import Plan
from zoosim.core.feedback import FeedbackTiming
from zoosim.core.types import Progress
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import RunRequest, parse_seeds

TIMINGS = {
    "at once": FeedbackTiming(),
    "100 late": FeedbackTiming(100),
    "1,000 late": FeedbackTiming(1_000),
    "5,000 late": FeedbackTiming(5_000),
    "batches of 1,000": FeedbackTiming(0, 1_000),
}


@dataclass(frozen=True)
class Reached:
    """The share of the oracle's expected rewards, in %, that a policy reached in the gauntlet of a seed."""

    policy: str
    seed: int
    timing: str
    percent: float


def measure(
    *,
    seeds: Any = "1000:1008",
    jobs: Any = None,
    policies: str | None = None,
    steps: int | None = None,
    progress: Progress = lambda line: None,
) -> list[Reached]:
    """Play the policies of the gauntlet, or those named with commas between, for so many `steps` under each timing."""
    names = policies.split(",") if policies else None
    plan = make_plan(RunRequest("gauntlet", parse_seeds(seeds), steps, names))
    tasks = [(entry.name, seed) for seed in plan.seeds for entry in plan.entries]
    work = partial(_rows_of, plan)
    return rows_by_task(work, tasks, jobs=jobs, words=lambda task: f"{task[0]}, seed {task[1]}", progress=progress)


def _rows_of(plan: Plan, task: tuple[str, int]) -> list[Reached]:
    name, seed = task
    return [Reached(name, seed, timing, _percent(plan, name, seed, timing)) for timing in TIMINGS]


def _percent(plan: Plan, name: str, seed: int, timing: str) -> float:
    [entry] = [entry for entry in plan.entries if entry.name == name]
    key = (name, entry.fingerprint, plan.config_hash, plan.world_code, seed, timing)
    made = partial(percent_of_oracle, plan, entry, seed, TIMINGS[timing])
    return float(kept_array("late-rewards", key, made))
