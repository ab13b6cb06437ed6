"""Logs of visitors who come back: rows that stand nowhere in a visitor's life are refused."""

from typing import Any

import polars as pl
import pytest

from zoosim.core.action_space import RANKINGS
from zoosim.core.errors import DataError
from zoosim.logs.lives import Lives
from zoosim.logs.parse import to_log
from zoosim.logs.schema import LIFE


def frame(**changes: Any) -> pl.DataFrame:
    """A sound log of two visitors, the first with two visits; a change is a whole column, or {row: value}."""
    columns: dict[str, Any] = {
        "action": [0, 1, 0, 1, 0],
        "reward": [0.0, 1.0, 0.0, 1.0, 1.0],
        "propensity": [0.5] * 5,
        "visitor": ["ann", "ann", "bob", "ann", "bob"],
        "visit": [0, 0, 0, 1, 1],
        "step": [0, 1, 0, 0, 0],
        "ended": [False, False, False, True, False],
        "censored": [False, False, False, False, True],
    }
    for name, change in changes.items():
        if isinstance(change, dict):
            for row, value in change.items():
                columns[name][row] = value
        else:
            columns[name] = change
    return pl.DataFrame(columns, strict=False)


def test_a_sound_log_is_read() -> None:
    lives = to_log(frame()).lives
    assert lives is not None
    assert lives._fields == LIFE == Lives._fields
    assert lives.visitor.tolist() == [1, 1, 2, 1, 2]
    assert lives.censored.tolist() == [False, False, False, False, True]


def test_visitors_who_come_once_have_no_lives() -> None:
    once = frame(visitor=[1, 2, 3, 4, 5], visit=[0] * 5, ended=[True] * 5, censored=[False] * 5)
    assert to_log(once).lives is None
    assert to_log(frame().drop("censored")).lives is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"visit": {1: -1}}, "row 1, column visit: got -1, expected a number from 0"),
        ({"step": {1: 0}}, "row 1, column step: got 0, expected one that no earlier row of the visit has"),
        (
            {"ended": {0: True}},
            "row 0, column ended: got True, expected true, as censored, in a visitor's last row alone",
        ),
        ({"censored": {2: True}}, "in a visitor's last row alone"),
        ({"censored": {3: True}}, "row 3, column censored: got True, expected false where the visitor has ended"),
        ({"visitor": {2: None}}, "row 2, column visitor: got nothing, expected a value"),
        ({"ended": {2: None}}, "row 2, column ended: got nothing, expected a value"),
        ({"ended": ["no"] * 5}, "column ended holds values of type String, expected true or false"),
        ({"visit": [0.5] * 5}, "column visit holds values of type Float64, expected whole numbers"),
    ],
)
def test_rows_out_of_place_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as error:
        to_log(frame(**changes))
    assert message in str(error.value)


def test_a_visitor_with_a_bad_row_is_left_out_whole() -> None:
    log = to_log(frame(reward={1: None}), skip_bad=True)
    assert log.lives is not None
    assert log.lives.visit.tolist() == [0, 1], "the visits of bob"
    assert log.skipped == {"reward: expected a value": 1, "visitor: the same as that of a bad row": 2}


def test_positions_of_a_ranking_share_their_place() -> None:
    rows = frame().with_columns(decision_id=pl.Series(["a", "b", "c", "d", "e"]))
    ranked = pl.concat([rows.with_columns(position=pl.lit(place), action=pl.lit(place)) for place in (0, 1)])
    log = to_log(ranked, action_space=RANKINGS)
    assert log.lives is not None
    assert log.lives.step.tolist() == [0, 1, 0, 0, 0]
