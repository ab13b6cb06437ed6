"""The Python calls about logs: judge policies by a log, and import a log from a table of one's own."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.errors import ConfigError, PolicyError

if TYPE_CHECKING:
    import polars as pl

    from zoosim.evaluation.off_policy.evaluate import Evaluation
    from zoosim.evaluation.off_policy.log import Log
    from zoosim.policies.base import Policy

OPEN_BANDIT = "open-bandit:"


def evaluate(
    log: "str | os.PathLike[str] | pl.DataFrame | Log",
    policies: "Mapping[str, Any] | Sequence[str | type[Policy] | Policy]",
    *,
    data: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    seed: int = 0,
    **options: Any,
) -> "Evaluation":
    """Judge policies by a log that another policy wrote: values, intervals, verdicts, and differences.

    `log` is a Parquet file of Records, a data frame with their columns, a `Log`, or `open-bandit:POLICY/CAMPAIGN` in
    the folder `data`. A policy is a built-in name, `FILE.py:Class`, a class or a `Policy` (frozen while it is judged;
    by name it is judged as it starts), `column:NAME` for target probabilities in the log, or, in a mapping by name, an
    array or function of probabilities. `options` are `estimators`, `interval`, `level`, `samples` and `reward_range`
    of `zoosim.evaluation.off_policy.evaluate`. Raises `ConfigError`, `DataError` or `PolicyError`.
    """
    from zoosim.evaluation.off_policy.evaluate import evaluate as judge

    named = dict(policies) if isinstance(policies, Mapping) else _by_name(policies)
    columns = [given.removeprefix("column:") for given in named.values() if _is_column(given)]
    read = _read(log, columns, data, skip_bad)
    made = {name: _made(name, given, read, seed) for name, given in named.items()}
    return judge(read, made, seed=seed, **options)


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
    from zoosim.evaluation.off_policy.importing import import_log as write

    return write(table, mapping, out, skip_bad=skip_bad)


def _is_column(given: Any) -> bool:
    return isinstance(given, str) and given.startswith("column:")


def _by_name(policies: "Sequence[str | type[Policy] | Policy]") -> dict[str, Any]:
    """Return policies by their names, each once."""
    from zoosim.policies.base import policy_name

    named: dict[str, Any] = {}
    for given in policies:
        if isinstance(given, str):
            name = given.rpartition(":")[2] if _is_column(given) or ".py" in given else given
        else:
            name = policy_name(given if isinstance(given, type) else type(given))
        if name in named:
            raise ConfigError(f"policies: got {name} twice, expected each once; name them apart in a mapping")
        named[name] = given
    return named


def _read(log: Any, columns: Sequence[str], data: str | os.PathLike[str] | None, skip_bad: bool) -> "Log":
    from zoosim.evaluation.off_policy.log import Log
    from zoosim.evaluation.off_policy.open_bandit import read_open_bandit
    from zoosim.evaluation.off_policy.reading import read_log, to_log
    from zoosim.evaluation.off_policy.tables import read_words

    if isinstance(log, Log):
        return log
    if not isinstance(log, str | os.PathLike):
        return to_log(read_words(log)[0], columns=columns, skip_bad=skip_bad)
    if isinstance(log, str) and log.startswith(OPEN_BANDIT):
        policy, _, campaign = log.removeprefix(OPEN_BANDIT).partition("/")
        return read_open_bandit(policy, campaign, data, skip_bad=skip_bad)
    if data is not None:
        raise ConfigError(f"data: goes with a log {OPEN_BANDIT}POLICY/CAMPAIGN alone, got {str(log)!r}; leave it out")
    return read_log(Path(log), columns=columns, skip_bad=skip_bad)


def _made(name: str, given: Any, log: "Log", seed: int) -> Any:
    """Make the policy that a name or a class stands for; what else may be judged stays as it is."""
    from zoosim.core.rng import stream
    from zoosim.evaluation.off_policy.targets import spec_of
    from zoosim.policies.registry import find_class

    if _is_column(given) or not isinstance(given, str | type):
        return given
    policy = find_class(given)(spec_of(log), stream(seed, "policy", name))
    if policy.past_visits:
        advice = "train it on another log first, and pass the object"
        raise PolicyError(f"policy {name}: trains on a log, and must not be judged by the rows it has seen; {advice}")
    return policy
