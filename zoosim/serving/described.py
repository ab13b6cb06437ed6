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
    """The candidates of a request, and the content of each that is described.

    Attributes:
        candidates: The candidates.
        described: Pairs of the place of each that is described, and its content; None for what has none.
    """

    def __init__(self, candidates: Sequence[Any] | None) -> None:
        self.candidates: Sequence[Any] = () if candidates is None else candidates
        self.described: list[tuple[int, bytes | None]] = []
        if set(map(type, self.candidates)) != {str}:
            places = [place for place, each in enumerate(self.candidates) if isinstance(each, dict)]
            self.described = list(zip(places, _contents_of([self.candidates[place] for place in places]), strict=True))


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


def _contents_of(candidates: Sequence[dict[str, Any]]) -> Sequence[bytes | None]:
    """Return descriptions as bytes, None for what has none, such as a whole number of more than 64 bits."""
    try:
        return [_encode(candidate) for candidate in candidates]
    except (OverflowError, TypeError, ValueError):
        if len(candidates) == 1:
            return [None]
        return [content for candidate in candidates for content in _contents_of([candidate])]
