"""A described search world holds what the shop holds; worlds of any size can be described."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from zoosim.core.config import build
from zoosim.core.search_config import CATEGORIES, SEGMENTS, SearchConfig
from zoosim.core.search_names import TEMPLATES
from zoosim.descriptions import SearchDescription, describe_search
from zoosim.descriptions.search import SimulatedVisits, most_eventful_visit
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.truth import SearchTruth
from zoosim.worlds.search.world import build_search_world

SMALL = {"n_products": 60, "n_users": 40}


def described(visits: int = 120, **config: Any) -> SearchDescription:
    return describe_search(build(SearchConfig, {**SMALL, **config}, "env"), seed=5, visits=visits, progress=print)


@pytest.fixture(scope="module")
def world() -> SearchDescription:
    return described()


@pytest.fixture(scope="module")
def shop() -> SearchShop:
    return SearchShop(build_search_world(build(SearchConfig, SMALL, "env"), seed=5))


def test_categories_and_segments_are_those_of_the_shop(world: SearchDescription, shop: SearchShop) -> None:
    catalogue = shop.world.catalogue
    users = shop.world.users
    assert [c.name for c in world.categories] == list(CATEGORIES)
    assert sum(c.products for c in world.categories) == 60
    litter = world.categories[2]
    is_litter = catalogue.category == 2
    assert litter.price.median == pytest.approx(np.median(catalogue.price[is_litter]))
    assert (litter.cm2.low, litter.cm2.high) == pytest.approx(tuple(np.percentile(catalogue.cm2[is_litter], [5, 95])))
    assert (litter.strategic_share, world.categories[0].strategic_share) == (1.0, 0.0)
    assert [s.name for s in world.segments] == list(SEGMENTS)
    assert world.segments[1].label.median == pytest.approx(np.median(users.label_taste[users.segment == 1]))
    assert sum(world.segments[3].categories) == pytest.approx(1.0)


def test_positions_count_what_visitors_did(world: SearchDescription, shop: SearchShop) -> None:
    results = [(visit, shop.serve(visit, visit.baseline)) for visit in map(shop.arrive, range(120))]
    for number, positions in enumerate(world.positions):
        outcomes = [result.outcome for visit, result in results if visit.query_type == number]
        assert positions.visits == len(outcomes)
        assert np.array_equal(positions.examined, np.sum([outcome.examined for outcome in outcomes], axis=0))
        assert np.array_equal(positions.clicked, np.sum([outcome.clicks for outcome in outcomes], axis=0))
        assert np.array_equal(positions.bought, np.sum([outcome.purchases for outcome in outcomes], axis=0))
    premium = [result for visit, result in results if visit.segment == 2]
    assert world.segments[2].visits == len(premium)
    assert world.segments[2].gmv == pytest.approx(np.mean([result.parts.gmv for result in premium]))


def test_templates_earn_what_the_shop_gives(world: SearchDescription, shop: SearchShop) -> None:
    visits = list(map(shop.arrive, range(120)))
    for number, name in enumerate(TEMPLATES):
        rewards = np.array([shop.serve(visit, shop.rank_by_template(visit, number)).reward for visit in visits])
        every, *by_segment = world.templates[name]
        assert every is not None
        assert every.mean == pytest.approx(rewards.mean())
        premium = np.array([visit.segment for visit in visits]) == 2
        assert by_segment[2] is not None
        assert by_segment[2].mean == pytest.approx(rewards[premium].mean())


def test_shifts_are_described_by_their_differences_to_the_opening_market() -> None:
    """A second shift keeps what it does not name of the first, and ends what it names with a factor of 1."""
    first = {
        "step": 200,
        "name": "dear",
        "segment_mix": {"price_hunter": 0.5},
        "tastes": {"premium": {"price": -2.0, "categories": {"toys": 1.5}}},
        "prices": {"toys": 1.4},
        "promotions": {"dog_food": {"share": 0.5, "discount": 0.25}},
    }
    second = {"step": 300, "name": "cheap", "prices": {"toys": 1.0}, "tastes": {"premium": {"label": 1.0}}}
    facts = described(20, shifts=[second, first]).shifts
    assert [(shift.step, shift.name) for shift in facts] == [(200, "dear"), (300, "cheap")]
    earlier, later = ({(d.what, d.of): d.how for d in shift.differs} for shift in facts)
    assert earlier["price taste", "premium"] == later["price taste", "premium"] == "-2"
    assert earlier["taste for toys", "premium"].startswith("x 1.5")
    assert earlier["price", "toys"] == "x 1.4"
    assert earlier["promotion", "dog_food"] == "50% of the products at least 25% off"
    assert earlier["share of visits", "price_hunter"].endswith(" to 50%")
    assert ("price", "toys") not in later
    assert later["private-label taste", "premium"] == "+1"
    assert {d.what for d in facts[0].differs if d.observable} == {"price", "promotion"}
    assert described(20).shifts == ()


def test_the_example_visit_is_what_happened(world: SearchDescription, shop: SearchShop) -> None:
    example = world.example
    visit = shop.arrive(example.step)
    result = shop.serve(visit, visit.baseline)
    assert list(example.category_tastes.values()) == shop.world.users.category_tastes[visit.user].tolist()
    neutral = example.ladder[0]
    assert [item.product for item in neutral.shown] == visit.baseline.tolist()
    assert [item.place for item in neutral.shown] == list(range(1, 21))
    assert [item.bought for item in neutral.shown] == result.outcome.purchases.tolist()
    assert neutral.earned == result.reward
    assert neutral.gain.mean == 0.0
    done = {(item.clicked, item.bought) for item in neutral.shown if item.examined}
    assert done == {(False, False), (True, False), (True, True)}


def test_scores_order_every_ranking_and_the_truth_values_it(world: SearchDescription, shop: SearchShop) -> None:
    example = world.example
    truth = SearchTruth(shop)
    visit = shop.arrive(example.step)
    for ranking in (*example.ladder, *example.templates):
        scores = [item.base + item.added for item in ranking.shown]
        assert scores == sorted(scores, reverse=True)
    premium = example.templates[4]
    shown = shop.rank_by_template(visit, 4)
    expected = truth.expected_reward(visit, shown, 2_000)
    assert [item.product for item in premium.shown] == shown.tolist()
    assert premium.reward.mean == pytest.approx(expected.mean)
    assert premium.reward.high == pytest.approx(expected.mean + 1.96 * expected.error, rel=0.01)
    assert premium.price == pytest.approx(shop.world.catalogue.price[shown].mean())
    assert example.best.reward.mean == max(r.reward.mean for r in (*example.ladder[1:], *example.templates[1:]))


def test_a_policy_sees_its_context_and_no_more() -> None:
    seen = {name: described(visits=3, context=name).example.observed for name in ("simple", "rich", "rich-oracle")}
    assert [len(observed) for observed in seen.values()] == [2, 12, 12]
    assert "estimated price taste" in seen["rich"]
    assert "true price taste" in seen["rich-oracle"]
    assert seen["rich"]["estimated price taste"] % 0.5 == 0.0


def test_the_example_is_the_first_visit_with_the_most_events() -> None:
    none = np.zeros((3, 2), bool)
    yes = np.array([[True, True]] * 3)
    clicks = np.array([[False, True], [True, True], [True, True]])
    purchases = np.array([[False, False], [False, True], [True, False]])
    who = np.zeros(3, np.int64)
    log = SimulatedVisits(who, who, yes, clicks, purchases, np.zeros(3), np.zeros(3), np.zeros((3, 8)))
    assert most_eventful_visit(log) == 1  # a click alone and a purchase, rather than a skip and a click alone
    assert most_eventful_visit(log._replace(purchases=none, clicks=none)) == 0


ONE = {"toys": {**CATEGORIES["toys"].model_dump(), "share": 1.0}}
LONE = {"everybody": {**SEGMENTS["premium"].model_dump(), "share": 1.0, "category_tastes": {"toys": 1.0}}}
NOBODY = {**{n: s.model_dump() for n, s in SEGMENTS.items()}}
NOBODY["premium"], NOBODY["pl_lover"] = {**NOBODY["premium"], "share": 0.0}, {**NOBODY["pl_lover"], "share": 0.4}
WORLDS: dict[str, dict[str, Any]] = {
    "one product": {"n_products": 1},
    "three products": {"n_products": 3},
    "one shown": {"k": 1},
    "thirty shown": {"k": 30},
    "one category and segment": {"categories": ONE, "segments": LONE},
    "a segment without users": {"segments": NOBODY},
    "careful": {"a_max": 0.5, "context": "simple"},
    "one query type": {"query_types": {"any": {"share": 1.0, "specificity": 1.0, "bias": [0.0]}}},
}


@pytest.mark.parametrize("name", WORLDS)
def test_any_world_can_be_described(name: str) -> None:
    facts = described(visits=5, **WORLDS[name])
    assert len(facts.example.ladder[0].shown) == facts.k
    assert sum(c.products for c in facts.categories) == facts.config.n_products


def test_own_files_can_be_described(tmp_path: Path) -> None:
    catalogue = {"id": [7, 8, 9], "category": ["toys", "toys", "litter"], "price": [1.0, 2.0, 90.0], "cm2": [0.1] * 3}
    pl.DataFrame(catalogue).write_csv(tmp_path / "catalogue.csv")
    facts = described(visits=1, catalogue_file=str(tmp_path / "catalogue.csv"))
    assert [(c.name, c.products) for c in facts.categories] == [("litter", 1), ("toys", 2)]
    assert {item.product for item in facts.example.ladder[0].shown} == {7, 8, 9}
    assert facts.config.n_products == 3
