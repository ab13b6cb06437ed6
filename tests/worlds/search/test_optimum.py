"""The optimum of a search shop: worth what the truth says, better than what anyone would try, kept on disk."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.caches import use_cache
from zoosim.core.errors import ConfigError
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import TEMPLATES
from zoosim.worlds.search import optimum as module
from zoosim.worlds.search.expected_reward import boost_rewards, groups_of, template_rewards, visits_of
from zoosim.worlds.search.optimum import search_optimum
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.truth import SearchTruth
from zoosim.worlds.search.world import build_search_world

SMALL: dict[str, Any] = {"n_products": 60, "n_users": 40, "k": 5, "a_max": 0.5}


@pytest.fixture(autouse=True)
def few_visits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_cache(monkeypatch, tmp_path)
    monkeypatch.setattr(module, "USUAL", module.SearchBudget(60, 200, 1_500))


def shop_of(**config: Any) -> SearchShop:
    return SearchShop(build_search_world(SearchConfig(**SMALL | config), seed=5))


@pytest.mark.parametrize("weights", [{}, {"rank_change": 0.3, "rank_change_at": 4}])
def test_boosts_and_templates_are_worth_what_the_truth_says(weights: dict[str, Any]) -> None:
    shop = shop_of(reward=weights)
    queries = shop.world.queries(0, 25)
    actions = np.random.default_rng(1).uniform(-0.5, 0.5, (6, 10))
    boosts = boost_rewards(shop, 0, queries, actions, replicates=3)
    templates = template_rewards(shop, 0, queries, replicates=3)
    for step in range(25):
        visit = shop.arrive(step)
        truth = SearchTruth(shop)
        for n, action in enumerate(actions):
            expected = truth.rewards(visit, shop.rank(visit, action), 3).mean()
            assert boosts[n, step] == pytest.approx(expected, rel=1e-12, abs=1e-12)
        for n in range(len(TEMPLATES)):
            expected = truth.rewards(visit, shop.rank_by_template(visit, n), 3).mean()
            assert templates[n, step] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_groups_are_what_their_names_say() -> None:
    shop = shop_of()
    assert [len(groups_of(shop, by)) for by in ("all", "segment", "cell")] == [1, 4, 12]
    cell = groups_of(shop, "cell")[7]
    assert cell.name == "premium, brand"
    visits = visits_of(shop, 0, cell, 0, 300)
    assert len(visits.steps) == 300
    assert set(shop.world.users.segment[visits.users]) == {2}
    assert set(visits.types) == {1}


def test_all_visits_are_divided_by_segment_without_bias() -> None:
    """The neutral ranking over 4 x 1,500 visits in their shares, and over 6,000 as they come: within 4 errors."""
    shop = shop_of()
    (group,) = groups_of(shop, "all")
    assert [share for share, _ in module.strata_of(shop, 0, group)] == pytest.approx([0.35, 0.25, 0.15, 0.25])
    plain = boost_rewards(shop, 0, shop.world.queries(0, 6_000), np.zeros((1, 10)))[0]
    best = module.best_of_group(shop, 0, group)
    error = np.hypot(best.errors[1], plain.std() / np.sqrt(6_000))
    assert abs(best.rewards[1] - plain.mean()) < 4 * error
    assert best.errors[1] < 0.8 * plain.std() / np.sqrt(6_000)


def test_its_stated_error_is_that_of_other_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The neutral ranking of all visits over 40 sets of visits: the stated error within 4 of its own errors, 11%."""
    shop = shop_of()
    strata = module.strata_of(shop, 0, groups_of(shop, "all")[0])
    estimates = [module._rewards_of(shop, 0, strata, n * 2**36, 200, np.zeros(10)) for n in range(40)]
    spread = np.std([means[1] for means, _ in estimates], ddof=1)
    assert spread == pytest.approx(np.mean([errors[1] for _, errors in estimates]), rel=4 / np.sqrt(2 * 39))


def test_it_beats_what_anyone_would_try() -> None:
    """Premium visitors: better than each template, and than 100 random vectors, of which some may come near it."""
    frame = search_optimum(SMALL, seed=5, by="segment")
    row = frame.row(2, named=True)
    assert row["group"] == "premium"
    assert row["share"] == pytest.approx(0.15)
    assert max(map(abs, row["boosts"])) <= 0.5
    assert row["reward"] - row["template_reward"] > 2 * np.hypot(row["error"], row["template_error"])
    shop = shop_of()
    visits = visits_of(shop, 0, groups_of(shop, "segment")[2], 0, 1_500)
    tried = np.random.default_rng(2).uniform(-0.5, 0.5, (100, 10))
    best, neutral, others = np.split(
        boost_rewards(shop, 0, visits, np.vstack([row["boosts"], np.zeros(10), tried])), [1, 2]
    )
    leads = (best - others).mean(axis=1)
    errors = (best - others).std(axis=1) / np.sqrt(1_500)
    assert (leads > -errors).all()
    assert (leads > 2 * errors).mean() > 0.95
    assert not ((neutral - others).mean(axis=1) > -errors).all()  # the bar tells good from bad


def test_it_is_searched_once_for_each_world_and_market(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "USUAL", module.SearchBudget(30, 60, 200))
    calls: list[str] = []
    shifts = [{"step": 9, "name": "dear toys", "prices": {"toys": 3.0}}]
    config = SMALL | {"shifts": shifts}
    first = search_optimum(config, seed=5, by="all", progress=calls.append)
    assert search_optimum(config | {"context": "simple"}, seed=5, by="all", progress=calls.append).equals(first)
    spoken = len(calls)
    assert spoken == 3
    later = search_optimum(config, seed=5, by="all", step=9, progress=calls.append)
    assert len(calls) == 2 * spoken
    assert later["reward"][0] != first["reward"][0]
    monkeypatch.setattr(module, "best_boosts", lambda *_: pytest.fail("searched again"))
    assert search_optimum(config, seed=5, by="all", step=100).equals(later)


def test_refused_with_one_line() -> None:
    with pytest.raises(ConfigError, match="by: got 'week', expected all, segment or cell"):
        search_optimum(SMALL, seed=5, by="week")
