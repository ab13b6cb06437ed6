"""What the terminal shows: tables that fit, the most important columns first, and honest times left."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from zoosim import terminal

NAMES = ["adaptive", "published-neural-linear", "random"]
FRACTION = {"mean": 0.984, "low": 0.981, "high": 0.987, "sd": 0.004, "min": 0.972}
ALWAYS = ["policy", "% of", "oracle", "95% interval", "worst", "seed"]


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
        figures |= {key: {"mean": 12.345} for key in keys}
    else:
        figures["ctr"] = FRACTION
    reward_name = "EUR" if kind == "search" else "CTR"
    plan = SimpleNamespace(
        experiment=SimpleNamespace(title="gauntlet", tail=0.25, reward_name=reward_name),
        steps=20_000,
        phases=[(0, 15_000), (15_000, 20_000)],
        shocks=[SimpleNamespace(step=2_500 * (n + 1)) for n in range(shocks)],
        setup=SimpleNamespace(shock_names=[f"shock {n}" for n in range(shocks)]),
    )
    return SimpleNamespace(
        plan=plan,
        summary={"seeds": list(range(10)), "policies": dict.fromkeys(names, figures)},
        comparison=SimpleNamespace(ranked=names),
        reference=None,
        notes=(),
        verdict="adaptive wins.",
        path=Path("runs/gauntlet"),
    )


def drawn(result: Any, width: int) -> tuple[list[str], int]:
    """Return the lines of the table, and how many columns were left out."""
    out = io.StringIO()
    table, left_out = terminal.results_table(result, width)
    Console(file=out, width=width).print(table)
    return out.getvalue().splitlines(), left_out


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("shocks", [0, 2, 6])
@pytest.mark.parametrize("kind", ["recommendation", "search"])
def test_the_table_fits_and_nothing_is_cropped(width: int, shocks: int, kind: str) -> None:
    lines, left_out = drawn(finished(shocks, kind), width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    assert "\u2026" not in text
    for word in (*ALWAYS, *NAMES, "98.4%", "98.1 to 98.7", "97.2%"):
        assert word in text
    n_columns = lines[2].count("\u2503") - 1  # heavy bars stand between the heads
    n_all = 4 + 1 + 1 + shocks + (4 if kind == "search" else 0) + 2
    assert n_columns + left_out == n_all


@pytest.mark.parametrize(
    ("shocks", "width", "left_out"),
    [(0, 120, 0), (0, 80, 2), (0, 60, 4), (2, 120, 2), (6, 80, 8)],
)
def test_columns_are_dropped_from_the_right(shocks: int, width: int, left_out: int) -> None:
    """With a name of 23 the table is 59 wide to the worst seed, and to CTR 67, to the last visits 75.

    A shock adds 16, the interval of the last visits 15, sd 6.
    """
    lines, n_left_out = drawn(finished(shocks), width)
    assert n_left_out == left_out
    if width == 80:
        assert "CTR" in "".join(lines)


def test_earnings_of_a_search_shop_come_first_of_the_rest() -> None:
    lines, _ = drawn(finished(2, "search"), 80)
    assert "EUR" in "".join(lines)
    assert "GMV" not in "".join(lines)


def test_failures_stand_beside_the_fraction_of_oracle() -> None:
    lines, _ = drawn(finished(6, failed=True), 80)
    assert "failed" in "".join(lines)


@pytest.mark.parametrize("width", [40, 60])
def test_long_names_are_folded_not_cropped(width: int) -> None:
    name = "a-policy-of-mine-with-a-name-that-nobody-wants-to-type-twice"
    lines, _ = drawn(finished(2, names=[name]), width)
    cells = [line.split("\u2502")[1].strip() for line in lines if line.startswith("\u2502")]
    assert "".join(cells) == name
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(("columns", "told"), [("80", "8 more columns are on the report page."), ("300", "")])
def test_one_line_says_where_the_other_columns_are(
    columns: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    terminal.print_result(finished(6))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "more column" in line] == [told] * bool(told)
    assert lines[-1].startswith("Page: file://")
