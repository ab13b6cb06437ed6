"""The Python calls about logs: judge policies by them, import them from tables, fit worlds to them."""

import inspect
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.files import write_text
from zoosim.core.parameters import shown

if TYPE_CHECKING:
    import polars as pl

    from zoosim.core.types import Progress
    from zoosim.fitting import Fit, FittedWorld
    from zoosim.logs.boost_log import BoostLog
    from zoosim.logs.log import Log
    from zoosim.logs.ranking_log import RankingLog
    from zoosim.off_policy.evaluate import Evaluation
    from zoosim.policies.base import Policy

FORMER = "learned:"
"""How policies were once named that learn from a log."""


def evaluate(
    log: "str | os.PathLike[str] | pl.DataFrame | Log | RankingLog | BoostLog",
    policies: "Mapping[str, Any] | Sequence[str | type[Policy] | Policy]",
    *,
    data: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    rankings: bool = False,
    a_max: float | None = None,
    train: bool = False,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    progress: "Progress" = lambda line: None,
    **options: Any,
) -> "Evaluation":
    """Judge policies by a log that another policy wrote: values, intervals, verdicts, and differences.

    `log` is a Parquet file of Records, a data frame with their columns, a `Log`, or `open-bandit:POLICY/CAMPAIGN` in
    the folder `data`. A policy is a built-in name, `FILE.py:Class`, a class or a `Policy` (frozen while it is judged),
    a file that `save_policy` wrote, `column:NAME` for target probabilities in the log, or, in a mapping by name, an
    array or function of probabilities.

    With `train`, policies given by name or class learn from the first 60% of the rows in order of time, and all are
    judged by the rest; without, those that learn are refused unless they have learned already (objects, files).

    With `rankings`, rows that share their `decision_id` are one visit's ranking, and policies draw rankings without
    replacement. Where actions are lists of numbers they are boosts in [-`a_max`, `a_max`], by default what its column
    `a_max` says or the largest boost, and an array or function gives a policy's boosts.

    The folder `out`, where given, gets summary.json and report.html. `progress` is called with lines about how far it
    is. `options` are `estimators`, `interval`, `level`, `samples`, `reward_range` and `bandwidth` of
    `zoosim.off_policy.evaluate`.

    Raises `ConfigError`, `DataError` or `PolicyError`; on Ctrl-C `EvaluationInterrupted`, a `KeyboardInterrupt`, after
    the policies that are finished were written to `out`.
    """
    from threadpoolctl import threadpool_limits

    from zoosim.logs.opening import open_log
    from zoosim.off_policy.evaluate import EvaluationInterrupted
    from zoosim.off_policy.evaluate import evaluate as judge

    named = dict(policies) if isinstance(policies, Mapping) else _by_name(policies)
    wrong = [name for name in named if not isinstance(name, str) or not name]
    if wrong:
        raise ConfigError(f"policies: got the name {shown(wrong[0])}, expected a word")
    columns = [given.removeprefix("column:") for given in named.values() if _is_column(given)]
    read = open_log(log, columns=columns, data=data, skip_bad=skip_bad, rankings=rankings, a_max=a_max)
    judged_by, made = _prepared(named, read, train, seed)
    folder = None if out is None else writable_folder(out, "results")
    usual = {name: known.default for name, known in inspect.signature(judge).parameters.items()}
    told = {name: value for name, value in options.items() if repr(value) != repr(usual.get(name))}
    told |= {"train": train, "a_max": a_max, "data": data, "skip_bad": skip_bad}
    try:
        with threadpool_limits(1):  # with more, the last digits of linear algebra depend on how many there are
            found = judge(judged_by, made, seed=seed, overlap=folder is not None, progress=progress, **options)
    except EvaluationInterrupted as interrupted:
        if folder is not None and interrupted.evaluation is not None:
            finished = {name: given for name, given in named.items() if name not in interrupted.missing}
            _write_evaluation(folder, interrupted.evaluation, finished, told)
        raise
    if folder is not None:
        _write_evaluation(folder, found, named, told)
    return found


def _prepared(
    named: Mapping[str, Any], log: "Log | RankingLog | BoostLog", train: bool, seed: int
) -> "tuple[Log | RankingLog | BoostLog, dict[str, Any]]":
    """Return the log to judge by, and what is judged: with `train`, policies that have learned nothing learn first."""
    from zoosim.logs.log import Log
    from zoosim.off_policy.training import Training, earlier_and_later

    made = {name: _made(name, given, log, seed) for name, given in named.items()}
    untrained = [name for name in named if _is_untrained(named[name], made[name])]
    if not train and untrained:
        saved = "give a FILE.npz of zoosim.save_policy"
        advice = f"add --train (train=True), or {saved}" if isinstance(log, Log) else saved
        raise PolicyError(f"policy {untrained[0]}: has learned nothing yet, so there is nothing to judge; {advice}")
    if not train:
        return log, made
    if not isinstance(log, Log):
        raise ConfigError("train: policies learn from logs of single actions alone; leave it out")
    earlier, later = earlier_and_later(log)
    return later, {name: Training(made[name], earlier) if name in untrained else made[name] for name in named}


def _is_untrained(given: Any, made: Any) -> bool:
    """Tell whether a policy learns, and was just made from a name or a class."""
    from zoosim.policies.base import Policy
    from zoosim.policies.persistence import SUFFIX

    by_name = isinstance(given, type) or (isinstance(given, str) and not given.endswith(SUFFIX))
    return by_name and isinstance(made, Policy) and made.learns


def _write_evaluation(
    folder: Path, found: "Evaluation", policies: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    from zoosim.report import render_story
    from zoosim.report.evaluation import tell

    write_text(folder / "summary.json", json.dumps(found.summary, indent=1, allow_nan=False) + "\n")
    given = [spec if isinstance(spec, str) else name for name, spec in policies.items()]
    told = {**options, "rankings": found.unit == "visits"}
    asked = "".join(f" --policy {spec}" for spec in given) + "".join(_as_typed(*option) for option in told.items())
    command = f"zoosim evaluate {found.source}{asked} --out {folder}"
    question = f"What would these policies have earned, by {found.source}?"
    write_text(folder / "report.html", render_story("Policies judged by a log", question, tell(found), command))


def _as_typed(name: str, value: Any) -> str:
    """Return an option as the command line takes it; nothing where it was left out."""
    if value is None or value is False:
        return ""
    flag = f" --{name.replace('_', '-')}"
    if value is True:
        return flag
    parts = [str(part) for part in value] if not isinstance(value, str) and hasattr(value, "__len__") else [str(value)]
    return f"{flag} {(':' if name == 'reward_range' else ',').join(parts)}"


def import_log(
    table: Any,
    mapping: "str | os.PathLike[str] | Mapping[str, Any]",
    out: str | os.PathLike[str],
    *,
    skip_bad: bool = False,
) -> dict[str, int]:
    """Write a table (CSV, Parquet or a data frame) as Records, by a mapping; return what was skipped, by reason.

    Raises `ConfigError` for a wrong mapping, `DataError` naming row and column for a bad table.
    """
    from zoosim.logs.importing.importing import import_log as write

    return write(table, mapping, out, skip_bad=skip_bad)


def fit_world(
    log: "str | os.PathLike[str] | pl.DataFrame | Log",
    out: str | os.PathLike[str] | None = None,
    *,
    segments: int | None = None,
    categories: int | None = None,
    data: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
) -> "tuple[FittedWorld, Fit]":
    """Estimate a recommendation world from a log of clicks, and how well it fits the log's last quarter.

    `log` and `data` are as in `evaluate`; `segments` and `categories` say how many there may be at most. The folder
    `out` gets world.yaml, which `zoosim run --config` takes, summary.json and report.html; nothing is written when it
    is left out. Raises `ConfigError` or `DataError`.
    """
    from threadpoolctl import threadpool_limits

    from zoosim.fitting import check_fit
    from zoosim.fitting import fit_world as fit
    from zoosim.logs.opening import open_actions

    read = open_actions(log, data=data, skip_bad=skip_bad)
    folder = None if out is None else writable_folder(out, "cells")
    with threadpool_limits(1):
        fit_of = check_fit(read, segments=segments, categories=categories)
        world = fit(read, segments=segments, categories=categories)
    if folder is not None:
        _write_world(folder, world, fit_of)
    return world, fit_of


def _write_world(folder: Path, world: "FittedWorld", fit: "Fit") -> None:
    from zoosim.report import render_story
    from zoosim.report.fit import build_page

    told = {**world.summary, "fit": fit.summary}
    write_text(folder / "summary.json", json.dumps(told, indent=1, allow_nan=False) + "\n")
    write_text(folder / "world.yaml", world.to_yaml())
    question = f"What shop wrote {world.source}?"
    command = f"zoosim run gauntlet --config {folder / 'world.yaml'}"
    write_text(folder / "report.html", render_story("A world from a log", question, build_page(world, fit), command))


def writable_folder(out: str | os.PathLike[str], holds: str = "study") -> Path:
    """Return a folder for results, made where it is not there; raises `ConfigError` when it cannot be written.

    So it does where the folder has results of another kind: a summary.json in which nothing is called what it `holds`.
    """
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        told = folder / "summary.json"
        other = told.exists() and f'"{holds}":' not in told.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"--out: {folder} cannot be written ({error.strerror}); name another folder") from None
    if (folder / "config.yaml").exists():
        raise ConfigError(f"--out: {folder} holds a run of policies; name another folder")
    if other:
        raise ConfigError(f"--out: {folder} holds results of another kind, which are kept; name another folder")
    return folder


def _is_column(given: Any) -> bool:
    return isinstance(given, str) and given.startswith("column:")


def _by_name(policies: "Sequence[str | type[Policy] | Policy]") -> dict[str, Any]:
    """Return policies by their names, each once."""
    if isinstance(policies, str) or not isinstance(policies, Sequence):
        raise ConfigError(f"policies: got {shown(policies)}, expected a list, or a mapping by name")
    from zoosim.policies.base import policy_name
    from zoosim.policies.persistence import SUFFIX

    named: dict[str, Any] = {}
    for given in policies:
        if isinstance(given, str):
            short = _is_column(given) or ".py" in given
            name = given.rpartition(":")[2] if short else given.replace(":", "-")
            name = Path(given).stem if given.endswith(SUFFIX) else name
        else:
            name = policy_name(given if isinstance(given, type) else type(given))
        if name in named:
            raise ConfigError(f"policies: got {name} twice, expected each once; name them apart in a mapping")
        named[name] = given
    return named


def _made(name: str, given: Any, log: "Log | RankingLog | BoostLog", seed: int) -> Any:
    """Make the policy that a name or a class stands for; what else may be judged stays as it is."""
    from zoosim.core.rng import stream
    from zoosim.logs.boost_log import BoostLog
    from zoosim.logs.log import Log
    from zoosim.off_policy.targets.products import blamed, check_kind, named, spec_of
    from zoosim.policies.persistence import SUFFIX, load_policy
    from zoosim.policies.registry import find_class

    if _is_column(given) or not isinstance(given, str | type):
        return given
    if isinstance(given, str) and given.startswith(FORMER):
        kind = given.removeprefix(FORMER)
        raise ConfigError(f"policy {given}: is now the policy {kind}; write --policy {kind} --train (train=True)")
    saved = load_policy(given) if isinstance(given, str) and given.endswith(SUFFIX) else None
    if isinstance(log, BoostLog):
        return saved if saved is not None else _made_of_boosts(name, given, log, seed)
    cls, first = type(saved) if saved is not None else find_class(given), log if isinstance(log, Log) else log.at(0)
    try:
        check_kind(cls, first)
        if saved is not None:
            return saved
        if not log.features.shape[1] + log.products.shape[1]:
            wanted = "which policies decide by; name features in the mapping, or judge column:NAME or an array"
            raise DataError(f"the log holds no features of visitors or products, {wanted}")
        with blamed("cannot be made for this log: "):
            policy = cls(spec_of(first), stream(seed, "policy", name))
    except (PolicyError, DataError) as error:
        raise named(name, error) from error
    return policy


def _made_of_boosts(name: str, given: Any, log: "BoostLog", seed: int) -> Any:
    from zoosim.core.rng import stream
    from zoosim.off_policy.targets.boosts import boost_spec_of
    from zoosim.off_policy.targets.products import blamed, named
    from zoosim.policies.boosts.base import BoostPolicy
    from zoosim.policies.registry import find_class

    cls = find_class(given)
    if not issubclass(cls, BoostPolicy):
        raise PolicyError(f"policy {name}: chooses among actions, and the log holds boosts; name a policy of boosts")
    try:
        with blamed("cannot be made for this log: "):
            return cls(boost_spec_of(log), stream(seed, "policy", name))
    except PolicyError as error:
        raise named(name, error) from error
