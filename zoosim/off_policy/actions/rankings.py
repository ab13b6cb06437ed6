"""Policies that rank, judged by a log of rankings."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, Progress
from zoosim.logs.ranking_log import RankingLog
from zoosim.off_policy.actions.base import Bounded, Judgement, Kind, refuse_bandwidth
from zoosim.off_policy.actions.ranking_weights import Alone, Guesses, Weighed, guess_on, weigh, weigh_alone
from zoosim.off_policy.diagnostics import WeightFigures, cut_weights, lost_choices, weight_figures
from zoosim.off_policy.estimators import rankings
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.groups import Groups
from zoosim.off_policy.intervals.clusters import Clusters
from zoosim.off_policy.overlap import Overlap, action_shares, overlap_of
from zoosim.off_policy.targets.rankings import RankedColumn, RankingTarget, make_ranking_target

FAMILIES = STANDARD, CASCADE, INDEPENDENT = ("standard", "cascade", "independent")
ESTIMATORS = tuple(f"{family}-{form}" for family in FAMILIES for form in ("ips", "snips", "dr"))
DEFAULT = ("cascade-ips", "cascade-dr")


class Rankings(Kind):
    """Rankings, one a visit."""

    estimators, default, unit = ESTIMATORS, DEFAULT, "visits"

    def __init__(self, log: RankingLog, clusters: Clusters, wanted: Sequence[str], bandwidth: float | None) -> None:
        refuse_bandwidth(bandwidth)
        self.log, self.clusters, self.wanted = log, clusters, wanted

    def take(self, given: Any, progress: Progress) -> Callable[[], Judgement]:
        """Check a policy; those that know all probabilities get a reward model where an estimator needs one."""
        return partial(self._judge, make_ranking_target(given, self.log, progress))

    def _judge(self, target: RankingTarget | RankedColumn) -> Judgement:
        weighed, guesses = weigh(self.log, target), None
        alone: Alone | None = None
        if not isinstance(target, RankedColumn) and {"standard-dr", "cascade-dr"} & set(self.wanted):
            guesses = guess_on(self.log, target, self.clusters)
        if any(name.startswith(INDEPENDENT) for name in self.wanted):
            alone = weigh_alone(self.log, target, self.clusters, "independent-dr" in self.wanted)
        if isinstance(target, RankingTarget):
            target.finish()
        return RankingJudgement(self.log, self.clusters, weighed, guesses, alone)


class _Family(NamedTuple):
    """What estimators of a family lean on: weights as they count `(n, L)`, their mean over a visit `(n,)`, and guesses.

    `start (n,)` is what the reward model alone expects of a visit, 0 where there is none; `lost` as in `WeightFigures`.
    """

    counted: FloatArray
    visit: FloatArray
    start: FloatArray
    lost: tuple[float | None, int | None]


class RankingJudgement(Judgement):
    """A policy that ranks. A visit's weight is that of its positions, by the share of the reward that they earn."""

    def __init__(
        self,
        log: RankingLog,
        clusters: Clusters,
        weighed: Weighed,
        guesses: Guesses | None,
        alone: Alone | None,
    ) -> None:
        self.log, self.weighed, self.guesses = log, weighed, guesses
        self.alone = None if alone is None else alone.weighed
        self.alone_guesses = None if alone is None else alone.guesses
        forms = {STANDARD: guesses, CASCADE: guesses, INDEPENDENT: self.alone_guesses}
        known = FAMILIES if alone is not None else (STANDARD, CASCADE)
        usable = [f"{family}-{form}" for family in known for form in ("ips", "snips")]
        super().__init__(clusters, [*usable, *(f"{family}-dr" for family in known if forms[family] is not None)])

    @cached_property
    def _shares(self) -> FloatArray:
        """The share of the logged reward that each position earns `(L,)`; alike where there is none."""
        earned = np.abs(self.log.rewards.mean(axis=0))
        return earned / earned.sum() if earned.sum() > 0.0 else np.full(len(earned), 1.0 / len(earned))

    @cached_property
    def _families(self) -> dict[str, _Family]:
        down = self.weighed.weights.cumprod(axis=1)
        whole = np.repeat(down[:, -1:], down.shape[1], axis=1)
        below = self._shares[::-1].cumsum()[::-1]
        start = np.zeros(len(down)) if self.guesses is None else self.guesses.expected[:, 0]
        found = {
            STANDARD: _Family(
                whole, down[:, -1].copy(), start, self._lost(down, self.weighed.mass, np.ones_like(below))
            ),
            CASCADE: _Family(
                down, (down * self._shares).sum(axis=1), start, self._lost(down, self.weighed.mass, below)
            ),
        }
        if self.alone is not None:
            weights = self.alone.weights
            first = np.zeros(len(down)) if self.alone_guesses is None else self.alone_guesses.expected.sum(axis=1)
            lost = self._lost(weights, self.alone.mass, self._shares)
            found[INDEPENDENT] = _Family(weights, (weights * self._shares).sum(axis=1), first, lost)
        return found

    def _lost(
        self, weights: FloatArray, mass: FloatArray | None, counts: FloatArray
    ) -> tuple[float | None, int | None]:
        """Return the share of choices that the log hardly shows; what is lost at a position `counts (L,)` so much."""
        if mass is None:
            return None, None
        return lost_choices(self.log.actions.ravel(), (counts * weights).ravel(), counts @ mass, len(self.log))

    def terms(self, estimator: str) -> Terms:
        """Return what an estimator comes to."""
        family, _, form = estimator.partition("-")
        rewards, weights = self.log.rewards, self.weighed.weights
        if form == "snips":
            return rankings.self_normalised_ips(self._families[family].counted, rewards)
        if family == INDEPENDENT:
            own = self._families[family].counted
            if form == "ips" or self.alone_guesses is None:
                return rankings.independent_ips(own, rewards)
            return rankings.independent_dr(own, rewards, *self.alone_guesses)
        if form == "ips" or self.guesses is None:
            return {STANDARD: rankings.standard_ips, CASCADE: rankings.cascade_ips}[family](weights, rewards)
        predicted, expected = self.guesses
        if family == CASCADE:
            return rankings.cascade_dr(weights, rewards, predicted, expected)
        start = expected[:, 0].copy()
        return rankings.standard_dr(weights, rewards, start + (predicted - expected).sum(axis=1), start)

    def cut(self, estimator: str) -> Terms:
        """Return the same with the largest weights of visits cut."""
        terms, family = self.terms(estimator), self._families[estimator.partition("-")[0]]
        share = np.divide(
            cut_weights(family.visit), family.visit, out=np.zeros_like(family.visit), where=family.visit > 0.0
        )
        if terms.top is not None and terms.bottom is not None:
            return Terms(terms.base, share * terms.top, share * terms.bottom)
        start = family.start if estimator.endswith("-dr") else 0.0
        return Terms(start + share * (terms.base - start))

    def figures(self, estimator: str) -> WeightFigures:
        """Return figures of the visits' weights."""
        family = self._families[estimator.partition("-")[0]]
        return weight_figures(family.visit, self.clusters, *family.lost)

    def bounded(self) -> Bounded:
        """Return the weights of whole rankings, which need no assumption, and what the visits earned."""
        return Bounded(self._families[STANDARD].visit, self.log.earned)

    def overlap(self, groups: Groups) -> Overlap:
        """Return where the weights lie: actions at any position, weighed down to it."""
        log, family = self.log, self._families[CASCADE]
        mass = None if self.weighed.mass is None else self.weighed.mass.sum(axis=0)
        shares = action_shares(log.actions.ravel(), family.counted.ravel(), log.n_actions, log.actions.size, mass)
        return overlap_of(family.visit, shares, groups)
