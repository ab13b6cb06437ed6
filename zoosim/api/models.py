"""Train policies on a log, and load what was trained."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from zoosim.core.calls import automatic_progress, public_call
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.extras import needs_extra
from zoosim.core.parameters import shown, unknown

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from zoosim.action_spaces import ActionSpace
    from zoosim.core.types import Progress
    from zoosim.logs.log import Log
    from zoosim.off_policy.results import Evaluation
    from zoosim.off_policy.training import Training
    from zoosim.policies.base import Policy
    from zoosim.policies.model import Model

SHARE = 0.8
"""Of the rows of a log, the share that policies learn from unless another is asked for."""


@public_call
def train(
    log: "str | os.PathLike[str] | pl.DataFrame | Log",
    policies: "Sequence[str | type[Policy]]",
    out: str | os.PathLike[str] | None = None,
    *,
    parameters: "Mapping[str, Mapping[str, Any]] | None" = None,
    share: float = SHARE,
    seed: int = 0,
    skip_bad: bool = False,
    propensity_model: str | None = None,
    stream: bool | None = None,
    report: str | os.PathLike[str] | None = None,
    progress: "Progress | None" = automatic_progress,
) -> "Training":
    """Train policies on the earlier rows of a log, judge them by the later ones, and keep the best.

    Of several the best is the one for which the direct method (`dm`) predicts the most in the later rows, by a mixed
    model of the earlier ones that the later ones calibrate, unless doubly robust estimates that can be trusted show
    another to be better. Of boosts, the one with the highest self-normalised estimate that can be used.

    Args:
        log: A Parquet file of Records, such as `zoosim import` writes, the folder of a service or the address of its
            log (`redis://...`), or a `Log`; of products, or of searches, from which policies of boosts learn (of a log
            of searches without densities one alone).
        policies: Built-in names, `FILE.py:Class` or classes.
        out: The file to write the model to, ending in `.zoosim`.
        parameters: Parameters of policies, by the policy's name; the others keep their defaults.
        share: Share of the rows, the earliest by time, to train on; from 0.1 to 0.9.
        seed: Seed of the policies and of the bootstrap.
        skip_bad: Leave bad rows out instead of refusing the log.
        propensity_model: "multinomial": estimate the propensities of a log that has none, as `evaluate` does.
        stream: Read the rows of a Parquet file of products in blocks, so that they need not fit in memory, with the
            same model. Default: where the file would take more memory than is left, and the policies can learn so.
        report: The page to write, ending in `.html`.
        progress: Called with lines about how far it is. By default they are shown on a terminal and in a notebook;
            None shows nothing.

    Returns:
        The model of the best policy, and the evaluation of all. What that forecasts of the best stands in a file beside
        the model, `shop.forecasts.jsonl` beside `shop.zoosim`, where the estimate can be used.

    Raises:
        ConfigError: an option is invalid.
        DataError: the log is bad, or has too few rows.
        PolicyError: a policy cannot be made for the log, or cannot learn from it.
    """
    assert progress is not None  # `public_call` sees to that
    from zoosim.api.logs import typed_policies
    from zoosim.api.streaming import is_streamed
    from zoosim.core.checks import check_number, check_whole
    from zoosim.core.files import checked_file, write_text
    from zoosim.logs.load import action_space_of
    from zoosim.policies.model import SUFFIX

    if report is not None:
        needs_extra("train: the page (report)", "lab")
    if propensity_model is not None:
        needs_extra("train: propensity_model", "lab")
    if out is not None:
        out = checked_file("model", out, SUFFIX).absolute()  # a policy may change the working directory
    page = None if report is None else checked_file("report", report, ".html").absolute()
    check_number("share", share, 0.1, 0.9)
    check_whole("seed", seed, 0, 2**63 - 1)
    sources = untrained(policies)
    by_name = with_parameters(sources, parameters or {})
    source = log
    if is_streamed(log, stream, {"propensity_model": propensity_model}, {}, by_name):
        from zoosim.logs.stream import stream_log

        assert isinstance(log, str | os.PathLike)
        source = stream_log(log, skip_bad=skip_bad, progress=progress)
    space = action_space_of(source)
    if space.train is None:
        raise ConfigError(f"log: its actions are {space.name}, on which no policies can be trained")
    kept = space.train(
        source,
        by_name,
        share=share,
        seed=seed,
        skip_bad=skip_bad,
        propensity_model=propensity_model,
        progress=progress,
        space=space,
    )
    training = _training(kept, seed)
    text = ""
    if page is not None:
        options: dict[str, Any] = {
            "share": share if share != SHARE else None,
            "seed": seed or None,
            "skip_bad": skip_bad,
            "stream": stream is True,
        }
        options |= {"propensity_model": propensity_model, "out": out, "report": report}
        text = _page(training, kept, [*typed_policies(sources), *typed_parameters(parameters or {})], options)
    if out is not None:
        _save(training, kept, out)
    if page is not None:
        write_text(page, text)
    return training


def _save(training: "Training", kept: "Kept", out: "Path") -> None:
    """Write a model, and what the later rows forecast of it: what was forecast of the model before is removed."""
    from zoosim.core.forecasts import forecasts_path, write_forecasts
    from zoosim.core.version import VERSION
    from zoosim.policies.model import model_digest, save_model

    save_model(training.model, out)
    forecasts = []
    if training.evaluation is not None:
        from zoosim.off_policy.forecasts import forecasts_of

        made = {"by": "zoosim train", "version": VERSION, "model": model_digest(out)}
        forecasts = forecasts_of(training.evaluation, kept.best, kept.later, **made)
    write_forecasts(forecasts_path(out), forecasts)


class Kept(NamedTuple):
    """Trained `models` by the names of their policies, the `best` of them, and why; and the rows of a log they rest on.

    `failures` are notes on policies that could not be trained; `unjudged` says why none could be judged.
    """

    models: "Mapping[str, Any]"
    best: str
    reason: str
    evaluation: "Evaluation | None"
    failures: Mapping[str, tuple[str, ...]]
    predicted: Mapping[str, float]
    earlier: "Log"
    later: "Log"
    unjudged: str = ""


def judge(
    later: "Log", models: "Mapping[str, Any]", *, progress: "Progress", **options: Any
) -> "tuple[Evaluation | None, str]":
    """Evaluate trained models by later rows.

    Rows that cannot judge them raise nothing, so that a model that took long to train is there in any case.

    Args:
        later: The later rows of the log.
        models: The models, by name.
        progress: Called with lines about how far it is.
        **options: Those of `zoosim.off_policy.evaluate`.

    Returns:
        The evaluation and an empty text; where the rows cannot judge the models, None and why.
    """
    from zoosim.off_policy.evaluate import evaluate

    try:
        return evaluate(later, models, progress=progress, **options), ""
    except (ConfigError, DataError) as error:
        return None, str(error)


def train_candidates(
    log: Any,
    policies: Mapping[str, Any],
    *,
    share: float,
    seed: int,
    skip_bad: bool,
    propensity_model: str | None,
    progress: "Progress",
    space: "ActionSpace",
) -> Kept:
    """Train policies that choose one of a request's candidates, and judge them by the later rows; see `zoosim.train`.

    Args:
        log: A log, as `open_log` takes it.
        policies: Policies by name, at least one.
        share: Share of the rows, the earliest, that is learned from.
        seed: Seed of all draws.
        skip_bad: Whether invalid rows are dropped and counted, rather than refused.
        propensity_model: Estimates propensities where the log has none; None for no estimate.
        progress: Called with lines about how far it is.
        space: The action space of the log.

    Raises:
        ConfigError: there is no policy, or an option does not go with the log.
        DataError: the log cannot be read.
        PolicyError: a policy does not fit the log, or none could be trained.
    """
    from threadpoolctl import threadpool_limits

    from zoosim.api.logs import new_policy
    from zoosim.api.served import open_log
    from zoosim.api.training_time import LEAST_SECONDS, expected_seconds
    from zoosim.core.countdown import Forecast
    from zoosim.off_policy.options import check_propensities
    from zoosim.off_policy.training import earlier_and_later, row_hashes

    loaded = open_log(log, action_space=space.name, skip_bad=skip_bad)
    if not policies:
        raise ConfigError("policies: got none, expected one or more")
    if propensity_model is not None:
        check_propensities(loaded, propensity_model)
    fitted, catalogue = described_shop(loaded)
    earlier, later = earlier_and_later(loaded, share)
    made = {name: new_policy(name, policy, loaded, seed) for name, policy in policies.items()}
    _check_anonymous(made)
    _check_floors(made, list(fitted.weights))
    is_judged = loaded.has_propensities or propensity_model is not None
    seconds = expected_seconds(made, earlier, later, is_judged=is_judged or len(made) > 1)
    if seconds >= LEAST_SECONDS:
        size = f"{len(earlier):,} rows to learn from and {len(later):,} to judge by, of {loaded.n_actions:,} products"
        progress(Forecast(f"{size}: about {seconds:.0f} s"))
    hashes = row_hashes(earlier)
    with threadpool_limits(1):  # with more, the last digits depend on how many there are
        trained, failures = train_each(made, replace(earlier, user_ids=None), progress)
        models = {name: space.model(policy, fitted, catalogue, seen=hashes) for name, policy in trained.items()}
        evaluation = None
        unjudged = ""
        if is_judged:
            options = {"seed": seed, "propensity_model": propensity_model, "earlier": earlier}
            evaluation, unjudged = judge(later, models, progress=progress, **options)
        best, reason, predicted = _best(trained, earlier, later, evaluation)
    return Kept(models, best, reason, evaluation, failures, predicted, earlier, later, unjudged)


def _training(kept: Kept, seed: int) -> "Training":
    """Note in the best model what it was trained on and chosen by."""
    import numpy as np

    from zoosim.api.logs import FLATTERED
    from zoosim.off_policy.training import Training, row_hashes

    n_policies = len(kept.models)
    notes = dict(kept.failures)
    if n_policies > 1:
        notes[kept.best] = (FLATTERED.format(n_policies),)
    model = kept.models[kept.best]
    model.facts = describe_training(kept.earlier, kept.best, seed) | {"judged": _judged(kept)}
    if n_policies > 1:
        model.seen = np.concatenate([model.seen, row_hashes(kept.later)])
    evaluation = None if kept.evaluation is None else kept.evaluation.with_notes(notes)
    losses = {name: each.policy.losses for name, each in kept.models.items() if each.policy.losses}
    predicted = dict(kept.predicted)
    return Training(model, kept.best, kept.reason, evaluation, predicted, losses, kept.failures, kept.unjudged)


def _page(training: "Training", kept: Kept, policies: Sequence[str], options: Mapping[str, Any]) -> str:
    """Return the page of a training, and on it how to do it again."""
    from threadpoolctl import threadpool_limits

    from zoosim.api.logs import typed_options
    from zoosim.off_policy.column_use import column_uses
    from zoosim.report.sections import render_sections
    from zoosim.report.training import build_page

    with threadpool_limits(1):
        uses = {} if kept.later.searches is not None else column_uses(training.model.policy, kept.later)
    source = kept.later.source
    page = build_page(training, kept.earlier, kept.later, uses)
    command = ["zoosim", "train", source, *policies, *typed_options(options)]
    return render_sections("Policies trained on a log", f"Which policy is best, by {source}?", page, command)


@public_call
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


def untrained(policies: "Sequence[str | type[Policy]]") -> dict[str, Any]:
    """Return policies by their names; raises `ConfigError` for what is no name and no class."""
    from zoosim.api.logs import named_policies
    from zoosim.policies.files import is_file

    named = named_policies(policies)
    for policy in named.values():
        is_name = isinstance(policy, str) and not is_file(policy) and not policy.startswith("column:")
        if not is_name and not isinstance(policy, type):
            raise ConfigError(f"policies: got {shown(policy)}, expected built-in names, FILE.py:Class or classes")
    return named


def with_parameters(policies: "Mapping[str, Any]", parameters: "Mapping[str, Mapping[str, Any]]") -> dict[str, Any]:
    """Return policies by name, those that have `parameters` as entries; raises `ConfigError` for a wrong one."""
    from zoosim.policies.registry import make_entry

    for name, values in parameters.items():
        if name not in policies:
            raise ConfigError(unknown("parameters: unknown policy", str(name), list(policies)))
        if not isinstance(values, Mapping):
            raise ConfigError(f"parameters: {name}: got {shown(values)}, expected parameters by name")
    entries = {name: make_entry(policies[name], name, dict(values)) for name, values in parameters.items()}
    return {**policies, **entries}


def typed_parameters(parameters: "Mapping[str, Mapping[str, Any]]") -> list[str]:
    """Return parameters as the command line takes them."""
    values = [(name, key, value) for name, own in parameters.items() for key, value in own.items()]
    return [word for name, key, value in values for word in ("--set", f"policies.{name}.{key}={json.dumps(value)}")]


def described_shop(log: "Log") -> "tuple[Any, Any]":
    """Return the schema and the catalogue of an imported log; raises `DataError` for a log that has none."""
    import numpy as np

    from zoosim.policies.model import Catalogue

    if log.fitted is None or not log.names:
        raise DataError(
            f"{log.source}: does not say how its features were made, so no policy could be used elsewhere; "
            "make the log of your table by zoosim import"
        )
    if not log.other_names:
        return log.fitted, Catalogue(log.names, log.products)
    return log.fitted, Catalogue((*log.names, *log.other_names), np.concatenate([log.products, log.other_products]))


def _check_anonymous(policies: "Mapping[str, Policy]") -> None:
    """Refuse policies that know visitors by their id, which nobody tells a model that decides."""
    for name, policy in policies.items():
        if policy.needs_user_ids:
            raise PolicyError(f"policy {name}: knows visitors by their id, and a model decides by features alone")


def _check_floors(policies: "Mapping[str, Policy]", rewards: list[str]) -> None:
    """Refuse policies with floors of rewards that the log lacks: nothing would teach the model what it serves by."""
    from zoosim.core.parameters import unknown
    from zoosim.policies.constraints import Constrained

    for name, policy in policies.items():
        for quantity in policy.prices if isinstance(policy, Constrained) else ():
            if quantity not in rewards:
                raise ConfigError(unknown(f"policy {name}: floors: unknown reward", quantity, rewards))


def train_each(
    policies: "Mapping[str, Policy]", log: "Log", progress: "Progress"
) -> "tuple[dict[str, Policy], dict[str, tuple[str]]]":
    """Train policies on a log.

    Args:
        policies: The policies, by name.
        log: The log.
        progress: Called with lines about how far it is, each with the policy's name.

    Returns:
        The policies that could be trained, and for each other one a note that says why not.

    Raises:
        PolicyError: none could be trained.
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
    policies: "Mapping[str, Policy]", earlier: "Log", later: "Log", evaluation: "Evaluation | None"
) -> tuple[str, str, dict[str, float]]:
    """Return the policy to keep, why, and what the direct method predicts for each in the later rows.

    Where nothing could be evaluated the same predictions are made without it.
    """
    from zoosim.off_policy.estimators.single import DIRECT_METHOD
    from zoosim.off_policy.predicted import predict_values
    from zoosim.off_policy.verdict import DO_NOT_USE

    if len(policies) == 1:
        return next(iter(policies)), "no other was trained", {}
    results = () if evaluation is None else evaluation.results
    by_model = {row.policy: row for row in results if row.estimator == DIRECT_METHOD}
    predicted = {name: row.value for name, row in by_model.items()}
    if not predicted:  # no propensities, or estimated ones
        try:
            predicted = predict_values(policies, later, earlier)
        except (ConfigError, DataError) as error:
            return next(iter(policies)), f"it was named first, and nothing could be predicted: {error}", {}
    worse = set() if evaluation is None else _shown_to_be_worse(evaluation)
    candidates = [name for name in policies if name not in worse]
    shown_worse = f"`dr` estimates that can be trusted show {', '.join(sorted(worse))} to earn less"
    if len(candidates) == 1:
        return candidates[0], shown_worse, predicted
    ordered = sorted(candidates, key=lambda name: -predicted[name])
    best = ordered[0]
    values = ", ".join(f"{name} {predicted[name]:.4g}" for name in ordered)
    reasons = [f"dm, a mixed model calibrated on later rows, predicts the most reward per visit for it ({values})"]
    if best in by_model and by_model[best].verdict == DO_NOT_USE:
        reasons.append(f"a hint only: dm is `{DO_NOT_USE}` for it")
    if worse:
        reasons.append(shown_worse)
    if evaluation is None:
        reasons.append("that is right as far as the log's features say why products were shown to whom")
    return best, "; ".join(reasons), predicted


def _shown_to_be_worse(evaluation: "Evaluation") -> set[str]:
    """Return the policies that another one is better than by doubly robust estimates that can both be trusted.

    Their differences are corrected for all pairs. Weak estimates count for nothing here: they rest on few rows, and the
    best of several such is mostly luck.
    """
    from zoosim.off_policy.compare import LOGGED
    from zoosim.off_policy.verdict import TRUST

    worse: set[str] = set()
    for pair in evaluation.differences:
        if pair.estimator != "dr" or pair.verdict != TRUST or pair.other == LOGGED:
            continue
        if pair.low is not None and pair.low > 0.0:
            worse.add(pair.other)
        elif pair.high is not None and pair.high < 0.0:
            worse.add(pair.policy)
    return worse


def describe_training(log: "Log", policy: str, seed: int) -> dict[str, Any]:
    """Return what a model says that it was trained on.

    Args:
        log: The rows that it was trained on.
        policy: Name of the policy.
        seed: Seed of its training.
    """
    return {"log": log.source, "rows": len(log), "seed": seed, "policy": policy, **_period(log)}


def _judged(kept: Kept) -> dict[str, Any]:
    """Say what the later rows say of the best model, and of how many it was chosen by them."""
    results = [] if kept.evaluation is None else kept.evaluation.summary["results"]
    return {
        "rows": len(kept.later),
        "policies": len(kept.models),
        "results": [row for row in results if row["policy"] == kept.best],
        "predicted": dict(kept.predicted),
        **_period(kept.later),
    }


def _period(log: "Log") -> dict[str, str]:
    """Return when the first and the last row came, where the log says."""
    if log.times is None:
        return {}
    from zoosim.core.blocks import extremes

    first, last = extremes(log.times)
    return {"first": _written(first), "last": _written(last)}


def _written(microseconds: float) -> str:
    return datetime.fromtimestamp(int(microseconds) / MICROSECONDS, UTC).isoformat()
