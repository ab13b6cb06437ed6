"""Evaluate policies on a log: values, intervals, figures, verdicts and paired differences in one call."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import Progress
from zoosim.logs.log import Log
from zoosim.off_policy.actions.base import evaluator_for
from zoosim.off_policy.compare import LOGGED
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.findings import EstimateCollector
from zoosim.off_policy.groups import group_rows
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.off_policy.options import read_options
from zoosim.off_policy.overlap import FEW_SEGMENTS, MOST_SEGMENTS
from zoosim.off_policy.propensities.deterministic import is_deterministic
from zoosim.off_policy.propensities.estimate import estimate_propensities
from zoosim.off_policy.results import Evaluation
from zoosim.off_policy.targets.base import naming

if TYPE_CHECKING:
    from zoosim.off_policy.actions.product_weights import Spread


class EvaluationInterrupted(KeyboardInterrupt):
    """Ctrl-C came while policies were evaluated.

    Carries the `evaluation` of those that are finished, None without any, and the names of those that are `missing`.
    """

    def __init__(self, evaluation: Evaluation | None, missing: Sequence[str]) -> None:
        super().__init__()
        self.evaluation, self.missing = evaluation, tuple(missing)


def evaluate(
    log: Log,
    policies: Mapping[str, Any],
    *,
    estimators: Sequence[str] | None = None,
    interval: str = "bootstrap",
    level: float = 0.95,
    samples: int = 1_000,
    seed: int = 0,
    reward_range: tuple[float, float] | None = None,
    bandwidth: float | None = None,
    propensity_model: str | None = None,
    gamma: float = 1.0,
    overlap: bool = False,
    compare: bool = True,
    earlier: Log | None = None,
    spread: "AbstractContextManager[Spread] | None" = None,
    progress: Progress = lambda line: None,
) -> Evaluation:
    """Estimate the mean reward per visit that each policy would have earned, from a log of another policy.

    No policy is run: logged rewards are reweighted by how much likelier the policy makes the logged actions
    (Horvitz & Thompson 1952); some estimators add a reward model (Dudik, Langford & Li 2011). Where visitors come back
    (`Log.lives`), rows are visitors, and the value is what a new one brings from the first decision to the last
    (see `zoosim.off_policy.estimators.lives`).

    Args:
        log: n visits, with propensities unless a `propensity_model` is named, of products, rankings or boosts.
        policies: Name -> a `zoosim.Policy` (a frozen copy is asked), probabilities `(K,)` or `(n, K)`, a function
            (log, start, stop) that returns `(stop - start, K)` or the probabilities of
            `log.candidate_lists(start, stop)`, one row after another, or the name of a log column with the probability
            of the logged action (this leaves out estimators with a reward model). Rankings: probabilities of
            the top position, lower ones are drawn without replacement. Boosts: boosts `(d,)` or `(n, d)`, columns of
            densities.
        estimators: Such as ["snips", "dr"]. Default: those of the log's action space. "dm" predicts by a calibrated
            mixed model, whose error its interval knows. Clipped, switch and shrunken forms choose their limit by the
            least estimated error (Su et al. 2020).
        interval: "bootstrap" (studentised), "asymptotic", or a bound on the value itself, whatever the estimator:
            "bernstein" (Maurer & Pontil 2009), "sequence" (Waudby-Smith et al. 2024; valid at all times, rows in order
            of time where the log tells it).
        level: Confidence level, in (0, 1).
        samples: Number of bootstrap samples.
        seed: Their seed, from 0 to 2**63 - 1.
        reward_range: (low, high) of a visit's total reward. Default: the range in the log, which makes "bernstein"
            and "sequence" at most `weak` unless rewards are single clicks.
        bandwidth: Kernel width in units of the boosts. Default: chosen from the log (SLOPE, Su et al. 2020).
        propensity_model: "multinomial": estimate the propensities of a log of products that has none, by visitors'
            features, cross-fitted. Estimators are then some of "dm", "snips" (default), "dr" (default) and "sndr"; the
            verdict is `weak` at best, and a log that is deterministic gets "dm" alone, and `do not use`.
        gamma: What the reward of a visitor's next decision counts for, in (0, 1]; for visitors who come back alone.
        overlap: Also tabulate weights by size, action and segment.
        compare: Also compare and rank the policies.
        earlier: Rows of the same products that policies learned from, which `log` does not hold: the mixed model of
            "dm" learns from them, too. Default: from one half of the log's users for the other half.
        spread: Asks policies about blocks of rows in other processes (`zoosim.arena.backends.judging`), and is entered
            once all else is checked; of logs of single products alone.
        progress: Called with lines such as "linucb: judged 2,000 of 50,000 rows".

    Returns:
        One `Result` per policy and estimator: value and interval in reward units per visit, effective sample size
        (Kish 1965), verdict and reasons. The value is NaN where all weights of a self-normalised estimator are 0.

    Raises:
        ConfigError: an option or a policy's name is invalid, or there is no policy.
        DataError: no estimator applies, or no policy ever chooses a logged action, and
            "dm" is not asked for.
        PolicyError: a policy fails, returns invalid probabilities, or changes its state; it is named.
        EvaluationInterrupted: on Ctrl-C, a `KeyboardInterrupt` with the results so far.
    """
    if LOGGED in policies:
        raise ConfigError(f"policies: got one named {LOGGED}, the name of the log's own choices; rename it")
    evaluator_class = evaluator_for(log)
    if spread is not None and not evaluator_class.can_spread:
        raise ConfigError(
            f"executor: {log.source} is a log of {log.action_space}, and those of single products alone are spread; "
            "leave it out"
        )
    log = evaluator_class.units(log, gamma)
    options = read_options(
        log,
        evaluator_class,
        estimators=estimators,
        interval=interval,
        level=level,
        samples=samples,
        seed=seed,
        reward_range=reward_range,
        propensity_model=propensity_model,
    )
    clusters = make_clusters(len(log), log.user_ids)
    estimated = None
    if options.propensity_model is not None:
        estimated = estimate_propensities(log, clusters, progress)
        log = replace(log, propensities=estimated.values)
        if is_deterministic(log, estimated):
            options = options._replace(estimators=(DIRECT_METHOD,), is_deterministic=True)
    evaluator = evaluator_class(log, clusters, options.estimators, bandwidth, estimated, earlier)
    # All are checked before the first one is judged, which may take long.
    prepared = {}
    for name, policy in policies.items():
        with naming(name):
            prepared[name] = evaluator.prepare(policy, _prefixed(progress, name))
    if not prepared:
        raise ConfigError("policies: got none, expected at least one to judge")

    findings = EstimateCollector(log, clusters, evaluator.unit, options, compare, estimated)
    groups = None
    if overlap:
        segments = group_rows(log.features, MOST_SEGMENTS, FEW_SEGMENTS)
        groups = segments.named(log.features, log.visitor_features)
    finished = list[str]()
    with spread or nullcontext() as evaluator.spread:
        try:
            for name, evaluate_policy in prepared.items():
                with naming(name):
                    policy_evaluation = evaluate_policy()
                    findings.add(name, policy_evaluation, groups)
                finished.append(name)
        except KeyboardInterrupt:
            missing = [name for name in prepared if name not in finished]
            raise EvaluationInterrupted(findings.evaluation(finished) if finished else None, missing) from None
    evaluation = findings.evaluation(finished)
    # The direct method needs no overlap: where it has an estimate, that stands beside what is said of the others.
    needs_overlap = all(row.estimator != DIRECT_METHOD for row in evaluation.results)
    has_none = not any(row.ess for row in evaluation.results)
    if needs_overlap and has_none and any(math.isnan(row.value) for row in evaluation.results):
        names = ", ".join(policies)
        raise DataError(f"no overlap: none of the policies ({names}) ever chooses a logged action; evaluate others")
    return evaluation


def _prefixed(progress: Progress, name: str) -> Progress:
    return lambda line: progress(f"{name}: {line}")
