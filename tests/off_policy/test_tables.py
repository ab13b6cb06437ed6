"""The tables of an evaluation: whole at 60, 80 and 120 columns, with digits by their intervals."""

import re
from dataclasses import replace

import pytest

from zoosim.core.statistics import Interval
from zoosim.core.tables import fit_table
from zoosim.off_policy.compare import Difference
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.tables import evaluation_tables

LONG = "my-own-policy-with-a-name-that-nobody-types-twice"


def judged(*names: str, level: float = 0.95) -> Evaluation:
    """Return an evaluation of two estimators per policy, and the differences by one of them."""
    results = [
        Result(name, estimator, 0.0804123, 0.0771456, 0.0836789, 1234.5, 0.998, 45_678.0, "do not use", ("few rows",))
        for name in names
        for estimator in ("snips", "dr")
    ]
    pairs = [(name, other) for name in names for other in ("logged", *names) if name != other]
    differences = [
        Difference(name, other, "dr", 0.0013, -0.0021, 0.0047, 0.4, 1_234_567, "weak") for name, other in pairs
    ]
    logged = Interval(0.0231, 0.0219, 0.0243)
    return Evaluation(
        tuple(results), tuple(differences), logged, 60_000, 9_000, {}, "shop.parquet", reward="click", level=level
    )


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["random", "published-neural-linear", LONG])
def test_what_decides_is_whole(width: int, name: str) -> None:
    estimates, differences = (fit_table(table, width) for table in evaluation_tables(judged(name, "adaptive")))
    for _, lines, _ in (estimates, differences):
        assert max(map(len, lines)) <= width
    text = "\n".join(estimates.lines)
    for cell in ("0.0231", "0.0219 to 0.0243", "0.0804", "0.0771 to 0.0837"):
        assert cell in text
    assert text.count("snips") == 2
    words = [len(re.findall(rf"\b{word}\b", text)) for word in ("do", "not", "use")]  # which may stand in several lines
    assert words == [4, 4, 4]
    text = "\n".join(differences.lines)
    for cell in ("+0.0013", "-0.0021 to +0.0047"):
        assert cell in text


def test_more_room_shows_more_and_all_are_shown_if_asked() -> None:
    table, _ = evaluation_tables(judged("random"))
    left_out = [fit_table(table, width).left_out for width in (60, 80, 120)]
    assert left_out == sorted(left_out, reverse=True)
    assert left_out[0] > left_out[-1] == 0
    wide = fit_table(table)
    assert wide.left_out == 0
    assert "45,678" in "\n".join(wide.lines)


def test_titles_tell_rewards_apart() -> None:
    evaluation = replace(judged("random"), others={"revenue": replace(judged("random"), reward="revenue")})
    clicks, revenue, _ = evaluation_tables(evaluation)
    assert clicks.title == "shop.parquet: clicks, 60,000 rows"
    assert revenue.title == "shop.parquet: revenue, 60,000 rows"


def test_heads_name_units_and_the_level() -> None:
    table, differences = evaluation_tables(judged("random", "linear", level=0.9))
    heads = [column.head for column in table.columns]
    assert heads[2:4] == ["clicks\nper visit", "90% interval"]
    assert [column.head for column in differences.columns][:4] == [
        "policy",
        "baseline",
        "more clicks\nper visit",
        "90% interval",
    ]
