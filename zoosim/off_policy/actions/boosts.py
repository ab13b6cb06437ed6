"""Policies of continuous boosts, judged by a log of boosts."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from zoosim.core.checks import LARGEST, check_number
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray, Progress
from zoosim.logs.boost_log import BoostLog
from zoosim.off_policy.actions.base import Bounded, Estimated, Judgement, Kind
from zoosim.off_policy.diagnostics import (
    WeightFigures,
    cut_weights,
    effective_size,
    error_figures,
    weight_figures,
)
from zoosim.off_policy.estimators import boosts, single
from zoosim.off_policy.estimators.bandwidth import Tried, choose_bandwidth, kernel_figures
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.groups import Groups
from zoosim.off_policy.intervals.clusters import Clusters, group_sums, standard_error
from zoosim.off_policy.models.boost_model import BoostModel, fit_boost_model
from zoosim.off_policy.overlap import Overlap, overlap_of
from zoosim.off_policy.targets.boosts import Aimed, Spread, make_boost_target
from zoosim.off_policy.verdict import KernelFigures, Verdict, judge_weighted

KERNEL, DENSITY = ("kernel-ips", "kernel-snips", "kernel-dr"), ("ips", "snips")
ESTIMATORS = (*KERNEL, *DENSITY)


class Boosts(Kind):
    """Vectors of boosts. A policy without chance is judged by a kernel, one with a density by plain weights."""

    estimators, default, unit = ESTIMATORS, ESTIMATORS, "rows"

    def __init__(self, log: BoostLog, clusters: Clusters, wanted: Sequence[str], bandwidth: float | None) -> None:
        if bandwidth is not None:
            check_number("bandwidth", bandwidth, 0.0, LARGEST, above=True)
        self.log, self.clusters, self.wanted, self.bandwidth = log, clusters, wanted, bandwidth

    def take(self, given: Any, progress: Progress) -> Callable[[], Judgement]:
        """Check a policy."""
        return partial(self._judge, make_boost_target(given, self.log))

    def _judge(self, target: Aimed | Spread) -> Judgement:
        if isinstance(target, Spread):
            unused = () if self.bandwidth is None else ("judged by its density, which needs no bandwidth",)
            return DensityJudgement(self.log, self.clusters, target, unused)
        wanted = [name for name in self.wanted if name in KERNEL]
        model = self._model if "kernel-dr" in wanted else None
        return KernelJudgement(self.log, self.clusters, target, model, wanted, self.bandwidth)

    @cached_property
    def _model(self) -> BoostModel:
        return fit_boost_model(self.log, self.clusters)


class DensityJudgement(Judgement):
    """A policy that draws boosts by a density: weights are its density over the log's."""

    known = "the densities of logged boosts"

    def __init__(self, log: BoostLog, clusters: Clusters, target: Spread, notes: Sequence[str] = ()) -> None:
        super().__init__(clusters, DENSITY, notes)
        self.log, self.weights = log, target.densities / log.densities

    def terms(self, estimator: str) -> Terms:
        """Return what an estimator comes to."""
        return self._terms(estimator, self.weights)

    def cut(self, estimator: str) -> Terms:
        """Return the same with the largest weights cut."""
        return self._terms(estimator, cut_weights(self.weights))

    def _terms(self, estimator: str, weights: FloatArray) -> Terms:
        return {"ips": single.ips, "snips": single.self_normalised_ips}[estimator](weights, self.log.rewards)

    def figures(self, estimator: str) -> WeightFigures:
        """Return figures of the weights."""
        return weight_figures(self.weights, self.clusters)

    def bounded(self) -> Bounded:
        """Return the weights and the rewards."""
        return Bounded(self.weights, self.log.rewards)

    def overlap(self, groups: Groups) -> Overlap:
        """Return where the weights lie."""
        return overlap_of(self.weights, (), groups)


class KernelJudgement(Judgement):
    """A policy without chance: logged boosts near its own stand for them, as far as each estimator's bandwidth."""

    known = "the boosts that a policy without chance would take"

    def __init__(
        self,
        log: BoostLog,
        clusters: Clusters,
        target: Aimed,
        model: BoostModel | None,
        wanted: Sequence[str],
        bandwidth: float | None,
    ) -> None:
        self.log, self.clusters, self.target = log, clusters, target
        self._guesses = None if model is None else (model.guess(log.actions), model.guess(target.actions))
        self._weights: dict[float, FloatArray] = {}
        self._kernels = {name: self._kernel(name, bandwidth) for name in wanted}
        super().__init__(clusters, tuple(wanted), [_told(name, self._kernels[name]) for name in wanted])

    def _kernel(self, estimator: str, given: float | None) -> KernelFigures:
        if given is not None and not self._weights_at(given).any():
            raise DataError(f"no logged boosts lie within a bandwidth of {given:g} of its own; take a wider one")
        attempt = partial(self._tried, estimator)
        return kernel_figures(choose_bandwidth(self.log.a_max, attempt) if given is None else given, attempt)

    def _tried(self, estimator: str, bandwidth: float) -> Tried:
        weights = self._weights_at(bandwidth)
        if not weights.any():
            return Tried(bandwidth, float("nan"), float("inf"), 0.0)
        sums = group_sums(self.clusters, self._terms(estimator, weights))
        return Tried(bandwidth, sums.value, standard_error(sums), effective_size(weights))

    def _weights_at(self, bandwidth: float) -> FloatArray:
        if bandwidth not in self._weights:
            log, a_max = self.log, self.log.a_max
            arrays = (log.actions, log.densities, self.target.actions)
            self._weights[bandwidth] = boosts.kernel_weights(*arrays, bandwidth, -a_max, a_max)
        return self._weights[bandwidth]

    def _own(self, estimator: str) -> FloatArray:
        return self._weights_at(self._kernels[estimator].bandwidth)

    def _terms(self, estimator: str, weights: FloatArray) -> Terms:
        if estimator == "kernel-ips":
            return boosts.kernel_ips(weights, self.log.rewards)
        if estimator == "kernel-snips":
            return boosts.kernel_self_normalised_ips(weights, self.log.rewards)
        assert self._guesses is not None
        return boosts.kernel_dr(weights, self.log.rewards, *self._guesses)

    def terms(self, estimator: str) -> Terms:
        """Return what an estimator comes to."""
        return self._terms(estimator, self._own(estimator))

    def cut(self, estimator: str) -> Terms:
        """Return the same with the largest weights cut."""
        return self._terms(estimator, cut_weights(self._own(estimator)))

    def figures(self, estimator: str) -> WeightFigures:
        """Return figures of the weights at the estimator's bandwidth."""
        return weight_figures(self._own(estimator), self.clusters)

    def bounded(self) -> Bounded:
        """Refuse: kernel weights bound the value of a blurred policy, not that of the one that is judged."""
        told = "kernels estimate the value of a policy blurred by the bandwidth"
        raise ConfigError(f"interval: bernstein and sequence bound a policy's value, and {told}; take bootstrap")

    def overlap(self, groups: Groups) -> Overlap:
        """Return where the weights of the first estimator lie."""
        return overlap_of(self._own(self.estimators[0]), (), groups)

    def verdict(self, estimator: str, found: Estimated) -> Verdict:
        """Judge an estimate by its weights, its error, and what its bandwidth does."""
        errors = error_figures(found.sums, self.cut(estimator).value, found.moved)
        rest, kernel = (found.interval, self.clusters.n_clusters), self._kernels[estimator]
        return judge_weighted(found.weights, errors, *rest, carriers=found.carriers, kernel=kernel)


def _told(estimator: str, kernel: KernelFigures) -> str:
    return (
        f"{estimator}: bandwidth {kernel.bandwidth:.3g}; halving it to this moved the value by {kernel.moved:.1f} "
        f"standard errors, halving it again would leave {kernel.half_ess:,.0f} effective rows"
    )
