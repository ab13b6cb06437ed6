"""The study of when it pays to look ahead: which shops it solves, and what its page says of them."""

import pytest

from studies.looking_ahead import build_page
from studies.looking_ahead.measuring import CATEGORIES, DRAWN, LAWS, PERSONAS, Solved, drawn_shop, solve
from studies.looking_ahead.page import MYOPIC
from zoosim.worlds.sessions.config import SessionConfig


def test_a_law_changes_its_fields_alone() -> None:
    assert LAWS["lure of teasers"].changes(2.0) == {"teaser": 2.0}
    both = LAWS["intent and boredom, times"]
    assert both.changes(0.5) == {"intent": 0.75, "boredom": 0.6}
    for law in LAWS.values():
        assert law.default in law.values
        assert SessionConfig.model_validate(law.changes(law.default)) == SessionConfig()


def test_drawn_shops_are_large_and_differ_by_seed() -> None:
    shop = SessionConfig(**drawn_shop(3))
    assert (len(shop.personas), len(shop.categories)) == (PERSONAS, CATEGORIES)
    assert all(first != second for first, second in shop.companions.items())
    assert drawn_shop(3) == drawn_shop(3)
    assert drawn_shop(3) != drawn_shop(4)


@pytest.mark.slow
def test_the_page_says_what_each_shop_takes() -> None:
    (indifferent,) = solve(("weight of satisfaction", 0.0))
    (default,) = solve(("levels of satisfaction", 3))
    assert indifferent.shares[MYOPIC] == pytest.approx(0.999, abs=0.001)
    assert default.optimum == pytest.approx(12.19, abs=0.005)
    assert default.shares[MYOPIC] == pytest.approx(0.665, abs=0.001)
    again = Solved(**{**vars(default), "law": "a visit goes on by", "number": 0.85})
    large = Solved(**{**vars(default), "law": DRAWN, "number": 7})
    page = build_page([indifferent, default, again, large])
    assert page.answer.endswith("of 2 sets of laws, a bandit is enough in 1, planning pays in 1.")
    assert [row[:2] for row in page.tables[0].rows] == [
        ("defaults", "planning pays"),
        ("weight of satisfaction 0", "a bandit is enough"),
    ]
    assert page.details[0].startswith("In 1 large shops drawn at random planning pays in 1: ")
    assert [row[0] for row in page.tables[2].rows] == ["defaults", "weight of satisfaction 0", "drawn, seed 7"]
