"""The shop against plain loops over products: scores, features, rankings, chances and rewards, for the same draws."""

import math
from functools import cache

import numpy as np
import pytest

from benchmarks.plain import search as plain
from benchmarks.plain.search_visits import plain_products, plain_query, plain_user, plain_visit, relevance_noise
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import TEMPLATES
from zoosim.ranking.search_requests import estimated
from zoosim.worlds.search.shop import SearchShop, SearchVisit
from zoosim.worlds.search.world import build_search_world

CASES = [*((500, t) for t in range(12)), (500, 1_234_567), (37, 3), (10_000, 5), (10_000, 40)]


@cache
def shop_of(seed: int, n_products: int) -> SearchShop:
    return SearchShop(build_search_world(SearchConfig(n_products=n_products, n_users=60), seed=seed))


@pytest.fixture(params=CASES, ids=str)
def met(request: pytest.FixtureRequest) -> tuple[SearchShop, SearchVisit]:
    n_products, step = request.param
    shop = shop_of(3, n_products)
    return shop, shop.arrive(step)


def test_base_scores_and_ranking(met: tuple[SearchShop, SearchVisit]) -> None:
    shop, visit = met
    noise = relevance_noise(shop.world, visit.step)
    expected = plain.base_scores(plain_products(shop.world), plain_query(shop.world, visit), noise)
    np.testing.assert_allclose(visit.base, expected, rtol=0, atol=1e-12)
    assert visit.baseline.tolist() == plain.top(expected, 20)


def test_boosts_and_their_rankings(met: tuple[SearchShop, SearchVisit]) -> None:
    shop, visit = met
    user, query = plain_user(shop.world, visit), plain_query(shop.world, visit)
    products = plain_products(shop.world)
    phi = plain.boost_features(products, user, query)
    np.testing.assert_allclose(shop.boost_features(visit), phi, rtol=0, atol=1e-9)
    base = visit.base.tolist()
    rng = np.random.default_rng(visit.step)
    for scale in (0.05, 1.0, 5.0):
        action = rng.uniform(-scale, scale, 10)
        expected = plain.top(plain.boosted(base, phi, action.tolist()), 20)
        assert shop.rank(visit, action).tolist() == expected


def test_templates_and_their_rankings(met: tuple[SearchShop, SearchVisit]) -> None:
    shop, visit = met
    products = plain_products(shop.world)
    for number, name in enumerate(TEMPLATES):
        values = plain.template_values(name, products)
        added = [plain.AMPLITUDE * value for value in values]
        np.testing.assert_allclose(shop.added_by_rules(0)[number], added, rtol=0, atol=1e-11)
        scores = [b + plain.AMPLITUDE * value for b, value in zip(visit.base.tolist(), values, strict=True)]
        assert shop.rank_by_template(visit, number).tolist() == plain.top(scores, 20)


def test_every_chance_of_a_visit(met: tuple[SearchShop, SearchVisit]) -> None:
    shop, visit = met
    for template in (0, 1, 4, 5, 7):
        result = shop.serve(visit, shop.rank_by_template(visit, template))
        steps = plain_visit(shop, visit, result.shown.tolist())
        outcome = result.outcome
        for n, step in enumerate(steps):
            assert outcome.examine[n] == pytest.approx(step.examine_probability, abs=1e-9)
            assert outcome.examined[n] == step.examined
            assert (outcome.clicks[n], outcome.purchases[n]) == (step.clicked, step.purchased)
            for chance, expected in (
                (outcome.click[n], step.click_probability),
                (outcome.purchase[n], step.purchase_probability),
            ):
                assert chance == pytest.approx(math.nan if expected is None else expected, abs=1e-9, nan_ok=True)
            assert outcome.satisfaction[n] == pytest.approx(step.satisfaction, abs=1e-9)
        assert not outcome.examined[len(steps) :].any()
        expected_parts = plain.reward(plain_products(shop.world), steps)
        assert result.reward == pytest.approx(expected_parts["total"], abs=1e-9)
        parts = result.parts._asdict()
        assert {name: parts[name] for name in ("gmv", "cm2", "strategic", "clicks")} == pytest.approx(
            {name: expected_parts[name] for name in ("gmv", "cm2", "strategic", "clicks")}
        )


def test_rich_features(met: tuple[SearchShop, SearchVisit]) -> None:
    shop, visit = met
    config = shop.world.config
    users = shop.world.users
    tastes = (float(users.price_taste[visit.user]), float(users.label_taste[visit.user]))
    user, query = plain_user(shop.world, visit), plain_query(shop.world, visit)
    names = list(config.segments), list(config.query_types)
    guesses = (plain.estimated(tastes[0]), plain.estimated(tastes[1]))
    base = visit.base.tolist()
    segment = names[0][visit.segment]
    expected = plain.rich_features(plain_products(shop.world), base, user, query, segment, *names, guesses)
    np.testing.assert_allclose(shop.features(visit), expected, rtol=0, atol=1e-12)


def test_visits_end_in_every_way() -> None:
    """Of 400 visits to the premium template some leave, some buy three times, some lose patience."""
    shop = shop_of(3, 500)
    ends = []
    for t in range(400):
        visit = shop.arrive(t)
        outcome = shop.serve(visit, shop.rank_by_template(visit, 4)).outcome
        last = int(outcome.examined.sum()) - 1
        left = last + 1 < 20 and not np.isnan(outcome.examine[last + 1])
        ends.append("left" if left else "bought" if outcome.purchases.sum() == 3 else outcome.satisfaction[last] < -2.0)
    assert set(ends) >= {"left", "bought", True}


def test_estimated_tastes() -> None:
    """-3.5 x .7 = -2.45 -> -2.5; 1.2 x .7 = .84 -> 1; 9 x .7 = 6.3 -> 3; .3 x .7 = .21 -> 0."""
    assert estimated(np.array([-3.5, 1.2, 9.0, 0.3])).tolist() == [-2.5, 1.0, 3.0, 0.0]
