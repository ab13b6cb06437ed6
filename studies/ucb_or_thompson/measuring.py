"""Play each pair with rewards at once and late, and with half and twice its widths; then time single decisions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from studies.cache import kept_array
from studies.reached import percent_of_oracle
from studies.ucb_or_thompson.pairs import Pair, entry_name, named_pairs, plan_of
from studies.ucb_or_thompson.timing import Timed, time_policy
from studies.work import rows_by_task
from zoosim.arena.plan import Plan
from zoosim.core.feedback import FeedbackTiming
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.registry import PolicyEntry

DELAYS = (0, 100, 1_000)
"""Visits after which a reward reaches the policy."""

FACTORS = (0.5, 1.0, 2.0)
"""What the widths are multiplied by, with rewards at once."""

SETTINGS = [*((delay, 1.0) for delay in DELAYS), *((0, factor) for factor in FACTORS if factor != 1.0)]


@dataclass(frozen=True)
class Reached:
    """The share of the oracle's expected rewards, in %, that a policy reached in the shop of a seed.

    Rewards came `delay` visits late, and the width was `factor` times its own.
    """

    policy: str
    seed: int
    delay: int
    factor: float
    percent: float


def measure(
    *,
    seeds: Any = "1000:1008",
    jobs: Any = None,
    pairs: str | None = None,
    steps: int | None = None,
    progress: Progress = lambda line: None,
) -> list[Reached | Timed]:
    """Play all pairs, or those whose bounds are named with commas between, for so many `steps`, and time decisions."""
    numbers = parse_seeds(seeds)
    rows: list[Reached | Timed] = []
    for pair in named_pairs(pairs):
        plan = plan_of(pair, FACTORS, numbers, steps)
        tasks = [(policy, seed) for seed in numbers for policy in (pair.ucb, pair.thompson)]
        work = partial(_reached, plan)
        rows += rows_by_task(work, tasks, jobs=jobs, words=_words, progress=progress)
        # After all others, in this process alone: nothing else of the study takes the processor meanwhile.
        rows += _timed(pair, plan, progress)
    return rows


def _words(task: tuple[str, int]) -> str:
    return f"{task[0]}, seed {task[1]}"


def _timed(pair: Pair, plan: Plan, progress: Progress) -> list[Timed]:
    rows = []
    for policy in (pair.ucb, pair.thompson):
        progress(f"timing {policy}")
        entry = _entry(plan, policy, 1.0)
        rows.append(time_policy(policy, entry, plan.world(plan.seeds[0], entry)))
    return rows


def _reached(plan: Plan, task: tuple[str, int]) -> Sequence[Reached]:
    policy, seed = task
    return [
        Reached(policy, seed, delay, factor, _percent(plan, policy, seed, delay, factor)) for delay, factor in SETTINGS
    ]


def _percent(plan: Plan, policy: str, seed: int, delay: int, factor: float) -> float:
    entry = _entry(plan, policy, factor)
    key = (policy, entry.fingerprint, plan.config_hash, plan.world_code, seed, delay)
    made = partial(percent_of_oracle, plan, entry, seed, FeedbackTiming(delay))
    return float(kept_array("ucb-or-thompson", key, made))


def _entry(plan: Plan, policy: str, factor: float) -> PolicyEntry:
    """Return the entry of a policy at a width, named as the policy: draws follow from the name, alike at all widths."""
    [entry] = [entry for entry in plan.entries if entry.name == entry_name(policy, factor)]
    return replace(entry, name=policy)
