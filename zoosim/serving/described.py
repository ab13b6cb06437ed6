"""Products as requests describe them: a shop that sends features with each request sends the same ones again and again.

What came of a description is kept by its content, to the bit and the type of each value, so that it is encoded, and
compared with the schema, once, and not with each request.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

MOST_BYTES = 32 * 2**20
"""Bytes of descriptions that are kept: when they are more, all are forgotten, and come anew with the next requests."""

Outcome = TypeVar("Outcome")

_encode = msgspec.msgpack.Encoder().encode


class Contents:
    """The candidates of a request, and what each is looked up by.

    Attributes:
        candidates: The candidates.
        keys: Of each that is described the content, or None where it cannot be written as bytes; the others as given.
        described: The places of those that are described.
    """

    def __init__(self, candidates: Sequence[Any] | None) -> None:
        self.candidates: Sequence[Any] = () if candidates is None else candidates
        self.keys: Sequence[Any] = self.candidates
        self.described: list[int] = []
        if set(map(type, self.candidates)) != {str}:
            self.keys = _keys_of(self.candidates)
            self.described = [place for place, each in enumerate(self.candidates) if isinstance(each, dict)]


class Descriptions(Generic[Outcome]):
    """Outcomes of descriptions by their content."""

    def __init__(self) -> None:
        self._outcomes: dict[bytes, Outcome] = {}
        self._bytes = 0
        self.get: Callable[[bytes | None], Outcome | None] = self._outcomes.get  # type: ignore[assignment]
        """Returns what came of a content; None where that is not known."""

    def note(self, content: bytes | None, outcome: Outcome) -> None:
        """Keep what came of a content."""
        if content is None:
            return
        if content not in self._outcomes:
            self._bytes += len(content)
            if self._bytes > MOST_BYTES:
                self._outcomes.clear()
                self._bytes = len(content)
        self._outcomes[content] = outcome


def _keys_of(candidates: Sequence[Any]) -> list[Any]:
    """Return what candidates are looked up by, None for one that holds a number such as 2**64, which has no bytes."""
    try:
        return [_encode(each) if isinstance(each, dict) else each for each in candidates]
    except (OverflowError, TypeError, ValueError):
        if len(candidates) == 1:
            return [None]
        return [key for each in candidates for key in _keys_of([each])]
