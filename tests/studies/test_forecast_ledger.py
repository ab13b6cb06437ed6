"""The study of forecasts: its page, and in its long form one quarter."""

import pytest

from studies.forecast_ledger import build_page, measure
from studies.forecast_ledger.measuring import CALM, SHOCKED, Row
from zoosim.core.errors import ConfigError
from zoosim.serving.forecasts.scores import EARLY, HELD, MISSED, UNKNOWN


def row(shop: str, kind: str, outcome: str, came: float, verdict: str = "trust") -> Row:
    return Row(0, shop, kind, "linucb", verdict, 0.3, 0.2, 0.4, 100, outcome, 100, came, 0.01)


def test_the_page_counts_intervals_that_held_by_kind() -> None:
    rows = [
        row(CALM, "train", HELD, 0.3),
        row(CALM, "train", MISSED, 0.1, "weak"),
        row(CALM, "train", EARLY, 0.0),
        row(CALM, "launch, a drop", UNKNOWN, 0.0, ""),
        row(SHOCKED, "train", MISSED, 0.9),
    ]
    page = build_page(rows)
    assert page.answer.startswith("Of 5 forecasts of 2 quarters the truth of 3 came: 1 (33%")
    by_kind, by_verdict = page.tables
    assert [each[:6] for each in by_kind.rows] == [
        ("launch, a drop", CALM, "0", "\N{EN DASH}", "0", "0"),
        ("train", CALM, "2", "1 (50%, 9\N{EN DASH}91%)", "1", "0"),
        ("train", SHOCKED, "1", "0 (0%, 0\N{EN DASH}79%)", "0", "1"),
    ]
    assert [each[-2:] for each in by_kind.rows] == [("0", "1"), ("1", "0"), ("0", "0")]
    assert [each[:2] for each in by_verdict.rows] == [("trust", "2"), ("weak", "1")]


def test_a_shop_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="shops: got 'loud', expected some of"):
        measure(seeds="0:1", shops="loud")


@pytest.mark.slow
def test_a_quarter_makes_forecasts_and_scores_them() -> None:
    rows = measure(seeds="0:1", shops=CALM, days=30)
    assert {"train", "evaluate", "launch, a drop", "launch, a lift"} <= {row.kind for row in rows}
    assert any(row.outcome == HELD for row in rows)
