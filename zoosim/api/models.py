"""Train policies on a log, and load what was trained."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.parameters import shown

if TYPE_CHECKING:
    import polars as pl

    from zoosim.core.types import IntArray, Progress
    from zoosim.logs.log import Log
    from zoosim.off_policy.results import Evaluation
    from zoosim.policies.base import Policy
    from zoosim.policies.model import Model

MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Training:
    """What `train` found: the best `model`, its `policy`'s name, and what the later rows say of all policies.

    `evaluation` is None for a log without propensities, on which nothing can be judged unless they are estimated.
    `predicted` is the reward per visit that a mixed model of the later rows predicts for each policy, by which the best
    was chosen; it is empty where there was no such choice. `notes` say why policies were left out.
    """

    model: "Model"
    policy: str
    evaluation: "Evaluation | None"
    predicted: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def train(
    log: "str | os.PathLike[str] | pl.DataFrame | Log",
    policies: "Sequence[str | type[Policy]]",
    out: str | os.PathLike[str] | None = None,
    *,
    share: float = 0.8,
    seed: int = 0,
    skip_bad: bool = False,
    propensity_model: str | None = None,
    progress: "Progress" = lambda line: None,
) -> Training:
    """Train policies on the earlier rows of a log, judge them by the later ones, and keep the best.

    Of several the best is the one for which a mixed model of the later rows predicts the most, unless doubly robust
    estimates that can be trusted show another to be better; where products and features are too many for that model,
    the one with the highest doubly robust estimate. Of boosts, the one with the highest self-normalised estimate that
    can be used.

    Args:
        log: A Parquet file of Records, such as `zoosim import` writes, the folder of a service, or a `Log`; of
            products, or of searches, from which policies of boosts learn (of a log of searches without densities one
            alone).
        policies: Built-in names, `FILE.py:Class` or classes.
        out: The file to write the model to, ending in `.zoosim`.
        share: Share of the rows, the earliest by time, to train on; from 0.1 to 0.9.
        seed: Seed of the policies and of the bootstrap.
        skip_bad: Leave bad rows out instead of refusing the log.
        propensity_model: "multinomial": estimate the propensities of a log that has none, as `evaluate` does.
        progress: Called with lines about how far it is.

    Returns:
        The model of the best policy, and the evaluation of all.

    Raises:
        ConfigError: an option is invalid.
        DataError: the log is bad, or has too few rows.
        PolicyError: a policy cannot be made for the log, or cannot learn from it.
    """
    from threadpoolctl import threadpool_limits

    from zoosim.api.boost_models import chooses_boosts, train_boosts
    from zoosim.api.logs import new_policy
    from zoosim.api.served import open_log
    from zoosim.core.action_space import ActionSpace
    from zoosim.core.checks import check_number, check_whole
    from zoosim.off_policy.evaluate import evaluate
    from zoosim.off_policy.options import check_propensities
    from zoosim.off_policy.training import earlier_and_later, row_hashes
    from zoosim.policies.model import Model, checked_path

    if out is not None:
        checked_path(out)
    check_number("share", share, 0.1, 0.9)
    check_whole("seed", seed, 0, 2**63 - 1)
    by_name = _untrained(policies)
    if chooses_boosts(log):
        return train_boosts(
            log,
            by_name,
            out,
            share=share,
            seed=seed,
            skip_bad=skip_bad,
            propensity_model=propensity_model,
            progress=progress,
        )
    loaded = open_log(log, action_space=ActionSpace.PRODUCTS, skip_bad=skip_bad)
    if not by_name:
        raise ConfigError("policies: got none, expected one or more")
    if propensity_model is not None:
        check_propensities(loaded, propensity_model)
    fitted, catalogue = _described(loaded)
    earlier, later = earlier_and_later(loaded, share)
    made = {name: new_policy(name, policy, loaded, seed) for name, policy in by_name.items()}
    _check_anonymous(made)
    hashes = row_hashes(earlier)
    with threadpool_limits(1):  # with more, the last digits depend on how many there are
        trained, failures = _trained(made, replace(earlier, user_ids=None), progress)
        models = {name: Model(policy, fitted, catalogue, seen=hashes) for name, policy in trained.items()}
        evaluation = None
        if loaded.has_propensities or propensity_model is not None:
            evaluation = evaluate(later, models, seed=seed, propensity_model=propensity_model, progress=progress)
        best, predicted = _best(trained, later, evaluation)
    kept = Kept(models, best, evaluation, failures, predicted)
    return finish(kept, loaded, earlier, later, seed, out)


class Kept(NamedTuple):
    """Trained `models` by the names of their policies, the `best` of them, and why: what is known of all."""

    models: "Mapping[str, Any]"
    best: str
    evaluation: "Evaluation | None"
    failures: Mapping[str, tuple[str, ...]]
    predicted: Mapping[str, float]


def finish(
    kept: Kept, log: "Log", earlier: "Log", later: "Log", seed: int, out: str | os.PathLike[str] | None
) -> Training:
    """Note in the best model what it was trained on and chosen by, and save it."""
    import numpy as np

    from zoosim.api.logs import FLATTERED
    from zoosim.off_policy.training import row_hashes
    from zoosim.policies.model import save_model

    n_policies = len(kept.models)
    notes = dict(kept.failures)
    if n_policies > 1:
        notes[kept.best] = (FLATTERED.format(n_policies),)
    model = kept.models[kept.best]
    model.facts = _facts(kept.best, log, earlier, seed) | {"judged": _judged(kept, later)}
    if n_policies > 1:
        model.seen = np.concatenate([model.seen, row_hashes(later)])
    if out is not None:
        save_model(model, out)
    evaluation = None if kept.evaluation is None else kept.evaluation.with_notes(notes)
    return Training(model, kept.best, evaluation, dict(kept.predicted), kept.failures)


def load(path: str | os.PathLike[str], policy: str | None = None) -> "Model":
    """Return the model that `train` wrote to a file; nothing in the file is executed.

    Args:
        path: The file, ending in `.zoosim`.
        policy: `FILE.py:Class` of a policy of your own; built-in ones need none.

    Raises:
        DataError: the file is no model, or broken.
    """
    from zoosim.policies.model import load_model

    return load_model(path, policy)


def _untrained(policies: "Sequence[str | type[Policy]]") -> dict[str, Any]:
    """Return policies by their names; raises `ConfigError` for what is no name and no class."""
    from zoosim.api.logs import is_file, named_policies

    named = named_policies(policies)
    for policy in named.values():
        is_name = isinstance(policy, str) and not is_file(policy) and not policy.startswith("column:")
        if not is_name and not isinstance(policy, type):
            raise ConfigError(f"policies: got {shown(policy)}, expected built-in names, FILE.py:Class or classes")
    return named


def _described(log: "Log") -> "tuple[Any, Any]":
    """Return the schema and the catalogue of an imported log; raises `DataError` for a log that has none."""
    from zoosim.policies.model import Catalogue

    if log.fitted is None or not log.names:
        raise DataError(
            f"{log.source}: does not say how its features were made, so no policy could be used elsewhere; "
            "make the log of your table by zoosim import"
        )
    return log.fitted, Catalogue(log.names, log.products)


def _check_anonymous(policies: "Mapping[str, Policy]") -> None:
    """Refuse policies that know visitors by their id, which nobody tells a model that decides."""
    for name, policy in policies.items():
        if policy.needs_user_ids:
            raise PolicyError(f"policy {name}: knows visitors by their id, and a model decides by features alone")


def _trained(
    policies: "Mapping[str, Policy]", log: "Log", progress: "Progress"
) -> "tuple[dict[str, Policy], dict[str, tuple[str]]]":
    """Let policies learn from a log; return those that can, and for each other one a note that says why not.

    Raises `PolicyError` where none can.
    """
    from zoosim.off_policy.training import TrainingJob

    trained: dict[str, Policy] = {}
    failures: dict[str, tuple[str]] = {}
    for name, policy in policies.items():
        try:
            trained[name] = TrainingJob(policy, log).run(partial(_named_progress, progress, name))
        except PolicyError as error:
            failures[name] = (f"left out, {error}",)
    if not trained:
        reasons = "; ".join(f"policy {name}: {note.removeprefix('left out, ')}" for name, (note,) in failures.items())
        raise PolicyError(reasons)
    return trained, failures


def _named_progress(progress: "Progress", name: str, line: str) -> None:
    progress(f"{name}: {line}")


def _best(
    policies: "Mapping[str, Policy]", later: "Log", evaluation: "Evaluation | None"
) -> tuple[str, dict[str, float]]:
    """Return the policy to keep, and the rewards that a model of the later rows predicts for those to choose from."""
    from zoosim.off_policy.predicted import predict_values

    worse = set() if evaluation is None else _shown_to_be_worse(evaluation)
    candidates = {name: policy for name, policy in policies.items() if name not in worse}
    if len(candidates) == 1:
        return next(iter(candidates)), {}
    try:
        predicted = predict_values(candidates, replace(later, user_ids=None))
    except ConfigError as error:
        return _highest_estimate(candidates, evaluation, error), {}
    return max(predicted, key=lambda name: predicted[name]), predicted


def _highest_estimate(names: "Iterable[str]", evaluation: "Evaluation | None", reason: ConfigError) -> str:
    """Return the policy with the highest doubly robust estimate that can be used; raises `ConfigError` for none."""
    from zoosim.off_policy.verdict import DO_NOT_USE

    results = () if evaluation is None else evaluation.results
    usable = [
        row for row in results if row.estimator == "dr" and row.policy in set(names) and row.verdict != DO_NOT_USE
    ]
    if not usable:
        raise ConfigError(f"nothing tells which of several policies is best ({reason}); train one")
    return max(usable, key=lambda row: row.value).policy


def _shown_to_be_worse(evaluation: "Evaluation") -> set[str]:
    """Return the policies that another one is better than by doubly robust estimates that can both be trusted.

    Weak estimates count for nothing here: they rest on few rows, and the best of several such is mostly luck.
    """
    from zoosim.off_policy.compare import LOGGED
    from zoosim.off_policy.verdict import TRUST

    may_be_best = {row.policy for row in evaluation.ranking if row.estimator == "dr" and row.may_be_best}
    worse: set[str] = set()
    for pair in evaluation.differences:
        if pair.estimator != "dr" or pair.verdict != TRUST or pair.other == LOGGED:
            continue
        if pair.low is not None and pair.low > 0.0:
            worse.add(pair.other)
        elif pair.high is not None and pair.high < 0.0:
            worse.add(pair.policy)
    return worse - may_be_best  # what the ranking, which is corrected for all pairs, does not exclude


def _facts(name: str, log: "Log", earlier: "Log", seed: int) -> dict[str, Any]:
    """Say what a model was trained on."""
    facts: dict[str, Any] = {"log": log.source, "rows": len(earlier), "seed": seed, "policy": name}
    if earlier.times is not None:
        facts["first"] = _written(earlier.times.min())
        facts["last"] = _written(earlier.times.max())
    return facts


def _judged(kept: Kept, later: "Log") -> dict[str, Any]:
    """Say what the later rows say of the best model, and of how many it was chosen by them."""
    results = [] if kept.evaluation is None else kept.evaluation.summary["results"]
    judged = {
        "rows": len(later),
        "policies": len(kept.models),
        "results": [row for row in results if row["policy"] == kept.best],
        "predicted": dict(kept.predicted),
    }
    if later.times is not None:
        judged["last"] = _written(later.times.max())
    return judged


def _written(microseconds: "IntArray") -> str:
    return datetime.fromtimestamp(int(microseconds) / MICROSECONDS, UTC).isoformat()
