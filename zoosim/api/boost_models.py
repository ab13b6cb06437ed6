"""Train policies of boosts on a log of searches."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zoosim.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from zoosim.action_spaces import ActionSpace
    from zoosim.api.models import Kept
    from zoosim.core.types import Progress
    from zoosim.logs.log import Log
    from zoosim.off_policy.results import Evaluation

UNLOGGED_SPREAD = 0.1
"""Width of exploration of a model whose log holds no boosts, in units of a_max."""

LEAST_SPREAD = 0.05


def train_boosts(
    log: Any,
    policies: Mapping[str, Any],
    *,
    share: float,
    seed: int,
    skip_bad: bool,
    propensity_model: str | None,
    progress: "Progress",
    space: "ActionSpace",
) -> "Kept":
    """Train policies of boosts on the earlier searches of a log, and judge them by the later; see `zoosim.train`.

    The model explores as widely as the log's boosts differ, so that the log can judge it.

    Args:
        log: A log of searches, as `load_log` takes it.
        policies: Policies by name; one alone where the log has no densities of boosts.
        share: Share of the searches, the earliest, that is learned from.
        seed: Seed of all draws.
        skip_bad: Whether invalid rows are dropped and counted, rather than refused.
        propensity_model: Refused: densities of boosts are not estimated.
        progress: Called with lines about how far it is.
        space: The action space of the log.

    Raises:
        ConfigError: an option or the number of policies does not go with the log.
        DataError: the log cannot be read, or does not say what was shown.
        PolicyError: no policy could be trained.
    """
    from threadpoolctl import threadpool_limits

    from zoosim.api.logs import new_policy
    from zoosim.api.models import Kept, judge, train_each
    from zoosim.logs.load import load_log
    from zoosim.off_policy.options import check_propensities
    from zoosim.off_policy.training import earlier_and_later, row_hashes

    loaded = load_log(log, action_space=space.name, skip_bad=skip_bad)
    if loaded.searches is None:
        raise DataError(f"{loaded.source}: does not say what was shown; make a log of searches (zoosim import, or log)")
    if propensity_model is not None:
        check_propensities(loaded, propensity_model)
    if not policies or (len(policies) > 1 and not loaded.has_propensities):
        reason = ", since the log has no densities of boosts to tell which is better by" if policies else ""
        raise ConfigError(f"policies: got {len(policies)}, expected one{reason}")
    earlier, later = earlier_and_later(loaded, share)
    made = {name: new_policy(name, policy, loaded, seed) for name, policy in policies.items()}
    # By these the model is recognised as trained on these rows where a log has no times.
    hashes = row_hashes(earlier)
    spread = spread_of(loaded)
    with threadpool_limits(1):
        trained, failures = train_each(made, earlier, progress)
        models = {
            name: space.model.of(policy, loaded.searches.requests, spread, facts={"seed": seed}, seen=hashes)
            for name, policy in trained.items()
        }
        evaluation = None
        unjudged = ""
        if loaded.has_propensities:
            evaluation, unjudged = judge(later, models, progress=progress, seed=seed)
    best = next(iter(models))
    reason = "it was named first" if len(models) > 1 else "no other was trained"
    if evaluation is not None and len(models) > 1:
        best, reason = _best(evaluation)
    return Kept(models, best, reason, evaluation, failures, {}, earlier, later, unjudged)


def _best(evaluation: "Evaluation") -> tuple[str, str]:
    """Return the policy with the highest estimated value, of those whose estimate can be used, if any; and why.

    By the self-normalised estimator, which a few large weights mislead less.
    """
    from zoosim.off_policy.verdict import DO_NOT_USE

    results = [row for row in evaluation.results if row.estimator.endswith("snips")]
    # NaN compares with nothing, so that it needs a place of its own in the order.
    best = min(results, key=lambda row: (math.isnan(row.value), row.verdict == DO_NOT_USE, -row.value))
    of_which = "though none can be used" if best.verdict == DO_NOT_USE else "of those that can be used"
    return best.policy, f"its estimate by {best.estimator} is the highest, {of_which}"


def spread_of(log: "Log") -> float:
    """Return how widely a log's boosts differ, in units of a_max: what exploration it can judge."""
    import numpy as np

    spread = float(np.asarray(log.actions).std(axis=0).mean()) / log.a_max
    return max(spread, LEAST_SPREAD) if spread > 0.0 else UNLOGGED_SPREAD
