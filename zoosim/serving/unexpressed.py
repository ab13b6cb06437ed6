"""Values of a request that a model's schema does not express: kept beside a decision, within bounds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from zoosim.policies.model import name_of
from zoosim.serving.events import Unexpressed
from zoosim.serving.ids import check_columns, why_no_id
from zoosim.serving.inputs import RequestInputs

MOST_KEPT = 100
"""Columns of a visitor, or of a candidate, that are kept."""

LONGEST_TEXT = 256
"""Characters of texts that are kept: longer ones are no levels."""

MOST_BYTES, MOST_FIRST_BYTES = 16_384, 65_536
"""Bytes that are kept of a request once there is a schema, and before there is one."""


def unexpressed_in(inputs: RequestInputs, names: Sequence[str], is_first: bool) -> Unexpressed:
    """Return what a request holds that a schema does not express, as much of it as is kept.

    Args:
        inputs: What the request holds.
        names: The candidates among which it is decided.
        is_first: Whether there is no schema yet, so that nearly all is kept.

    Raises:
        PolicyError: there is no schema yet, and a column is not to be kept.
    """
    if inputs.are_expressed and not is_first:
        return Unexpressed([], [])
    budget = _Budget(MOST_FIRST_BYTES if is_first else MOST_BYTES)
    if is_first:
        for values in (*(visitor.values for visitor in inputs.visitors), *inputs.candidates):
            check_columns(values.keys(), values.values())
    visitor_values = [dict(budget.kept(values)) for values in inputs.unexpressed_visitors]
    candidates = []
    candidate_names = set(names)
    for candidate, values in zip(inputs.candidates, inputs.unexpressed_candidates, strict=True):
        kept_values = dict(budget.kept(values))
        if kept_values and name_of(candidate) in candidate_names:
            candidates.append((name_of(candidate), kept_values))
    return Unexpressed(visitor_values, candidates)


class _Budget:
    """Counts the bytes that are left."""

    def __init__(self, most_bytes: int) -> None:
        self._bytes = most_bytes

    def kept(self, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield those of the values for which there is room."""
        for name in sorted(values)[:MOST_KEPT]:
            value = values[name]
            if why_no_id(name) or (isinstance(value, str) and len(value) > LONGEST_TEXT):
                continue
            size = len(name) + len(msgspec.json.encode(value)) + 4
            if size <= self._bytes:
                self._bytes -= size
                yield name, value
