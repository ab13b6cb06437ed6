"""Age of a log's rows by its own time, in which gaps count nothing: no clock is a reason to remove a row.

A *gap* is time through which no service of the log is known to have lived: it may have passed while none ran, or a
clock may have been set while none could tell. The log keeps its gaps among the changes of its start.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zoosim.core.durations import DAY
from zoosim.serving.clock import Gap

GAPS = "gaps"
"""The part of the changes in a log that are its gaps, and the name of their list in it."""

MOST_GAPS = 50
"""Gaps that are kept apart; what is merged beyond that keeps rows longer, never shorter."""


def gaps_in(changes: Mapping[str, Any]) -> list[Gap]:
    """Return the gaps of a log, oldest first."""
    return [Gap(int(start), int(end)) for start, end in changes.get(GAPS, {}).get(GAPS, [])]


def with_gaps(gaps: Iterable[Gap], new: Iterable[Gap]) -> dict[str, Any]:
    """Return what the changes in a log say of its gaps once there are further ones.

    Args:
        gaps: The log's gaps.
        new: Those that are to be added; one that is there already changes nothing.

    Returns:
        The value of the part `GAPS`, which `gaps_in` reads: the gaps by their ends, the oldest of more than
        `MOST_GAPS` merged.
    """
    merged_gaps = sorted({*gaps, *new}, key=lambda each: each.end)
    while len(merged_gaps) > MOST_GAPS:
        first, second, *later = merged_gaps
        # All of both counts as if it had been at the end of the later one: rows between them seem younger.
        merged_gaps = [Gap(second.start - (first.end - first.start), second.end), *later]
    return {GAPS: [list(each) for each in merged_gaps]}


def old_before(now: int, days: float, gaps: Sequence[Gap]) -> int:
    """Return the time before which rows are older than some days, which gaps do not count towards.

    Args:
        now: The time of the log, in microseconds, as all times here.
        days: How many days.
        gaps: The log's gaps, oldest first.
    """
    before = now - round(days * DAY)
    # From the newest: each gap that lies within the days moves their beginning back by its length, and so further gaps
    # may come to lie within them.
    for gap in reversed(gaps):
        if gap.end <= before:
            break
        before -= gap.end - gap.start
    return before
