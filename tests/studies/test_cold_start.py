"""The study of new products: what is new, when it is found, and what was lost by looking."""

from pathlib import Path

import numpy as np
import pytest

from studies.cold_start import build_page, measure
from studies.cold_start.runs import KNOWN, NEW, PERIOD, WINDOW, make_shop, result_of, visits_until_half
from tests.caches import use_cache

VISITS = 4_000


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cache(monkeypatch, tmp_path / "cache")


def test_new_products_come_in_the_middle_and_are_the_best_for_every_segment() -> None:
    world, arrival, rates = make_shop(3, VISITS)
    assert arrival == VISITS // 2
    assert np.flatnonzero(world.period(arrival - 1).available).tolist() == list(range(KNOWN))
    assert world.period(arrival).available.sum() == KNOWN + NEW
    assert (rates.argmax(axis=1) >= KNOWN).all()
    assert (rates.max(axis=1) > rates[:, :KNOWN].max(axis=1)).all()


def test_an_oracle_finds_them_at_once_and_loses_nothing() -> None:
    shop = make_shop(3, VISITS)
    segments = shop.world.segments[shop.world.visitors(0, VISITS)]
    best_known = shop.rates[:, :KNOWN].argmax(axis=1)
    actions = np.where(np.arange(VISITS) < shop.arrival, best_known[segments], shop.rates.argmax(axis=1)[segments])
    found = result_of(shop, "oracle", actions)
    assert (found.before, found.after) == pytest.approx((100.0, 100.0))
    assert (found.lost, found.new_shown) == (0.0, 0)
    assert set(found.traffic) == {1.0}
    n_segments = len(shop.rates)
    assert max(visits for visits in found.visits if visits is not None) < 2 * n_segments * WINDOW


def test_a_policy_that_shows_what_is_known_loses_nothing_and_finds_nothing() -> None:
    shop = make_shop(3, VISITS)
    found = result_of(shop, "known", np.zeros(VISITS, int))
    assert found.visits == (None,) * len(shop.rates)
    assert (found.lost, found.new_shown) == (0.0, 0)


def test_what_is_lost_is_that_of_the_best_known_less_that_of_the_new_product() -> None:
    shop = make_shop(3, VISITS)
    segments = shop.world.segments[shop.world.visitors(0, VISITS)]
    dull = int(shop.rates[0, KNOWN:].argmin()) + KNOWN
    actions = shop.rates[:, :KNOWN].argmax(axis=1)[segments]
    actions[-1] = dull
    found = result_of(shop, "one look", actions)
    here = shop.rates[segments[-1]]
    assert found.lost == pytest.approx(here[:KNOWN].max() - here[dull])
    assert found.new_shown == 1


def test_half_of_the_last_visits_of_the_segment_count() -> None:
    is_segment = np.tile([True, False], 3 * WINDOW)
    shows_best = np.zeros(6 * WINDOW, bool)
    shows_best[2 * WINDOW :: 4] = True  # every second visit of the segment, after its first WINDOW visits
    assert visits_until_half(shows_best, is_segment) == 2 * (2 * WINDOW - 2) + 1  # its hit number WINDOW / 2
    shows_best[2 * WINDOW] = False
    shows_best[4 * WINDOW :] = False
    assert visits_until_half(shows_best, is_segment) is None


@pytest.mark.slow
def test_the_study_measures_runs_and_its_page_is_whole() -> None:
    rows = measure(seeds="3:5", jobs=1, policies="random,linucb", steps=VISITS)
    assert [(row.policy, row.seed) for row in rows] == [(p, s) for s in (3, 4) for p in ("random", "linucb")]
    assert len(rows[0].traffic) == VISITS // 2 // PERIOD
    assert all(0 < row.after < 100 for row in rows)
    page = build_page(rows)
    assert {row[0] for row in page.tables[0].rows} == {"random", "linucb"}
    assert {len(row) for row in page.tables[0].rows} == {len(page.tables[0].heads)}
