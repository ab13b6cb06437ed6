"""Observations merged by distinct row: their number, which fades, and their sum of rewards."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np

from zoosim.core.arrays import resized
from zoosim.core.limits import MOST, NOT_NEGATIVE, Limits
from zoosim.core.state import Stateful, blank, saved_length
from zoosim.core.types import FloatArray, IntArray

FORGOTTEN = 1e-9
"""A weight below which a row's observations count for nothing."""


class RowHistory(Stateful):
    """Rows `xs (n, d)` in the order they came up, their `counts (n,)` and `sums (n,)`, and when each was `last` seen.

    A row that was a candidate and never observed has count 0; `n_observed` is how many have another.
    """

    learned = ("time", "xs", "counts", "sums", "last")

    def __init__(self, dim: int) -> None:
        """`dim` is the length of a row."""
        self._xs = np.zeros((0, dim))
        self._counts = np.zeros(0)
        self._sums = np.zeros(0)
        self._last = np.zeros(0, np.int64)
        self._index = dict[bytes, int]()
        self.time = 0
        self.n_observed = 0

    def __len__(self) -> int:
        return len(self._index)

    @property
    def xs(self) -> FloatArray:
        """The rows."""
        return self._xs[: len(self)]

    @property
    def counts(self) -> Annotated[FloatArray, NOT_NEGATIVE]:
        """The weights of their observations."""
        return self._counts[: len(self)]

    @property
    def sums(self) -> FloatArray:
        """The weighted sums of their rewards."""
        return self._sums[: len(self)]

    @property
    def last(self) -> Annotated[IntArray, Limits(-1, MOST)]:
        """The time of each row's last observation, -1 for never."""
        return self._last[: len(self)]

    def number(self, x: FloatArray) -> int:
        """Return the number of row `x (d,)`, a new one if need be."""
        n = len(self)
        number = self._index.setdefault((x + 0.0).tobytes(), n)  # -0.0 is 0.0
        if number == n:
            if n == len(self._xs):
                self._grow(max(64, 2 * n))
            self._xs[n] = x
            self._counts[n] = 0.0
            self._sums[n] = 0.0
            self._last[n] = -1
        return number

    def weight(self, x: FloatArray) -> float:
        """Return the weight of the observations of row `x (d,)`, -1 when it has no number."""
        number = self._index.get((x + 0.0).tobytes(), -1)
        return float(self._counts[number]) if number >= 0 else -1.0

    def add(self, number: int, reward: float) -> None:
        """Count one observation of a row."""
        self.n_observed += self._counts[number] == 0.0
        self._counts[number] += 1.0
        self._sums[number] += reward
        self._last[number] = self.time
        self.time += 1

    def observed(self) -> IntArray:
        """Return the numbers of the rows that count, that observed last at the end: whatever their numbers are."""
        # Rows are numbered as they came up, candidates included; by time of observation, sums run
        # in the same order whatever else was numbered.
        seen = np.flatnonzero(self.counts)
        return seen[np.argsort(self._last[seen])]

    def fade(self, keep: float, max_rows: int) -> None:
        """Multiply all weights by `keep`; forget all but the `max_rows` rows that were observed last.

        Rows that are forgotten keep their numbers.
        """
        self._counts *= keep
        self._sums *= keep
        gone = self.counts < FORGOTTEN
        seen = self.observed()
        if len(seen) > max_rows:
            gone[seen[:-max_rows]] = True
        self.counts[gone] = self.sums[gone] = 0.0
        self.n_observed = int(np.count_nonzero(self.counts))

    def keep_observed(self) -> None:
        """Drop the rows that do not count; the others get new numbers."""
        seen = self.observed()
        self._replace(self._xs[seen], self._counts[seen], self._sums[seen], self._last[seen])

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        n = saved_length(saved, "xs")
        vectors = {"counts": blank(np.float64, n), "sums": blank(np.float64, n), "last": blank(np.int64, n)}
        return {"xs": blank(np.float64, n, self._xs.shape[1]), **vectors}

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        if len({(x + 0.0).tobytes() for x in values["xs"]}) < len(values["xs"]):
            yield "xs holds one row twice"

    def _set_learned(self, values: Mapping[str, Any]) -> None:
        self._replace(*(values[name] for name in ("xs", "counts", "sums", "last")))
        self.time = values["time"]

    def _replace(self, xs: FloatArray, counts: FloatArray, sums: FloatArray, last: IntArray) -> None:
        self._xs = xs
        self._counts = counts
        self._sums = sums
        self._last = last
        self.n_observed = int(np.count_nonzero(counts))
        self._index = {(x + 0.0).tobytes(): n for n, x in enumerate(xs)}

    def _grow(self, room: int) -> None:
        self._xs = resized(self._xs, room, self._xs.shape[1])
        self._counts = resized(self._counts, room)
        self._sums = resized(self._sums, room)
        self._last = resized(self._last, room)
