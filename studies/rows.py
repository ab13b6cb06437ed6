"""Pick out of a study's rows."""

from collections.abc import Sequence
from typing import Any, TypeVar

R = TypeVar("R")


def rows_where(rows: Sequence[R], **wanted: Any) -> list[R]:
    """Return the rows whose fields are as `wanted`."""
    return [row for row in rows if all(getattr(row, field) == value for field, value in wanted.items())]


def values_where(rows: Sequence[Any], field: str, **wanted: Any) -> list[Any]:
    """Return a field of the rows whose other fields are as `wanted`."""
    return [getattr(row, field) for row in rows_where(rows, **wanted)]
