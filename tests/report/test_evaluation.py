"""The page of an evaluation: its sums by hand, and that it tells of policies, not of users."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.errors import ConfigError
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.groups import group_rows
from zoosim.report.evaluation import build_page
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


def test_the_verdict_says_what_the_log_can_tell() -> None:
    world = TableWorld(0, 0.5)
    log = drawn(world)
    never = np.full(10, 0.01)
    never[9] = 0.91
    new = build_page(evaluate(log, {"new": log.features @ world.target}, overlap=True))
    assert "new would have earned" in new.verdict
    assert "(dr: 0." in new.verdict  # all three are trusted, and dr was asked for last
    other = build_page(evaluate(log.rows(log.actions != 9), {"other": never}, overlap=True))
    assert "other: the log cannot tell (the mean weight is 0." in other.verdict


def test_the_verdict_speaks_of_all_policies_by_one_estimator() -> None:
    """Reward models do not serve policies that are known by a column alone: snips serves both as well."""
    world = TableWorld(0, 0.5)
    log = drawn(world)
    both = build_page(evaluate(log, {"new": log.features @ world.target, "seen": "column:p_new"}, overlap=True))
    assert both.verdict.count("(snips: 0.") == 2


def test_the_page_holds_no_row_of_a_user(tmp_path: Path) -> None:
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
    assert "&lt;b&gt;new would have earned" in page
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
