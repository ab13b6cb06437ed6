"""Market shifts: what changes, by how much, from when, and what stays."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.config import build
from zoosim.core.errors import ConfigError
from zoosim.core.market_shift import in_force
from zoosim.core.search_config import SearchConfig
from zoosim.envs.search_env import SearchEnv, observation_space
from zoosim.envs.search_vector import SearchVectorEnv
from zoosim.worlds.search.boosts import context_of
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.world import SearchWorld, build_search_world

MIX = {"step": 30, "name": "mix", "segment_mix": {"premium": 0.5, "pl_lover": 0.2}}
TASTES = {
    "step": 60,
    "name": "tastes",
    "tastes": {"premium": {"price": -2.0, "label": 1.5, "categories": {"toys": 3.0}}},
}
PRICES = {"step": 90, "name": "prices", "prices": {"toys": 2.0, "litter": 0.5}}
PROMOTIONS = {"step": 120, "name": "promotions", "promotions": {"dog_food": {"share": 0.4, "discount": 0.25}}}
SHIFTS = [PROMOTIONS, MIX, TASTES, PRICES]


def config(shifts: list[dict[str, Any]], **values: Any) -> SearchConfig:
    given: SearchConfig = build(SearchConfig, {"n_products": 400, "n_users": 300, "shifts": shifts, **values}, "search")
    return given


def world(shifts: list[dict[str, Any]], **values: Any) -> SearchWorld:
    return build_search_world(config(shifts, **values), seed=3)


def test_markets_follow_one_another_in_the_order_of_their_steps() -> None:
    shop = world(SHIFTS)
    assert [market.start for market in shop.markets] == [0, 30, 60, 90, 120]
    assert [shop.market_at(step) for step in (0, 29, 30, 89, 90, 10**9)] == [0, 0, 1, 2, 3, 4]


def test_a_shift_of_the_mix_leaves_the_others_their_proportions() -> None:
    """Price hunters .35 and litter-heavy .25 share the .3 that premium .5 and label lovers .2 leave: .175 and .125."""
    shares = np.diff(world(SHIFTS).markets[1].shares.segments, prepend=0.0)
    np.testing.assert_allclose(shares, [0.175, 0.2, 0.5, 0.125])


def test_tastes_move_for_those_who_are_named() -> None:
    shop = world(SHIFTS)
    before, after = shop.markets[1].users, shop.markets[2].users
    premium = before.segment == 2
    np.testing.assert_allclose(after.price_taste - before.price_taste, np.where(premium, -2.0, 0.0), atol=1e-12)
    np.testing.assert_allclose(after.label_taste - before.label_taste, np.where(premium, 1.5, 0.0), atol=1e-12)
    raw = before.category_tastes * np.where(premium[:, None], [1.0, 1.0, 1.0, 3.0], 1.0)
    np.testing.assert_allclose(after.category_tastes, raw / raw.sum(axis=1, keepdims=True))
    assert after.embeddings is before.embeddings


def test_prices_take_cm2_along_by_the_slope_of_their_category() -> None:
    """CM2 slopes: dog food .12, cat food .11, litter -.03, toys .20."""
    shop = world(SHIFTS)
    before, after = shop.markets[2].catalogue, shop.markets[3].catalogue
    np.testing.assert_allclose(after.price, before.price * np.array([1.0, 1.0, 0.5, 2.0])[before.category])
    slopes = np.array([0.12, 0.11, -0.03, 0.20])[before.category]
    np.testing.assert_allclose(after.cm2 - before.cm2, slopes * (after.price - before.price), atol=1e-12)


def test_promotions_discount_their_share_of_a_category_and_nothing_else() -> None:
    """400 products, 35% dog food, 40% of them promoted: the share within 4 standard errors."""
    shop = world(SHIFTS)
    before, after = shop.markets[3].catalogue, shop.markets[4].catalogue
    dog = before.category == 0
    assert np.array_equal(after.discount[~dog], before.discount[~dog])
    changed = after.discount != before.discount
    assert (after.discount[changed] == 0.25).all()
    hit = after.discount[dog] >= 0.25
    assert abs(hit.mean() - 0.4 - 0.6 * (before.discount[dog] >= 0.25).mean()) < 4 * np.sqrt(0.24 / dog.sum())
    assert (after.price is before.price) or np.array_equal(after.price, before.price)


def test_what_a_shift_does_not_name_stays_and_a_neutral_value_ends_it() -> None:
    end = {
        "step": 150,
        "name": "end",
        "prices": {"toys": 1.0},
        "promotions": {"dog_food": {"share": 0.0, "discount": 0}},
    }
    shop = world([*SHIFTS, end])
    last, first = shop.markets[5].catalogue, shop.markets[0].catalogue
    litter = first.category == 2
    np.testing.assert_allclose(last.price, np.where(litter, 0.5, 1.0) * first.price)
    assert np.array_equal(last.discount, first.discount)
    assert shop.markets[5].users.price_taste.tolist() == shop.markets[2].users.price_taste.tolist()
    np.testing.assert_allclose(shop.markets[5].shares.segments, shop.markets[1].shares.segments)


def test_tastes_of_a_segment_add_up_by_what_each_shift_names() -> None:
    first = {"step": 5, "name": "a", "tastes": {"premium": {"price": -2.0, "label": 4.0, "categories": {"toys": 3.0}}}}
    second = {"step": 9, "name": "b", "tastes": {"premium": {"price": 1.0, "categories": {"litter": 2.0}}}}
    third = {"step": 12, "name": "c", "tastes": {"premium": {"label": 0.0}, "pl_lover": {"label": 1.0}}}
    held = in_force(config([first, second, third]).shifts)
    assert held[1].tastes["premium"].model_dump() == {
        "price": 1.0,
        "label": 4.0,
        "categories": {"toys": 3.0, "litter": 2.0},
    }
    assert held[2].tastes["premium"].label == 0.0
    assert held[2].tastes["premium"].price == 1.0
    assert held[2].tastes["pl_lover"].label == 1.0


def test_what_a_shift_leaves_alone_is_the_same_object() -> None:
    mixes = [{"step": 100 + n, "name": f"mix {n}", "segment_mix": {"premium": 0.1 * n}} for n in range(1, 4)]
    shop = world([PRICES, *mixes, {"step": 200, "name": "taste", "tastes": {"premium": {"price": 1.0}}}])
    assert len({id(market.catalogue) for market in shop.markets}) == 2
    assert len({id(market.users) for market in shop.markets}) == 2
    search_shop = SearchShop(shop)
    assert search_shop.arrays(2).catalogue_index is search_shop.arrays(1).catalogue_index
    assert search_shop.added_by_rules(4) is search_shop.added_by_rules(1)


def test_a_mix_takes_the_place_of_the_one_before() -> None:
    other = {"step": 40, "name": "other", "segment_mix": {"price_hunter": 0.9}}
    shares = np.diff(world([MIX, other]).markets[2].shares.segments, prepend=0.0)
    np.testing.assert_allclose(shares, [0.9, 0.1 * 0.25 / 0.65, 0.1 * 0.15 / 0.65, 0.1 * 0.25 / 0.65])


def test_until_the_first_shift_nothing_is_other_than_without() -> None:
    plain = SearchShop(world([]))
    shifted = SearchShop(world(SHIFTS))
    for step in range(30):
        left, right = plain.arrive(step), shifted.arrive(step)
        assert np.array_equal(left.baseline, right.baseline)
        results = [shop.serve(visit, visit.baseline) for shop, visit in ((plain, left), (shifted, right))]
        assert results[0].reward == results[1].reward
        assert np.array_equal(results[0].outcome.utilities, results[1].outcome.utilities)


@pytest.mark.parametrize("context", ["rich", "rich-oracle"])
def test_each_visit_is_what_a_world_without_shifts_but_with_its_figures_gives(context: str) -> None:
    """From step 90 on a world with these prices from the start differs in nothing: who comes, ranking and reward."""
    shifted = world([PRICES], context=context)
    shop = world([], context=context)
    always = SearchWorld(shop.config, shop.seed, shifted.markets[1].catalogue, shop.users)
    left, right = SearchShop(shifted), SearchShop(always)
    for step in range(90, 140):
        visits = left.arrive(step), right.arrive(step)
        assert np.array_equal(left.features(visits[0]), right.features(visits[1]))
        shown = left.rank_by_template(visits[0], 4), right.rank_by_template(visits[1], 4)
        assert np.array_equal(*shown)
        boosted = left.rank(visits[0], np.ones(10)), right.rank(visits[1], np.ones(10))
        assert np.array_equal(*boosted)
        assert left.serve(visits[0], shown[0]).reward == right.serve(visits[1], shown[1]).reward
        assert np.array_equal(left.boost_features(visits[0]), right.boost_features(visits[1]))


def test_the_same_visits_come_whatever_the_order_they_are_asked_for_in() -> None:
    shop = world(SHIFTS)
    whole = shop.queries(0, 200)
    for start, stop in ((25, 35), (100, 200), (59, 61), (0, 1)):
        part = shop.queries(start, stop)
        assert np.array_equal(part.users, whole.users[start:stop])
        assert np.array_equal(part.embeddings, whole.embeddings[start:stop])


def test_products_are_replaced_by_others_of_their_own_ids() -> None:
    half = {"step": 20, "name": "half", "renewal": 0.5}
    shop = world(
        [half, PRICES, {"step": 95, "name": "more", "renewal": 0.8}, {"step": 99, "name": "old", "renewal": 0}]
    )
    ids = [market.catalogue.ids for market in shop.markets]
    first, renewed, dearer, last, back = (market.catalogue for market in shop.markets)
    assert np.array_equal(first.price, world([]).catalogue.price)
    assert np.array_equal(ids[0], np.arange(400))
    is_new = ids[1] >= 400
    assert is_new.mean() == pytest.approx(0.5, abs=0.1)
    assert (renewed.price[is_new] != first.price[is_new]).all()
    assert np.array_equal(renewed.embeddings[:, ~is_new], first.embeddings[:, ~is_new])
    assert np.array_equal(ids[2], ids[1])
    assert (dearer.price != renewed.price).any()
    assert (ids[3] >= 400)[is_new].all()
    assert (ids[3] >= 400).sum() > is_new.sum()
    assert np.array_equal(back.ids, first.ids)
    assert last.category.max() < 4
    visit = SearchShop(shop).arrive(30)
    assert np.array_equal(context_of(SearchShop(shop), visit).product_ids, ids[1])


def test_environments_show_the_market_of_the_visit() -> None:
    env = SearchEnv(config([PRICES]))
    many = SearchVectorEnv(2, config([PRICES]))
    env.reset(seed=5)
    many.reset(seed=5)
    for step in range(100):
        _, reward, _, _, info = env.step(np.zeros(10))
        _, rewards, _, _, infos = many.step(np.zeros((2, 10)))
        assert rewards[0] == reward
        price = env.world.shop.world.markets[int(step >= 90)].catalogue.price
        assert info["feedback"]["products"]["price"].tolist() == price[info["feedback"]["shown"]].tolist()
        assert (
            infos["final_info"][0]["feedback"]["products"]["price"].tolist()
            == price[info["feedback"]["shown"]].tolist()
        )
        env.reset()


def test_a_segment_may_be_there_from_a_shift_on_only() -> None:
    segments = SearchConfig().model_dump()["segments"]
    segments["premium"]["share"], segments["pl_lover"]["share"] = 0.0, 0.4
    shop = world([MIX], segments=segments)
    before, after = shop.queries(0, 30), shop.queries(30, 2_030)
    assert 2 not in shop.users.segment[before.users]
    assert np.mean(shop.users.segment[after.users] == 2) == pytest.approx(0.5, abs=0.05)
    plain = world([], segments=segments)
    same = plain.queries(0, 30)
    for name in ("price_taste", "label_taste"):
        assert np.array_equal(getattr(shop.users, name)[before.users], getattr(plain.users, name)[same.users])
    assert np.array_equal(before.embeddings, same.embeddings)
    assert int((shop.users.segment == 2).sum()) == 150  # half of 300, beside the 300 others
    context, _ = SearchEnv(shop.config).reset(seed=3)
    assert context["user_id"] < len(shop.users.segment)
    assert observation_space(shop.config)["user_id"].contains(np.int64(len(shop.users.segment) - 1))


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        ({}, "search.shifts.0: changes nothing; give segment_mix, tastes, prices, promotions or renewal"),
        ({"segment_mix": {"luxury": 0.2}}, "shifts.0: unknown segment 'luxury'; known: price_hunter"),
        ({"tastes": {"luxury": {}}}, "shifts.0: unknown segment 'luxury'"),
        ({"tastes": {"premium": {"categories": {"toy": 2.0}}}}, "unknown category 'toy' (did you mean toys?)"),
        ({"prices": {"toy": 2.0}}, "shifts.0: unknown category 'toy' (did you mean toys?)"),
        ({"promotions": {"toy": {"share": 0.5, "discount": 0.1}}}, "shifts.0: unknown category 'toy'"),
        ({"prices": {"toys": 0.0}}, "shifts.0.prices.toys: got 0.0, expected"),
        ({"prices": {"toys": -1.0}}, "shifts.0.prices.toys: got -1.0, expected"),
        ({"segment_mix": {"premium": 0.7, "pl_lover": 0.5}}, "shifts.0.segment_mix: shares add up to 1.2, expected at"),
        (
            {"segment_mix": {"premium": 0.2, "pl_lover": 0.2, "price_hunter": 0.2, "litter_heavy": 0.2}},
            "shifts.0.segment_mix: shares add up to 0.8, expected 1",
        ),
        ({"promotions": {"toys": {"share": 1.5, "discount": 0.1}}}, "shifts.0.promotions.toys.share: got 1.5"),
        ({"step": 0, "prices": {"toys": 2.0}}, "shifts.0.step: got 0"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_refused_with_one_line(shift: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        config([{"step": 5, "name": "x", **shift}])
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("field", "value"), [("step", 30), ("name", "'mix'")])
def test_shifts_are_told_apart(field: str, value: object) -> None:
    other = {**PRICES, field: MIX[field]}
    with pytest.raises(ConfigError, match=f"shifts: two of them have the {field} {value}; give each its own"):
        config([MIX, other])


def test_a_catalogue_of_ones_own_is_not_renewed() -> None:
    with pytest.raises(ConfigError, match="shifts: renewal replaces drawn products; leave it out, or catalogue_file"):
        config([{"step": 5, "name": "x", "renewal": 0.5}], catalogue_file="mine.csv")
