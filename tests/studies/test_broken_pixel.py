"""The study of a broken pixel: its page, and in its long form one shop."""

import pytest

from studies.broken_pixel import build_page, measure
from studies.broken_pixel.measuring import TRAFFIC, Run


def test_the_page_says_how_soon_learning_is_frozen() -> None:
    rows = [Run(seed, traffic, 60.0 / traffic + seed, 2.0, "running") for seed in range(3) for traffic in TRAFFIC]
    rows[0] = Run(0, 1.0, None, None, "rolled back")
    page = build_page(rows)
    assert page.answer == "Learning was frozen in 8 of 9 shops, and went on by itself in 8."
    [table] = page.tables
    assert table.rows[0] == ("20,000", "3", "1 never", "1 never", "1")
    assert table.rows[1] == ("200,000", "3", "7.0 (6.0 to 8.0)", "2.0 (2.0 to 2.0)", "0")


@pytest.mark.slow
def test_learning_freezes_and_goes_on() -> None:
    assert all(row.to_freeze and row.to_go_on for row in measure(seeds="0:1"))
