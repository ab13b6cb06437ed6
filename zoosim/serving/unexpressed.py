"""Values of a request that a model's schema does not express: kept beside a decision, within bounds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from zoosim.policies.model import ID, name_of
from zoosim.schema.schema import FittedSchema
from zoosim.serving.bodies import DecideBody, SlotBody
from zoosim.serving.events import Unexpressed
from zoosim.serving.ids import check_columns, why_no_id

MOST_KEPT = 100
"""Columns of a visitor, or of a candidate, that are kept."""

LONGEST_TEXT = 256
"""Characters of texts that are kept: longer ones are no levels."""

MOST_BYTES, MOST_FIRST_BYTES = 16_384, 65_536
"""Bytes that are kept of a request once there is a schema, and before there is one."""


def unexpressed_in(
    body: DecideBody, slots: Sequence[SlotBody], fitted: FittedSchema, names: Sequence[str], is_first: bool
) -> Unexpressed:
    """Return what a request holds that a schema does not express, as much of it as is kept.

    Args:
        body: The request.
        slots: What it is to fill, where slots differ.
        fitted: The schema.
        names: The candidates among which it is decided.
        is_first: Whether there is no schema yet, so that nearly all is kept.

    Raises:
        PolicyError: there is no schema yet, and a column is not to be kept.
    """
    budget = _Budget(MOST_FIRST_BYTES if is_first else MOST_BYTES)
    visitors = [{**body.visitor, **slot.visitor} for slot in slots] or [body.visitor]
    for values in (*visitors, *(body.candidates or ())) if is_first else ():
        if isinstance(values, dict):
            check_columns(values.keys(), values.values())
    visitor_values = [dict(budget.kept(fitted.visitors.unexpressed(visitor))) for visitor in visitors]
    candidates = []
    candidate_names = set(names)
    for candidate in body.candidates or ():
        if isinstance(candidate, dict):
            columns = {name: value for name, value in candidate.items() if name != ID}
            kept_values = dict(budget.kept(fitted.products.unexpressed(columns)))
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
