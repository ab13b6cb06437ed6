"""Convert a user's table to a log of Records."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown, unknown
from zoosim.core.threads import map_in_threads
from zoosim.logs.checks import sound_rows
from zoosim.logs.importing.candidates import DistinctCandidateLists, n_candidates, read_lists
from zoosim.logs.importing.columns import checked_columns, list_column
from zoosim.logs.importing.inference import NAMES_NO_ZONE, checked_schema, infer_import
from zoosim.logs.importing.products import ImportedProducts
from zoosim.logs.importing.records import read_records
from zoosim.logs.importing.summary import Imported, columns_of, facts_of
from zoosim.logs.importing.tables import read_table
from zoosim.logs.importing.times import lacks_zone
from zoosim.logs.parse import fitted_schema
from zoosim.logs.schema import A_MAX, OWN
from zoosim.logs.write import write_records
from zoosim.policies.model import SUFFIX, schema_of_model
from zoosim.schema.column import FEWEST_VISITORS
from zoosim.schema.encoder import Encoded, Encoder, fit_encoder
from zoosim.schema.infer import StrayWords, stray_words
from zoosim.schema.leaks import known_too_late
from zoosim.schema.schema import FeatureTypes, FittedSchema, Schema, sample_of
from zoosim.schema.values import distinct_values, text_of, texts_of, visitor_ids

ROW = "row of the table"
"""A column that the Records have until their features are written out."""


class Converted(NamedTuple):
    """A table as `records`, its products, the schema that encoded both, and what there is to say of it.

    `records` are lazy, since their features are much larger than the table: they are written out block by block.
    `products` has a row per candidate, in the order of the actions: `product_id`, `product` (features) and, where it is
    known, `category`. `others` has the same of the products that the shop describes, but no row shows or lists.
    """

    records: pl.LazyFrame
    products: pl.DataFrame
    others: pl.DataFrame | None
    fitted: FittedSchema
    imported: Imported


def import_products(
    table: Any,
    schema: str | os.PathLike[str] | Mapping[str, Any] | Schema | None,
    out: str | os.PathLike[str],
    *,
    products: Any = None,
    time_zone: str | None = None,
    like: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
) -> Imported:
    """Convert a table with a row per product shown to a log of Records; see `zoosim.import_log`."""
    path = Path(out)
    if path.suffix != ".parquet" or path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"import: got {str(out)!r}, expected a file that ends in .parquet, in a folder that is there")
    if isinstance(table, str | os.PathLike) and path.exists() and Path(table).exists() and path.samefile(table):
        raise ConfigError(
            f"import: got {path} as the table and as the log, expected another file, which is written anew"
        )
    frame, source = read_table(table)
    if schema is None:
        checked, inferred = infer_import(frame, source, products=products, time_zone=time_zone)
    else:
        checked = checked_schema(schema, products, time_zone)
        inferred = {}
    fitted = None if like is None else _fitted_like(Path(like))
    converted = to_records(frame, checked, fitted=fitted, source=source, skip_bad=skip_bad)
    notes = converted.imported.notes
    if schema is not None or like is not None:  # inference alone has left such columns out already
        notes |= _doubts(frame, checked, converted.fitted)
    columns = columns_of(frame, checked, converted.fitted, inferred)
    del frame  # large, and no longer needed
    logged = (converted.records, converted.products, path, converted.fitted, list(checked.rewards))
    write_records(*logged, others=converted.others)
    return replace(converted.imported, notes=notes, columns=columns)


def _doubts(table: pl.DataFrame, schema: Schema, fitted: FittedSchema) -> dict[str, str]:
    """Say which features of visitors nobody seems to know before a product is chosen, by column."""
    columns = schema.columns
    earned = list(schema.reward_columns.values())
    sample = sample_of(table, columns, earned)
    names = [name for name in fitted.visitors.names if name in table.columns]
    if sample is None:
        return {}
    reasons = map_in_threads(lambda name: known_too_late(table[name], sample), names)
    doubts = {name: reason for name, reason in zip(names, reasons, strict=True) if reason}
    return {
        name: f"is a feature of the visitor, but {reason}; take it out of features" for name, reason in doubts.items()
    }


def _fitted_like(path: Path) -> FittedSchema:
    """Return the fitted schema of a log or of a model; raises `DataError` for a log that has none."""
    if path.suffix == SUFFIX:
        return schema_of_model(path)
    if path.suffix != ".parquet" or not path.is_file():
        raise DataError(f"like: got {str(path)!r}, expected a log (.parquet) or a model ({SUFFIX}) that is there")
    fitted = fitted_schema(path)
    if fitted is None:
        raise DataError(f"like: {path} does not say how its features were made; name a log of zoosim import or a model")
    return fitted


def to_records(
    table: pl.DataFrame,
    schema: Schema,
    *,
    fitted: FittedSchema | None = None,
    source: str = "table",
    skip_bad: bool = False,
) -> Converted:
    """Convert a table to Records, with what is known of the products.

    Raises `ConfigError` for a schema that names something twice, `DataError` for a column that is missing, and for a
    bad row, naming row and column, unless `skip_bad`.
    """
    _check_names(table, schema, fitted, source)
    table = _checked_table(table, schema, source)
    product_table = ImportedProducts(schema.products) if schema.products is not None else None
    listed = schema.columns.listed
    lists = read_lists(table[listed], schema.separator) if listed else None
    names = _candidate_names(table[schema.columns.action], schema, lists, product_table)
    drift: dict[str, str] = {}
    rare: dict[str, str] = {}
    if fitted is None:
        fitted = _fit_schema(table, schema, names, product_table, source)
        rare = fitted.visitors.rare_levels()
    else:
        drift = _drift(table, names, product_table, fitted)
    products, others = _described(names, product_table, fitted)
    records = read_records(table, schema, names, lists, product_table, fitted, source)
    frame = records.frame.with_row_index(ROW)
    sound, skipped = sound_rows(frame, records.faults, source, skip_bad, table=table, together=records.together)
    completed = _completed(sound, schema, products["product_id"])
    with_features = _with_features(completed, fitted.visitors.encode_distinct(table))
    notes = rare | _notes(table, schema, product_table, fitted)
    notes = {name: note for name, note in notes.items() if name not in drift}
    facts = facts_of(sound, schema, n_candidates(sound, len(names)), 0 if others is None else others.height)
    return Converted(with_features, products, others, fitted, Imported(skipped, drift, notes, facts))


def _drift(
    table: pl.DataFrame, names: list[str], product_table: ImportedProducts | None, fitted: FittedSchema
) -> dict[str, str]:
    """Return what is new to the features of an earlier log, by column."""
    drift = fitted.visitors.drift(table)
    return drift if product_table is None else drift | product_table.drift(names, fitted.products)


def _fit_schema(
    table: pl.DataFrame, schema: Schema, names: list[str], product_table: ImportedProducts | None, source: str
) -> FittedSchema:
    """Fit how features of visitors and products are encoded to their tables."""
    options = {"time_zone": schema.time_zone or "UTC", "separator": schema.separator, "epoch": schema.epoch}
    visitor = schema.columns.user_id
    visitors = None if visitor is None else distinct_values(visitor_ids(table[visitor]))[1]
    return FittedSchema(
        visitors=fit_encoder(
            table, schema.features, source, visitors=visitors, fewest_visitors=FEWEST_VISITORS, **options
        ),
        products=Encoder() if product_table is None else product_table.fit(names, **options),
        weights={**dict.fromkeys(schema.reward_columns, 0.0), **schema.weights},
    )


def _described(
    names: list[str], product_table: ImportedProducts | None, fitted: FittedSchema
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return the candidates, and the products that the shop describes, but no row shows or lists."""
    if product_table is None:
        return _undescribed(names), None
    return product_table.describe(names, fitted.products), product_table.describe_others(names, fitted.products)


def _notes(
    table: pl.DataFrame, schema: Schema, product_table: ImportedProducts | None, fitted: FittedSchema
) -> dict[str, str]:
    """Say what to look at, by column: words among numbers, and times that name no zone."""
    notes = _stray_notes(table, fitted.visitors, schema.features)
    if product_table is not None:
        of_products = _stray_notes(product_table.frame, fitted.products, product_table.mapped.features)
        notes |= {f"{name} (products)": note for name, note in of_products.items()}
    if schema.columns.time and schema.time_zone is None and lacks_zone(table[schema.columns.time]):
        notes[schema.columns.time] = NAMES_NO_ZONE
    return notes


def _stray_notes(table: pl.DataFrame, encoder: Encoder, types: FeatureTypes) -> dict[str, str]:
    """Say in which features of numbers some are none, by column: they count as missing, or make all of them words."""
    notes = {}
    for column in encoder.columns:
        is_doubtful = column.type == "number" or (column.type == "category" and not types.get(column.name))
        strays = stray_words(table[column.name]) if is_doubtful and column.name in table.columns else StrayWords()
        if strays.total and column.type == "number":
            notes[column.name] = f"{strays.text}, and count as missing"
        elif strays.total:
            notes[column.name] = f"is taken for words, though {strays.text}; say its type in features"
    return notes


def _check_names(table: pl.DataFrame, schema: Schema, fitted: FittedSchema | None, source: str) -> None:
    """Refuse a schema that names something twice, or a column that the table lacks; and an empty table."""
    kept = [*schema.keep, *schema.rewards]
    for part, names in {"actions": _texts(schema.actions or ()), "keep": kept}.items():
        repeated = [name for number, name in enumerate(names) if name in names[:number]]
        if repeated:
            raise ConfigError(f"schema.{part}: got {shown(repeated[0])} twice, expected each once")
    for part, names in {"keep": schema.keep, "rewards": list(schema.rewards)}.items():
        taken = [name for name in names if name in OWN or name == A_MAX]
        if taken:
            raise ConfigError(f"schema.{part}: got {shown(taken[0])}, a name that Records use themselves; rename it")
    lacking = set() if fitted is None else _without_zeros(fitted.weights).keys() - schema.reward_columns.keys()
    if lacking:
        raise ConfigError(
            f"schema.rewards: got no {min(lacking)}, which the earlier log's objective needs; name its column"
        )
    if fitted is not None:
        _check_like(schema, fitted)
    features = list(schema.features) if fitted is None else []
    for name in [*schema.column_names.values(), *features, *schema.keep]:
        if name not in table.columns:
            raise DataError(f"{source}: {unknown('no column', name, table.columns)}; correct the schema")
    if not table.height:
        raise DataError(f"{source}: got no rows, expected at least one interaction")


def _check_like(schema: Schema, fitted: FittedSchema) -> None:
    """Refuse a schema with another objective than that of an earlier log, or without the products it describes."""
    if schema.objective and _without_zeros(schema.objective) != _without_zeros(fitted.weights):
        got = _without_zeros(schema.objective)
        expected = _without_zeros(fitted.weights)
        raise ConfigError(f"schema.objective: got {got}, expected {expected} as in the earlier log; or leave it out")
    if fitted.products.width and schema.products is None:
        described = ", ".join(fitted.products.names)
        raise ConfigError(f"schema.products: missing, but the earlier log has products' {described}; name their table")


def _without_zeros(weights: Mapping[str, float]) -> dict[str, float]:
    return {name: weight for name, weight in weights.items() if weight}


def _checked_table(table: pl.DataFrame, schema: Schema, source: str) -> pl.DataFrame:
    """Return the table with its columns as numbers, times and words; raises `DataError` for columns of other types."""
    columns = schema.columns
    ids = [name for name in (columns.action, columns.user_id, columns.decision_id, columns.listed) if name]
    wanted = [*schema.column_names.values(), *schema.keep]
    return checked_columns(table, wanted, source, ids=ids, lists=columns.listed)


def _candidate_names(
    actions: pl.Series, schema: Schema, lists: DistinctCandidateLists | None, products: ImportedProducts | None
) -> list[str]:
    """Return the candidates' names: those of the schema, else those shown or listed that the products' table knows.

    Numbers come by size, words by letters.
    """
    if schema.actions is not None:
        return _texts(schema.actions)
    names = set(texts_of(actions.unique()).drop_nulls())
    if lists is not None:
        names |= lists.all_names()
    if products is not None:
        names &= products.known
    by_letters = pl.Series(sorted(names), dtype=pl.String)
    whole = by_letters.cast(pl.Int64, strict=False)
    return list(by_letters if whole.null_count() else by_letters.gather(whole.arg_sort()))


def _texts(names: Sequence[str | int]) -> list[str]:
    """Return names of products as they are written everywhere."""
    return [text_of(name) or str(name) for name in names]


def _undescribed(names: list[str]) -> pl.DataFrame:
    """Return products of which nothing is known: each is a category of its own."""
    nothing = list_column("product", np.zeros((len(names), 0)))
    return pl.DataFrame({"product_id": names, "product": nothing, "category": names})


def _completed(frame: pl.DataFrame, schema: Schema, product_ids: pl.Series) -> pl.DataFrame:
    """Fill in what Records have and the table does not: ids by the row, the position 0."""
    defaults: dict[str, pl.Expr | pl.Series] = {
        "decision_id": pl.format("row-{}", pl.int_range(pl.len())),
        "position": pl.lit(0, pl.Int32),
        "policy": pl.lit(schema.policy),
        "product_id": product_ids[frame["action"].to_numpy()],
    }
    return frame.with_columns(**{name: values for name, values in defaults.items() if name not in frame.columns})


def _with_features(frame: pl.DataFrame, encoded: Encoded) -> pl.LazyFrame:
    """Replace the number of each row by the features of its visitor, once they are asked for."""

    def features(rows: pl.Series) -> pl.Series:
        return list_column("user", encoded.rows(rows.to_numpy()))

    # Elementwise, so that polars may ask for them block by block as it writes the file.
    user = pl.col(ROW).map_batches(features, pl.List(pl.Float64), is_elementwise=True)
    return frame.lazy().with_columns(user=user).drop(ROW)
