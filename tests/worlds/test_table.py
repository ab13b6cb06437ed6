"""What a configuration and a seed build: catalogue, users, click table, its changes, and the draws."""

from typing import Any

import numpy as np
import pytest

from tests.worlds.visits import visit_by
from zoosim.core.config import EnvConfig, RandomShocks, build
from zoosim.core.errors import ConfigError
from zoosim.core.types import BoolArray, FloatArray
from zoosim.worlds.recommendation.shocks import LOUD, SILENT
from zoosim.worlds.recommendation.world import build_world, click_table, drawn, resolve_shocks
from zoosim.worlds.table import TableWorld, best_by_segment, earn

SHOP = EnvConfig(shocks=[LOUD, SILENT])
PERSONAS = ("new_puppy_parent", "cat_connoisseur", "budget_shopper", "fish_hobbyist")
CATEGORIES = ("Fish Supplies", "Cat Food", "Dog Food", "Dog Toy", "Cat Toy")


def make_config(**values: Any) -> EnvConfig:
    return EnvConfig.model_validate(values)


def cell(world: TableWorld, step: int, persona: str, category: str) -> float:
    table = world.period(step).table
    return float(table[world.segment_names.index(persona), world.group_names.index(category)])


def shares(world: TableWorld) -> FloatArray:
    return np.bincount(world.segments, minlength=len(world.segment_names)) / world.n_users


def on_sale(step: int, *events: dict[str, Any]) -> list[int]:
    """List which of 4 products may be shown at `step`."""
    world = build_world(make_config(n_products=4, availability=list(events)), seed=0)
    return np.flatnonzero(world.period(step).available).tolist()


def clicks(world: TableWorld, action: int, count: int) -> FloatArray:
    visits = world.visits(0, count)
    return np.array([earn(visits, i, action) for i in range(count)])


def test_categories_come_as_evenly_as_can_be_in_shuffled_order() -> None:
    worlds = [build_world(EnvConfig(), seed=seed) for seed in range(20)]
    for world in worlds:
        assert np.bincount(world.groups).tolist() == [10] * 5
    assert len({tuple(world.groups) for world in worlds}) == 20
    assert all((np.diff(world.groups) < 0).sum() > 10 for world in worlds)  # sorted ones would never fall


def test_the_remainder_of_the_catalogue_is_drawn() -> None:
    counts = np.array([np.bincount(build_world(EnvConfig(n_products=52), seed=s).groups) for s in range(200)])
    assert set(counts.sum(axis=1)) == {52}
    assert counts.min() == 10
    assert set(np.unique(counts)) == {10, 11, 12}
    extra = (counts - 10).sum(axis=0)  # 400 draws over 5 categories: 80 each
    assert np.all(np.abs(extra - 80) < 4 * np.sqrt(400 * 0.2 * 0.8))


def test_categories_have_the_sizes_that_are_given() -> None:
    config = EnvConfig(n_products=9, category_sizes={"Cat Food": 6, "Dog Toy": 3})
    dealt = [build_world(config, seed=seed).groups for seed in (0, 1)]
    assert [np.bincount(groups, minlength=5).tolist() for groups in dealt] == [[0, 6, 0, 3, 0]] * 2
    assert dealt[0].tolist() != dealt[1].tolist()


def test_personas_are_uniform_unless_a_mix_is_given() -> None:
    """Within 4 standard errors at 100,000 users, seed 3."""
    count = 100_000
    even = shares(build_world(EnvConfig(n_users=count), seed=3))
    assert np.all(np.abs(even - 0.25) < 4 * np.sqrt(0.25 * 0.75 / count))
    mix = {"fish_hobbyist": 0.7, "budget_shopper": 0.3}
    mixed = shares(build_world(EnvConfig(n_users=count, persona_mix=mix), seed=3))
    assert mixed[:2].tolist() == [0, 0]
    assert abs(mixed[3] - 0.7) < 4 * np.sqrt(0.7 * 0.3 / count)


def test_features_are_the_one_hot_persona_and_category() -> None:
    world = build_world(EnvConfig(), seed=1)
    assert (world.segment_names, world.group_names) == (PERSONAS, CATEGORIES)
    np.testing.assert_array_equal(world.users, np.eye(4)[world.segments])
    np.testing.assert_array_equal(world.products, np.eye(5)[world.groups])


def test_noise_features_are_normal_with_variance_one_quarter_and_move_nothing_else() -> None:
    """Mean 0 and variance .25 within 4 standard errors (30,000 and 25,000 values, seed 1)."""
    plain, noisy = (
        build_world(make_config(n_users=10_000, n_products=5_000, noise_features=noise), seed=1)
        for noise in ({}, {"user": 3, "product": 5})
    )
    for bare, rows, labels in ((plain.users, noisy.users, 4), (plain.products, noisy.products, 5)):
        np.testing.assert_array_equal(rows[:, :labels], bare)
        noise = rows[:, labels:]
        assert abs(noise.mean()) < 4 * np.sqrt(0.25 / noise.size)
        assert abs(noise.var() - 0.25) < 4 * 0.25 * np.sqrt(2 / noise.size)
        assert len(np.unique(noise)) == noise.size
    np.testing.assert_array_equal(noisy.visitors(0, 500), plain.visitors(0, 500))
    np.testing.assert_array_equal(clicks(noisy, 0, 500), clicks(plain, 0, 500))


def test_a_world_repeats_under_its_seed_and_is_read_only() -> None:
    config = make_config(noise_features={"user": 1, "product": 1})
    one, two, other = (build_world(config, seed=seed) for seed in (5, 5, 6))
    for name in ("users", "products", "segments", "groups"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))
        assert not getattr(one, name).flags.writeable
    assert not one.periods[0].table.flags.writeable
    assert not one.periods[0].available.flags.writeable


def test_the_default_table_is_the_published_one() -> None:
    world = build_world(EnvConfig(), seed=0)
    expected = [
        [0.02, 0.10, 0.40, 0.50, 0.05],
        [0.05, 0.55, 0.05, 0.02, 0.45],
        [0.20, 0.40, 0.25, 0.15, 0.20],
        [0.60, 0.10, 0.02, 0.02, 0.08],
    ]
    np.testing.assert_array_equal(world.periods[0].table, expected)
    assert len(world.periods) == 1


def test_a_category_that_a_row_leaves_out_is_clicked_one_time_in_a_hundred() -> None:
    world = build_world(make_config(personas={"a": {"x": 0.5}, "b": {"y": 0.7}}), seed=0)
    np.testing.assert_array_equal(world.periods[0].table, [[0.5, 0.01], [0.01, 0.7]])


@pytest.mark.parametrize(
    ("steps", "best", "even"),
    [
        ((0, 9_999), [0.50, 0.55, 0.40, 0.60], 0.5125),
        ((10_000, 24_999), [0.50, 0.55, 0.80, 0.60], 0.6125),
        ((25_000, 10**9), [0.50, 0.75, 0.80, 0.60], 0.6625),
    ],
)
def test_the_oracle_of_each_phase_is_the_published_one(steps: tuple[int, int], best: list[float], even: float) -> None:
    """With even shares (.50 + .55 + .40 + .60) / 4 = .5125; at the shipped size, weighed by the world's own shares."""
    world = build_world(SHOP, seed=42)
    for step in steps:
        period = world.period(step)
        by_segment = best_by_segment(period.table, world.groups, period.available)
        np.testing.assert_allclose(by_segment, best, rtol=1e-12)
        assert by_segment.mean() == pytest.approx(even, rel=1e-12)
        truths = [world.truth(visit_by(world, user, step)) for user in range(world.n_users)]
        value = np.mean([truth.expected_reward(truth.best_action) for truth in truths])
        assert value == pytest.approx(shares(world) @ best, rel=1e-12)


def test_shocks_apply_from_their_step_on_and_leave_the_rest() -> None:
    world = build_world(SHOP, seed=0)
    assert world.shocks == ((10_000, LOUD.name), (25_000, SILENT.name))
    assert [period.start for period in world.periods] == [0, 10_000, 25_000]
    before, between, after = (period.table for period in world.periods)
    loud, silent = before.copy(), before.copy()
    loud[2, :3] = [0.80, 0.15, 0.10]
    np.testing.assert_array_equal(between, loud)
    silent = loud.copy()
    silent[1, 3] = 0.75
    np.testing.assert_array_equal(after, silent)
    assert [cell(world, step, "budget_shopper", "Fish Supplies") for step in (9_999, 10_000)] == [0.2, 0.8]
    assert [cell(world, step, "cat_connoisseur", "Dog Toy") for step in (24_999, 25_000)] == [0.02, 0.75]


def test_shocks_apply_in_order_of_time_however_they_are_listed() -> None:
    first = {"step": 5, "name": "first", "set": {"budget_shopper": {"Dog Toy": 0.3}}}
    second = {"step": 9, "name": "second", "set": {"budget_shopper": {"Dog Toy": 0.6}}}
    world = build_world(make_config(shocks=[second, first]), seed=0)
    assert [cell(world, t, "budget_shopper", "Dog Toy") for t in (4, 5, 8, 9, 99)] == [0.15, 0.3, 0.3, 0.6, 0.6]
    assert world.shocks == ((5, "first"), (9, "second"))


def test_the_past_knows_no_shock_and_has_visits_of_its_own() -> None:
    world = build_world(SHOP, seed=0)
    old = world.before()
    assert old is not None
    assert [period.start for period in old.periods] == [0]
    assert old.shocks == ()
    np.testing.assert_array_equal(old.products, world.products)
    assert not np.array_equal(old.visitors(0, 50), world.visitors(0, 50))


def test_random_shocks_repeat_under_their_seed() -> None:
    def drawn(count: int, seed: int, steps: int = 1_000) -> EnvConfig:
        return resolve_shocks(EnvConfig(random_shocks=RandomShocks(count=count, seed=seed)), steps)

    assert drawn(3, 7) == drawn(3, 7)
    assert drawn(3, 7).shocks != drawn(3, 8).shocks
    assert drawn(3, 7).random_shocks is None
    assert resolve_shocks(SHOP, 1_000) is SHOP
    shocks = drawn(200, 1).shocks
    assert len({shock.name for shock in shocks}) == 200
    assert [shock.step for shock in shocks] == sorted({shock.step for shock in shocks})
    assert [shock.step for shock in drawn(900, 1).shocks] == list(range(50, 950))  # 5 to 95% of 1,000
    assert {len(shock.set) for shock in shocks} == {1}
    rows = [row for shock in shocks for row in shock.set.values()]
    assert {len(row) for row in rows} == {1, 2, 3, 4}
    assert all(0.01 <= chance < 1 for row in rows for chance in row.values())
    assert {persona for shock in shocks for persona in shock.set} == set(PERSONAS)
    build_world(drawn(200, 1), seed=0)


def test_a_random_shock_that_makes_a_best_makes_it_so() -> None:
    """Follow 400 shocks: about .7 of them lift a cell above all others of its persona as they then stand."""
    config = resolve_shocks(EnvConfig(random_shocks=RandomShocks(count=400, seed=3)), 10_000)
    rows = {name: dict(row) for name, row in config.personas.items()}
    lifted = 0
    for shock in config.shocks:
        for persona, cells in shock.set.items():
            rows[persona].update(cells)
            first = next(iter(cells))
            others = [chance for category, chance in rows[persona].items() if category != first]
            lifted += rows[persona][first] > max(others)
    assert lifted >= 0.7 * 400 - 4 * np.sqrt(400 * 0.7 * 0.3)


@pytest.mark.parametrize(("count", "steps", "room"), [(10, 5, 4), (901, 1_000, 900), (1, 1, 0)])
def test_more_random_shocks_than_steps_are_refused(count: int, steps: int, room: int) -> None:
    with pytest.raises(ConfigError, match=f"got {count} shocks, a run of {steps} steps has room for {room}"):
        resolve_shocks(EnvConfig(random_shocks=RandomShocks(count=count)), steps)


def test_each_world_draws_the_table_and_the_shocks_that_are_left_to_it() -> None:
    """Beta(.7, 2) has a mean of .259 and a variance of .0519: 5 standard errors over 12 worlds of 1,000 cells."""
    given = {
        "random_personas": {"personas": 20, "categories": 50},
        "random_shocks": {"count": 2, "seed": "each"},
        "persona_mix": {"persona 7": 1.0},
        "availability": [{"step": 5, "change": "vanish", "category": "category 3"}],
    }
    config = resolve_shocks(EnvConfig.model_validate(given), 1_000)
    worlds = [build_world(config, seed=seed) for seed in range(12)]
    tables = np.array([world.periods[0].table for world in worlds])
    assert tables.shape == (12, 20, 50)
    assert tables.min() >= 0.01
    assert tables.max() <= 0.9
    assert abs(tables.mean() - 0.7 / 2.7) < 5 * np.sqrt(0.0519 / tables.size) + 0.002  # cutting moves it by .002
    assert len({world.shocks for world in worlds}) == 12
    assert all(50 <= step < 950 for world in worlds for step, _ in world.shocks)
    again = build_world(config, seed=3)
    np.testing.assert_array_equal(again.periods[-1].table, worlds[3].periods[-1].table)
    assert drawn(config, 3).shocks[0].step == worlds[3].shocks[0][0]
    assert set(worlds[0].segments) == {6}


def test_what_is_drawn_stays_the_same_for_a_seed() -> None:
    """Table and shock of one seed as they were first published: a pin, no derivation."""
    given = {"random_personas": {"personas": 2, "categories": 3}, "random_shocks": {"count": 1, "seed": "each"}}
    config = drawn(resolve_shocks(EnvConfig.model_validate(given), 1_000), 0)
    assert click_table(config).tolist() == [[0.01, 0.0237, 0.333], [0.01, 0.01, 0.4689]]
    assert [(shock.step, shock.set) for shock in config.shocks] == [
        (62, {"persona 1": {"category 3": 0.3964, "category 2": 0.193}})
    ]


def test_the_largest_drawn_table_is_built() -> None:
    """A million cells take about one second; to look the categories up for each persona would take hours."""
    config = EnvConfig.model_validate({"random_personas": {"personas": 1_000, "categories": 1_000}, "n_users": 10})
    shocked = config.model_copy(update={"random_shocks": RandomShocks(count=50, seed="each", over=1_000)})
    assert build_world(shocked, seed=0).periods[-1].table.shape == (1_000, 1_000)
    with pytest.raises(ConfigError, match=r"env.random_personas.personas: got 1001, expected .* 1000$"):
        build(EnvConfig, {"random_personas": {"personas": 1_001, "categories": 1}}, "env")


def test_what_is_drawn_anew_is_not_also_written() -> None:
    personas = {"random_personas": {"personas": 1, "categories": 2}}
    with pytest.raises(ConfigError, match="give personas or random_personas, not both"):
        build(EnvConfig, {**personas, "personas": {"a": {"b": 0.5}}}, "env")
    with pytest.raises(ConfigError, match=r"env.random_shocks.seed: got 'all', expected a whole number .* or each"):
        build(EnvConfig, {"random_shocks": {"count": 1, "seed": "all"}}, "env")
    with pytest.raises(ConfigError, match=r"random_shocks\.over: missing"):
        build_world(EnvConfig(random_shocks=RandomShocks(count=1, seed="each")), seed=0)
    with pytest.raises(ConfigError, match="a run of 5 steps has room for 4"):
        resolve_shocks(EnvConfig(random_shocks=RandomShocks(count=9, seed="each")), 5)


def test_shocks_are_spread_over_what_they_are_told() -> None:
    config = resolve_shocks(EnvConfig(random_shocks=RandomShocks(count=90, over=100)), 10_000)
    assert [shock.step for shock in config.shocks] == list(range(5, 95))


def test_a_product_that_appears_is_not_for_sale_before() -> None:
    event = {"step": 10, "change": "appear", "products": [2]}
    assert on_sale(9, event) == [0, 1, 3]
    assert on_sale(10, event) == on_sale(99, event) == [0, 1, 2, 3]
    assert on_sale(0, {**event, "step": 0}) == [0, 1, 2, 3]


def test_a_product_that_vanishes_stays_away_until_it_appears() -> None:
    vanish = {"step": 10, "change": "vanish", "products": [1, 3]}
    again = {"step": 20, "change": "appear", "products": [3]}
    assert on_sale(9, vanish, again) == [0, 1, 2, 3]
    assert on_sale(10, vanish, again) == on_sale(19, vanish, again) == [0, 2]
    assert on_sale(20, vanish, again) == on_sale(20, again, vanish) == [0, 2, 3]
    assert on_sale(99, vanish) == [0, 2]


def test_a_product_that_runs_out_is_restocked() -> None:
    event = {"step": 10, "change": "run-out", "products": [0], "until": 20}
    assert on_sale(9, event) == on_sale(20, event) == [0, 1, 2, 3]
    assert on_sale(10, event) == on_sale(19, event) == [1, 2, 3]
    vanish = {"step": 15, "change": "vanish", "products": [0]}
    assert on_sale(20, event, vanish) == [1, 2, 3]  # what vanished meanwhile is not restocked
    longer = {"step": 5, "change": "run-out", "products": [0], "until": 50}
    assert on_sale(30, event, longer) == [1, 2, 3]  # of two run-outs at once, the longer counts
    assert on_sale(30, {**vanish, "step": 5}, event) == [1, 2, 3]  # what has vanished does not run out
    appear = {"step": 5, "change": "appear", "products": [0]}
    assert [0 in on_sale(step, event, appear) for step in (4, 5, 10, 20)] == [False, True, False, True]


def test_events_take_whole_categories() -> None:
    event = {"step": 10, "change": "vanish", "category": "Dog Toy"}
    world = build_world(make_config(availability=[event]), seed=4)
    gone: BoolArray = world.groups == CATEGORIES.index("Dog Toy")
    assert gone.sum() == 10
    np.testing.assert_array_equal(world.period(10).available, ~gone)
    assert world.period(9).available.all()


@pytest.mark.parametrize(
    ("events", "step"),
    [
        ([{"step": 7, "change": "vanish", "products": [0, 1, 2, 3]}], 7),
        ([{"step": 7, "change": "appear", "products": [0, 1, 2, 3]}], 0),
        (
            [
                {"step": 3, "change": "vanish", "products": [0, 1]},
                {"step": 8, "change": "run-out", "products": [2, 3], "until": 9},
            ],
            8,
        ),
    ],
)
def test_an_empty_shop_is_refused(events: list[dict[str, Any]], step: int) -> None:
    with pytest.raises(ConfigError, match=f"nothing is for sale from step {step} on"):
        on_sale(0, *events)


def test_visitors_are_uniform_and_do_not_depend_on_how_they_are_cut() -> None:
    """Chi-square of 100,000 visits over 1,000 users within 4 deviations of its mean of 999, seed 2."""
    world = build_world(EnvConfig(), seed=2)
    users = world.visitors(0, 100_000)
    counts = np.bincount(users, minlength=1_000)
    assert len(counts) == 1_000
    assert abs(((counts - 100) ** 2 / 100).sum() - 999) < 4 * np.sqrt(2 * 999)
    assert abs(users.mean() - 499.5) < 4 * np.sqrt(1_000**2 / 12 / 100_000)
    assert abs(np.corrcoef(users[1:], users[:-1])[0, 1]) < 4 / np.sqrt(100_000)
    np.testing.assert_array_equal(np.concatenate([world.visitors(0, 70), world.visitors(70, 300)]), users[:300])
    assert not np.array_equal(build_world(EnvConfig(), seed=3).visitors(0, 300), users[:300])


def test_visits_arrive_in_the_period_of_their_time() -> None:
    event = {"step": 250, "change": "vanish", "products": [1]}
    shock = {"step": 120, "name": "s", "set": {"budget_shopper": {"Dog Toy": 0.3}}}
    world = build_world(make_config(availability=[event], shocks=[shock]), seed=0)
    visits = [world.arrive(step) for step in range(400)]
    assert [visit.step for visit in visits] == list(range(400))
    np.testing.assert_array_equal([visit.visitor for visit in visits], world.visitors(0, 400))
    for step in (0, 119, 120, 249, 250, 399):
        assert visits[step].visits.table is world.period(step).table
        assert visits[step].visits.available is world.period(step).available
        assert world.arrive(step).visitor == visits[step].visitor


def test_a_click_depends_on_seed_step_and_product_alone() -> None:
    """Whatever else is shown, and however the visits are cut."""
    world = build_world(EnvConfig(), seed=8)
    whole, late = world.visits(0, 300), world.visits(200, 300)
    expected = {(t, p): earn(whole, t, p) for t in range(300) for p in range(50)}
    for t in reversed(range(200, 300)):
        for p in (49, 0, 17):
            assert earn(late, t - 200, p) == expected[t, p]


def test_another_seed_and_the_past_click_otherwise() -> None:
    """In a world of one persona and one category, where nothing else can differ."""
    config = make_config(personas={"a": {"x": 0.5}})
    world = build_world(config, seed=8)
    for other in (build_world(config, seed=9), world.before()):
        assert other is not None
        assert 60 < np.sum(clicks(other, 3, 200) == clicks(world, 3, 200)) < 140  # 100 +- 4 * 7


def test_a_higher_chance_never_takes_a_click_away() -> None:
    """Common random numbers: the same draw is compared with both chances."""
    low = build_world(make_config(personas={"a": {"x": 0.3}}), seed=0)
    high = build_world(make_config(personas={"a": {"x": 0.6}}), seed=0)
    before, after = clicks(low, 4, 2_000), clicks(high, 4, 2_000)
    assert np.all(before <= after)
    assert before.sum() < after.sum()


def test_clicks_are_as_frequent_as_the_table_says() -> None:
    """Each of 20 cells within 4 standard errors (about 5,000 visits a cell, seed 1); steps and products independent."""
    world = build_world(EnvConfig(), seed=1)
    segments = world.segments[world.visitors(0, 20_000)]
    centred = []
    for category in range(5):
        product = int(np.flatnonzero(world.groups == category)[0])
        clicked = clicks(world, product, 20_000)
        chances = world.periods[0].table[segments, category]
        for persona in range(4):
            chance, seen = world.periods[0].table[persona, category], clicked[segments == persona]
            assert abs(seen.mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / len(seen))
        centred.append((clicked - chances) / np.sqrt(chances * (1 - chances)))
    correlation = np.corrcoef(centred) - np.eye(5)
    assert np.abs(correlation).max() < 4 / np.sqrt(20_000)
    assert abs(np.mean(centred[0][1:] * centred[0][:-1])) < 4 / np.sqrt(20_000)


def test_chosen_and_best_are_the_true_chances_of_what_may_be_shown() -> None:
    event = {"step": 0, "change": "vanish", "category": "Fish Supplies"}
    world = build_world(make_config(availability=[event]), seed=0)
    visits, dog_toy = world.visits(0, 200), int(np.flatnonzero(world.groups == 3)[0])
    chosen, best = world.chosen_and_best(visits, np.full(200, dog_toy))
    segments = world.segments[visits.visitors]
    np.testing.assert_array_equal(chosen, np.array([0.50, 0.02, 0.15, 0.02])[segments])
    np.testing.assert_array_equal(best, np.array([0.50, 0.55, 0.40, 0.10])[segments])


def test_ground_truth_takes_the_first_of_the_best_and_nothing_unavailable() -> None:
    world = build_world(EnvConfig(), seed=0)
    visit = visit_by(world, int(np.flatnonzero(world.segments == 3)[0]), 0)
    fish = np.flatnonzero(world.groups == 0)
    available = np.ones(50, bool)
    assert world.truth(visit).best_action == fish[0]
    available[fish[:2]] = False
    truth = world.truth(visit._replace(visits=visit.visits._replace(available=available)))
    assert truth.best_action == fish[2]
    assert truth.expected_reward(int(fish[2])) == truth.best_reward == 0.6
    assert np.isnan(truth.expected_reward(int(fish[0])))


def test_products_come_and_go() -> None:
    """A fifth of 10 products is replaced every 100 visits by new ones of the same categories, under new ids."""
    config = make_config(
        n_products=10, turnover={"share": 0.2, "every": 100, "over": 250}, noise_features={"product": 2}
    )
    world = build_world(config, seed=3)
    offers = [world.offered(step) for step in (0, 99, 100, 199, 200, 10_000)]
    assert offers[0].ids.tolist() == list(range(10))
    assert offers[0] is offers[1]
    assert [len(set(a.ids) - set(b.ids)) for a, b in zip(offers[2:], offers[1:], strict=False)] == [2, 0, 2, 0]
    assert world.n_products == 14
    for offer in offers:
        assert np.array_equal(np.sort(offer.groups), np.sort(offers[0].groups))
        assert np.array_equal(world.products[offer.ids], offer.products)
    visit = visit_by(world, 0, 200)
    context, truth = world.context(visit), world.truth(visit)
    best = truth.best_action
    assert context.product_ids.tolist() == offers[4].ids.tolist()
    assert truth.expected_reward(best) == world.periods[0].table[world.segments[0]].max()


def test_without_turnover_a_world_is_as_before() -> None:
    plain, turning = (
        build_world(make_config(n_products=10, noise_features={"product": 2}, **more), seed=3)
        for more in ({}, {"turnover": {"share": 0.5, "every": 50, "over": 100}})
    )
    assert np.array_equal(plain.products, turning.products[:10])
    assert np.array_equal(plain.users, turning.users)
