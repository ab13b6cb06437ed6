"""How old rows are where time had gaps, by hand."""

from zoosim.core.durations import DAY
from zoosim.serving.clock import Gap
from zoosim.serving.retention import MOST_GAPS, gaps_in, old_before, with_gaps


def test_gaps_count_nothing() -> None:
    """At day 100, with gaps from day 50 to 95 and from 20 to 30: ten days back are 95 to 100 and 45 to 50."""
    gaps = [Gap(20 * DAY, 30 * DAY), Gap(50 * DAY, 95 * DAY)]
    assert old_before(100 * DAY, 4, gaps) == 96 * DAY
    assert old_before(100 * DAY, 10, gaps) == 45 * DAY
    assert old_before(100 * DAY, 21, gaps) == 34 * DAY
    assert old_before(100 * DAY, 26, gaps) == 19 * DAY
    assert old_before(100 * DAY, 10, []) == 90 * DAY


def test_gaps_are_kept_once_and_merged_so_that_rows_are_kept_longer() -> None:
    gaps: list[Gap] = []
    for number in range(2 * MOST_GAPS):
        gap = Gap(10 * number, 10 * number + 3)
        for _ in range(2):
            changes = {"gaps": with_gaps(gaps, [gap])}
            gaps = gaps_in(changes)
    assert len(gaps) == MOST_GAPS
    assert sum(end - start for start, end in gaps) == 3 * 2 * MOST_GAPS
    assert gaps[-1] == Gap(10 * (2 * MOST_GAPS - 1), 10 * (2 * MOST_GAPS - 1) + 3)
    assert gaps == sorted(gaps, key=lambda each: each.end)
