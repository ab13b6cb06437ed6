"""The study of what logs of known shops answer: its page, from made-up answers."""

import pytest

from studies.asked_logs import build_page, measure
from studies.asked_logs.measuring import CONTROL, DEFAULT, Asked
from zoosim.core.errors import ConfigError


def test_the_page_counts_answers_and_intervals_that_hold() -> None:
    rows = [
        Asked(DEFAULT, 3_000, 0, 0.66, "planning", 0.70, 0.60, 0.80),
        Asked(DEFAULT, 3_000, 1, 0.66, "cannot tell", 0.90, 0.80, 0.97),
        Asked(CONTROL, 3_000, 0, 0.99, "cannot tell"),
    ]
    page = build_page(rows)
    assert page.tables[0].rows == [
        (DEFAULT, "66.0", "80.0", "17.2", "18.5", "50% (9 to 91)", "1", "0", "0", "1"),
        (CONTROL, "99.0", "nan", "nan", "nan", "0% (0 to 79)", "0", "0", "0", "1"),
    ]


def test_a_shop_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="elsewhere"):
        measure(seeds=1, shops=["elsewhere"])
