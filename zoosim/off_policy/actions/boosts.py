"""Evaluate policies of continuous boosts."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from zoosim.core.checks import LARGEST, check_number
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray, IntArray, PolicySpec, Progress
from zoosim.logs.log import Log
from zoosim.off_policy.actions.base import ActionSpaceEvaluator, Bounded, PolicyEvaluation, VisitWeights
from zoosim.off_policy.actions.product_weights import WeightsAndPredictions
from zoosim.off_policy.actions.products import estimate
from zoosim.off_policy.diagnostics import effective_size
from zoosim.off_policy.estimators.bandwidth import Attempt, choose_bandwidth, kernel_figures
from zoosim.off_policy.estimators.boosts import kernel_weights
from zoosim.off_policy.estimators.terms import RowTerms
from zoosim.off_policy.intervals.clusters import Clusters, group_sums, standard_error
from zoosim.off_policy.models.boost_model import BoostRewardModel, fit_boost_model
from zoosim.off_policy.targets.boosts import (
    DeterministicTarget,
    StochasticTarget,
    boost_spec_of,
    check_class,
    make_boost_target,
)
from zoosim.off_policy.verdict import KernelFigures
from zoosim.policies.base import Policy

KERNEL_PREFIX = "kernel-"
KERNEL = tuple(KERNEL_PREFIX + name for name in ("ips", "snips", "dr"))
DENSITY = ("ips", "snips")
ESTIMATORS = (*KERNEL, *DENSITY)


class BoostEvaluator(ActionSpaceEvaluator):
    """Evaluates policies on logs of boosts: deterministic ones by a kernel, those with a density by plain weights."""

    estimators = ESTIMATORS
    default = ESTIMATORS
    checks_rows = False

    @classmethod
    def action_words(cls, log: Log) -> IntArray:
        """Return the bits of the boosts `(n, d)`."""
        bits: IntArray = log.actions.view(np.int64)
        return bits

    @classmethod
    def action_shown(cls, log: Log, row: int) -> str:
        """Return the boosts of a visit."""
        return ", ".join(f"{boost:+.3g}" for boost in log.actions[row])

    def _check_bandwidth(self, bandwidth: float) -> None:
        check_number("bandwidth", bandwidth, 0.0, LARGEST, above=True)

    @classmethod
    def check_class(cls, policy_class: type[Policy], log: Log) -> None:
        """Raise `PolicyError` for policies that choose no boosts."""
        check_class(policy_class)

    @classmethod
    def spec(cls, log: Log) -> PolicySpec:
        """Return the dimensions of the log's visitors and boosts."""
        return boost_spec_of(log)

    def prepare(self, given: Any, progress: Progress) -> Callable[[], PolicyEvaluation]:
        """Check a policy."""
        return partial(self._evaluate, make_boost_target(given, self.log))

    def _evaluate(self, target: DeterministicTarget | StochasticTarget) -> PolicyEvaluation:
        if isinstance(target, StochasticTarget):
            unused = () if self.bandwidth is None else ("judged by its density, which needs no bandwidth",)
            return DensityEvaluation(self.log, self.clusters, target, unused)
        wanted = [name for name in self.wanted if name in KERNEL]
        model = self._model if "kernel-dr" in wanted else None
        return KernelEvaluation(self.log, self.clusters, target, model, wanted, self.bandwidth)

    @cached_property
    def _model(self) -> BoostRewardModel:
        return fit_boost_model(self.log, self.clusters)


class DensityEvaluation(PolicyEvaluation):
    """A policy that draws boosts from a density: a weight is its density over the log's."""

    known = "the densities of logged boosts"

    def __init__(self, log: Log, clusters: Clusters, target: StochasticTarget, notes: Sequence[str] = ()) -> None:
        super().__init__(log, clusters, DENSITY, notes)
        self._weights = VisitWeights(target.densities / log.propensities, clusters)

    def weights(self, estimator: str) -> VisitWeights:
        """Return the ratios of densities."""
        return self._weights

    def terms_with(self, estimator: str, weights: FloatArray) -> RowTerms:
        """Return the terms of an estimate with other `weights (n,)`."""
        return estimate(estimator, self.log.rewards, WeightsAndPredictions(weights))


class KernelEvaluation(PolicyEvaluation):
    """A deterministic policy: logged boosts near its own stand for them, within a bandwidth per estimator."""

    known = "the boosts that a policy without chance would take"

    def __init__(
        self,
        log: Log,
        clusters: Clusters,
        target: DeterministicTarget,
        model: BoostRewardModel | None,
        wanted: Sequence[str],
        bandwidth: float | None,
    ) -> None:
        super().__init__(log, clusters, wanted)
        self.target = target
        self._predictions: tuple[FloatArray, FloatArray] | tuple[None, None] = (None, None)
        if model is not None:
            # Without chance, the mean prediction under the target is that of the boosts which it takes.
            self._predictions = (model.predict(log.actions), model.predict(target.actions))
        self._weights_by_bandwidth: dict[float, VisitWeights] = {}
        self._kernels = {name: self._kernel(name, bandwidth) for name in wanted}
        self.notes = tuple(_note(name, self._kernels[name]) for name in wanted)

    def _kernel(self, estimator: str, bandwidth: float | None) -> KernelFigures:
        if bandwidth is not None and not self._weights_at(bandwidth).values.any():
            raise DataError(f"no logged boosts lie within a bandwidth of {bandwidth:g} of its own; take a wider one")
        attempt = partial(self._attempt, estimator)
        if bandwidth is None:
            bandwidth = choose_bandwidth(self.log.a_max, attempt)
        return kernel_figures(bandwidth, attempt)

    def _attempt(self, estimator: str, bandwidth: float) -> Attempt:
        weights = self._weights_at(bandwidth).values
        if not weights.any():
            return Attempt(bandwidth, float("nan"), float("inf"), 0.0)
        sums = group_sums(self.clusters, self.terms_with(estimator, weights))
        return Attempt(bandwidth, sums.value, standard_error(sums), effective_size(weights))

    def _weights_at(self, bandwidth: float) -> VisitWeights:
        if bandwidth not in self._weights_by_bandwidth:
            log = self.log
            values = kernel_weights(
                log.actions, log.propensities, self.target.actions, bandwidth, -log.a_max, log.a_max
            )
            self._weights_by_bandwidth[bandwidth] = VisitWeights(values, self.clusters)
        return self._weights_by_bandwidth[bandwidth]

    def weights(self, estimator: str) -> VisitWeights:
        """Return the kernel's weights at the estimator's bandwidth."""
        return self._weights_at(self._kernels[estimator].bandwidth)

    def terms_with(self, estimator: str, weights: FloatArray) -> RowTerms:
        """Return the terms of an estimate with other `weights (n,)`: those of products with a kernel's weights."""
        predicted, expected = self._predictions
        arrays = WeightsAndPredictions(weights, predicted, expected)
        return estimate(estimator.removeprefix(KERNEL_PREFIX), self.log.rewards, arrays)

    def bounded(self) -> Bounded:
        """Refuse: kernel weights bound the value of a blurred policy, not that of the one that is evaluated."""
        reason = "kernels estimate the value of a policy blurred by the bandwidth"
        raise ConfigError(f"interval: bernstein and sequence bound a policy's value, and {reason}; take bootstrap")

    def kernel(self, estimator: str) -> KernelFigures:
        """Return what halving the bandwidth does."""
        return self._kernels[estimator]


def _note(estimator: str, kernel: KernelFigures) -> str:
    return (
        f"{estimator}: bandwidth {kernel.bandwidth:.3g}; halving it to this moved the value by {kernel.moved:.1f} "
        f"standard errors, halving it again would leave {kernel.half_ess:,.0f} effective rows"
    )
