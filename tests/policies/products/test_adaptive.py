"""What `adaptive` finds by itself, and what it does with it; the contract is tested with that of all policies."""

from typing import Any

import numpy as np
import pytest

from zoosim import Context, PolicySpec
from zoosim.arena.loop import play
from zoosim.core.config import EnvConfig, LabelledConfig
from zoosim.core.errors import PolicyError
from zoosim.core.id_table import IN_USE, find_slot
from zoosim.core.types import FloatArray
from zoosim.policies.products.adaptive import Adaptive
from zoosim.worlds.labelled import build_labelled_world, read_table
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.table import TableWorld

CATEGORIES = np.repeat(np.eye(3), 2, axis=0)


def made(user_dim: int, products: Any, **params: Any) -> Adaptive:
    spec = PolicySpec(user_dim=user_dim, product_dim=products.shape[1], steps=1_000)
    return Adaptive(spec, np.random.default_rng(0), **params)


def context(user: list[float], products: FloatArray, available: list[bool] | None = None) -> Context:
    mask = np.ones(len(products), bool) if available is None else np.array(available)
    fields = {"user": np.array(user, float), "product_ids": np.arange(len(products)), "products": products}
    return Context(user_id=0, available=mask, **fields)


def segments(policy: Adaptive) -> int:
    return int(policy.state.segments.found[0])


def numbers_of(policy: Adaptive, request: Context) -> list[int]:
    """Return the number of each product's category, 0 of those that nobody was shown."""
    candidates = policy.attach(request)
    return [int(find_slot(policy.state.categories, candidates.keys[group])) for group in candidates.group_of]


def fraction(world: TableWorld, policy: Adaptive, steps: int) -> float:
    blocks = list(play(world, policy, steps, logged=True))
    chosen = sum(block.expected_rewards.sum() for block in blocks)
    return float(chosen / sum(block.best_rewards.sum() for block in blocks))


def test_segments_are_the_patterns_of_binary_columns() -> None:
    policy = made(4, CATEGORIES)
    for user in ([1, 0, 0.3, 0], [0, 1, -0.2, 0], [1, 0, 0.9, 0], [1, 0, 0.1, 1]):
        policy.update(context(user, CATEGORIES), 0, 1.0)
    assert segments(policy) == 3
    assert policy.state.segments.binary.tolist() == [True, True, False, True]
    assert policy.state.segments.clock[:3].tolist() == [2, 1, 1]


def test_products_of_one_category_share_what_is_learned() -> None:
    policy = made(1, CATEGORIES)
    policy.update(context([1], CATEGORIES), 3, 1.0)
    candidates = policy.attach(context([1], CATEGORIES))
    assert candidates.group_of.tolist() == [0, 0, 1, 1, 2, 2]
    assert not candidates.mixed.any()
    assert numbers_of(policy, context([1], CATEGORIES)) == [0, 0, 1, 1, 0, 0]
    assert policy.state.cells.learned[0, :4].tolist() == [0, 1, 0, 0]


def test_noise_beside_categories_changes_no_group() -> None:
    noise = np.random.default_rng(1).normal(size=(6, 2))
    policy = made(1, np.hstack([CATEGORIES, noise]))
    candidates = policy.attach(context([1], np.hstack([CATEGORIES, noise])))
    assert candidates.group_of.tolist() == [0, 0, 1, 1, 2, 2]
    assert candidates.mixed.all(), "but products of one category are told apart"


def test_a_column_that_turns_out_to_be_a_number_begins_anew() -> None:
    policy = made(2, CATEGORIES)
    for user in ([0.0, 1.0], [1.0, 1.0], [0.0, 0.0]):
        policy.update(context(user, CATEGORIES), 0, 1.0)
    assert segments(policy) == 3
    policy.update(context([0, 0.5], CATEGORIES), 0, 1.0)
    assert (segments(policy), policy.state.segments.clock[0]) == (1, 1)


def test_there_is_room_for_ever_new_patterns() -> None:
    policy = made(10, CATEGORIES)
    for number in range(400):
        user = [float(bit) for bit in f"{number:010b}"]
        policy.update(context(user, CATEGORIES), policy.select_action(context(user, CATEGORIES)), 0.0)
    assert segments(policy) == 256


def test_what_was_not_shown_for_long_is_shown_again() -> None:
    """A category that never paid beside one that always does: due (1 - best)^2 v^2 / 4 >= best - mean."""
    policy = made(1, CATEGORIES, due=0.1, hazard=0.0)
    here = context([1], CATEGORIES)
    for _ in range(60):
        for action, reward in ((0, 0.5), (2, 0.0), (4, 0.0)):
            policy.update(here, action, reward)
    shown = []
    for _ in range(200):
        action = policy.select_action(here)
        shown.append(action)
        policy.update(here, action, 0.5 if action == 0 else 0.0)
    again = np.flatnonzero(np.array(shown) == 2)
    assert len(again) >= 5
    assert np.ptp(np.diff(again)) <= 6
    never = made(1, CATEGORIES, due=0.0, hazard=0.0)
    never.load_state_dict(policy.state_dict())
    assert {never.select_action(here) for _ in range(300)} == {0}


def test_numbers_alone_are_left_to_linear_models() -> None:
    """Handwritten digits, 3,000 visits, seed 0: three of four right at least, where cells alone get one of ten."""
    world = build_labelled_world(read_table(LabelledConfig()), seed=0, steps=3_000)
    assert fraction(world, Adaptive(world.spec(3_000), np.random.default_rng(0)), 3_000) > 0.75


def earned(policy: Adaptive, users: Any, products: Any, chances: Any, visits: int) -> float:
    """Return the share of the best true probabilities that a policy gets: `chances (users, K)`."""
    rng, got, best = np.random.default_rng(5), 0.0, 0.0
    for _ in range(visits):
        i = int(rng.integers(len(users)))
        here = context(users[i].tolist(), products)
        action = policy.select_action(here)
        policy.update(here, action, float(rng.random() < chances[i, action]))
        got, best = got + chances[i, action], best + chances[i].max()
    return got / best


def test_numbers_tell_products_of_a_category_apart() -> None:
    """A flag that means nothing and a quality that means all, seed 0: cells see two categories, half of what there is.

    So with a constant column beside numbers: one category, of which a blind policy shows the first product for ever.
    """
    rng = np.random.default_rng(0)
    quality = rng.random(20)
    flags, ones = rng.integers(0, 2, 20), np.ones(20)
    for column in (flags, ones):
        products = np.column_stack([column, quality])
        policy = made(2, products)
        assert earned(policy, np.eye(2), products, np.tile(0.05 + 0.8 * quality, (2, 1)), 3_000) > 0.95


def test_linear_models_follow_a_jump() -> None:
    """Personas as standardised numbers, 4 x 5 chances that are all redrawn after 6,000 of 12,000 visits.

    The mean over 8 shops, which differ by a standard deviation of .02 before and .03 after.
    """
    users, products = (np.eye(4) - 0.25) / 0.433, np.eye(5)
    shares = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        policy = made(4, products)
        shares.append([earned(policy, users, products, rng.random((4, 5)), 6_000) for _ in range(2)])
    before, after = np.mean(shares, axis=0)
    assert before > 0.95
    assert after > 0.9


def test_what_was_learned_of_a_category_stays_its_own() -> None:
    """Two products move to a category that comes first in order; three segments each have a favourite elsewhere."""
    policy = made(3, np.eye(4)[[0, 0, 1, 1, 2, 2]])
    users, chances = np.eye(3), np.zeros((3, 6))
    chances[0, :2] = chances[1, 2:4] = chances[2, 4:] = 0.9
    assert earned(policy, users, np.eye(4)[[0, 0, 1, 1, 2, 2]], chances, 600) > 0.8
    moved = np.eye(4)[[0, 3, 1, 1, 2, 3]]
    for user, own in zip(users, ({0}, {2, 3}, {4}), strict=True):
        assert policy.recommend(context(user.tolist(), moved)) in own
    numbers = dict(zip([0, 1, 2], numbers_of(policy, context(users[0].tolist(), np.eye(4)[:3])), strict=True))
    assert numbers_of(policy, context(users[0].tolist(), moved)) == [
        numbers[0],
        0,
        numbers[1],
        numbers[1],
        numbers[2],
        0,
    ]


def test_more_categories_leave_no_cell_outside() -> None:
    """256 segments met 1 of 2,000 categories; with all, there is room for 99 segments, and 200,000 cells at most."""
    one, all_ = np.zeros((2_000, 11)), np.array([[float(bit) for bit in f"{n:011b}"] for n in range(2_000)])
    policy = made(8, one)
    for number in range(256):
        policy.update(context([float(bit) for bit in f"{number:08b}"], one), 0, 1.0)
    assert segments(policy) == 256
    for number in range(256):
        policy.update(context([float(bit) for bit in f"{number:08b}"], all_), 7, 1.0)
    assert segments(policy) == len(policy.state.cells.shown) == 99
    assert policy.state.cells.shown.size <= 200_000


def test_the_category_shown_longest_ago_makes_room() -> None:
    """Of 2,047 that were shown, the first is shown again, and so is not the one that a new one replaces."""
    patterns = np.array([[float(bit) for bit in f"{n:012b}"] for n in range(2_048)])
    policy = made(1, patterns)
    everything = context([1], patterns[:2_047])
    for action in range(2_047):
        policy.update(everything, action, 0.0)
    again = context([1], patterns[:1])
    policy.select_action(again)
    before = numbers_of(policy, everything)
    assert sorted(before) == list(range(1, 2_048))
    policy.select_action(context([1], patterns[2_047:]))
    assert numbers_of(policy, everything) == [before[0], 0, *before[2:]]
    assert (policy.state.cells.tally >= 0.0).all()


def test_candidates_that_are_not_shown_take_no_room() -> None:
    """3,000 categories at once, of which one is shown and learned from; asking for propensities moves nothing."""
    policy = made(1, np.zeros((1, 12)))
    many = context([1], np.array([[float(bit) for bit in f"{n:012b}"] for n in range(3_000)]))
    before = policy.state_dict()
    propensities = policy.propensities(many)
    assert all(np.array_equal(value, policy.state_dict()[name]) for name, value in before.items())
    policy.update(many, policy.select_action(many), 1.0)
    assert propensities.sum() == pytest.approx(1.0)
    assert policy.state.categories.counts[IN_USE] == 2


def test_the_tally_is_the_sum_of_the_tried_cells() -> None:
    """40,000 visits with 200 shocks, seed 3."""
    world = build_world(EnvConfig.model_validate({"random_shocks": {"count": 200, "over": 40_000}}), seed=3)
    policy = Adaptive(world.spec(40_000), np.random.default_rng(0))
    list(play(world, policy, 40_000))
    cells = policy.state.cells
    tried = cells.learned > 0
    a, b, weight = (cells.filters[tried, :, n] for n in range(3))
    assert cells.tally.tolist() == pytest.approx([(weight * a / (a + b)).sum(), tried.sum()])


def test_it_learns_the_shop_and_notices_a_shock() -> None:
    """8,000 visits with a loud shock at 4,000, seed 3: above 90% of oracle over all, and in the last 2,000."""
    shock = {"step": 4_000, "name": "fish", "set": {"budget_shopper": {"Fish Supplies": 0.9, "Cat Food": 0.05}}}
    world = build_world(EnvConfig.model_validate({"shocks": [shock]}), seed=3)
    blocks = list(play(world, Adaptive(world.spec(8_000), np.random.default_rng(0)), 8_000))
    chosen = np.concatenate([block.expected_rewards for block in blocks])
    best = np.concatenate([block.best_rewards for block in blocks])
    assert chosen.sum() / best.sum() > 0.9
    assert chosen[6_000:].sum() / best[6_000:].sum() > 0.95


@pytest.mark.parametrize("reward", [-0.1, 1.5, np.nan])
def test_rewards_outside_0_to_1_are_refused(reward: float) -> None:
    policy = made(1, CATEGORIES)
    before = policy.state_dict()
    with pytest.raises(PolicyError, match="expected a number from 0 to 1; scale it"):
        policy.update(context([1], CATEGORIES), 0, reward)
    assert all(np.array_equal(value, policy.state_dict()[name], equal_nan=True) for name, value in before.items())


def test_reading_an_earlier_request_moves_nothing() -> None:
    """Its candidates were derived before a column turned out to hold numbers, which renumbered the categories."""
    policy = made(1, CATEGORIES)
    first = context([1], CATEGORIES)
    policy.update(first, 0, 1.0)
    halves = CATEGORIES.copy()
    halves[0, 0] = 0.5
    policy.update(context([1], halves), 0, 1.0)
    before = policy.state_dict()
    policy.propensities(first)
    policy.recommend(first)
    assert all(np.array_equal(value, policy.state_dict()[name]) for name, value in before.items())


def test_a_draw_is_a_number_below_1() -> None:
    policy = made(1, CATEGORIES)
    with pytest.raises(PolicyError, match=r"draw: got 1.0, expected a number from 0 up to, but not including, 1"):
        policy.decide(context([1], CATEGORIES), 1.0)
    assert policy.decide(context([1], CATEGORIES), 0.0).propensities.sum() == pytest.approx(1.0)
