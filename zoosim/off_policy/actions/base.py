"""The interface of an action space, so that policies can be evaluated on its logs; all the rest is shared."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.core.errors import ConfigError
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, IntArray, PolicySpec, Progress
from zoosim.logs.log import Log
from zoosim.off_policy.diagnostics import Drift, RewardCount, WeightFigures, clip_weights, error_figures, weight_figures
from zoosim.off_policy.estimators.terms import RowTerms
from zoosim.off_policy.groups import Groups
from zoosim.off_policy.intervals.clusters import Clusters, ClusterSums
from zoosim.off_policy.overlap import Overlap, overlap_of
from zoosim.off_policy.propensities.estimate import EstimatedPropensities
from zoosim.off_policy.targets.products import check_class, visible_spec
from zoosim.off_policy.verdict import KernelFigures, Verdict, VerdictLimits, judge_weighted
from zoosim.policies.base import Policy

if TYPE_CHECKING:
    from zoosim.off_policy.actions.product_weights import Spread


class VisitWeights:
    """Importance weights `(n,)`, one per visit, and what follows from them, computed once.

    `unsupported_mass` and `unsupported_action` are as in `WeightFigures`; no weight can be larger than
    `largest_possible`.
    """

    def __init__(
        self,
        values: Any,
        clusters: Clusters,
        unsupported_mass: float | None = None,
        unsupported_action: str | None = None,
        largest_possible: float = math.inf,
    ) -> None:
        self.values = values
        self.clusters = clusters
        self.largest_possible = largest_possible
        self.unsupported = (unsupported_mass, unsupported_action)

    @cached_property
    def figures(self) -> WeightFigures:
        """The effective sample size and other figures."""
        return weight_figures(self.values, self.clusters, *self.unsupported, self.largest_possible)

    @cached_property
    def clipped(self) -> Any:
        """The weights `(n,)` with the largest of them clipped."""
        return clip_weights(self.values)


class Bounded(NamedTuple):
    """Weights and rewards `(n,)` whose mean product is the policy's value: what intervals for any size bound."""

    weights: Any
    rewards: Any


class Estimated(NamedTuple):
    """An estimate as sums by group, with its interval and the figures of the weights that it rests on.

    `rewards` counts those behind it; `drift` is None where the log knows no times; `min_groups`
    limits how few groups its error may rest on.
    """

    sums: ClusterSums
    weights: WeightFigures
    interval: Interval
    rewards: RewardCount
    drift: Drift | None
    min_groups: VerdictLimits


class PolicyEvaluation(ABC):
    """One policy on one log: for each of its `estimators` the terms of the estimate, its weights and a verdict.

    `notes` are remarks that hold for all estimators; `known` names what is known of the policy. `chances (m, K)` are
    its probabilities in the log's first rows, where somebody plans by them.
    """

    known: ClassVar[str] = "the probabilities of logged actions"

    def __init__(self, log: Log, clusters: Clusters, estimators: Sequence[str], notes: Sequence[str] = ()) -> None:
        self.log = log
        self.clusters = clusters
        self.estimators = tuple(estimators)
        self.notes = tuple(notes)
        self.chances: FloatArray | None = None

    @abstractmethod
    def weights(self, estimator: str) -> VisitWeights:
        """Return the importance weights that an estimator rests on."""

    @property
    def shown_weights(self) -> Any:
        """The importance weights of the products shown `(n,)`, in rankings of each given those above `(n, L)`."""
        return self.weights(self.estimators[0]).values

    def support(self, estimator: str) -> Any:
        """Return how much an estimate rests on each row `(n,)`: their weights."""
        return self.weights(estimator).values

    def for_reward(self, name: str) -> "PolicyEvaluation":
        """Return the evaluation by one of the log's other rewards, which shares the weights."""
        raise NotImplementedError(f"{type(self).__name__}: its logs have one reward")

    def terms_with(self, estimator: str, weights: Any) -> RowTerms:
        """Return the terms of an estimate with other `weights (n,)` than its own."""
        raise NotImplementedError(f"{type(self).__name__}: its weights are not one per row")

    def terms(self, estimator: str) -> RowTerms:
        """Return the terms of an estimate."""
        return self.terms_with(estimator, self.weights(estimator).values)

    def bounded(self) -> Bounded:
        """Return what intervals that hold for any size bound; raises `ConfigError` where nothing is bounded."""
        return Bounded(self.weights(self.estimators[0]).values, self.log.visit_rewards)

    def overlap(self, groups: Groups) -> Overlap:
        """Return where the weights lie, by size, action and group of visits."""
        return overlap_of(self.weights(self.estimators[0]).values, (), groups, self.log)

    def verdict(self, estimator: str, estimated: Estimated) -> Verdict:
        """Judge an estimate by its weights and its error."""
        clipped = self.terms_with(estimator, self.weights(estimator).clipped)
        errors = error_figures(estimated.sums, clipped.value, estimated.drift)
        return judge_weighted(
            estimated.weights,
            errors,
            estimated.interval,
            self.clusters.n_clusters,
            estimated.rewards,
            bias=self.bias(estimator, estimated.sums.value, errors.error),
            min_groups=estimated.min_groups,
            kernel=self.kernel(estimator),
        )

    def bias(self, estimator: str, value: float, error: float) -> float:
        """Return by how many standard errors an estimator's own limits on weights move its value."""
        return 0.0

    def kernel(self, estimator: str) -> KernelFigures | None:
        """Return the figures of an estimator's kernel, None where it has none."""
        return None


def evaluator_of(action_space: str) -> "type[ActionSpaceEvaluator]":
    """Return the class that evaluates policies on logs of an action space; that of the others is not imported.

    Raises:
        ConfigError: there is no such action space, or it has none.
    """
    evaluator: type[ActionSpaceEvaluator] | None = find_action_space(action_space).evaluator
    if evaluator is None:
        raise ConfigError(f"log: its actions are {action_space}, on which no policies can be judged")
    return evaluator


def evaluator_for(log: Log) -> "type[ActionSpaceEvaluator]":
    """Return the class that evaluates policies on a log: its action space's, or that of visitors who come back.

    Raises:
        ConfigError: its action space has none.
    """
    if log.lives is None:
        return evaluator_of(log.action_space)
    from zoosim.off_policy.actions.lives import LifeEvaluator  # which itself needs this file

    return LifeEvaluator


class ActionSpaceEvaluator(ABC):
    """Evaluates policies on logs of one action space.

    Args:
        log: A log of this action space.
        clusters: Which of its visits belong together.
        wanted: The names of the estimators that are asked for.
        bandwidth: The width of kernels, where the action space has them; None to choose it from the log.
        propensities: Where those of the log were estimated, what is known of it.
        earlier: Rows of the same products that the log does not hold, from which reward models may learn.
    """

    estimators: ClassVar[tuple[str, ...]]
    """The names of all estimators."""

    default: ClassVar[tuple[str, ...]]
    """The names of the estimators that are computed when none are asked for."""

    unit: ClassVar[str] = "rows"
    """The unit that a log counts."""

    takes_models: ClassVar[bool] = True
    """True where a model of `zoosim train` can be judged."""

    can_train: ClassVar[bool] = False
    """True where policies can learn from a part of the log before they are evaluated on the rest."""

    can_spread: ClassVar[bool] = False
    """True where policies can be asked about blocks of rows in other processes."""

    def __init__(
        self,
        log: Log,
        clusters: Clusters,
        wanted: Sequence[str],
        bandwidth: float | None,
        propensities: EstimatedPropensities | None = None,
        earlier: Log | None = None,
    ) -> None:
        if bandwidth is not None:
            self._check_bandwidth(bandwidth)
        self.log = log
        self.clusters = clusters
        self.wanted = wanted
        self.bandwidth = bandwidth
        self.propensities = propensities
        self.earlier = earlier
        self.spread: Spread | None = None
        """Weighs blocks of rows in other processes; None to do it in this one."""

    def _check_bandwidth(self, bandwidth: float) -> None:
        raise ConfigError(f"bandwidth: got {bandwidth!r}, expected none; it goes with logs of boosts, lists of numbers")

    checks_rows: ClassVar[bool] = True
    """True where the rows of a log can be checked for what rewards and propensities cannot be."""

    estimates_propensities: ClassVar[bool] = False
    """True where propensities that a log lacks can be estimated."""

    @classmethod
    def units(cls, log: Log, gamma: float) -> Log:
        """Return the log of what is judged, a row each, such as its visitors; raises `ConfigError` or `DataError`."""
        if gamma != 1.0:
            raise ConfigError(f"gamma: got {gamma!r}, expected none; it goes with logs of visitors who come back")
        return log

    @classmethod
    def action_shown(cls, log: Log, row: int) -> str:
        """Return the names of what a visit showed: a product, or a ranking from the top."""
        return ", ".join(log.action_name(int(action)) for action in np.atleast_1d(log.actions[row]))

    @classmethod
    def action_words(cls, log: Log) -> IntArray:
        """Return the actions as whole numbers `(n,)` or `(n, m)`, the same in every log of these products."""
        words: IntArray = log.product_ids[log.actions]
        return words

    @classmethod
    def check_class(cls, policy_class: type[Policy], log: Log) -> None:
        """Raise `PolicyError` for a class of policies that choose something else than the log holds: products."""
        check_class(policy_class, log)

    @classmethod
    def spec(cls, log: Log) -> PolicySpec:
        """Return the task that a policy for a log is made for; raises `DataError` where it would see nothing."""
        return visible_spec(log)

    @abstractmethod
    def prepare(self, given: Any, progress: Progress) -> Callable[[], PolicyEvaluation]:
        """Check a policy, and return the function that evaluates it.

        Raises `ConfigError`, `DataError` or `PolicyError`; `progress` is called with lines about how far it is.
        """
