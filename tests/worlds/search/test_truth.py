"""The expected reward of a ranking: against the tree of all that can happen, and paired between rankings."""

import math
from typing import Any

import numpy as np
import pytest

from benchmarks.plain import search as plain
from benchmarks.plain.search_visits import plain_products, plain_query, plain_user
from zoosim.core.errors import ConfigError, OrderError
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import IntArray
from zoosim.envs.search_env import SearchEnv
from zoosim.worlds.search.boosts import REPLICATES
from zoosim.worlds.search.shop import SearchShop, SearchVisit
from zoosim.worlds.search.truth import SearchTruth
from zoosim.worlds.search.world import build_search_world


def shop_of(**config: Any) -> SearchShop:
    return SearchShop(build_search_world(SearchConfig(n_products=60, n_users=40, **config), seed=5))


def by_the_tree(shop: SearchShop, visit: SearchVisit, shown: IntArray) -> float:
    """Return the expected reward without utility noise, by going through all that can happen."""
    products = plain_products(shop.world)
    user, query = plain_user(shop.world, visit), plain_query(shop.world, visit)
    utilities = plain.utilities(products, shown.tolist(), user, query, [0.0] * len(products))
    biases = plain.POSITION_BIAS[query.kind]

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    def on(position: int, satisfaction: float, bought: int) -> float:
        if position == len(shown) or bought == 3 or satisfaction < -2.0:
            return 0.0
        product = products[shown[position]]
        u = utilities[position]
        look = sigmoid(biases[min(position, len(biases) - 1)] + 0.2 * satisfaction)
        click = sigmoid(u)
        buy = sigmoid(1.2 * u + 0.3 - 0.01 * math.log(1 + product.price))
        worth: float = product.price + 0.4 * product.cm2 + 2.0 * product.strategic
        skipped = on(position + 1, satisfaction - 0.2, bought)
        only_clicked = on(position + 1, satisfaction + 0.5 * u, bought)
        purchased = worth + on(position + 1, satisfaction + 0.5 * u - 1.2, bought + 1)
        return look * ((1 - click) * skipped + click * (0.1 + (1 - buy) * only_clicked + buy * purchased))

    return on(0, 0.0, 0)


@pytest.mark.parametrize("step", range(6))
def test_it_is_what_the_tree_of_outcomes_gives(step: int) -> None:
    """Without utility noise, k = 8, 20,000 replicates: within 4 standard errors; for another ranking it must not be."""
    shop = shop_of(k=8, behaviour={"utility_sd": 0.0})
    visit = shop.arrive(step)
    shown, other = shop.rank_by_template(visit, 4), shop.rank_by_template(visit, 5)
    mean, error = SearchTruth(shop).expected_reward(visit, shown, replicates=20_000)
    assert mean == pytest.approx(by_the_tree(shop, visit, shown), abs=4 * error + 1e-9)
    if abs(by_the_tree(shop, visit, other) - by_the_tree(shop, visit, shown)) > 10 * error:
        assert mean != pytest.approx(by_the_tree(shop, visit, other), abs=4 * error)


@pytest.mark.parametrize("behaviour", [{}, {"leave_below": 0.1}, {"max_purchases": 1}])
def test_it_is_the_mean_reward_of_visits(behaviour: dict[str, Any]) -> None:
    """3,000 visits of the premium template: their mean and that of their expectations within 4 standard errors."""
    shop = shop_of(behaviour=behaviour)
    truth = SearchTruth(shop)
    differences = []
    for step in range(3_000):
        visit = shop.arrive(step)
        shown = shop.rank_by_template(visit, 4)
        differences.append(shop.serve(visit, shown).reward - truth.expected_reward(visit, shown, replicates=20).mean)
    assert abs(np.mean(differences)) < 4 * np.std(differences) / np.sqrt(len(differences))


def test_rankings_share_their_replicates() -> None:
    """Two rankings that differ at the last place alone differ by far less than their own errors."""
    shop = shop_of(k=10)
    visit = next(visit for visit in map(shop.arrive, range(100)) if visit.segment == 2)
    shown = shop.rank_by_template(visit, 4)
    other = shown.copy()
    other[-1] = next(p for p in range(60) if p not in shown)
    left, right = (SearchTruth(shop).rewards(visit, ranking, 2_000) for ranking in (shown, other))
    assert np.std(left - right) < 0.5 * np.std(left)
    assert np.array_equal(left, SearchTruth(shop).rewards(visit, shown, 2_000))


def test_what_left_the_top_is_paid_for() -> None:
    shop = shop_of(reward={"rank_change": 0.5})
    free = shop_of()
    visit = shop.arrive(0)
    shown = shop.rank_by_template(visit, 4)
    left = shop.serve(visit, shown).parts.rank_change
    assert left > 0
    means = [SearchTruth(s).expected_reward(visit, shown, 50).mean for s in (shop, free)]
    assert means[0] == pytest.approx(means[1] - 0.5 * left)


def test_an_environment_tells_the_truth_to_whoever_asks() -> None:
    env = SearchEnv({"n_products": 60, "n_users": 40})
    with pytest.raises(OrderError):
        _ = env.ground_truth
    env.reset(seed=5)
    truth = SearchTruth(env.world.shop)
    estimate = truth.expected_reward(env.visit, env.visit.baseline, 100)
    assert estimate.error > 0 or estimate.mean == 0
    of_action = truth.expected_reward(env.visit, env.visit.baseline, REPLICATES).mean
    assert env.world.truth(env.visit).expected_reward(np.zeros(10)) == pytest.approx(of_action)
    for replicates in (1, True, 2.5):
        with pytest.raises(ConfigError, match="replicates: got"):
            truth.expected_reward(env.visit, env.visit.baseline, replicates)  # type: ignore[arg-type]
    env.step(np.zeros(10))
    with pytest.raises(OrderError, match="nobody is waiting"):
        _ = env.visit
