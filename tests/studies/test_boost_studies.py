"""The studies of boosts: latency, trust regions, action shaping; small, and each on its page."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from studies.action_shaping import weights
from studies.action_shaping.page import build_page as build_weights_page
from studies.held_out import HELD_OUT_START, open_shop
from studies.latency import timing
from studies.latency.page import build_page as build_timings_page
from studies.quadratic import ACTION_DIM, STATE_DIM
from studies.run import run_study
from studies.shops import read_shop
from studies.trust_region import courses, page
from studies.trust_region.courses import FREE, GUARD_BASE, GUARD_LAST, PLAN_BASE, PLAN_LAST, course
from zoosim.core.search_names import FEATURES


def test_latency_is_measured_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "PRODUCTS", (100, 150))
    monkeypatch.setattr(timing, "VISITS", 31)
    monkeypatch.setattr(timing, "MANY", 4)
    timings = timing.measure(calls=3)
    assert all(0.0 < t.shortest <= t.median <= t.p99 for t in timings)
    share = {t.method: t.share for t in timings}["actor + 3 steps"]
    assert share is not None
    assert share > 0.95
    assert {
        f"{name} {does}, 150 products" for name in ("q-ensemble", "item-critic") for does in ("decides", "learns")
    } <= {t.method for t in timings}
    told = build_timings_page(timings)
    assert [row[0] for row in told.tables[0].rows][:2] == ["printed (lessons.md 7.5.4)", "loop over samples"]
    assert "times" in told.tables[0].heads[5]


def test_the_loop_leaves_torchs_own_generator_alone() -> None:
    before = torch.get_rng_state()
    one, two = (timing.Loop(2, (4,)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    state, actions = np.ones(STATE_DIM), np.ones((3, ACTION_DIM))
    np.testing.assert_array_equal(one(state, actions), two(state, actions))


@pytest.mark.slow
def test_no_decision_behind_the_guardrail_breaks_it_and_free_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courses, "HELD_OUT_VISITS", 2)
    names = (FREE, GUARD_BASE, PLAN_BASE, GUARD_LAST, PLAN_LAST)
    rows = {name: course(read_shop(None), name, 0, (40, 80))[-1] for name in names}
    assert [rows[name].broke_base for name in (GUARD_BASE, PLAN_BASE)] == [0, 0]
    assert [rows[name].broke_last for name in (GUARD_LAST, PLAN_LAST)] == [0, 0]
    assert rows[FREE].broke_base == rows[FREE].decisions == 40
    assert rows[GUARD_BASE].held > 30
    assert rows[GUARD_BASE].left <= 3.0 < rows[GUARD_LAST].left < rows[FREE].left
    assert rows[GUARD_LAST].changed <= 3.0 < rows[FREE].changed
    assert rows[FREE].static == rows[GUARD_BASE].static


@pytest.mark.slow
def test_trust_regions_end_up_on_their_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (courses, page):
        monkeypatch.setattr(module, "LONG", (31, 33, 35, 36))
        monkeypatch.setattr(module, "SHORT", (31, 33, 35))
    monkeypatch.setattr(courses, "HELD_OUT_VISITS", 2)
    run_study("trust-region", tmp_path, seeds="0:2", jobs=1)
    summary = json.dumps(json.loads((tmp_path / "summary.json").read_text()))
    assert "Behind the guardrail 0 of 72 decisions" in summary
    assert "top 10, 0 of 72 out of the last ranking" in summary
    assert "planned in it, last ranking" in (tmp_path / "report.html").read_text()


def test_twins_are_the_same_but_for_the_sign() -> None:
    shop = open_shop(read_shop(None), 0)
    visit = shop.arrive(0)
    action = np.zeros(10)
    for column, names in enumerate(weights.TWINS):
        first, second = (FEATURES.index(name) for name in names)
        action[first], action[second] = 0.4, -0.4 * visit.signs[column]
    np.testing.assert_array_equal(shop.rank(visit, action), visit.baseline)
    np.testing.assert_allclose(weights.idle_sizes(action[np.newaxis] / 0.5, visit.signs[np.newaxis]), [0.8])


def test_action_shaping_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = open_shop(read_shop(None), 0)
    visits = [shop.arrive(HELD_OUT_START + step) for step in range(30)]
    policy = weights.learner(shop, 40)
    rows: list[weights.Moved | weights.Chosen] = [*weights.moved(shop, visits), *weights.chosen(shop, visits, policy)]
    still = [row for row in rows if isinstance(row, weights.Moved) and row.weight == 0.0]
    assert {row.left for row in still} == {0.0}
    lengths = [row.length for row in rows if isinstance(row, weights.Chosen) and row.query == "other"]
    assert lengths[-1] < lengths[0]
    assert build_weights_page(rows).tables[0].rows[0][0] == "expected (lessons.md 7.6)"
