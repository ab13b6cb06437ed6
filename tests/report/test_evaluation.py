"""The page of an evaluation: its sums by hand, and that it tells of policies, not of users."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.errors import ConfigError
from zoosim.core.statistics import Interval
from zoosim.off_policy.compare import LOGGED, Difference, Lift
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.evidence import RewardedRow
from zoosim.off_policy.groups import group_rows
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK
from zoosim.report.evaluation import answer, build_page
from zoosim.report.evaluation_tables import decisions_table, ranking_table, rows_table, segment_tables
from zoosim.report.sections import Link
from zoosim.schema.columns import YesNoColumn
from zoosim.schema.encoder import Encoder
from zoosim.schema.schema import FittedSchema


def test_overlap_is_summed_by_action_and_segment() -> None:
    world = TableWorld(0, 0.5)
    log = drawn(world)
    found = evaluate(log, {"new": log.features @ world.target, "seen": "column:p_new"}, overlap=True)
    weights = log.columns["p_new"] / log.propensities
    overlap = found.overlaps["new"]
    assert overlap.unused + sum(overlap.classes) == pytest.approx(1.0)
    for action, share in enumerate(overlap.actions):
        own = log.actions == action
        assert share.name == f"action {action}"
        assert share.logged == pytest.approx(own.mean())
        assert share.weighted == pytest.approx(weights[own].sum() / len(log))
        assert share.chosen == pytest.approx((log.features @ world.target)[:, action].mean())
    segment = int(np.argmax(log.features.sum(axis=0)))  # segments are numbered by their size
    own_weights, part = weights[log.features[:, segment] == 1.0], overlap.segments[0]
    assert part.name == f"segment 1: column {segment}"
    assert part.rows == len(own_weights)
    assert part.max_weight == pytest.approx(own_weights.max())
    assert part.ess == pytest.approx(own_weights.sum() ** 2 / (own_weights**2).sum())
    assert found.overlaps["seen"].actions[0].chosen is None
    assert evaluate(log, {"new": "column:p_new"}).overlaps == {}


def test_the_first_line_says_whether_to_switch() -> None:
    world = TableWorld(0, 0.5)
    log = drawn(world)
    never = np.full(10, 0.01)
    never[9] = 0.91
    new = build_page(evaluate(log, {"new": log.features @ world.target}, overlap=True))
    assert new.answer.startswith("Switch to new: +") or new.answer.startswith("Keep today's choices: nothing is shown")
    assert new.details[0].startswith("Today's choices earn 0.")
    other = build_page(evaluate(log.rows(log.actions != 9), {"other": never}, overlap=True))
    assert other.answer == "Keep today's choices: this log cannot tell what other would earn."
    assert any(line.startswith("other: the log cannot tell, because the mean weight is 0.") for line in other.details)


def judged(value: float, verdict: str, *, low: float, high: float, rewards: float = 100.0) -> Evaluation:
    """An evaluation of one policy that earns `value` more than today's choices, as a share, with an interval."""
    result = Result("new", "dr", 1.0 + value, 1.0 + low, 1.0 + high, 500.0, 1.0, 2.0, verdict, (), rewards)
    lift = Lift("new", "dr", value, low, high, None, verdict)
    return Evaluation((result,), (), Interval(1.0, 0.9, 1.1), 1_000, 1_000, {}, "shop.parquet", lifts=(lift,))


@pytest.mark.parametrize(
    ("evaluation", "said"),
    [
        (
            judged(0.38, TRUST, low=0.2, high=0.56),
            "Switch to new: +38% reward (+20% to +56%), and the log can tell (trust).",
        ),
        (
            judged(0.38, WEAK, low=0.2, high=0.56),
            "Try new in an experiment before you switch: +38% reward (+20% to +56%) is a hint, no more (weak).",
        ),
        (
            judged(0.38, WEAK, low=0.2, high=0.56, rewards=3.2),
            "Collect more data before you switch: what new would earn rests on about 3 rewards.",
        ),
        (
            judged(0.038, TRUST, low=-0.02, high=0.096),
            "Keep today's choices: nothing is shown to earn more; nearest is new, +3.8% reward (-2.0% to +9.6%).",
        ),
        (judged(-0.2, TRUST, low=-0.3, high=-0.1), "Keep today's choices: the log shows that new earns less."),
        (
            judged(0.38, DO_NOT_USE, low=0.2, high=0.56),
            "Keep today's choices: this log cannot tell what new would earn.",
        ),
    ],
)
def test_the_first_line_follows_the_interval_and_the_verdict(evaluation: Evaluation, said: str) -> None:
    assert answer(evaluation) == said


@pytest.mark.parametrize("verdict", [TRUST, WEAK])
@pytest.mark.parametrize("is_worse", [True, False])
def test_another_policy_beside_it_does_not_hide_what_few_rewards_promise(verdict: str, is_worse: bool) -> None:
    """A policy whose whole interval lies above today's choices is answered about, whatever `random` earns."""
    alone = judged(1.3, WEAK, low=0.25, high=2.4, rewards=15.0)
    random = judged(-0.07, verdict, low=-0.18, high=-0.01 if is_worse else 0.02)
    results = (*alone.results, random.results[0]._replace(policy="random"))
    both = replace(alone, results=results, lifts=(random.lifts[0]._replace(policy="random"),))
    assert answer(both) == answer(alone)
    assert answer(both).startswith("Collect more data before you switch: what new would earn rests on about 15")
    below = replace(both, results=(alone.results[0]._replace(low=0.9), results[1]))
    collect, keep = "Collect more data before you switch: what new", "Keep today's choices: nothing is shown"
    assert answer(below).startswith(collect if is_worse else keep)


def test_the_first_line_counts_what_a_month_brings() -> None:
    """At 100 visits a day, .38 more per visit makes 30 x 100 x .38 = 1,140 a month, to two digits 1,100."""
    evaluation = replace(judged(0.38, TRUST, low=0.2, high=0.56), per_day=100.0)
    assert answer(evaluation) == (
        "Switch to new: +38% reward (+20% to +56%), about +1,100 a month, and the log can tell (trust)."
    )


def test_a_deterministic_log_asks_for_chance() -> None:
    evaluation = replace(judged(0.38, DO_NOT_USE, low=0.2, high=0.56), is_deterministic=True)
    assert answer(evaluation).startswith("Choose by chance in some visits")


def test_few_rewards_give_no_percentage_but_their_rows() -> None:
    row = RewardedRow(7, 3, "2026-01-02T03:04:05+00:00", "SKU-1", 1.0, 40.0, 0.5)
    few = judged(0.38, WEAK, low=0.2, high=0.56, rewards=3.2)
    few = replace(few, results=(few.results[0]._replace(rests_on=(row,)),))
    cells = decisions_table(few).rows[0]
    assert cells[3:5] == ("", "")
    link = cells[7]
    assert isinstance(link, Link)
    assert (link, link.key, link.filter) == ("3", "rows", '"new" "reward"')
    (rows,) = rows_table(few)
    assert rows.key == link.key
    assert rows.rows[0] == ("new", "reward", "7", "2026-01-02 03:04:05", "SKU-1", "1", "40", "50.0%")
    many = decisions_table(judged(0.38, WEAK, low=0.2, high=0.56))
    assert many.rows[0][3:5] == ("+38", "+20 to +56")


def test_rewards_that_did_not_come_are_named_beside_those_that_came() -> None:
    few = judged(-0.7, TRUST, low=-0.9, high=-0.5, rewards=3.2)
    few = replace(few, results=(few.results[0]._replace(expected_rewards=41.0),))
    table = decisions_table(few)
    assert table.rows[0][3:8:4] == ("-70", "3 of 41 expected")
    assert table.caption.count("its rows would hold as many") == 1


def test_the_direct_method_weighs_rows_in_its_calibration() -> None:
    row = RewardedRow(7, 3, None, "SKU-1", 1.0, 40.0, 0.5)
    heads = []
    for names in (("dr",), ("dm",), ("dr", "dm")):
        results = [
            judged(0.38, TRUST, low=0.2, high=0.56).results[0]._replace(policy=name, estimator=name, rests_on=(row,))
            for name in names
        ]
        (table,) = rows_table(replace(judged(0.38, TRUST, low=0.2, high=0.56), results=tuple(results)))
        heads.append(table.heads[6])
    assert heads == ["weight", "weight in the calibration", "weight (dm: in the calibration)"]


def test_bounds_of_gains_have_the_digits_of_their_intervals_and_are_open_where_nothing_is_known() -> None:
    results = [
        Result(name, estimator, value, 0.02, 0.08, 500.0, 1.0, 2.0, TRUST, (), 100.0)
        for name, estimator, value in (("a", "dr", 0.0541234), ("b", "dm", 0.0471234))
    ]
    differences = (
        Difference("a", LOGGED, "dr", 0.0309234, 0.0109876, 0.05, 0.01, 900, TRUST),
        Difference("b", LOGGED, "dm", 0.0239234, -math.inf, 0.05, 0.5, 9_000, TRUST),
    )
    logged = Interval(0.0232, 0.02, 0.026)
    both = Evaluation(tuple(results), differences, logged, 1_000, 900, {}, "shop.parquet", reward="click")
    (table,) = ranking_table(both)
    assert table.heads == ("policy", "estimator", "may be best", "clicks per visit", "lower bound of the gain", "p")
    assert table.rows == [
        ("a", "dr", "yes", "0.054", "+0.011", ".010"),
        ("b", "dm", "yes", "0.0471", "open", ".500"),
    ]
    assert "two by different estimators have no order" in table.caption


def test_segments_lead_to_the_rows_that_weigh_most() -> None:
    world = TableWorld(0, 0.5)
    log = drawn(world)
    overlap = evaluate(log, {"new": log.features @ world.target}, overlap=True).overlaps["new"]
    by_segment, rows = segment_tables({"new": overlap})
    weights = log.columns["p_new"] / log.propensities * log.rewards
    segment = int(np.argmax(log.features.sum(axis=0)))
    is_in = log.features[:, segment] == 1.0
    part = overlap.segments[0]
    assert [row.row for row in part.rests_on] == np.argsort(-np.where(is_in, weights, 0.0), kind="stable")[:5].tolist()
    assert part.rests_on[0].share == pytest.approx(weights[is_in].max() / weights[is_in].sum())
    link = by_segment.rows[0][1]
    assert isinstance(link, Link)
    assert link.key == rows.key
    assert sum(row[:2] == ("new", link) for row in rows.rows) == 5


def test_the_page_holds_no_id_of_a_user(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 2_000
    actions = rng.integers(4, size=n)
    users = [f"customer-{user}" for user in rng.integers(500, size=n)]
    columns = {"action": actions, "propensity": np.full(n, 0.25), "reward": (rng.random(n) < 0.3).astype(float)}
    log = pl.DataFrame({**columns, "user_id": users, "decision_id": [f"visit-{i}" for i in range(n)]})
    log = log.with_columns(user=pl.Series(np.eye(2)[rng.integers(2, size=n)]).cast(pl.List(pl.Float64)))
    found = zoosim.evaluate(log, {"<b>new": np.array([0.4, 0.2, 0.2, 0.2])}, out=tmp_path / "page")
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "customer-" not in page
    assert "visit-1" not in page
    assert "<b>new" not in page
    assert "&lt;b&gt;new" in page
    assert json.loads((tmp_path / "page" / "summary.json").read_text(encoding="utf-8")) == found.summary
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be written"):
        zoosim.evaluate(log, ["random"], out=tmp_path / "file")


def test_products_and_segments_are_called_as_the_shop_does() -> None:
    """By the names of the catalogue, and by the features that set a segment's visitors apart."""
    world = TableWorld(0, 0.5)
    log = drawn(world)
    n_visitors, n_products = log.features.shape[1], log.n_actions
    columns = tuple(YesNoColumn(name=f"from country {number}") for number in range(n_visitors))
    fitted = FittedSchema(visitors=Encoder(columns=columns))
    named = replace(log, names=tuple(f"SKU-{number}" for number in range(n_products)), fitted=fitted)
    never = np.full(n_products, 0.01)
    never[n_products - 1] = 1.0 - 0.01 * (n_products - 1)
    rare = np.flatnonzero(named.actions != n_products - 1)
    evaluation = evaluate(named.rows(rare), {"new": never}, overlap=True)
    assert any(f"SKU-{n_products - 1} most of all" in " ".join(row.reasons) for row in evaluation.results)
    overlap = evaluation.overlaps["new"]
    assert [share.name for share in overlap.actions] == list(named.names)
    assert all(part.name.split(": ")[1].startswith("from country") for part in overlap.segments)


def test_numbers_describe_a_segment_where_they_are_far_from_the_mean() -> None:
    """Two clusters of 50 rows, 4 standard deviations apart in one of two columns."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(100, 2))
    features[50:, 1] += 4.0
    groups = group_rows(features, 10, 2).named(features, ("age", "spend"))
    assert sorted(name.split(": ")[1] for name in groups.names) == ["high spend", "low spend"]
