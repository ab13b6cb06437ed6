"""The page of an evaluation: its sums by hand, and that it tells of policies, not of users."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.errors import ConfigError
from zoosim.off_policy.evaluate import evaluate
from zoosim.report.evaluation import build_page


def test_overlap_is_summed_by_action_and_segment() -> None:
    world = TableWorld(0, 0.5)
    log = drawn(world)
    found = evaluate(log, {"new": log.features @ world.target, "seen": "column:p_new"}, overlap=True)
    weights = log.columns["p_new"] / log.propensities
    overlap = found.overlaps["new"]
    assert overlap.unused + sum(overlap.classes) == pytest.approx(1.0)
    for share in overlap.actions:
        own = log.actions == share.action
        assert share.logged == pytest.approx(own.mean())
        assert share.weighted == pytest.approx(weights[own].sum() / len(log))
        assert share.chosen == pytest.approx((log.features @ world.target)[:, share.action].mean())
    segment = int(np.argmax(log.features.sum(axis=0)))  # segments are numbered by their size
    own_weights, part = weights[log.features[:, segment] == 1.0], overlap.segments[0]
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
