"""Tables that fit a terminal: essential columns whole, words folded, figures at their points, the rest left out."""

import pytest
from rich.cells import cell_len

from zoosim.core.tables import Column, Table, fit_table, table_html, table_of_rows

LONG = "a-policy-of-mine-with-a-name-that-nobody-wants-to-type-twice"


def judged(name: str) -> Table:
    """Return a table like that of an evaluation."""
    columns = (
        Column("policy", ["logged choices", name], is_text=True, is_essential=True),
        Column("estimator", ["mean", "shrunken-dr"], is_text=True, is_essential=True),
        Column("clicks\nper visit", ["0.0231", "0.08"], is_essential=True),
        Column("95% interval", ["0.0219 to 0.0243", "-0.10 to 0.17"], is_text=True, is_essential=True, stacks=True),
        Column("verdict", ["", "do not use"], is_text=True, is_essential=True),
        Column("effective\nsample size", ["", "36"]),
        Column("largest\nweight", ["", "1,234"]),
    )
    return Table("shop.parquet: 60,000 rows", columns)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["random", "published-neural-linear", LONG, "x" * 70])
def test_essential_columns_are_whole(width: int, name: str) -> None:
    title, lines, left_out = fit_table(judged(name), width)
    assert title == ["shop.parquet: 60,000 rows"]
    assert max(map(cell_len, lines)) <= width
    for cell in ("0.0231", "0.0219 to 0.0243", "0.08", "-0.10 to 0.17"):
        assert any(cell in line for line in lines)
    rule = next(line for line in lines if line.startswith("---"))
    names = "".join(line[: rule.index(" ")] for line in lines[lines.index(rule) + 1 :])
    assert "".join(names.split()) == f"loggedchoices{name}"
    n_stacked = int(width == 60)  # the interval, below the value
    assert len(rule.split()) + n_stacked + left_out == len(judged(name).columns)


def test_wide_characters_count_twice() -> None:
    lines = fit_table(judged("目" * 30), 60).lines
    assert max(map(cell_len, lines)) <= 60
    assert "".join(lines).count("目") == 30


def test_a_narrow_terminal_stacks_the_interval_below_the_value() -> None:
    lines = fit_table(judged(LONG), 50).lines
    assert max(map(len, lines)) <= 50
    value = next(place for place, line in enumerate(lines) if "0.0231" in line)
    assert "0.0219 to 0.0243" in lines[value + 1]


def test_names_are_folded_at_hyphens_and_lose_nothing() -> None:
    lines = fit_table(table_of_rows("", ("policy", "figure"), [(LONG, "1")]), 30).lines
    words = [line.split()[0] for line in lines[2:]]
    assert "".join(words) == LONG
    assert all(word.endswith("-") for word in words[:-1])


def test_figures_stand_at_their_points() -> None:
    column = Column("x", ["1.5", "-10", "2.25%", "none", ""], is_essential=True)
    assert fit_table(Table("", [column])).lines[2:] == ["  1.5", "-10", "  2.25%", "   none", ""]


def test_columns_are_left_out_in_order() -> None:
    assert fit_table(judged("random"), 70).left_out == 2
    assert fit_table(judged("random"), None).left_out == 0


def test_an_empty_table_has_heads() -> None:
    assert fit_table(table_of_rows("none", ("policy", "value"), []), 60) == (
        ["none"],
        ["policy  value", "------  -----"],
        0,
    )


def test_whatever_stands_in_a_table_is_escaped() -> None:
    page = table_html(table_of_rows("<b>", ("a&b",), [("<script>alert(1)</script>",)]))
    assert "<script>" not in page
    assert "&lt;b&gt;" in page
    assert "a&amp;b" in page
