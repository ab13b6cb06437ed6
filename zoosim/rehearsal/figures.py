"""What policies earn in a rehearsal against today's choices: how much more, from when on, and what exploring costs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoosim.arena.metrics import sample_steps
from zoosim.arena.plan import Plan
from zoosim.arena.store import RunFolder, TrialKey
from zoosim.core.parquet import read_meta
from zoosim.core.statistics import ANY, Interval, cut, mean_interval, paired_test
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.fitted.world import FittedWorld

LAST = 0.2
"""The share of the visits at the end by which is told what a policy earns once it has learned."""


class Rehearsed(NamedTuple):
    """What a policy earned in a rehearsal.

    `gain` is what it earned above today's choices at the same visits, as a share of what these earned, or per visit
    where they may earn nothing; `end`, the same in the last fifth of the visits. All policies' intervals of a kind hold
    together with 95%. `worth_after` is the visit from which on it had earned more in all than they: the median of the
    seeds, and the worst; None for never. `cost` is the most by which it was behind them before, the mean of the seeds,
    in rewards. `seconds` are those of a visit, the simulation included, in the fastest trial. `overtakes` are the
    policies that earned more in all and, beyond chance, less in the last fifth.
    """

    policy: str
    gain: Interval
    end: Interval
    oracle: Interval
    worth_after: int | None
    worth_after_worst: int | None
    cost: float
    seconds: float
    overtakes: tuple[str, ...] = ()


class Rehearsal(NamedTuple):
    """The figures of a run in a fitted shop, the best policy first.

    `today` is what today's choices earn there per visit. `is_share` says whether gains are shares of that. `lead` holds
    for each policy how much more it had earned in all after `visits`, the mean of the seeds. `trial_seconds` are those
    of all trials, one after another.
    """

    policies: tuple[Rehearsed, ...]
    today: Interval
    today_of_oracle: Interval
    is_share: bool
    visits: tuple[int, ...]
    lead: Mapping[str, FloatArray]
    steps: int
    seeds: int
    trial_seconds: float

    @property
    def plain(self) -> dict[str, Any]:
        """The figures as plain values for JSON."""
        rows = [
            {key: value._asdict() if isinstance(value, Interval) else value for key, value in row._asdict().items()}
            for row in self.policies
        ]
        today = {"today": self.today._asdict(), "today_of_oracle": self.today_of_oracle._asdict()}
        return {**today, "is_share": self.is_share, "steps": self.steps, "seeds": self.seeds, "policies": rows}


def rehearsal_figures(plan: Plan, path: Path, ranked: list[str], seeds: list[int], actions: IntArray) -> Rehearsal:
    """Compare the trials of a run in a fitted shop with today's choices at the same visits.

    Args:
        plan: The run, in a world that `fit-world` wrote.
        path: Its folder.
        ranked: The policies, the best first.
        seeds: Those that all of them finished.
        actions: What the log chose at each visit of the shop `(R,)`.
    """
    folder = RunFolder(path)
    today = np.array([todays_rewards(plan.world(seed), actions) for seed in seeds])
    best = np.array([folder.read_trial(TrialKey(ranked[0], seed)).best_probabilities.mean() for seed in seeds])
    end = slice(int((1.0 - LAST) * plan.steps), None)
    per_visit = today.mean(axis=1)
    is_share = bool((per_visit > 0.0).all() and (today[:, end].mean(axis=1) > 0.0).all())
    at = np.array(sample_steps(plan.steps))
    limits = (-1.0, np.inf) if is_share and plan.setup.reward_range[0] >= 0.0 else ANY

    def gains(ahead: FloatArray, visits: slice) -> Interval:
        """Return by how much more was earned at some visits `(seeds, n)`, as a share where that is one."""
        ahead = ahead[:, visits].mean(axis=1) / (today[:, visits].mean(axis=1) if is_share else 1.0)
        return cut(mean_interval(ahead, len(ranked)), limits)

    policies: list[Rehearsed] = []
    lead = {}
    ends: dict[str, FloatArray] = {}
    trial_seconds = 0.0
    for name in ranked:
        keys = [TrialKey(name, seed) for seed in seeds]
        earned = np.array([folder.read_trial(key).true_probabilities for key in keys])
        seconds = [float(read_meta(folder.trial_path(key))["seconds"]) for key in keys]
        trial_seconds += sum(seconds)
        ahead = np.cumsum(earned - today, axis=1)
        overtaken = tuple(
            better for better in ends if _is_above(earned[:, end].mean(axis=1), ends[better], len(ranked))
        )
        ends[name] = earned[:, end].mean(axis=1)
        worth = sorted(np.inf if visits is None else visits for visits in map(break_even, ahead))
        policies.append(
            Rehearsed(
                policy=name,
                gain=gains(earned - today, slice(None)),
                end=gains(earned - today, end),
                oracle=cut(mean_interval(earned.mean(axis=1) / best), (-np.inf, 1.0)),
                worth_after=_visits(worth[len(worth) // 2]),
                worth_after_worst=_visits(worth[-1]),
                cost=float(np.maximum(-ahead.min(axis=1), 0.0).mean()),
                seconds=min(seconds) / plan.steps,
                overtakes=overtaken,
            )
        )
        lead[name] = ahead.mean(axis=0)[at - 1]
    of_today = mean_interval(per_visit), mean_interval(per_visit / best)
    visits = tuple(at.tolist())
    return Rehearsal(
        tuple(policies),
        *of_today,
        is_share,
        visits,
        lead,
        steps=plan.steps,
        seeds=len(seeds),
        trial_seconds=trial_seconds,
    )


def todays_rewards(world: Any, actions: IntArray) -> FloatArray:
    """Return what the log's choices are expected to earn at each visit of a run `(steps,)`.

    A visit of a run is a row of the log, so that the choice of that row is what the shop would show.
    """
    assert isinstance(world, FittedWorld)
    rows = world.schedule_of_rows
    return world.shop.expected_rewards_of(world.draw, rows, actions[rows])


def break_even(ahead: FloatArray) -> int | None:
    """Return after how many visits a lead `(n,)`, summed up, is not below 0 any more; None where it ends below."""
    behind = np.flatnonzero(ahead < 0.0)
    if not len(behind):
        return 0
    last = int(behind[-1])
    return None if last == len(ahead) - 1 else last + 1


def _is_above(a: FloatArray, b: FloatArray, tests: int) -> bool:
    """Whether one policy earned more than another on the same seeds beyond chance, corrected for several tests."""
    low = paired_test(a, b, tests).low
    return low is not None and low > 0.0


def _visits(visits: float) -> int | None:
    return int(visits) if np.isfinite(visits) else None
