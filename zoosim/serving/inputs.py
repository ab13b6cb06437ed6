"""The contract of requests: what they hold is compared with the schema of the model, told, and counted."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from zoosim.core.errors import PolicyError
from zoosim.core.number_format import counted
from zoosim.policies.model import ID
from zoosim.schema.column import DeviationKind
from zoosim.schema.deviations import LONGEST_NAME, Deviation, describe, deviations, shown_name
from zoosim.schema.encoder import Reading
from zoosim.schema.schema import FittedSchema
from zoosim.serving.bodies import DecideBody, SlotBody
from zoosim.serving.described import Contents, Descriptions
from zoosim.serving.throttle import Milestones

VISITOR, CANDIDATES = "visitor", "candidates"
"""Parts of a request whose columns are compared."""

MOST_WARNINGS = 10
"""Deviations that an answer describes; of others it says how many there are."""

MOST_REFUSED = 3
"""Deviations that the line of a refusal describes."""

MOST_COLUMNS = 100
"""Columns of each kind of deviation that are counted by name: names come from outside."""

OTHERS = "(others)"
"""Name under which further columns are counted together."""

GROWABLE = (DeviationKind.UNKNOWN_COLUMN, DeviationKind.NEW_LEVEL)
"""Kinds of deviations that a schema takes up once enough visitors had them."""

logger = logging.getLogger("zoosim.serving")


class InputKey(NamedTuple):
    """The deviations that are counted together: those of a kind in a column of a part of requests."""

    part: str
    column: str
    kind: DeviationKind


class KnownDescriptions:
    """Descriptions of products of which a schema says all, so that they need not be compared with it again."""

    def __init__(self) -> None:
        self._fitted: FittedSchema | None = None
        self._known: Descriptions[bool] = Descriptions()

    def of(self, fitted: FittedSchema) -> Descriptions[bool]:
        """Return those of a schema, none where the last ones were of another."""
        if fitted is not self._fitted:
            self._fitted = fitted
            self._known = Descriptions()
        return self._known


class RequestInputs:
    """Contents of a request, beside a schema.

    Attributes:
        visitors: Its visitor, read by the schema; of slots that differ, of each.
        candidates: The values of its candidates that are described, with their ids, but for descriptions that are
            known.
        unexpressed_visitors, unexpressed_candidates: Those of the values that the schema does not express.
        deviations: The first deviation of each kind in each column.
    """

    def __init__(
        self,
        visitors: Sequence[Reading],
        candidates: Sequence[Mapping[str, Any]],
        fitted: FittedSchema,
        note_known: Callable[[int], None] = lambda place: None,
    ) -> None:
        """Compare with a schema.

        Args:
            visitors, candidates: What the request holds.
            fitted: The schema.
            note_known: Called with the place of each of the candidates of which the schema says all.
        """
        self._fitted = fitted
        self.visitors = visitors
        self.candidates = candidates
        self.deviations: dict[InputKey, Deviation] = {}
        self.unexpressed_visitors = []
        self.unexpressed_candidates = []
        for visitor in visitors:
            unexpressed = visitor.unexpressed()
            self.unexpressed_visitors.append(unexpressed)
            self._note(VISITOR, deviations(visitor, unexpressed))
        for number, candidate in enumerate(candidates):
            product = fitted.products.read({name: value for name, value in candidate.items() if name != ID})
            unexpressed = product.unexpressed()
            self.unexpressed_candidates.append(unexpressed)
            # A description may be of a part of a product; the rest stays as it was.
            if not self._note(CANDIDATES, deviations(product, unexpressed, is_whole=False)) and not unexpressed:
                note_known(number)

    @classmethod
    def of(
        cls,
        body: DecideBody,
        slots: Sequence[SlotBody],
        fitted: FittedSchema,
        contents: Contents,
        known: Descriptions[bool],
    ) -> "RequestInputs":
        """Return what a request for a decision says; `slots` are what to fill where slots differ."""
        of_slots = [{**body.visitor, **slot.visitor} for slot in slots]
        visitors = [fitted.visitors.read(visitor) for visitor in of_slots or [body.visitor]]
        to_compare = [place for place in contents.described if not known.get(contents.keys[place])]
        candidates = [contents.candidates[place] for place in to_compare]
        return cls(visitors, candidates, fitted, lambda number: known.note(contents.keys[to_compare[number]], True))

    @property
    def are_expressed(self) -> bool:
        """True if the schema expresses all values."""
        return not any(self.unexpressed_visitors) and not any(self.unexpressed_candidates)

    def _note(self, part: str, part_deviations: Iterable[Deviation]) -> bool:
        """Note the deviations of a visitor or a candidate, and return whether there are any."""
        is_any = False
        for each in part_deviations:
            self.deviations.setdefault(InputKey(part, each.column, each.kind), each)
            is_any = True
        return is_any

    def warnings(self, grows: bool) -> list[str]:
        """Describe the deviations, each in a line, as many as an answer has; `grows` says whether the schema does."""
        described = [self._line(key, each, grows) for key, each in list(self.deviations.items())[:MOST_WARNINGS]]
        return shortened(described, len(self.deviations))

    def _line(self, key: InputKey, deviation: Deviation, grows: bool) -> str:
        encoder = self._fitted.visitors if key.part == VISITOR else self._fitted.products
        line = f"{key.part}: {describe(deviation, encoder)}"
        return (
            f"{line} (the schema takes it up once enough visitors had it)" if grows and key.kind in GROWABLE else line
        )


def shortened(described: list[str], n_deviations: int) -> list[str]:
    """Return what is described of so many deviations, and how many more there are."""
    n_more = n_deviations - len(described)
    return [*described, f"and {counted(n_more, 'deviation')} more"] if n_more else described


class InputCounts:
    """Counts requests by what they held that the model was not made for.

    Names of columns come from outside, so that of each kind the first ones are counted by name, the others together.
    Counts are of the model that decides, and begin anew with another one.
    """

    def __init__(self, model: Callable[[], str]) -> None:
        """Start with none; `model` returns the digest of the model that decides."""
        self._model = model
        self._counted_for = ""
        self._counts: dict[InputKey, int] = {}
        self._columns: dict[DeviationKind, int] = {}
        self._requests = 0
        self._milestones = Milestones()

    def note(self, keys: Collection[InputKey]) -> None:
        """Count a request, and say what deviates the first time, and each time ten times as many requests do."""
        if not keys:
            return
        self._check_model()
        own_keys = {self._bounded(key) for key in keys}
        for key in own_keys:
            self._counts[key] = self._counts.get(key, 0) + 1
        self._requests += 1
        if self._milestones.allows(self._requests):
            lines = [
                f"{shown_name(key.column)} ({key.part}, {key.kind}, {count:,})" for key, count in self.by_key()[:10]
            ]
            logger.warning("requests that the model was not made for: %s", ", ".join(lines))

    def by_key(self) -> list[tuple[InputKey, int]]:
        """Return how many requests deviated in which way, the most frequent first."""
        self._check_model()
        return sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))

    def as_rows(self) -> list[dict[str, Any]]:
        """Return `by_key` as plain values."""
        return [{**key._asdict(), "requests": count} for key, count in self.by_key()]

    def _check_model(self) -> None:
        if self._model() != self._counted_for:
            self._counted_for = self._model()
            self._counts.clear()
            self._columns.clear()
            self._requests = 0
            self._milestones = Milestones()

    def _bounded(self, key: InputKey) -> InputKey:
        """Return the key under which a deviation is counted."""
        if key in self._counts:
            return key
        n_columns = self._columns.get(key.kind, 0)
        if n_columns == MOST_COLUMNS or not key.column.isprintable() or len(key.column) > LONGEST_NAME:
            return key._replace(column=OTHERS)
        self._columns[key.kind] = n_columns + 1
        # Taken up here, so that one request with many new names stays within the bound, too.
        self._counts[key] = 0
        return key


def refuse(warnings: Sequence[str]) -> None:
    """Refuse a request that the model was not made for, as the setting `strict` asks: `PolicyError`."""
    lines = "; ".join(shortened(list(warnings[:MOST_REFUSED]), len(warnings)))
    raise PolicyError(f"{lines} (refused, since the setting strict is true)")
