"""Q17 on one small shop: every estimate and pair is counted, and a wrong sign is seen."""

import math
from pathlib import Path

import pytest

from benchmarks.quality.predicted_values import Tally, judge
from zoosim.core.statistics import Interval
from zoosim.off_policy.compare import Difference


def test_pairs_are_counted_by_hand() -> None:
    """Told apart with the right sign and with the wrong one, not told apart, and not compared; half-widths of 1."""
    tally = Tally()
    row = Difference("a", "b", "dm", 3.0, 2.0, 4.0, 0.01, 10, "weak")
    tally.add_compared(row, 2.5)
    tally.add_compared(row, -0.1)
    tally.add_compared(row._replace(low=-0.5, high=1.5, p=0.4), 2.5)
    tally.add_compared(row._replace(low=-math.inf, high=None, p=0.4), 2.5)
    values = (Interval(3.0, 2.2, 3.8), Interval(0.0, -0.6, 0.6))  # 1.6 and 1.2 wide, so 2 together
    tally.add_not_compared(values, 2.5)
    tally.add_not_compared(values, -1.9)
    assert (tally.pairs, tally.compared, tally.told_apart, tally.wrong) == (6, 4, 2, 1)
    assert (tally.clear, tally.clear_and_told, tally.clear_and_silent) == (3, 1, 1)


@pytest.mark.slow
def test_a_small_shop(tmp_path: Path) -> None:
    tallies: dict[tuple[str, ...], Tally] = {}
    judge(tmp_path, 0, tallies, visits=600)
    assert {key for key in tallies if len(key) == 2} == {
        (reward, estimator) for reward in ("click", "revenue") for estimator in ("dr", "dm")
    }
    of_clicks = tallies["click", "dm"]
    assert len(of_clicks.covered) == 5
    assert of_clicks.pairs == 15
    assert of_clicks.line("click, dm").startswith("Q17 click, dm: error ")
    assert tallies["click", "dm", "random"].errors[0] == pytest.approx(0.0, abs=0.8)
