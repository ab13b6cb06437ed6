"""Open a log of whatever kind, wherever it is: a file, a data frame, the Open Bandit Dataset, or one read already."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from zoosim.core.errors import ConfigError
from zoosim.logs.boost_log import BoostLog, read_boosts, to_boosts
from zoosim.logs.importing.tables import read_words
from zoosim.logs.log import Log
from zoosim.logs.open_bandit import read_open_bandit
from zoosim.logs.ranking_log import RankingLog
from zoosim.logs.ranking_reading import read_rankings, to_rankings
from zoosim.logs.reading import read_log, to_log

OPEN_BANDIT = "open-bandit:"


def open_log(
    log: Any,
    *,
    columns: Sequence[str] = (),
    data: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    rankings: bool = False,
    a_max: float | None = None,
) -> Log | RankingLog | BoostLog:
    """Open a log of single actions, of rankings where asked for, or of boosts where actions are lists of numbers.

    Raises `ConfigError` for options that do not go with the log, `DataError` for a bad one.
    """
    told: dict[str, Any] = {"columns": columns, "skip_bad": skip_bad}
    if not rankings:
        _check_data(log, data)
    if isinstance(log, Log | RankingLog | BoostLog):
        _check_options(log, rankings, a_max)
        return log
    source = log if isinstance(log, str | os.PathLike) else read_words(log)[0]
    if rankings:
        if _is_open_bandit(source) or data is not None:
            raise ConfigError("rankings: the Open Bandit Dataset logs single actions; leave out rankings, or data")
        _check_options(None, rankings, a_max)
        return to_rankings(source, **told) if isinstance(source, pl.DataFrame) else read_rankings(source, **told)
    if _holds_boosts(source):
        told["a_max"] = a_max
        return to_boosts(source, **told) if isinstance(source, pl.DataFrame) else read_boosts(source, **told)
    found = open_actions(source, columns=columns, data=data, skip_bad=skip_bad)
    _check_options(found, rankings, a_max)
    return found


def open_actions(
    log: Any, *, columns: Sequence[str] = (), data: str | os.PathLike[str] | None = None, skip_bad: bool = False
) -> Log:
    """Open a log of single actions."""
    _check_data(log, data)
    if isinstance(log, Log):
        return log
    if not isinstance(log, str | os.PathLike):
        return to_log(read_words(log)[0], columns=columns, skip_bad=skip_bad)
    if isinstance(log, str) and log.startswith(OPEN_BANDIT):
        policy, _, campaign = log.removeprefix(OPEN_BANDIT).partition("/")
        return read_open_bandit(policy, campaign, data, skip_bad=skip_bad)
    return read_log(Path(log), columns=columns, skip_bad=skip_bad)


def _check_data(log: Any, data: Any) -> None:
    if data is not None and not _is_open_bandit(log):
        got = repr(str(log)) if isinstance(log, str | os.PathLike) else f"a {type(log).__name__}"
        raise ConfigError(f"data: goes with a log {OPEN_BANDIT}POLICY/CAMPAIGN alone, got {got}; leave it out")


def _check_options(log: Log | RankingLog | BoostLog | None, rankings: bool, a_max: float | None) -> None:
    if rankings and log is not None and not isinstance(log, RankingLog):
        raise ConfigError(f"rankings: got a {type(log).__name__}, expected Records or a RankingLog; leave it out")
    if a_max is not None:
        raise ConfigError("a_max: goes with Records whose actions are lists of numbers (boosts); leave it out")


def _is_open_bandit(source: Any) -> bool:
    return isinstance(source, str) and source.startswith(OPEN_BANDIT)


def _holds_boosts(source: Any) -> bool:
    """Tell whether actions are lists; a file that cannot be read is left to what reads it."""
    if isinstance(source, pl.DataFrame):
        return isinstance(source.schema.get("action"), pl.List | pl.Array)
    if _is_open_bandit(source) or not Path(source).is_file():
        return False
    try:
        return isinstance(pl.read_parquet_schema(source).get("action"), pl.List | pl.Array)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return False
