"""Earnings of policies in a rehearsal against today's choices: how much more, since when, and what exploring costs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoosim.arena.metrics import sample_steps
from zoosim.arena.plan import Plan
from zoosim.arena.store import RunFolder, TrialKey
from zoosim.core.parquet import read_meta
from zoosim.core.statistics import ANY, Interval, PairedTest, cut, mean_interval, paired_test
from zoosim.core.types import FloatArray, IntArray

LAST = 0.2
"""Share of the rehearsed visits, the latest, that say what a policy earns once it has learned."""


class Rehearsed(NamedTuple):
    """The result of a policy in a rehearsal.

    Args:
        policy: Its name in the run.
        gain: Earned over the horizon above today's choices at the same visits: as a share of what these earn, or per
            visit where they may earn nothing.
        more: The same in rewards over the whole horizon.
        end: The gain in the last fifth of the rehearsed visits.
        oracle: Share of what the best possible choices earn, in the rehearsed visits.
        regret: By how much the best of the other policies of each seed earned more, as a share of what that earned;
            the mean of the seeds.
        worst_regret: The same in the seed where it is largest.
        worth_after: The visit from which on it had earned more than today's choices in all, the median of the seeds;
            None for never.
        worth_after_worst: The same in the worst seed.
        cost: By how many rewards it was behind today's choices at most, the mean of the seeds.
        seconds: Time per visit, the simulation included, in the fastest trial.
    """

    policy: str
    gain: Interval
    more: Interval
    end: Interval
    oracle: Interval
    regret: float
    worst_regret: float
    worth_after: int | None
    worth_after_worst: int | None
    cost: float
    seconds: float


class Rehearsal(NamedTuple):
    """The figures of a run in a fitted shop; all policies' intervals of a kind hold together with 95%.

    Args:
        policies: The one that earns most over the horizon first.
        today: What today's choices earn there per visit.
        today_of_oracle: The same as a share of what the best possible choices earn.
        is_share: Whether gains are shares of what today's choices earn.
        visits: Some of the rehearsed visits, in order.
        lead: How much more each policy had earned in all than today's choices after `visits`, the mean of the seeds.
        horizon: Visits that rewards are told for; beyond `steps` each policy earns what it did in the last fifth.
        steps: Visits rehearsed per seed.
        seeds: How many seeds.
        trial_seconds: Time of all trials, one after another.
        values: What each policy earns per visit over the horizon in each seed `(seeds,)`.
        late_values: The same in the last fifth of the rehearsed visits.
    """

    policies: tuple[Rehearsed, ...]
    today: Interval
    today_of_oracle: Interval
    is_share: bool
    visits: tuple[int, ...]
    lead: Mapping[str, FloatArray]
    horizon: int
    steps: int
    seeds: int
    trial_seconds: float
    values: Mapping[str, FloatArray]
    late_values: Mapping[str, FloatArray]

    def difference(self, policy: str, other: str) -> PairedTest:
        """Compare what two policies earn per visit over the horizon, corrected for all comparisons with one policy."""
        return paired_test(self.values[policy], self.values[other], max(1, len(self.values) - 1))

    def overtaken_after(self, policy: str, other: str) -> int | None:
        """Return after how many visits `other` will have earned more in all than `policy`, which now earns more.

        None where the last fifth of the visits does not show, beyond chance, that it ever will.
        """
        late = paired_test(self.late_values[other], self.late_values[policy], max(1, len(self.values) - 1))
        behind = float((self.values[policy] - self.values[other]).mean()) * self.horizon
        if late.low is None or late.low <= 0.0 or behind < 0.0:
            return None
        # What it is behind at the horizon, made up for by its lead per visit from then on.
        return self.horizon + int(np.ceil(behind / late.difference))

    @property
    def plain(self) -> dict[str, Any]:
        """The figures as plain values for JSON."""
        rows = [
            {key: value._asdict() if isinstance(value, Interval) else value for key, value in row._asdict().items()}
            for row in self.policies
        ]
        today = {"today": self.today._asdict(), "today_of_oracle": self.today_of_oracle._asdict()}
        size = {"horizon": self.horizon, "steps": self.steps, "seeds": self.seeds}
        return {**today, "is_share": self.is_share, **size, "policies": rows}


def rehearsal_figures(
    plan: Plan, path: Path, policies: Sequence[str], seeds: Sequence[int], actions: IntArray, horizon: int
) -> Rehearsal:
    """Compare the trials of a run in a fitted shop with today's choices at the same visits.

    Args:
        plan: The run, in a world that `fit-world` wrote.
        path: Its folder.
        policies: The policies to compare.
        seeds: Those that all of them finished.
        actions: What the log chose at each visit of the shop `(R,)`.
        horizon: Visits that rewards are told for; of fewer than were rehearsed only the first count.
    """
    folder = RunFolder(path)
    steps = min(plan.steps, horizon)
    today = np.array([todays_rewards(plan.world(seed), actions)[:steps] for seed in seeds])
    best = np.array([folder.read_trial(TrialKey(policies[0], seed)).best_probabilities[:steps] for seed in seeds])
    earned = {name: _earned(folder, name, seeds)[:, :steps] for name in policies}
    # Of these the least is told: the trial that other work on the machine disturbed least.
    seconds = {name: _seconds(folder, name, seeds) for name in policies}
    # Of what was not rehearsed the lead alone is estimated: today's choices at the same visits take out much chance.
    today_value = today.mean(axis=1)
    values = {name: today_value + mean_over_horizon(rewards - today, horizon) for name, rewards in earned.items()}
    ranked = sorted(policies, key=lambda name: -values[name].mean())
    is_share = bool(today_value.mean() > 0.0 and _late_means(today).mean() > 0.0)
    # Where no visit earns less than 0, nothing can be lost beyond all that today's choices earn.
    limits = (-1.0, np.inf) if is_share and plan.any_world.reward_range[0] >= 0.0 else ANY
    baseline = _Baseline(today, best, np.max([*values.values()], axis=0), horizon, is_share, limits, len(ranked))
    at = np.array(sample_steps(steps))
    return Rehearsal(
        policies=tuple(
            baseline.compare(name, earned[name], values[name], min(seconds[name]) / plan.steps) for name in ranked
        ),
        today=mean_interval(today_value),
        today_of_oracle=mean_interval(today_value / best.mean(axis=1)),
        is_share=is_share,
        visits=tuple(at.tolist()),
        lead={name: np.cumsum(earned[name] - today, axis=1).mean(axis=0)[at - 1] for name in ranked},
        horizon=horizon,
        steps=steps,
        seeds=len(seeds),
        trial_seconds=sum(map(sum, seconds.values())),
        values=values,
        late_values={name: _late_means(rewards) for name, rewards in earned.items()},
    )


class _Baseline(NamedTuple):
    """The baseline that policies are compared with at the same visits.

    Args:
        today: What today's choices earn at each rehearsed visit `(seeds, steps)`.
        best: What the best possible choices earn `(seeds, steps)`.
        best_value: What the best of the policies earns per visit over the horizon `(seeds,)`.
        horizon: Visits that rewards are told for.
        is_share: Whether gains are shares of what today's choices earn.
        limits: The least and the most that a gain can be.
        n_policies: How many policies are compared, whose intervals hold together.
    """

    today: FloatArray
    best: FloatArray
    best_value: FloatArray
    horizon: int
    is_share: bool
    limits: tuple[float, float]
    n_policies: int

    def compare(self, policy: str, earned: FloatArray, value: FloatArray, seconds: float) -> Rehearsed:
        """Return the figures of a policy.

        Args:
            policy: Its name.
            earned: What it earned at each rehearsed visit `(seeds, steps)`.
            value: What it earns per visit over the horizon `(seeds,)`.
            seconds: Time per visit.
        """
        # One scale for all seeds, so that shares and rewards say the same, to the ends of their intervals.
        today_value = self.today.mean(axis=1)
        today_late = _late_means(self.today)
        scale = today_value.mean() if self.is_share else 1.0
        late_scale = today_late.mean() if self.is_share else 1.0
        low, high = self.limits
        gain = value - today_value
        late_gain = _late_means(earned) - today_late
        regret = (self.best_value - value) / np.where(self.best_value > 0.0, self.best_value, 1.0)
        # At the same visits, so that the chance of who comes cancels out of the lead.
        ahead = np.cumsum(earned - self.today, axis=1)
        worth = sorted(np.inf if visits is None else visits for visits in map(break_even, ahead))
        return Rehearsed(
            policy=policy,
            gain=cut(mean_interval(gain / scale, self.n_policies), self.limits),
            more=cut(mean_interval(gain * self.horizon, self.n_policies), (low * scale * self.horizon, high)),
            end=cut(mean_interval(late_gain / late_scale, self.n_policies), self.limits),
            oracle=cut(mean_interval(earned.mean(axis=1) / self.best.mean(axis=1)), (-np.inf, 1.0)),
            regret=float(regret.mean()),
            worst_regret=float(regret.max()),
            # The upper median, as a seed where that never comes, inf, takes part in no mean.
            worth_after=_visits(worth[len(worth) // 2]),
            worth_after_worst=_visits(worth[-1]),
            cost=float(np.maximum(-ahead.min(axis=1), 0.0).mean()),
            seconds=seconds,
        )


def _earned(folder: RunFolder, policy: str, seeds: Sequence[int]) -> FloatArray:
    """Return what a policy's choices earn in expectation at each visit of its trials `(seeds, steps)`."""
    return np.array([folder.read_trial(TrialKey(policy, seed)).true_probabilities for seed in seeds])


def _seconds(folder: RunFolder, policy: str, seeds: Sequence[int]) -> list[float]:
    """Return how long each of a policy's trials took."""
    return [float(read_meta(folder.trial_path(TrialKey(policy, seed)))["seconds"]) for seed in seeds]


def mean_over_horizon(rewards: FloatArray, horizon: int) -> FloatArray:
    """Return the mean reward per visit over a horizon in each seed `(seeds,)`.

    Args:
        rewards: What each of the first visits earned, or its lead over others, `(seeds, steps)`.
        horizon: How many visits, `steps` at least. Those beyond are taken to earn what the last fifth of the first
            does, so that what a policy would still learn counts for nothing.
    """
    steps = rewards.shape[1]
    return np.asarray((rewards.sum(axis=1) + (horizon - steps) * _late_means(rewards)) / horizon)


def _late_means(rewards: FloatArray) -> FloatArray:
    """Return the mean of the last fifth of the visits in each seed `(seeds,)`, of `rewards (seeds, steps)`."""
    return np.asarray(rewards[:, int((1.0 - LAST) * rewards.shape[1]) :].mean(axis=1))


def todays_rewards(world: Any, actions: IntArray) -> FloatArray:
    """Return what the log's choices are expected to earn at each visit of a run `(steps,)`.

    A visit of a run is a row of the log, so that the choice of that row is what the shop would show.
    """
    rows = world.schedule_of_rows
    return np.asarray(world.shop.expected_rewards_of(world.draw, rows, actions[rows]))


def break_even(ahead: FloatArray) -> int | None:
    """Return after how many visits a lead `(n,)`, summed up, is not below 0 any more; None where it ends below."""
    behind = np.flatnonzero(ahead < 0.0)
    if not len(behind):
        return 0
    last = int(behind[-1])
    return None if last == len(ahead) - 1 else last + 1


def _visits(visits: float) -> int | None:
    return int(visits) if np.isfinite(visits) else None
