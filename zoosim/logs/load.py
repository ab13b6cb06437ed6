"""Load a log from wherever it is: a file, a data frame, the Open Bandit Dataset, or a `Log` that was read already."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from zoosim.action_spaces import ActionSpace, find_action_space
from zoosim.action_spaces.registry import spaces_with
from zoosim.core.action_space import PRODUCTS
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parquet import check_parquet
from zoosim.logs.importing.tables import read_table
from zoosim.logs.log import Log
from zoosim.logs.parse import named_action_space, read_log, to_log
from zoosim.logs.records import records_of

OPEN_BANDIT = "open-bandit:"


def load_log(
    source: Any,
    *,
    action_space: str | None = None,
    columns: Sequence[str] = (),
    data: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    a_max: float | None = None,
) -> Log:
    """Return the log that `source` names or holds.

    Args:
        source: A Parquet file of Records, a data frame with their columns, `open-bandit:POLICY/CAMPAIGN`, or a `Log`.
        data: The folder of the Open Bandit Dataset.
        action_space, columns, skip_bad, a_max: As in `read_log`.

    Raises:
        ConfigError: an option does not go with the log.
        DataError: the log cannot be read, or is bad.
    """
    is_open_bandit = isinstance(source, str) and source.startswith(OPEN_BANDIT)
    if is_open_bandit and action_space not in (None, PRODUCTS):
        raise ConfigError(f"{action_space}: the Open Bandit Dataset logs single products; leave out {action_space}")
    if data is not None and not is_open_bandit:
        got = repr(str(source)) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"
        raise ConfigError(f"data: goes with a log {OPEN_BANDIT}POLICY/CAMPAIGN alone, got {got}; leave it out")
    if is_open_bandit:
        from zoosim.logs.open_bandit import read_open_bandit

        policy, _, campaign = source.removeprefix(OPEN_BANDIT).partition("/")
        log = read_open_bandit(policy, campaign, data, skip_bad=skip_bad)
    elif isinstance(source, Log):
        log = source
    else:
        options: dict[str, Any] = {"columns": columns, "skip_bad": skip_bad, "action_space": action_space}
        if isinstance(source, str | os.PathLike):
            log = read_log(source, a_max=a_max, **options)
        else:
            frame = read_table(source)[0]
            _refuse_lost_catalogue(frame)
            log = to_log(frame, a_max=a_max, **options)
    if action_space is not None and log.action_space != action_space:
        raise ConfigError(
            f"{action_space}: got {log.source}, a log of {log.action_space}; expected one of {action_space}"
        )
    if a_max is not None and (not records_of(log.action_space).chooses_lists or log is source):
        raise ConfigError("a_max: goes with Records whose actions are lists of numbers (boosts); leave it out")
    return log


def action_space_of(source: Any) -> ActionSpace:
    """Return the action space of a log that is not loaded yet: products, where nothing says otherwise.

    Args:
        source: As in `load_log`.
    """
    if isinstance(source, Log):
        return find_action_space(source.action_space)
    if isinstance(source, str | os.PathLike):
        name = _named_in(Path(source))
        if name is not None:
            return find_action_space(name)
        for space in spaces_with("records"):
            if space.recognises is not None and space.recognises(Path(source)):
                return space
    return find_action_space(PRODUCTS)


def _named_in(path: Path) -> str | None:
    """Return the action space that a file names; None where it names none, or is no log."""
    if path.suffix != ".parquet" or not path.is_file():
        return None
    check_parquet(path)
    return named_action_space(path)


def _refuse_lost_catalogue(frame: pl.DataFrame) -> None:
    """Refuse rows of a file, in a data frame, whose products are described beside it."""
    if "catalogue" in frame.columns and frame["catalogue"].null_count() < frame.height:
        raise DataError(
            "log: its column catalogue names a table of products, which a data frame is without; give the path of its "
            "file, or drop the column to do without what the table says"
        )
