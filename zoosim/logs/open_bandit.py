"""The Open Bandit Dataset (Saito, Aihara, Matsutani & Narita 2021, arXiv:2008.07146) in its published layout.

DIR/{random,bts}/{all,men,women}/{all,men,women}.csv, with item_context.csv beside each
"""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray
from zoosim.logs.importing.columns import numbers
from zoosim.logs.importing.convert import to_records
from zoosim.logs.importing.tables import read_table
from zoosim.logs.log import Log
from zoosim.logs.parse import to_log
from zoosim.schema.schema import Schema

POLICIES, CAMPAIGNS = ("random", "bts"), ("all", "men", "women")
COLUMNS = {"time": "timestamp", "action": "item_id", "position": "position", "reward": "click"}


def read_open_bandit(
    policy: str, campaign: str, data: str | os.PathLike[str] | None = None, *, skip_bad: bool = False
) -> Log:
    """Read the log that `policy` (random, bts) wrote in `campaign` (all, men, women) from the folder `data`.

    Where `data` is left out, `ZOOSIM_DATA` names the folder, or one that holds `open_bandit`. Features are the
    visitor's four categories, one column per value and one for others; positions count from 0. Raises `ConfigError`,
    or `DataError` for a bad row.
    """
    if policy not in POLICIES or campaign not in CAMPAIGNS:
        known = f"expected one of {', '.join(POLICIES)}, and one of {', '.join(CAMPAIGNS)}"
        raise ConfigError(f"open bandit: got policy {policy!r} and campaign {campaign!r}, {known}")
    folder = open_bandit_folder(data) / policy / campaign
    table, source = read_table(folder / f"{campaign}.csv")
    items = _items(folder / "item_context.csv")
    # What is published names nobody, so that rare levels need not be hashed.
    category = {"type": "category", "fewest_visitors": 1}
    features = {name: category for name in table.columns if name.startswith("user_feature_")}
    columns = {**COLUMNS, "propensity": "propensity_score"}
    described = {"columns": columns, "features": features, "actions": list(range(len(items)))}
    converted = to_records(table, Schema.model_validate(described), source=source, skip_bad=skip_bad)
    records = converted.records.with_columns(pl.col("position") - 1).collect()
    log = to_log(records, source=source, products=items)
    return replace(log, skipped=converted.imported.skipped)


def open_bandit_folder(data: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder with the logs, `data` or what `ZOOSIM_DATA` names; raises `ConfigError`."""
    named = data if data is not None else os.environ.get("ZOOSIM_DATA")
    if not named:
        raise ConfigError("open bandit: no folder named; give --data DIR, or set ZOOSIM_DATA")
    for folder in (Path(named), Path(named) / "open_bandit"):
        if any((folder / policy).is_dir() for policy in POLICIES):
            return folder
    raise ConfigError(f"open bandit: {named} holds no folder random or bts; give the folder of the dataset")


def _items(path: Path) -> FloatArray:
    """Return the items' numbers `(K, 1)`, item k in row k."""
    table, source = read_table(path)
    if "item_id" not in table.columns or "item_feature_0" not in table.columns:
        raise DataError(f"{source}: got columns {', '.join(table.columns)}, expected item_id and item_feature_0")
    ordered = table.select(numbers(table["item_id"]), numbers(table["item_feature_0"])).sort("item_id")
    if ordered["item_id"].to_list() != list(range(ordered.height)):
        raise DataError(f"{source}: column item_id: expected the items 0 to {ordered.height - 1}, each once")
    return np.ascontiguousarray(ordered["item_feature_0"].to_numpy().reshape(-1, 1))
