"""The world of templates: its rewards are the shop's, and its truth is the mean reward of each cell."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.caches import use_cache
from zoosim.arena.recording import catalogue_hash
from zoosim.core.errors import ConfigError
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import TEMPLATES
from zoosim.worlds.search import template_arms as module
from zoosim.worlds.search.expected_reward import VisitGroup, groups_of, share_of, visits_of
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.tables import read_search_config
from zoosim.worlds.search.template_arms import earnings, expected_rewards, reward_of, template_world
from zoosim.worlds.search.world import build_search_world

TYPES = ["category", "brand", "brand"]
SMALL = SearchConfig(n_products=80, n_users=50)


@pytest.fixture(autouse=True)
def few_truth_visits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "TRUTH_VISITS", 400)
    use_cache(monkeypatch, tmp_path)
    module._world.cache_clear()
    module._all_earnings.cache_clear()


def test_what_each_template_earns_is_what_the_shop_gives() -> None:
    world = template_world(SMALL, seed=4, steps=30)
    shop = SearchShop(build_search_world(SMALL, seed=4))
    for step in range(30):
        visit = shop.arrive(step)
        assert np.array_equal(world.users[step], shop.features(visit))
        assert world.segments[step] == visit.segment * 3 + visit.query_type
        for template in range(8):
            result = shop.serve(visit, shop.rank_by_template(visit, template))
            assert world.rewards[step, template] == pytest.approx(result.reward, rel=1e-12)
            parts = {name: part[step, template] for name, part in world.parts.items()}
            exposure = shop.world.catalogue.strategic[result.shown].mean()
            bought = result.outcome.purchases.sum()
            assert parts == {**result.parts._asdict(), "purchases": bought, "exposure": exposure}


def test_what_is_observed_changes_no_reward() -> None:
    worlds = [
        template_world(SMALL.model_copy(update={"context": c}), seed=4, steps=20) for c in ("simple", "rich-oracle")
    ]
    assert [world.users.shape[1] for world in worlds] == [7, 17]
    assert worlds[0].rewards is worlds[1].rewards or np.array_equal(worlds[0].rewards, worlds[1].rewards)
    assert np.array_equal(worlds[0].periods[0].table, worlds[1].periods[0].table)


def test_the_truth_is_the_mean_of_each_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """12,000 visits of the truth, and 12,000 visits as they come: within 4.5 standard errors, 9 cells and 8 templates.

    Price hunters, the first three cells, hardly ever buy. Premium is best for premium visitors; were cells mixed up,
    they would be off by some 20 EUR.
    """
    monkeypatch.setattr(module, "TRUTH_VISITS", 12_000)
    shop = SearchShop(build_search_world(SMALL, seed=4))
    earned = earnings(shop, 0, 12_000)
    queries = shop.world.queries(0, 12_000)
    rewards = earned.gmv + 0.4 * earned.cm2 + 2.0 * earned.strategic + 0.1 * earned.clicks
    cells = shop.world.users.segment[queries.users] * 3 + queries.types
    (truth,) = expected_rewards(shop)
    assert truth.shape == (12, 8)
    assert truth[:3].max() < 0.2
    for cell in range(3, 12):
        in_cell = rewards[cells == cell]
        error = in_cell.std(axis=0) * np.sqrt(1 / len(in_cell) + 1 / 1_000) + 1e-9
        assert (abs(truth[cell] - in_cell.mean(axis=0)) < 4.5 * error).all()
    assert (truth[6:9].argmax(axis=1) == TEMPLATES.index("premium")).all()


def test_every_cell_is_known_by_as_many_visits() -> None:
    """400 visits over 12 cells: 34 for each, which are of that cell alone."""
    shop = SearchShop(build_search_world(SMALL, seed=4))
    (truth,) = expected_rewards(shop)
    queries = visits_of(
        shop, 0, VisitGroup("litter_heavy, brand", 3, 1), module.TRUTH_START + 10 * module.CELL_SPACING, 34
    )
    assert len(queries.steps) == 34
    assert set(shop.world.users.segment[queries.users]) == {3}
    assert set(queries.types) == {1}
    rewards = module.reward_of(SMALL, module.serve_templates(shop, 0, queries))
    np.testing.assert_array_equal(truth[10], rewards.mean(axis=0))


def test_cells_follow_the_types_of_a_shops_own_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types go with categories: a cell's truth against its visits as they come, within 4.5 errors; no generic query.

    What premium visitors earn differs by some 3 EUR between the two types of query, four errors apart.
    """
    pl.DataFrame(
        {"query": ["dry food", "food", "litter"], "category": ["dog_food", "cat_food", "litter"], "type": TYPES}
    ).write_csv(tmp_path / "queries.csv")
    config = SearchConfig(n_products=80, n_users=50, queries_file=str(tmp_path / "queries.csv"))
    shop = SearchShop(build_search_world(config, seed=4))
    monkeypatch.setattr(module, "TRUTH_VISITS", 12_000)
    assert [group.query_type for group in groups_of(shop, "cell")] == [0, 1] * 4
    (truth,) = expected_rewards(shop)
    rewards = reward_of(config, earnings(shop, 0, 12_000))
    queries = shop.world.queries(0, 12_000)
    cells = shop.world.users.segment[queries.users] * 3 + queries.types
    for group in groups_of(shop, "cell")[2:]:
        cell = (group.segment or 0) * 3 + (group.query_type or 0)
        in_cell = rewards[cells == cell]
        error = in_cell.std(axis=0) * np.sqrt(1 / len(in_cell) + 1 / 1_000)
        assert (abs(truth[cell] - in_cell.mean(axis=0)) < 4.5 * error + 1e-9).all()
        assert share_of(shop, 0, group) == pytest.approx((cells == cell).mean(), abs=0.02)
    assert (truth[[2, 5, 8, 11]] == 0.0).all()
    assert abs(truth[6, 4] - truth[7, 4]) > 2.0


def test_every_shift_begins_a_period() -> None:
    shifts = [{"step": 12, "name": "dear toys", "prices": {"toys": 3.0}}]
    config = SearchConfig.model_validate({**SMALL.model_dump(), "shifts": shifts})
    world = template_world(config, seed=4, steps=30)
    shop = SearchShop(build_search_world(config, seed=4))
    assert [period.start for period in world.periods] == [0, 12]
    assert world.shocks == ((12, "dear toys"),)
    np.testing.assert_array_equal([period.table for period in world.periods], expected_rewards(shop))
    assert not np.array_equal(world.periods[0].table, world.periods[1].table)
    for step in range(30):
        visit = shop.arrive(step)
        earned = [shop.serve(visit, shop.rank_by_template(visit, template)).reward for template in range(8)]
        np.testing.assert_allclose(world.rewards[step], earned, rtol=1e-12)


def test_it_is_kept_on_disk_and_made_again_where_that_is_damaged(tmp_path: Path) -> None:
    first = template_world(SMALL, seed=4, steps=20)
    (path,) = (tmp_path / "templates").iterdir()
    for damage in (b"", path.read_bytes()[:200]):
        path.write_bytes(damage)
        module._world.cache_clear()
        module._all_earnings.cache_clear()
        assert np.array_equal(template_world(SMALL, seed=4, steps=20).rewards, first.rewards)
    assert path.stat().st_size > 200


OWN = {
    "plain": {},
    "dear": {"boosts": {"price": 0.5}},
    "match": {"boosts": {"user match": 0.4, "discount x price taste": -0.2}},
    "both": {"mix": {"dear": 0.5, "cheap": 0.5}},
    "cheap": {"rule": "budget"},
}


def test_templates_of_boosts_rank_as_the_boosts_do_and_earn_what_the_shop_gives() -> None:
    config = read_search_config({"n_products": 80, "n_users": 50, "templates": OWN})
    world = template_world(config, seed=4, steps=20)
    shop = SearchShop(build_search_world(config, seed=4))
    boosts = shop.templates.boosts
    assert world.group_names == tuple(OWN)
    assert world.spec(20).templates == tuple(OWN)
    for step in range(20):
        visit = shop.arrive(step)
        for template in (0, 1, 2):
            assert np.array_equal(shop.rank_by_template(visit, template), shop.rank(visit, boosts[template]))
        added = [shop.added_by_template(visit, template, np.arange(80)) for template in (1, 3, 4)]
        np.testing.assert_allclose(added[1], 0.5 * added[0] + 0.5 * added[2], atol=1e-12)
        order = np.argsort(-(visit.base + added[1]), kind="stable")[:20]
        assert np.array_equal(shop.rank_by_template(visit, 3), order)
        for template in range(5):
            result = shop.serve(visit, shop.rank_by_template(visit, template))
            assert world.rewards[step, template] == pytest.approx(result.reward, rel=1e-12)


def test_policies_of_another_library_are_told_by_the_same_oracle() -> None:
    own = template_world(SMALL, seed=4, steps=20)
    other = template_world(SMALL, seed=4, steps=20, library="vectors")
    assert other.group_names == own.group_names
    assert not np.array_equal(own.rewards, other.rewards)
    visits = own.visits(0, 20), other.visits(0, 20)
    actions = np.zeros(20, np.int64)
    assert np.array_equal(own.chosen_and_best(visits[0], actions)[1], other.chosen_and_best(visits[1], actions)[1])
    for step in range(20):
        arrived = own.arrive(step), other.arrive(step)
        assert own.truth(arrived[0]).best_reward == other.truth(arrived[1]).best_reward
        assert other.truth(arrived[1]).best_action is None


def test_logs_of_other_templates_have_another_catalogue() -> None:
    """Templates of one number have the same one-hot features, and rules and vectors the same names."""
    swapped = {name: SMALL.templates[name] for name in (*TEMPLATES[1:], TEMPLATES[0])}
    shops = [
        (SMALL, "shop"),
        (SMALL, "rules"),
        (SMALL, "vectors"),
        (SMALL.model_copy(update={"templates": swapped}), "shop"),
    ]
    default, rules, *others = (
        catalogue_hash(template_world(shop, seed=4, steps=20, library=library).all_products())
        for shop, library in shops
    )
    assert default == rules
    assert len({default, *others}) == 3


def test_a_library_that_the_box_has_no_room_for_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"library vectors: templates.cm2.boosts.cm2 is 0.5, expected -0.3 to 0.3"):
        template_world(SMALL.model_copy(update={"a_max": 0.3}), seed=4, steps=20, library="vectors")
