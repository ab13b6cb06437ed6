"""The candidates of a request from several sources, merged by rules that leave nothing to chance.

What the rules of a shop forbid at the end (`zoosim.serving.shop_rules`), they forbid on a page; these ones decide what
is ranked at all.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.checks import check_whole
from zoosim.core.digests import value_digest
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown
from zoosim.core.types import CandidateSource, IntArray
from zoosim.ranking.caps import CapCounts, GroupCap
from zoosim.retrieval.checks import MOST_MATCHES, check_ids
from zoosim.retrieval.sources import Source

ALWAYS = "always"
"""Name of the source of products that always are candidates."""


class PoolCap:
    """A cap on how many candidates of one group, such as a brand, there are.

    Args:
        ids: Ids of products `(m,)`, each once; others are of no group, and never capped.
        groups: The group of each `(m,)`: numbers or words; None or NaN for none, which is never capped.
        most: How many candidates of a group at most, at least 1.
    """

    def __init__(self, ids: Any, groups: Any, most: int) -> None:
        checked_ids = check_ids("ids", ids)
        codes = _group_codes(np.asarray(groups).reshape(-1))
        if len(codes) != len(checked_ids):
            raise DataError(f"groups: got {len(codes):,}, expected one per id ({len(checked_ids):,})")
        order = np.argsort(checked_ids)
        self._ids = checked_ids[order]
        self._codes = codes[order]
        self.most = check_whole("most", most, 1, MOST_MATCHES)

    @cached_property
    def version(self) -> str:
        """Names the products, their groups and the cap."""
        return value_digest([self._ids.tolist(), self._codes.tolist(), self.most])

    def over(self, ids: IntArray) -> GroupCap:
        """Return the cap on some products `(m,)`."""
        if not len(self._ids):
            return GroupCap(np.full(len(ids), -1), self.most)
        places = np.searchsorted(self._ids, ids).clip(max=len(self._ids) - 1)
        return GroupCap(np.where(self._ids[places] == ids, self._codes[places], -1), self.most)


def _group_codes(groups: np.ndarray) -> IntArray:
    """Return a number per group, -1 where there is none."""
    if groups.dtype.kind == "O":
        is_missing = np.array([group is None or group != group for group in groups], bool)
        groups = groups.astype(str)
    else:
        is_missing = groups != groups
    codes = np.full(len(groups), -1)
    codes[~is_missing] = np.unique(groups[~is_missing], return_inverse=True)[1].reshape(-1)
    return codes


class Candidates(NamedTuple):
    """The candidates of a request, in the order in which they were taken.

    Attributes:
        ids: Their ids `(m,)`, each once.
        source: Which of `names` each came from `(m,)`.
        names: Names of the sources.
    """

    ids: IntArray
    source: IntArray
    names: tuple[str, ...]

    def of(self, name: str) -> IntArray:
        """Return the ids of the candidates that came from a source."""
        return np.asarray(self.ids[self.source == self.names.index(name)])


class CandidatePool:
    """Sources of candidates, and the rules by which they are merged.

    1. What is `never` shown is no candidate, whatever else says.
    2. What is `always` shown comes first. Caps count it, and never keep it out.
    3. Then the sources take their turns, in their order. Each brings its best products, up to its count: what is there
       already, is never shown, or whose group has as many as its cap allows, is passed over, and the next takes its
       place. A source proposes twice as many as it brings, and brings fewer where more than half are passed over.
    4. Once there are `most` candidates, no more are taken.

    Nothing is drawn: candidates follow from the query, the time and the `version`. So a ranker's probabilities, given
    the candidates, are those of the whole decision, and `source` is what a log needs to know of where they came from.

    Args:
        sources: The sources, each with a name of its own.
        most: How many candidates at most, 1 to 100,000; what is `always` shown counts.
        always: Ids of products that always are candidates.
        never: Ids of products that never are.
        caps: Caps on groups of products; all of them hold.

    Raises:
        ConfigError: two sources share a name, or `most` is out of range or less than what is `always` shown.
        DataError: ids are no whole numbers, or one comes twice.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        most: int = 500,
        always: Any = (),
        never: Any = (),
        caps: Sequence[PoolCap] = (),
    ) -> None:
        self.most = check_whole("most", most, 1, MOST_MATCHES)
        self.sources = tuple(sources)
        self.names = (ALWAYS, *(source.name for source in self.sources))
        for name in self.names:
            if self.names.count(name) > 1:
                raise ConfigError(f"sources: got the name {shown(name)} twice, expected another for each")
        # Checked sorted or not, they keep their order: the first of `always` is the first candidate.
        self._always = check_ids("always", np.asarray(always))
        self._never = check_ids("never", np.asarray(never))
        if len(self._always) > self.most:
            raise ConfigError(f"most: got {self.most:,}, expected at least as many as always ({len(self._always):,})")
        self._caps = tuple(caps)

    @property
    def version(self) -> str:
        """Names the sources, what they propose from, and the rules, in hexadecimal digits."""
        sources = [[source.name, source.version, source.count] for source in self.sources]
        caps = [cap.version for cap in self._caps]
        return value_digest([sources, self.most, self._always.tolist(), sorted(self._never.tolist()), caps])

    @property
    def source(self) -> CandidateSource:
        """The pool as a source of candidates in logs and contexts; nothing is drawn, so its propensity is 1."""
        return CandidateSource("pool", self.version, 1.0)

    def candidates(self, query: Any, *, now: float = 0.0, unavailable: Any = ()) -> Candidates:
        """Return the candidates of a request.

        Args:
            query: The visitor's query `(d,)`, as the index of a search takes it.
            now: The time of the request, in seconds since 1970; new arrivals go by it.
            unavailable: Ids of products that cannot be shown now, such as those out of stock.

        Raises:
            DataError: a source refuses the query, or ids are no whole numbers.
        """
        closed = self._never
        unavailable_ids = check_ids("unavailable", np.asarray(unavailable))
        if len(unavailable_ids):
            closed = np.append(closed, unavailable_ids)
        proposed = [self._always, *(source.propose(query, now) for source in self.sources)]
        counts = [len(self._always), *(source.count for source in self.sources)]
        merged = _merge(proposed, counts, self.most, closed, self._caps)
        return Candidates(*merged, self.names)


def _merge(
    proposed: Sequence[IntArray], counts: Sequence[int], most: int, closed: IntArray, caps: Sequence[PoolCap]
) -> tuple[IntArray, IntArray]:
    """Return the ids that are taken, and the number of the source of each; the first source is not capped."""
    ids = np.concatenate(proposed)
    source_of = np.repeat(np.arange(len(proposed)), [len(each) for each in proposed])
    is_closed = np.isin(ids, closed).tolist()
    cap_counts = CapCounts([cap.over(ids) for cap in caps], len(ids))
    taken: list[int] = []
    known: set[int] = set()
    left = list(counts)
    for place, (product, source) in enumerate(zip(ids.tolist(), source_of.tolist(), strict=True)):
        if len(taken) == most:
            break
        if left[source] == 0 or is_closed[place] or product in known:
            continue
        if caps:
            if source > 0 and cap_counts.closed[place]:
                continue
            cap_counts.add(place)
        taken.append(place)
        known.add(product)
        left[source] -= 1
    return ids[taken], source_of[taken]
