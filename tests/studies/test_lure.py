"""The study of discounts that lure: what is measured, and what its page says."""

import pytest

from studies.lure import build_page, measure
from studies.lure.measuring import Reached, reached
from studies.session_curves import Learner
from zoosim.core.errors import ConfigError


def test_boosts_that_never_change_are_worth_their_rung_of_the_ladder() -> None:
    rows = reached(Learner("no boosts", "constant-boosts", {}), 3, 400)
    assert [row.visits for row in rows] == [300, 400]
    assert [row.percent for row in rows] == pytest.approx([56.36, 56.36], abs=0.01)
    assert all(row.online > 20.0 for row in rows)


def ends(learner: str, percents: list[float]) -> list[Reached]:
    """Return figures of two seeds that are 1 point apart."""
    return [
        Reached(learner, seed, visits, percent + seed, 50.0)
        for seed in (0, 1)
        for visits, percent in zip((300, 1_000), percents, strict=True)
    ]


def test_the_page_says_who_looks_ahead() -> None:
    page = build_page([*ends("item-critic", [70.0, 75.0]), *ends("actor-critic", [60.0, 95.0])])
    assert page.answer.startswith("Look ahead: actor-critic reaches 95.5 (")
    assert page.answer.endswith("in 1,000 visits; myopic boosts get 76.6%.")
    (table,) = page.tables
    assert [row[:2] for row in table.rows] == [("item-critic", "70.5"), ("actor-critic", "60.5")]
    assert [row[-2:] for row in table.rows] == [("75.0", "50.0"), ("95.0", "50.0")]
    assert "random 63.0, myopic 76.6, best boosts of each segment 94.1" in table.caption
    nobody = build_page(ends("item-critic", [70.0, 75.0]))
    assert nobody.answer.startswith("Nobody looks ahead yet")


def test_learners_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"lure: unknown learner 'actor-critc' \(did you mean actor-critic"):
        measure(seeds=1, learners=["actor-critc"])
