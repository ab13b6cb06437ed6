"""Count the requests whose numbers lie so far from most that they are clipped, and say so."""

import logging
from collections import Counter
from collections.abc import Iterable

from zoosim.schema.encoder import Reading
from zoosim.serving.throttle import Milestones

CLIPPED = "decisions with clipped numbers"
"""The count of decisions for visitors of whom a number, or a list of numbers, was clipped."""

logger = logging.getLogger("zoosim.serving")


class ClippedColumns:
    """Counts decisions with clipped numbers, in all and by column."""

    def __init__(self, counts: Counter[str]) -> None:
        """Start with none.

        Args:
            counts: Where to count those decisions, as `CLIPPED`.
        """
        self._counts = counts
        self._by_column: Counter[str] = Counter()
        self._milestones = Milestones()

    def by_column(self) -> dict[str, int]:
        """Return how many decisions had clipped numbers, by column of visitors, the most frequent first."""
        return dict(self._by_column.most_common())

    def note(self, visitors: Iterable[Reading]) -> None:
        """Count a decision, and say that numbers are clipped the first time, and each time ten times as often.

        Args:
            visitors: What the request says of its visitor, for each slot where slots differ.
        """
        columns = {name for visitor in visitors for name in visitor.clipped()}
        if not columns:
            return
        self._by_column.update(sorted(columns))
        self._counts[CLIPPED] += 1
        if self._milestones.allows(self._counts[CLIPPED]):
            names = ", ".join(f"{name} ({count:,})" for name, count in self._by_column.most_common(10))
            logger.warning("decisions with numbers beyond those of the schema, which are clipped: %s", names)
