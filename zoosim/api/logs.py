"""The Python calls about logs: judge policies by them, and describe the tables that become logs."""

import inspect
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.calls import automatic_progress, check_names, public_call
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.extras import needs_extra
from zoosim.core.files import make_folder, read_content, write_text
from zoosim.core.parameters import shown
from zoosim.logs.schema import CANDIDATE_PROPENSITIES
from zoosim.policies.files import MODEL, file_and_class, is_file

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import polars as pl

    from zoosim.core.types import Progress
    from zoosim.logs.log import Log
    from zoosim.off_policy.results import Evaluation
    from zoosim.policies.base import Policy
    from zoosim.policies.model import Model

FORMER = "learned:"
"""Former prefix of policies that learn from a log."""

DIFFERENT_ROWS = 0.9
"""Of a model's rows, the share that differs from each other, above which a few of them are known again."""

FLATTERED = "the best of {} policies by these very rows, so its value is likely too high and its interval too narrow"
"""Reason against a policy that is judged by the rows that chose it."""


@public_call
def evaluate(
    log: "str | os.PathLike[str] | pl.DataFrame | Log",
    policies: "Mapping[str, Any] | Sequence[str | os.PathLike[str] | type[Policy] | Policy | Model]",
    *,
    data: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    rankings: bool = False,
    a_max: float | None = None,
    train: bool = False,
    stream: bool | None = None,
    executor: "Executor | str | None" = None,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    progress: "Progress | None" = automatic_progress,
    **options: Any,
) -> "Evaluation":
    """Estimate what each policy would have earned per visit, from a log that another policy wrote.

    Args:
        log: A Parquet file of Records, the folder of a service or the address of its log (`redis://...`), a data frame
            with the columns of Records, a `zoosim.off_policy.Log`, or `open-bandit:POLICY/CAMPAIGN` in the folder
            `data`. Where actions are lists of numbers they are boosts.
        policies: Built-in names, `FILE.py:Class`, classes, `Policy` objects (a frozen copy is asked) or models, files
            of `train` or `save_policy` (of a policy of your own, `FILE@FILE.py:Class`), `column:NAME` for target
            probabilities in the log; or a mapping by name, which may also hold arrays or functions of probabilities,
            on a log of boosts of boosts.
        data: The folder of the Open Bandit Dataset.
        skip_bad: Leave bad rows out instead of refusing the log.
        rankings: Rows that share their `decision_id` are one visit's ranking; policies draw without replacement.
        a_max: The largest size of a boost. Default: the log's column `a_max`, or its largest boost.
        train: Let policies that are given by name or class learn from the first 60% of the rows in order of time, and
            evaluate all on the rest. Without it, policies that have not learned are refused.
        stream: Read the rows of a Parquet file of products in blocks, so that they need not fit in memory, with the
            same results. Default: where the file would take more memory than is left.
        executor: Asks policies about blocks of rows of a log of single products, perhaps on other machines, with the
            same results to the bit: any `concurrent.futures.Executor`, such as Dask's `client.get_executor()`, or the
            address of a cluster, `dask:ADDRESS` or `ray:ADDRESS`. Default: this process.
        seed: Seed of the policies and of the bootstrap.
        out: A folder that gets summary.json and report.html.
        progress: Called with lines about how far it is. By default they are shown on a terminal and in a notebook;
            None shows nothing.
        **options: `estimators`, `interval`, `level`, `samples`, `reward_range`, `bandwidth`, `gamma`,
            `propensity_model` and `compare`, as in `zoosim.off_policy.evaluate`.

    Returns:
        Values, intervals and verdicts, one per policy and estimator, and paired differences. What they forecast of a
        model's file is added to the file beside it, `shop.forecasts.jsonl` beside `shop.zoosim`.

    Raises:
        ConfigError: an option is invalid, or does not go with the log.
        DataError: the log is bad; row and column are named.
        PolicyError: a policy cannot be made, does not fit the log, or fails.
        EvaluationInterrupted: on Ctrl-C, a `KeyboardInterrupt`, after the policies that are finished were written.
    """
    assert progress is not None  # `public_call` sees to that
    from threadpoolctl import threadpool_limits

    from zoosim.action_spaces import find_action_space
    from zoosim.api.served import open_log
    from zoosim.api.spread import open_spread
    from zoosim.api.streaming import is_streamed
    from zoosim.core.action_space import RANKINGS
    from zoosim.off_policy.evaluate import EvaluationInterrupted
    from zoosim.off_policy.evaluate import evaluate as evaluate_on

    passed_on = ("log", "policies", "seed", "overlap", "earlier", "spread", "progress")
    further = [name for name in inspect.signature(evaluate_on).parameters if name not in passed_on]
    check_names("evaluate", options, further)
    if out is not None:
        needs_extra("evaluate: the page (out)", "lab")
    if options.get("propensity_model") is not None:
        needs_extra("evaluate: propensity_model", "lab")
    given = dict(policies) if isinstance(policies, Mapping) else named_policies(policies)
    given = {name: os.fspath(policy) if isinstance(policy, os.PathLike) else policy for name, policy in given.items()}
    _check_names(given)
    columns = [policy.removeprefix("column:") for policy in given.values() if _is_column(policy)]
    columns = [name for name in columns if name != CANDIDATE_PROPENSITIES]  # which is read wherever it is
    action_space = RANKINGS if rankings else None
    in_memory = {"rankings": rankings, "a_max": a_max, "data": data}
    in_memory["propensity_model"] = options.get("propensity_model")
    logged_distributions = f"column:{CANDIDATE_PROPENSITIES}"
    in_memory[logged_distributions] = logged_distributions in [
        policy for policy in given.values() if _is_column(policy)
    ]
    learners = {name: policy for name, policy in given.items() if train and _is_by_name(policy)}
    spread = None if executor is None else open_spread(executor)
    is_by_blocks = is_streamed(log, stream, in_memory, given, learners)
    if is_by_blocks:
        from zoosim.logs.stream import stream_log

        assert isinstance(log, str | os.PathLike)
        loaded = stream_log(log, columns=columns, skip_bad=skip_bad, progress=progress)
    else:
        loaded = open_log(log, action_space=action_space, columns=columns, data=data, skip_bad=skip_bad, a_max=a_max)
    opened = {name: _opened(policy) for name, policy in given.items()}
    kept_log, earlier, made, notes = _prepared(opened, loaded, train, seed)
    # The whole path, as a policy may change the working directory.
    folder = None if out is None else writable_folder(Path(out).absolute(), "results")

    defaults = {name: known.default for name, known in inspect.signature(evaluate_on).parameters.items()}
    changed = {name: value for name, value in options.items() if repr(value) != repr(defaults.get(name))}
    are_rankings = find_action_space(loaded.action_space).shows_several
    typed = {
        **changed,
        "train": train,
        "a_max": a_max,
        "data": data,
        "skip_bad": skip_bad,
        "rankings": are_rankings,
        "stream": stream is True,
        "out": out,
    }
    try:
        with threadpool_limits(1):  # with more, the last digits of linear algebra depend on how many there are
            evaluation = evaluate_on(
                kept_log,
                made,
                seed=seed,
                overlap=folder is not None,
                earlier=earlier,
                spread=spread,
                progress=progress,
                **options,
            )
            evaluation = evaluation.with_notes(notes).with_notes(_notes_on(opened, kept_log))
    except EvaluationInterrupted as interrupted:
        if folder is not None and interrupted.evaluation is not None:
            finished = {name: policy for name, policy in given.items() if name not in interrupted.missing}
            _write_evaluation(folder, interrupted.evaluation, finished, typed)
        raise
    evaluation = evaluation.with_notes(_keep_forecasts(evaluation, _model_files(given), kept_log))
    if folder is not None:
        _write_evaluation(folder, evaluation, given, typed)
    return evaluation


def _keep_forecasts(evaluation: "Evaluation", files: Mapping[str, Path], log: "Log") -> dict[str, tuple[str, ...]]:
    """Add what is forecast of models to the files beside theirs; return notes on those for which it cannot be."""
    from zoosim.core.forecasts import add_forecasts, forecasts_path
    from zoosim.core.version import VERSION
    from zoosim.off_policy.forecasts import forecasts_of
    from zoosim.policies.model import model_digest

    notes: dict[str, tuple[str, ...]] = {}
    for name, path in files.items():
        try:
            made = {"by": "zoosim evaluate", "version": VERSION, "model": model_digest(path)}
            add_forecasts(forecasts_path(path), forecasts_of(evaluation, name, log, **made))
        except (OSError, DataError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            notes[name] = (f"its forecasts are not kept: {reason}",)
    return notes


def _check_names(policies: Mapping[str, Any]) -> None:
    """Refuse names of policies that are no words with `ConfigError`."""
    for name in policies:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"policies: got the name {shown(name)}, expected a word")


def _prepared(
    given: Mapping[str, Any], log: "Log", train: bool, seed: int
) -> "tuple[Log, Log | None, dict[str, Any], dict[str, tuple[str, ...]]]":
    """Return the log to evaluate on, the rows that policies learned from, the policies, and notes on them.

    With `train`, policies that have not learned are to learn first.
    """
    from zoosim.off_policy.actions.base import evaluator_for
    from zoosim.off_policy.training import TrainingJob, earlier_and_later

    evaluator = evaluator_for(log)
    can_train = evaluator.can_train
    saved = "give a FILE.npz of zoosim.save_policy"
    if evaluator.takes_models:
        saved = f"{saved} or a FILE.zoosim of zoosim train"
    made = {name: new_policy(name, policy, log, seed) for name, policy in given.items()}
    untrained = [name for name in given if _is_untrained(given[name], made[name])]
    log, earlier, notes = _after_training(given, log)
    if not train:
        if untrained:
            advice = f"add --train (train=True), or {saved}" if can_train else saved
            raise PolicyError(f"policy {untrained[0]}: has learned nothing yet, so there is nothing to judge; {advice}")
        return log, earlier, made, notes
    if not can_train:
        raise ConfigError(f"train: here policies learn from logs of single actions alone; leave it out, and {saved}")
    earlier, later = earlier_and_later(log)
    jobs = {name: TrainingJob(made[name], earlier) if name in untrained else made[name] for name in given}
    return later, earlier, jobs, notes


def _after_training(given: Mapping[str, Any], log: "Log") -> "tuple[Log, Log | None, dict[str, tuple[str, ...]]]":
    """Return the rows that no model was trained on, as the others they know too well to be judged by them; and those.

    And for each model a note that says how many it knew. Raises `DataError` where no rows are left.
    """
    import numpy as np

    from zoosim.core.blocks import count_rows, mapped

    known: Any = None
    notes: dict[str, tuple[str, ...]] = {}
    for name, model in _models_in(given).items():
        own = _trained_on(model, log)
        count = count_rows(own)
        if count:
            known = own if known is None else mapped(np.logical_or, known, own, dtype=bool)
            equal = "" if log.times is not None and model.last is not None else ", or on equal ones"
            notes[name] = (f"{count:,} of {len(log):,} rows were set aside, as it was trained on them{equal}",)
    if known is None:
        return log, None, notes
    unknown = mapped(np.logical_not, known, dtype=bool)
    if not count_rows(unknown):
        raise DataError(f"{log.source}: got no row after those that the models were trained on; give a later log")
    return log.rows(unknown), log.rows(known), notes


def _trained_on(model: "Model", log: "Log") -> Any:
    """Return which rows a model was trained on `(n,)`: those until its last one, or those that are like its own.

    Raises `DataError` where nobody can tell.
    """
    import numpy as np

    from zoosim.core.blocks import count_rows, mapped
    from zoosim.off_policy.training import seen_rows
    from zoosim.serving.store.address import find_log

    if log.times is not None and model.last is not None:
        last = model.last
        return mapped(lambda times: times <= last, log.times, dtype=bool)
    if (
        find_log(log.source) is not None
    ):  # that of a service, whose rows all have times, so the model's, which had none, are others
        return np.zeros(len(log), bool)
    trained_on = model.seen[: model.rows]
    seen = seen_rows(log, trained_on)
    n_seen = count_rows(seen)
    are_different = len(np.unique(trained_on)) >= DIFFERENT_ROWS * len(trained_on)
    if n_seen and n_seen < len(trained_on) and not are_different:
        raise DataError(
            f"{log.source}: has no times, and too many equal rows to tell which of them {model.source} was trained "
            "on; give a log with times"
        )
    return seen


def _notes_on(given: Mapping[str, Any], log: "Log") -> dict[str, tuple[str, ...]]:
    """Return what to say of models that are judged by rows that chose them among others."""
    chosen = {name: model for name, model in _models_in(given).items() if model.competitors > 1}
    return {name: (FLATTERED.format(model.competitors),) for name, model in chosen.items() if _chosen_by(model, log)}


def _chosen_by(model: "Model", log: "Log") -> bool:
    """Return whether a log that a model was not trained on has rows by which it was chosen, or half of them."""
    from zoosim.core.blocks import count_rows, extremes
    from zoosim.off_policy.training import seen_rows
    from zoosim.serving.store.address import find_log

    if log.times is not None and model.last_judged is not None:
        return bool(extremes(log.times)[0] <= model.last_judged)
    if find_log(log.source) is not None:  # as above
        return False
    judged = model.seen[model.rows :]
    return 2 * count_rows(seen_rows(log, judged)) > len(judged)


def _is_untrained(given: Any, made: Any) -> bool:
    """Return whether a policy learns, and was just made from a name or a class."""
    from zoosim.policies.base import Policy

    return _is_by_name(given) and isinstance(made, Policy) and made.learns


def _is_by_name(given: Any) -> bool:
    """Return whether a policy is given by its name or class."""
    return isinstance(given, type) or (isinstance(given, str) and not is_file(given) and not _is_column(given))


def _write_evaluation(
    folder: Path, evaluation: "Evaluation", policies: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    from zoosim.report.evaluation import build_page
    from zoosim.report.sections import render_sections

    write_text(folder / "summary.json", json.dumps(evaluation.summary, indent=1, allow_nan=False) + "\n")
    command = ["zoosim", "evaluate", evaluation.source, *typed_policies(policies), *typed_options(options)]
    question = f"What would these policies have earned, by {evaluation.source}?"
    page = build_page(evaluation)
    write_text(folder / "report.html", render_sections("Policies judged by a log", question, page, command))


def typed_policies(policies: Mapping[str, Any]) -> list[str]:
    """Return policies by name as the words that the command line takes."""
    names = [policy if isinstance(policy, str) else name for name, policy in policies.items()]
    return [word for name in names for word in ("--policy", name)]


def typed_options(options: Mapping[str, Any]) -> list[str]:
    """Return options by name as the words that the command line takes."""
    return [word for option in options.items() for word in _as_typed(*option)]


def _as_typed(name: str, value: Any) -> list[str]:
    """Return the words of an option; none where it was left out."""
    if value is None or value is False:
        return []
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return [flag]
    parts = [str(part) for part in value] if not isinstance(value, str) and hasattr(value, "__len__") else [str(value)]
    return [flag, (":" if name == "reward_range" else ",").join(parts)]


def describe_table(
    table: Any,
    products: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    time_zone: str | None = None,
) -> tuple[str, dict[str, str]]:
    """Guess what the columns of a table are.

    Args:
        table: A CSV or Parquet file, or a data frame, with a row per product shown.
        products: A CSV or Parquet file with a row per product.
        out: The YAML file to write; it names the table of products from its own folder.
        time_zone: The zone of times that name none, such as Europe/Berlin. Default: UTC.

    Returns:
        A schema as YAML, to correct and to give to `import_log`; and what each column was taken for, by its name.

    Raises:
        ConfigError: no column looks like what was shown, or like what it earned, or like the products' ids; or `out`
            is no YAML file.
        DataError: a table cannot be read, or has no rows.
    """
    from zoosim.logs.importing.inference import infer_import
    from zoosim.logs.importing.tables import read_table

    path = None if out is None else _checked_yaml(Path(out))
    frame, source = read_table(table)
    folder = Path() if path is None else path.parent
    inferred, notes = infer_import(frame, source, products=products, folder=folder, time_zone=time_zone)
    text = inferred.to_yaml()
    if path is not None:
        write_text(path, text)
    return text, notes


def _checked_yaml(path: Path) -> Path:
    """Return where to write a schema; raises `ConfigError` for another ending or a folder that is not there."""
    if path.suffix not in (".yaml", ".yml") or path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"schema: got {str(path)!r}, expected a file that ends in .yaml, in a folder that is there")
    return path


def writable_folder(out: str | os.PathLike[str], holds: str = "study") -> Path:
    """Return a folder for results, made where it is not there.

    Args:
        out: The folder.
        holds: A key of the summary.json of such results; a folder with another summary.json is refused.

    Raises:
        ConfigError: the folder cannot be written to, or has results of another kind.
    """
    folder = Path(out)
    make_folder(folder)
    if (folder / "config.yaml").exists():
        raise ConfigError(f"--out: {folder} holds a run of policies; name another folder")
    summary = folder / "summary.json"
    if summary.is_file() and f'"{holds}":'.encode() not in read_content(summary):
        raise ConfigError(f"--out: {folder} holds results of another kind, which are kept; name another folder")
    return folder


def _is_column(given: Any) -> bool:
    return isinstance(given, str) and given.startswith("column:")


def _opened(given: Any) -> Any:
    """Return the model that a file holds, and anything else as it is."""
    from zoosim.policies.model import load_model

    if not isinstance(given, str) or not is_file(given):
        return given
    path, own = file_and_class(given)
    return load_model(path, own) if path.endswith(MODEL) else given


def _model_files(given: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of models among policies, by name."""
    files = {name: file_and_class(policy)[0] for name, policy in given.items() if isinstance(policy, str)}
    return {name: Path(file) for name, file in files.items() if file.endswith(MODEL)}


def _models_in(given: Mapping[str, Any]) -> "dict[str, Model]":
    from zoosim.policies.model import Model

    return {name: policy for name, policy in given.items() if isinstance(policy, Model)}


def named_policies(policies: "Sequence[str | os.PathLike[str] | type[Policy] | Policy | Model]") -> dict[str, Any]:
    """Return policies by their names, each once."""
    if isinstance(policies, str) or not isinstance(policies, Sequence):
        raise ConfigError(f"policies: got {shown(policies)}, expected a list, or a mapping by name")
    from zoosim.policies.base import policy_name
    from zoosim.policies.model import Model

    named: dict[str, Any] = {}
    for given in policies:
        if isinstance(given, os.PathLike):
            name = Path(given).stem
        elif isinstance(given, Model):
            name = policy_name(type(given.policy))
        elif isinstance(given, str):
            short = _is_column(given) or ".py" in given
            name = given.rpartition(":")[2] if short else given.replace(":", "-")
            name = Path(file_and_class(given)[0]).stem if is_file(given) else name
        else:
            name = policy_name(given if isinstance(given, type) else type(given))
        if name in named:
            raise ConfigError(f"policies: got {name} twice, expected each once; name them apart in a mapping")
        named[name] = given
    return named


def new_policy(name: str, given: Any, log: "Log", seed: int) -> Any:
    """Make the policy that a name or a class stands for; everything else stays as it is, but is checked.

    Args:
        name: Name of the policy, for messages and its draws.
        given: A built-in name, `FILE.py:Class`, a class, a policy's file, a policy, a model, or a column of the log; or
            an entry, with parameters.
        log: The log that it is made for.
        seed: Seed of its draws.

    Raises:
        ConfigError, DataError, PolicyError: there is no such policy, or it does not fit the log.
    """
    from zoosim.core.blame import blamed
    from zoosim.core.rng import stream
    from zoosim.off_policy.actions.base import evaluator_for
    from zoosim.off_policy.targets.base import naming
    from zoosim.policies.model import Model
    from zoosim.policies.persistence import load_policy
    from zoosim.policies.registry import PolicyEntry, find_class

    evaluator = evaluator_for(log)
    if isinstance(given, PolicyEntry):
        with naming(name):
            evaluator.check_class(given.cls, log)
            with blamed("cannot be made for this log: "):
                return given.make(evaluator.spec(log), stream(seed, "policy", name))
    if isinstance(given, Model):
        with naming(name):
            evaluator.check_class(type(given.policy), log)
        given.check_encoding(log)
        return given
    if _is_column(given) or not isinstance(given, str | type):
        return given
    if isinstance(given, str) and given.startswith(FORMER):
        policy = given.removeprefix(FORMER)
        raise ConfigError(f"policy {given}: is now the policy {policy}; write --policy {policy} --train (train=True)")
    if isinstance(given, str) and is_file(given):
        saved = load_policy(*file_and_class(given))
        with naming(name):
            evaluator.check_class(type(saved), log)
        return saved
    policy_class = find_class(given)
    with naming(name):
        evaluator.check_class(policy_class, log)
        spec = evaluator.spec(log)
        with blamed("cannot be made for this log: "):
            return policy_class(spec, stream(seed, "policy", name))
