"""What a log of visitors who come back says of looking ahead, where the answer is known exactly."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import zoosim
from studies.session_logs import SessionLogs
from zoosim.cli import app
from zoosim.core.errors import ConfigError, DataError
from zoosim.fitting.look_ahead import LookAhead, look_ahead, share_of
from zoosim.fitting.visits import read_kinds, read_visits
from zoosim.logs.log import Log
from zoosim.worlds.sessions.config import SessionConfig

MYOPIC = 0.665
"""What looking at the next click has in the world of sessions with its default laws."""


def answer(log: Log, *, draws: int = 20) -> LookAhead:
    """Ask a log."""
    kinds = read_kinds(log)
    return look_ahead(read_visits(log, kinds), kinds, source=log.source, draws=draws)


@pytest.fixture(scope="module")
def log() -> Log:
    """Return a log of a bandit that explores by decision."""
    return SessionLogs().draw(3_000, 0)[0]


def test_a_log_of_the_default_laws_says_that_planning_pays_and_what_disappoints(log: Log) -> None:
    found = answer(log)
    assert found.shares is not None
    assert found.advice == "planning"
    assert found.shares["next click"].low < MYOPIC < found.shares["next click"].high
    # Action 2 c + 1 is the teaser of category c.
    assert set(found.disappointing) == {f"action {2 * category + 1}" for category in range(5)}
    assert found.by_satisfaction == pytest.approx(0.30, abs=0.06)
    assert found.by_click == pytest.approx(0.20, abs=0.06)
    assert found.goes_on == pytest.approx(0.85, abs=0.01)


def test_where_satisfaction_does_not_matter_a_bandit_is_enough() -> None:
    found = answer(SessionLogs(SessionConfig(per_kind=1, return_by_satisfaction=0.0)).draw(3_000, 0)[0])
    assert found.answer.startswith("A bandit is enough here: looking at the next click alone has 100%")


def test_intervals_hold_95_of_100_models_however_few_are_drawn() -> None:
    """Where n draws of a uniform number are expected, at 1, 2, ..., n over n + 1, its middle 95% are known."""
    for n in (39, 79):
        share = share_of(np.arange(1, n + 1) / (n + 1))
        assert share == pytest.approx((0.5, 0.025, 0.975))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ("once", "after 0 of"),
        ("censored", "0 visitors are known to have gone for good, expected at least 50; of "),
        ("one product", "visitors alike were shown the same in all but 0.0% of the decisions"),
    ],
)
def test_a_log_that_cannot_tell_says_why(log: Log, changed: str, reason: str) -> None:
    assert log.lives is not None
    if changed == "once":
        lone = log.rows(log.lives.visit == 0)
        assert lone.lives is not None
        last = np.append(np.diff(lone.lives.visitor) != 0, True)
        changed_log = replace(lone, lives=lone.lives._replace(ended=last))
    elif changed == "censored":
        lives = log.lives._replace(ended=np.zeros(len(log), bool), censored=log.lives.ended)
        changed_log = replace(log, lives=lives)
    else:
        changed_log = replace(log, actions=np.zeros(len(log), np.int64))
    found = answer(changed_log)
    assert found.advice == "cannot tell"
    assert found.answer.startswith(f"This log cannot tell whether planning pays: {reason}")
    assert found.shares is None


def test_the_state_follows_from_rows_in_any_order(log: Log) -> None:
    kinds = read_kinds(log)
    order = np.random.default_rng(0).permutation(len(log))
    for shuffled, sorted_rows in zip(read_visits(log.rows(order), kinds), read_visits(log, kinds), strict=True):
        np.testing.assert_array_equal(shuffled, sorted_rows)


def test_last_clicks_and_counts_begin_anew_with_a_visit(log: Log) -> None:
    visits = read_visits(log, read_kinds(log))
    assert log.lives is not None
    last = 10
    count = 0
    for row in range(2_000):
        if row == 0 or log.lives.visit[row] != log.lives.visit[row - 1] or log.lives.step[row] == 0:
            last = 10
            count = 0
        assert visits.last[row] == last
        if visits.clicked[row]:
            last = int(visits.kind[row])
            count += 1
        assert visits.clicks[row] == count


def own_table(log: Log) -> pl.DataFrame:
    """Return the log as the table of a shop: a visitor, a time, a product and whether it was clicked."""
    assert log.lives is not None
    lives = log.lives
    day = lives.visitor // 60 + 2 * lives.visit
    seconds = day * 86_400 + 36_000 + lives.step * 40
    return pl.DataFrame(
        {
            "customer": [f"c{number}" for number in lives.visitor],
            "at": pl.Series(seconds * 1_000_000).cast(pl.Datetime("us", "UTC")),
            "item": [f"SKU-{action}" for action in log.actions],
            "click": log.rewards.astype(int),
            "persona": [f"p{row.argmax()}" for row in log.features[:, :4]],
        }
    )


def test_a_shop_asks_its_own_table(log: Log, tmp_path) -> None:  # type: ignore[no-untyped-def]
    items = pl.DataFrame(
        {
            "item": [f"SKU-{k}" for k in range(10)],
            "category": [f"category {k // 2}" for k in range(10)],
            "lurid": [k % 2 for k in range(10)],
        }
    )
    items.write_csv(tmp_path / "items.csv")
    schema = {
        "columns": {"action": "item", "time": "at", "user_id": "customer"},
        "rewards": {"click": "click"},
        "features": {"persona": "category"},
        "products": {
            "table": str(tmp_path / "items.csv"),
            "id": "item",
            "category": "category",
            "features": {"category": "category", "lurid": "yes/no"},
        },
    }
    path = tmp_path / "own.parquet"
    zoosim.import_log(own_table(log), schema, path)
    run = CliRunner().invoke(
        app, ["fit-world", str(path), "--gone-after", "10", "--out", str(tmp_path / "world")], catch_exceptions=False
    )
    assert run.exit_code == 0, run.output
    assert "Planning pays here: looking at the next click alone has" in run.output
    assert "category 0, lurid" in run.output
    assert (tmp_path / "world" / "report.html").is_file()


def test_bad_input_is_refused_in_a_line(log: Log) -> None:
    plain = replace(log, lives=None)
    with pytest.raises(DataError, match="expected a column of visitors and one of times"):
        zoosim.fit_world(plain, gone_after=30)
    with pytest.raises(ConfigError, match="got 0 days, expected a number above 0"):
        zoosim.fit_world(plain, gone_after=0)
    with pytest.raises(ConfigError, match="says itself when visitors have gone; leave it out"):
        zoosim.fit_world(log, gone_after=30)
    many = replace(log, categories=(), products=np.random.default_rng(0).random((10, 2)))
    assert len(read_kinds(many).names) == 10
