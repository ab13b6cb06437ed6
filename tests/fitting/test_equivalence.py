"""Equivalence within a margin: by hand, its error rates, and that overlapping intervals are not enough."""

import numpy as np
import pytest

from zoosim.core.statistics import Interval
from zoosim.fitting.equivalence import compare_values


def by_log(mean: float, error: float) -> Interval:
    return Interval(mean, mean - 1.959964 * error, mean + 1.959964 * error)


@pytest.mark.parametrize(
    ("world", "error", "agrees", "words"),
    [
        (1.02, 0.03, True, "agrees within 10%"),  # .02 + 1.645 * .03 = .069
        (0.98, 0.03, True, "agrees within 10%"),
        (1.06, 0.03, None, "cannot tell (needs about 3,500 rows)"),  # 1000 (2.486 * .03 / .04)^2 = 3,477
        (1.14, 0.03, None, "cannot tell (needs about 3,500 rows)"),
        (1.16, 0.03, False, "differs by more than 10%"),  # .16 - 1.645 * .03 = .111
        (0.84, 0.03, False, "differs by more than 10%"),
        (1.00, 0.30, None, "cannot tell (needs about 56,000 rows)"),  # 1000 (2.486 * .3 / .1)^2 = 55,600
        (1.10, 0.03, None, "cannot tell"),  # at the margin no number of rows tells
    ],
)
def test_answers_by_hand(world: float, error: float, agrees: bool | None, words: str) -> None:
    result = compare_values(world, 0.0, by_log(1.0, error), 1.0, 1_000)
    assert (result.agrees, result.words) == (agrees, words)


def test_the_case_that_overlap_called_agreement() -> None:
    """World .0186 (.0175 to .0200), log .0167 (.0156 to .0179), logged .0231; the truth is .0163, off by 10%."""
    result = compare_values(0.0186, 0.0, Interval(0.0167, 0.0156, 0.0179), 0.0231, 60_000)
    assert result.agrees is None


def test_both_errors_count() -> None:
    """3 and 4 make 5: the interval is 1.645 * .05 to either side."""
    result = compare_values(1.0, 0.03, by_log(1.0, 0.04), 1.0, 1_000)
    assert (result.high - result.low) / 2.0 == pytest.approx(1.644854 * 0.05, rel=1e-5)


def test_error_rates() -> None:
    """20,000 logs each: at the margin 5% agree, half a percent more at most; at a third of it more than 80%.

    Overlap of the intervals, the broken rule, agrees in more than half of the worlds at the margin.
    """
    error = 0.027
    noise = error * np.random.default_rng(0).normal(size=20_000)
    results = {
        off: [compare_values(1.0 + off, 0.0, by_log(1.0 + e, error), 1.0, 1) for e in noise] for off in (0.1, 0.033)
    }
    shares = {off: np.mean([row.agrees is True for row in rows]) for off, rows in results.items()}
    assert shares[0.1] == pytest.approx(0.05, abs=0.005)
    assert shares[0.033] > 0.8
    overlap = np.mean(np.abs(0.1 - noise) < 1.96 * (error + error))
    assert overlap > 0.5


def test_an_open_end_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="open end"):
        compare_values(1.0, 0.0, Interval(1.0, 0.9, None), 1.0, 100)
