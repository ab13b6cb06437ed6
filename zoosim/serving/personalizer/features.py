"""Free-form features as columns of a table: nested objects by their paths, lists of numbers as they are."""

from collections.abc import Iterator, Sequence
from typing import Any

from zoosim.core.errors import ZoosimError
from zoosim.policies.model import ID
from zoosim.schema.values import text_of

MOST_DEPTH = 8
"""Objects within objects, at most."""

MOST_COLUMNS = 2_000
"""Columns of a visitor, or of an action, at most."""

QUOTE = "'"


class FeatureError(ZoosimError):
    """Features that cannot be columns."""


def columns_of(features: Sequence[Any] | None) -> dict[str, Any]:
    """Return features as values by column; of a path that comes twice the last value counts.

    Args:
        features: Objects, each of names and values, or of names and further objects.

    Raises:
        FeatureError: a feature is no object, or holds a list of something else than numbers.
    """
    columns = {}
    for feature in features or ():
        if feature is None:
            continue
        if not isinstance(feature, dict):
            raise FeatureError("Features are not in key value pair format.")
        for path, value in _leaves(feature, "", MOST_DEPTH):
            columns[path] = value
    if len(columns) > MOST_COLUMNS:
        raise FeatureError(f"Features should be at most {MOST_COLUMNS:,}, got {len(columns):,}.")
    return columns


def action_columns(features: Sequence[Any] | None) -> dict[str, Any]:
    """Return features of an action as `columns_of` does; a feature called id is none of its own name."""
    columns = columns_of(features)
    if ID in columns:
        columns[f"features.{ID}"] = columns.pop(ID)
    return columns


def product_name(action_id: str) -> str:
    """Return the name by which a service knows an action: ids that a table would read as another get quotes."""
    is_plain = text_of(action_id) == action_id and not action_id.startswith(QUOTE)
    return action_id if is_plain else f"{QUOTE}{action_id}{QUOTE}"


def _leaves(feature: dict[str, Any], path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the values in an object that are none themselves, each with its path."""
    if not depth:
        raise FeatureError(f"Features should be nested at most {MOST_DEPTH} deep.")
    for name, value in feature.items():
        where = f"{path}.{name}" if path else name
        if isinstance(value, dict):
            yield from _leaves(value, where, depth - 1)
        elif isinstance(value, list):
            if any(isinstance(part, bool) or not isinstance(part, int | float) for part in value):
                raise FeatureError("Features should not contain array with non-number items.")
            if value:
                yield where, value
        elif value is not None:
            yield where, value
