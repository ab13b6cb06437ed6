"""Where candidates come from: what a search finds for a visitor, what most people like, and what is new."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from zoosim.core.checks import check_number, check_whole
from zoosim.core.digests import value_digest
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown
from zoosim.core.types import FloatArray, IntArray
from zoosim.retrieval.checks import MOST_MATCHES, check_ids
from zoosim.retrieval.index import Index

REACH = 2
"""How many times as many products a source proposes as it brings: rules may pass over some."""


class Source(ABC):
    """Proposes products, the best first, without chance.

    Args:
        name: What logs call it.
        count: How many candidates it brings, 1 to 100,000.
    """

    def __init__(self, name: str, count: Any) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"name: got {shown(name)}, expected a word")
        self.name = name
        self.count = check_whole("count", count, 1, MOST_MATCHES)

    @property
    @abstractmethod
    def version(self) -> str:
        """Names what it proposes from: with equal versions it proposes the same to the same requests."""

    @abstractmethod
    def propose(self, query: Any, now: float) -> IntArray:
        """Return ids of products `(m,)`, each once, the best first.

        Args:
            query: The visitor's query `(d,)`, as the index of a search takes it.
            now: The time of the request, in seconds since 1970.
        """


class Retrieved(Source):
    """The products whose vectors have the largest inner products with the visitor's query.

    Args:
        index: The products and their vectors.
        count: How many candidates it brings.
        name: What logs call it.
    """

    def __init__(self, index: Index, count: int, name: str = "retrieval") -> None:
        super().__init__(name, count)
        self.index = index

    @property
    def version(self) -> str:
        """Names what the index holds, and how it searches."""
        return self.index.version

    def propose(self, query: Any, now: float) -> IntArray:
        """Return the best products for a query, the best first."""
        ids = self.index.search(query, min(REACH * self.count, MOST_MATCHES)).ids[0]
        return np.asarray(ids[ids >= 0])


class Popular(Source):
    """The products with the highest numbers, such as counts of clicks; of equal ones the lower id first.

    Args:
        ids: Ids of products `(m,)`, each once.
        numbers: Their numbers `(m,)`.
        count: How many candidates it brings.
        name: What logs call it.
    """

    def __init__(self, ids: Any, numbers: Any, count: int, name: str = "popular") -> None:
        super().__init__(name, count)
        checked_ids, checked_numbers = _numbered(ids, numbers)
        order = np.lexsort((checked_ids, -checked_numbers))
        self._ids = checked_ids[order][: REACH * self.count]

    @cached_property
    def version(self) -> str:
        """Names the products, in their order."""
        return value_digest(self._ids.tolist())

    def propose(self, query: Any, now: float) -> IntArray:
        """Return the products, whoever asks."""
        return self._ids


class NewArrivals(Source):
    """The products that came in the last days, the newest first; of those that came together the lower id first.

    Args:
        ids: Ids of products `(m,)`, each once.
        times: When each came, in seconds since 1970 `(m,)`.
        days: How long a product is new, above 0.
        count: How many candidates it brings.
        name: What logs call it.
    """

    def __init__(self, ids: Any, times: Any, days: float, count: int, name: str = "new") -> None:
        super().__init__(name, count)
        self._seconds = 86_400 * check_number("days", days, 0.0, 36_500.0, above=True)
        checked_ids, checked_times = _numbered(ids, times)
        order = np.lexsort((checked_ids, -checked_times))
        self._ids = checked_ids[order]
        self._times = checked_times[order]

    @cached_property
    def version(self) -> str:
        """Names the products, when they came, and how long they are new."""
        return value_digest([self._ids.tolist(), self._times.tolist(), self._seconds])

    def propose(self, query: Any, now: float) -> IntArray:
        """Return the products that are new at the time of the request."""
        # Times fall, so what is new stands between those yet to come and those of old.
        first, stop = np.searchsorted(-self._times, [-now, self._seconds - now], side="left")
        return self._ids[first:stop][: REACH * self.count]


def _numbered(ids: Any, numbers: Any) -> tuple[IntArray, FloatArray]:
    checked_ids = check_ids("ids", ids)
    checked_numbers = np.asarray(numbers)
    if checked_numbers.shape != checked_ids.shape or checked_numbers.dtype.kind not in "iuf":
        raise DataError(f"ids: got {len(checked_ids):,} and {shown(numbers)}, expected as many numbers")
    values = checked_numbers.astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError("ids: got numbers that are missing or infinite, expected finite ones")
    return checked_ids, values
