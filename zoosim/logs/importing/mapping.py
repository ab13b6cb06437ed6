"""Map a user's own table onto Records, by a small YAML file.

    columns: {action: item, propensity: p, reward: click, time: at, user_id: customer}   # Record's name: theirs
    features: [age, country]      # what the shop knows of the visitor: numbers, or words, which become one column each
    keep: [p_new]                 # further numbers, such as target probabilities
    time_zone: Europe/Berlin      # of times that name none
    actions: [A1, B7]             # the candidates, in order; those that were shown or listed when left out
    products: {table: items.csv, id: item, category: brand, features: [price, colour]}   # relative to the mapping
    rankings: true                # rows that share their decision_id are a visit's ranking and differ in position
    separator: "|"                # between the words of `candidates` or `unavailable`, where they are no lists

`action`, `propensity` and `reward` are needed; `decision_id`, `time`, `user_id`, `position` are not. `candidates` lists
the products that could be shown in a row, or `unavailable` those that could not.
"""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from zoosim.core.config import Strict, build, read_yaml
from zoosim.logs.importing.products import Products


class Columns(Strict):
    """Which column of the table holds what."""

    action: str
    propensity: str
    reward: str
    decision_id: str | None = None
    time: str | None = None
    user_id: str | None = None
    position: str | None = None
    candidates: str | None = None
    unavailable: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "Columns":
        if self.candidates and self.unavailable:
            raise ValueError("got candidates and unavailable, expected one of them: each follows from the other")
        return self

    @property
    def listed(self) -> str | None:
        """The column that lists products, those that could be shown or those that could not."""
        return self.candidates or self.unavailable


class LogMapping(Strict):
    """How the columns of a user's table become those of Records."""

    columns: Columns
    features: list[str] = Field(default_factory=list)
    keep: list[str] = Field(default_factory=list)
    actions: Annotated[list[str | int], Field(min_length=1)] | None = None
    products: Products | None = None
    rankings: bool = False
    separator: Annotated[str, Field(min_length=1)] = "|"
    time_zone: str | None = None
    epoch: Literal["s", "ms", "us"] | None = None
    policy: str = "logged"

    @model_validator(mode="after")
    def _rankings_have_visits(self) -> "LogMapping":
        if self.rankings and not (self.columns.decision_id and self.columns.position):
            raise ValueError("rankings: got no column of decision_id or position, expected both in columns")
        return self


def read_mapping(path: str | os.PathLike[str]) -> LogMapping:
    """Read a mapping file, whose paths are relative to it; raises `ConfigError`."""
    mapping: LogMapping = build(LogMapping, read_yaml(Path(path)), str(path))
    if mapping.products is None or not isinstance(mapping.products.table, str):
        return mapping
    table = Path(path).parent / mapping.products.table
    return mapping.model_copy(update={"products": mapping.products.model_copy(update={"table": table})})
