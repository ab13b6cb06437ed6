"""The columns of a shop's tables: described in YAML, inferred where nothing is said, and fitted to data once.

    columns: {action: item, propensity: p, time: at, user_id: customer}     # what for: the name of the column
    rewards: {click: clicked, revenue: gmv}     # or in columns, where there is one alone: reward: clicked
    objective: {click: 1.0, revenue: 0.05}      # the weighted sum that policies learn; by default the first reward
    features:                                   # what the shop knows of the visitor and of the request
      age: number
      country: {type: category, most_levels: 20}
      at: {type: time, time_zone: Europe/Berlin}
    products: {table: items.csv, id: item, category: brand, features: [price, colour]}   # relative to this file
                                  # sold_from, sold_until: columns of when each product was for sale
    keep: [p_new]                 # further numbers, such as target probabilities
    time_zone: Europe/Berlin      # of times that name none
    epoch: ms                     # of times that are numbers: s, ms or us since 1970; told by size if left out
    dates: month-first            # of times such as 03/04/2024, or day-first; told by a 13th day if left out
    actions: [A1, B7]             # the candidates, in order; those that were shown or listed when left out
    rankings: true                # rows that share their decision_id are a visit's ranking and differ in position
    separator: "|"                # between the words of lists

A list of features stands for their names alone, and their types are inferred. `action` and a reward are needed.
`candidates` lists the products that could be shown in a row, `unavailable` those that could not.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import Field, ValidationError, field_validator, model_validator

from zoosim.core.config import Strict, build, read_yaml
from zoosim.core.digests import value_digest
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown
from zoosim.core.threads import map_in_threads
from zoosim.core.types import REWARD
from zoosim.core.yaml_text import write_yaml
from zoosim.schema.column import ColumnOptions, Separator, Zone
from zoosim.schema.encoder import MOST_FEATURES, Encoder
from zoosim.schema.infer import ROLES, infer_rewards, infer_roles, infer_type, likely_meaning
from zoosim.schema.leaks import LogSample, describes_product, known_too_late, sample_log
from zoosim.schema.number_columns import NumberColumn
from zoosim.schema.values import LARGEST_NUMBER, DateOrder, Epoch, texts_of

REPEATED = 0.1
"""Share of rows with the id of another from which on a table counts as none of products; fewer are slips."""

FEWEST_PRODUCTS = 10
"""Rows, each of another product, from which on a table counts as one of products."""

CATEGORIES = ("category", "department", "group", "class", "family")
"""Usual names of columns that put products in groups."""

FeatureTypes = dict[str, str | dict[str, Any] | None]
"""The type of each feature by the column's name; None where it is to be inferred."""


def _as_types(given: Any) -> Any:
    """Return a list of names as features whose types are to be inferred; refuse what is no type."""
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        repeated = [name for number, name in enumerate(given) if name in given[:number]]
        if repeated:
            raise ValueError(f"got {repeated[0]!r} twice, expected each once")
        return dict.fromkeys(given)
    if not isinstance(given, dict):
        raise ValueError(f"got {shown(given)}, expected names of columns, or a type for each")
    for name, wanted in given.items():
        build(ColumnOptions, wanted if isinstance(wanted, Mapping) else {"type": wanted}, f"{name}")
    return given


class ColumnRoles(Strict):
    """The columns of the table by role."""

    action: str
    propensity: str | None = None
    reward: str | None = None
    decision_id: str | None = None
    time: str | None = None
    user_id: str | None = None
    position: str | None = None
    candidates: str | None = None
    unavailable: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "ColumnRoles":
        if self.candidates and self.unavailable:
            raise ValueError("got candidates and unavailable, expected one of them: each follows from the other")
        return self

    @property
    def listed(self) -> str | None:
        """The column that lists products, those that could be shown or those that could not."""
        return self.candidates or self.unavailable


class ProductColumns(Strict):
    """The table of products: a CSV or Parquet file or a data frame, and its columns.

    `sold_from` and `sold_until` say from when and until when a product was for sale, empty for always.
    """

    table: Any
    id: str
    category: str | None = None
    features: FeatureTypes = Field(default_factory=dict)
    sold_from: str | None = None
    sold_until: str | None = None

    @property
    def sale(self) -> list[str]:
        """The columns that say when products were for sale."""
        return [name for name in (self.sold_from, self.sold_until) if name]

    @field_validator("features", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return _as_types(given)


class Schema(Strict):
    """The description of the columns of a shop's table."""

    columns: ColumnRoles
    rewards: dict[str, str] = Field(default_factory=dict)
    objective: dict[str, float] = Field(default_factory=dict)
    features: FeatureTypes = Field(default_factory=dict)
    keep: list[str] = Field(default_factory=list)
    actions: Annotated[list[str | int], Field(min_length=1)] | None = None
    products: ProductColumns | None = None
    rankings: bool = False
    separator: Separator = "|"
    time_zone: Zone | None = None
    epoch: Epoch | None = None
    dates: DateOrder | None = None
    policy: str = "logged"

    @field_validator("features", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return _as_types(given)

    @model_validator(mode="after")
    def _consistent(self) -> "Schema":
        if self.rankings and not (self.columns.decision_id and self.columns.position):
            raise ValueError("rankings: got no column of decision_id or position, expected both in columns")
        if self.products is not None and self.products.sale:
            if self.columns.time is None:
                raise ValueError("products.sold_from, sold_until: got no column of time, expected one in columns")
            if self.columns.listed:
                raise ValueError(
                    f"products.sold_from, sold_until: got {self.columns.listed} too, which lists candidates"
                )
        if bool(self.columns.reward) == bool(self.rewards):
            raise ValueError("expected either columns.reward, the one reward, or rewards by name")
        for name in (self.columns.action, self.columns.propensity, *self.reward_columns.values()):
            if name in self.features:
                raise ValueError(f"features: got {name!r}, which nobody knows before a product is chosen; leave it out")
        unknown_names = [name for name in self.objective if name not in self.reward_columns]
        if unknown_names:
            known = ", ".join(self.reward_columns)
            raise ValueError(f"objective: got the reward {unknown_names[0]!r}, expected one of {known}")
        if not any(self.weights.values()):
            raise ValueError("objective: got weights of 0 alone, expected one that is not")
        return self

    def to_yaml(self) -> str:
        """Return the schema as YAML; what has its default is left out."""
        values = self.model_dump(exclude_defaults=True, exclude_none=True)
        return write_yaml(values)

    @property
    def reward_columns(self) -> dict[str, str]:
        """The columns of rewards, by the reward's name."""
        return self.rewards or {REWARD: str(self.columns.reward)}

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each reward in what policies learn."""
        first = next(iter(self.reward_columns))
        return self.objective or {first: 1.0}

    @property
    def column_names(self) -> dict[str, str]:
        """The columns that are something else than features, by what they are for."""
        roles = {role: name for role, name in self.columns.model_dump().items() if name}
        return roles if self.columns.reward else {**roles, **self.rewards}


class FittedSchema(Strict):
    """The encoding of a shop's visitors and products as features, fitted to a table once; kept in logs and in policies.

    Args:
        visitors: Encodes visitors and requests.
        products: Encodes products.
        weights: The weight of each reward in what policies learn, 0 for those beside it.
    """

    visitors: Encoder = Encoder()
    products: Encoder = Encoder()
    weights: dict[str, float] = Field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """A hash: schemas with the same one encode everything alike, and learn the same reward."""
        return value_digest(self.model_dump())

    @classmethod
    def from_json(cls, text: str, source: str) -> "FittedSchema":
        """Read what `model_dump_json` wrote; raises `DataError`."""
        try:
            return cls.model_validate_json(text)
        except (ValidationError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{source}: its schema is broken ({reason}); write or import the file anew") from None


def plain_schema(visitors: Sequence[str], products: Sequence[str], reward: str = REWARD) -> FittedSchema | None:
    """Return a schema for features that were never encoded: each is a column of numbers, taken as it is.

    Args:
        visitors: The names of the visitors' features.
        products: The names of the products' features.
        reward: What policies learn.

    Returns:
        The schema; None where there are more features than a schema may have.
    """
    if max(len(visitors), len(products)) > MOST_FEATURES:
        return None
    return FittedSchema(visitors=_as_they_are(visitors), products=_as_they_are(products), weights={reward: 1.0})


def _as_they_are(names: Sequence[str]) -> Encoder:
    """Return an encoder whose features are the columns' numbers, to the bit."""
    low = -LARGEST_NUMBER
    high = LARGEST_NUMBER
    return Encoder(columns=tuple(NumberColumn(name=name, low=low, high=high, center=0.0, scale=1.0) for name in names))


def read_schema(path: str | os.PathLike[str]) -> Schema:
    """Read a schema from YAML, whose paths are relative to it; raises `ConfigError`."""
    schema: Schema = build(Schema, read_yaml(Path(path)), str(path))
    if schema.products is None or not isinstance(schema.products.table, str):
        return schema
    table = Path(path).parent / schema.products.table
    return schema.model_copy(update={"products": schema.products.model_copy(update={"table": table})})


def infer_schema(table: pl.DataFrame, source: str = "table") -> tuple[Schema, dict[str, str]]:
    """Guess what the columns of a table are, from their names and values.

    Args:
        table: One row per product shown.
        source: What messages call it.

    Returns:
        The schema, and what each column was taken for, in words, by its name.

    Raises:
        ConfigError: no column looks like what was shown, or like what it earned.
        DataError: there are no rows.
    """
    if not table.height:
        raise DataError(f"{source}: got no rows, expected at least one interaction")
    roles = infer_roles(table.columns, table)
    if "candidates" in roles:
        roles.pop("unavailable", None)  # each follows from the other
    rewards = infer_rewards([name for name in table.columns if name not in roles.values()], table)
    if "action" in roles:
        _refuse_products(table, roles, rewards, source)
        rewards = {name: column for name, column in rewards.items() if not _is_of_products(table, column, roles)}
    if "action" not in roles or not rewards:
        lacking = "the product shown, such as item" if "action" not in roles else "a reward, such as click"
        got = ", ".join(table.columns)
        raise ConfigError(f"{source}: found no column that looks like {lacking}, among {got}; name it in a schema")
    notes = {column: role.replace("_", " ") for role, column in roles.items()}
    notes |= {column: f"reward, {name}" for name, column in rewards.items()}
    only_reward = rewards.get(REWARD) if len(rewards) == 1 else None
    if REWARD in rewards:  # the only one, or another name for one of the others
        column = rewards.pop(REWARD)
        notes[column] = "reward" if only_reward else f"left out: {', '.join(rewards)} say what was earned"
    columns = ColumnRoles(**{role: roles[role] for role in ROLES if role in roles}, reward=only_reward)
    columns_of_rewards = list(rewards.values()) or [str(only_reward)]
    sample = sample_of(table, columns, columns_of_rewards)
    notes |= _no_features(table, notes, sample)
    features, feature_notes = _infer_features(table, notes)
    schema = Schema(columns=columns, rewards=rewards, features=features)
    return schema, {name: {**notes, **feature_notes}[name] for name in table.columns}


def _refuse_products(table: pl.DataFrame, roles: Mapping[str, str], rewards: Mapping[str, str], source: str) -> None:
    """Raise `ConfigError` for a table of products, in which no product comes twice and nothing tells of a visit."""
    ids = table[roles["action"]]
    tells_of_visits = roles.keys() & {"user_id", "propensity", "decision_id", "position", "candidates", "unavailable"}
    if tells_of_visits or table.height < FEWEST_PRODUCTS or ids.n_unique() < table.height:
        return
    if not any(infer_type(table[column]).type == "yes/no" for column in rewards.values()):
        raise ConfigError(
            f"{source}: has one row for each {ids.name}, so it looks like a table of products, expected a row per "
            "product shown with what the visit earned; give such a table, and this one by --products"
        )


def _is_of_products(table: pl.DataFrame, reward: str, roles: Mapping[str, str]) -> bool:
    """Return whether a column named like a reward says what each product is worth, not what a visit earned."""
    return infer_type(table[reward]).type != "yes/no" and describes_product(table[reward], table[roles["action"]])


def sample_of(table: pl.DataFrame, columns: ColumnRoles, rewards: Sequence[str]) -> LogSample | None:
    """Return the rows of a table by which its columns are tested for leaks; see `sample_log`.

    Where candidates differ by row, propensities are left out: what could be shown is not compared.

    Args:
        table: A row per product shown.
        columns: Its columns, by role.
        rewards: Names of the columns that are rewards.
    """
    return sample_log(
        table,
        columns.action,
        rewards,
        propensity=None if columns.listed else columns.propensity,
        visitor=columns.user_id,
        time=columns.time,
    )


def infer_products(products: pl.DataFrame, path: Any, source: str) -> tuple[ProductColumns, dict[str, str]]:
    """Guess what the columns of a table of products are.

    Args:
        products: One row per product.
        path: What the schema is to name: where the table lies, or the table itself.
        source: What messages call it.

    Returns:
        The columns, and what each was taken for, in words, by its name.

    Raises:
        ConfigError: no column looks like the products' ids, or they repeat.
    """
    roles = infer_roles(products.columns)
    if "action" not in roles:
        got = ", ".join(products.columns)
        raise ConfigError(f"{source}: found no column that looks like the products' ids, among {got}; name it item")
    ids = texts_of(products[roles["action"]])
    if ids.n_unique() <= (1.0 - REPEATED) * ids.len():
        row = int(ids.is_duplicated().arg_max() or 0)
        got = f"{source}: column {roles['action']} holds {shown(ids[row])} in several rows, such as row {row}"
        raise ConfigError(f"{got}, expected a row per product; give the shop's table of products")
    notes = {roles["action"]: "id"}
    category = next((name for name in products.columns if name.lower() in CATEGORIES), None)
    if category is not None:
        notes[category] = "category, and a feature"
    features, feature_notes = _infer_features(products, {roles["action"]: "id"})
    columns = ProductColumns(table=path, id=roles["action"], category=category, features=features)
    return columns, {name: {**feature_notes, **notes}[name] for name in products.columns}


def _no_features(table: pl.DataFrame, taken: Mapping[str, str], sample: LogSample | None) -> dict[str, str]:
    """Return the columns not `taken` that are no features of visitors by their names or values, with the reason."""

    def reason(name: str) -> str:
        meaning = likely_meaning(name)
        if meaning:
            return f"named like another {meaning.replace('_', ' ')}"
        return "" if sample is None else known_too_late(table[name], sample)

    names = [name for name in table.columns if name not in taken]
    reasons = zip(names, map_in_threads(reason, names), strict=True)
    return {name: f"left out: {words}" for name, words in reasons if words}


def _infer_features(table: pl.DataFrame, taken: Mapping[str, str]) -> tuple[FeatureTypes, dict[str, str]]:
    """Guess the types of the columns that are not `taken`, and say what each was taken for."""
    features: FeatureTypes = {}
    notes = {}
    names = [name for name in table.columns if name not in taken]
    for name, inferred in zip(names, map_in_threads(infer_type, [table[name] for name in names]), strict=True):
        what = f"feature, {inferred.type}" if inferred.type else "left out"
        notes[name] = f"{what}: {inferred.reason}"
        if inferred.type:
            features[name] = inferred.type
    return features, notes
