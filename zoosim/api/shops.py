"""The Python calls that make a log of a shop's own table, and a simulated shop of a log."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zoosim.core.calls import automatic_progress, public_call
from zoosim.core.errors import ConfigError
from zoosim.core.extras import needs_extra

if TYPE_CHECKING:
    import polars as pl

    from zoosim.core.types import Progress
    from zoosim.logs.importing.summary import Imported
    from zoosim.logs.log import Log
    from zoosim.schema.schema import Schema


@public_call
def import_log(
    table: Any,
    schema: "str | os.PathLike[str] | Mapping[str, Any] | Schema | None",
    out: str | os.PathLike[str],
    *,
    products: Any = None,
    time_zone: str | None = None,
    like: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
) -> "Imported":
    """Convert a table to a log, which `train`, `evaluate` and `fit_world` read.

    Args:
        table: A CSV or Parquet file, or a data frame, with a row per product shown.
        schema: What its columns are: a YAML file or a mapping, see `zoosim.schema.schema`; None to infer it. Of a
            table of searches it names the shop, too; see `zoosim.worlds.search.import_searches`.
        out: The Parquet file to write; the table of its products, catalogue-HASH.parquet, is written beside it.
        products: A CSV or Parquet file, or a data frame, with a row per product, where the schema names none; what its
            columns are is inferred. Not of searches.
        time_zone: The zone of times that name none, such as Europe/Berlin, where the schema says nothing. Default: UTC.
        like: An earlier log, or a model: encode features as it does, instead of fitting them to this table. Not of
            searches.
        skip_bad: Leave bad rows out, a ranking or a search whole.

    Returns:
        What was understood of the table, rows that were skipped, and notes by column.

    Raises:
        ConfigError: the schema is wrong, or `out` is no Parquet file.
        DataError: the table lacks a column or has a bad row, which is named; nothing is written.
    """
    from zoosim.action_spaces.registry import find_action_space, spaces_with
    from zoosim.core.action_space import PRODUCTS

    described = (space for space in spaces_with("describes_table") if space.describes_table(schema))
    space = next(described, find_action_space(PRODUCTS))
    imported: Imported = space.import_table(
        table, schema, out, products=products, time_zone=time_zone, like=like, skip_bad=skip_bad
    )
    return imported


@public_call
def fit_world(
    log: "str | os.PathLike[str] | pl.DataFrame | Log",
    out: str | os.PathLike[str] | None = None,
    *,
    reward: str | None = None,
    data: str | os.PathLike[str] | None = None,
    seed: int = 0,
    gone_after: float | None = None,
    skip_bad: bool = False,
    progress: "Progress | None" = automatic_progress,
) -> Any:
    """Estimate a shop from a log, as a world to run policies in, and how far to believe it.

    Args:
        log: As in `evaluate`, of products or of searches; propensities are not needed.
        out: A folder that gets summary.json, report.html, and the world that `zoosim run` takes: shop.world, or of
            searches world.yaml and the shop's tables. Of searches it must be given.
        reward: The column of the log that visits earn, such as "revenue". Default: what its policies learn. Not of
            searches.
        data: The folder of the Open Bandit Dataset.
        seed: Seed of the draws of shops that the log allows. Not of searches.
        gone_after: Days without a visit after which a visitor has gone for good: asks of a log with visitors and times
            whether it pays to look ahead. A log that tells visitors' lives answers that without it. Not of searches.
        skip_bad: Leave bad rows out instead of refusing the log.
        progress: Called with lines about how far it is. By default they are shown on a terminal and in a notebook;
            None shows nothing.

    Returns:
        The shop and how later rows agree with it: a `FittedShop` and `Checks`, or of searches one `FittedSearchWorld`;
        of visitors who come back a `LookAhead`, whose `answer` is a sentence.

    Raises:
        ConfigError: an option is invalid, or `out` cannot be written.
        DataError: the log is bad, or too poor to estimate a world from.
    """
    assert progress is not None  # `public_call` sees to that
    needs_extra("fit-world", "lab")
    from zoosim.logs.load import action_space_of

    space = action_space_of(log)
    if space.fit_world is None:
        raise ConfigError(f"fit-world: got a log of {space.name}, to which no world can be fitted")
    options = {"reward": reward, "data": data, "seed": seed, "gone_after": gone_after, "skip_bad": skip_bad}
    return space.fit_world(log, out, **options, progress=progress)
