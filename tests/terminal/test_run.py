"""What `zoosim run` prints: a table that fits, the most important columns first."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zoosim.arena.tables import results_table
from zoosim.core.tables import FittedTable, fit_table
from zoosim.terminal.run import print_result
from zoosim.worlds.registry import find_world

NAMES = ["adaptive", "published-neural-linear", "random"]
FRACTION = {"mean": 0.984, "low": 0.981, "high": 0.987, "sd": 0.004, "min": 0.972}
ALWAYS = ["policy", "% of", "oracle", "95%", "interval", "worst", "seed"]


def finished(shocks: int, kind: str = "recommendation", failed: bool = False, names: list[str] = NAMES) -> Any:
    """Return what `print_result` reads of a run, with figures as wide as they come."""
    figures: dict[str, Any] = {
        "oracle_fraction": FRACTION,
        "recovery_steps": {f"shock {n}": {"of": 10, "recovered": 10, "median": 1_380.0} for n in range(shocks)},
        "phases": [{"ctr": FRACTION, "oracle_fraction": FRACTION}] * 2,
        "failed": [{"seed": 0}] * failed,
    }
    if kind == "search":
        keys = ("reward", "gmv", "cm2", "strategic_share", "rank_change")
        figures |= {key: {"mean": 12.345, "low": 12.33, "high": 12.355} for key in keys}
    else:
        figures["ctr"] = FRACTION
    shop = find_world(kind)(0, 20_000)
    plan = SimpleNamespace(
        experiment=SimpleNamespace(title="gauntlet", tail=0.25),
        steps=20_000,
        phases=[(0, 15_000), (15_000, 20_000)],
        shocks=[SimpleNamespace(step=2_500 * (n + 1)) for n in range(shocks)],
        shock_names=[f"shock {n}" for n in range(shocks)],
        any_world=shop,
    )
    return SimpleNamespace(
        plan=plan,
        summary={"seeds": list(range(10)), "policies": dict.fromkeys(names, figures)},
        comparison=SimpleNamespace(ranked=names, findings=list),
        references=(),
        notes=(),
        verdict="adaptive wins.",
        path=Path("runs/gauntlet"),
    )


def fitted(result: Any, width: int) -> FittedTable:
    """Return the table of a run as a terminal of `width` characters shows it."""
    return fit_table(results_table(result.plan, result.summary, result.comparison.ranked), width)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("shocks", [0, 2, 6])
@pytest.mark.parametrize("kind", ["recommendation", "search"])
def test_the_table_fits_and_nothing_is_cropped(width: int, shocks: int, kind: str) -> None:
    _, lines, left_out = fitted(finished(shocks, kind), width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    for word in (*ALWAYS, *NAMES, "98.40", "98.10 to 98.70", "97.20"):
        assert word in text
    n_columns = len(next(line for line in lines if line.startswith("---")).split())
    n_all = 4 + 1 + 2 + shocks + (4 if kind == "search" else 0) + 1
    assert n_columns + left_out == n_all


@pytest.mark.parametrize(
    ("shocks", "width", "left_out"), [(0, 120, 0), (0, 80, 2), (0, 60, 4), (2, 120, 2), (6, 80, 8)]
)
def test_columns_are_dropped_from_the_right(shocks: int, width: int, left_out: int) -> None:
    """With a name of 23 the table is 53 wide to the worst seed; clicks add 11, those of the last visits 13.

    Their interval adds 18, a shock 15, sd 6.
    """
    _, lines, n_left_out = fitted(finished(shocks), width)
    assert n_left_out == left_out
    if width == 80:
        assert "clicks" in "".join(lines)


def test_earnings_of_a_search_shop_come_first_of_the_rest() -> None:
    text = "\n".join(fitted(finished(2, "search"), 75).lines)
    assert "reward" in text
    assert "GMV" not in text


def test_failures_stand_beside_the_fraction_of_oracle() -> None:
    assert "failed" in "\n".join(fitted(finished(6, failed=True), 80).lines)


def test_rewards_have_the_digits_of_their_interval() -> None:
    """Rewards of 12.345 +- .0125 are known to two digits behind the third: 12.345."""
    assert "12.345" in "\n".join(fitted(finished(0, "search"), 120).lines)


def test_without_intervals_digits_tell_policies_apart() -> None:
    """Of one seed with .05412 and .04871 the spread, .00541, is told with three digits."""
    figures: dict[str, Any] = {**FRACTION, "low": None, "high": None, "sd": None}
    result = finished(0)
    policy = result.summary["policies"]["random"]
    policies = {
        name: {**policy, "oracle_fraction": figures, "ctr": {**figures, "mean": mean}}
        for name, mean in (("adaptive", 0.05412), ("random", 0.04871))
    }
    table = results_table(result.plan, {"seeds": [0], "policies": policies}, list(policies))
    text = "\n".join(fit_table(table).lines)
    assert "0.05412" in text
    assert "0.04871" in text


@pytest.mark.parametrize(("columns", "told"), [("80", "8 more columns: --wide or the page has them"), ("300", "")])
def test_one_line_says_where_the_other_columns_are(
    columns: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    print_result(finished(6))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "more column" in line] == [told] * bool(told)
    assert lines[-1].startswith("Page: file://")


def test_without_a_terminal_lines_have_80_characters_and_more_if_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_result(finished(6))
    assert max(map(len, capsys.readouterr().out.splitlines()[:-1])) <= 80
    print_result(finished(6), wide=True)
    printed = capsys.readouterr().out
    assert "back after" in printed
    assert "more column" not in printed
