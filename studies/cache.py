"""Arrays and rows that a study keeps on disk, so that a run which was stopped goes on."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

import numpy as np

from zoosim.core.array_cache import kept, module_of
from zoosim.core.types import FloatArray

Row = TypeVar("Row")


def kept_rows(
    study: str, key: Sequence[object], row: Callable[..., Row], make: Callable[[], Sequence[Any]]
) -> list[Row]:
    """Return the rows, of the dataclass `row`, that were kept for a `study` under `key`, else what `make` returns.

    They are made anew as `kept_array` says.
    """
    modules = (module_of(make),)
    text = kept(study, key, ("values",), partial(_named, partial(_text, make)), modules=modules)["values"]
    return [row(**fields) for fields in json.loads(str(text))]


def kept_array(study: str, key: Sequence[object], make: Callable[[], Any]) -> Any:
    """Return the array that was kept for a `study` under `key`, else what `make` returns.

    It is made anew when the code has changed of the module that `make` stands in, or of one that it imports.
    """
    return kept(study, key, ("values",), partial(_named, make), modules=(module_of(make),))["values"]


def _named(make: Callable[[], Any]) -> dict[str, FloatArray]:
    return {"values": np.asarray(make())}


def _text(make: Callable[[], Sequence[Any]]) -> str:
    return json.dumps([asdict(row) for row in make()])
