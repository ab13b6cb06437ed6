"""The exact worth of boosts where discounts lure: by hand, by the ladder, and against simulated lives."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ActionError, ConfigError
from zoosim.worlds.check import check_worlds_of
from zoosim.worlds.lure.config import LureConfig
from zoosim.worlds.lure.laws import laws_of, pages_of
from zoosim.worlds.lure.truth import LureTruth
from zoosim.worlds.lure.world import Lure

VISITORS = 2_000

SMALL: dict[str, Any] = {
    "products": {
        "good": {"price": 4.0, "quality": 1.0},
        "fair": {"price": 5.0, "label": True, "score": 0.2},
        "lure": {"price": 6.0, "quality": -1.0, "discount": 0.8, "score": 0.1},
        "lure, too": {"price": 3.0, "quality": -0.8, "discount": 0.6, "label": True},
    },
    "segments": {"one": {"share": 0.25, "quality": 1.0}, "two": {"share": 0.75, "quality": 0.5, "label": 0.3}},
    "shown": 2,
    "levels": 2,
}


@pytest.fixture(scope="module")
def world() -> Lure:
    return Lure(3, VISITORS)


@pytest.fixture(scope="module")
def truth(world: Lure) -> LureTruth:
    return world.truth_of_all


def test_a_page_by_hand() -> None:
    """Two positions; each product is clicked by 1/2, and bought then by 1/2; half please, the second is seen by 1/2."""
    shop: dict[str, Any] = {
        "products": {"a": {"price": 8.0}, "b": {"price": 16.0}},
        "segments": {"all": {}},
        "click": 0.0,
        "purchase": 0.0,
        "expected": 0.0,
        "looks_on": 0.5,
    }
    pages = pages_of(laws_of(LureConfig(**shop)), np.array([[0, 1]]))
    assert pages.rewards[0, 0] == pytest.approx(8 / 4 + 16 / 8 + 0.01 * (1 / 2 + 1 / 4))
    # A product moves satisfaction up by 1/8, down by 1/8; of the second one there is half.
    up, stays = 1 / 8, 3 / 4
    twice = up / 2 * up
    once = up * (1 / 2 + stays / 2) + stays * up / 2
    np.testing.assert_allclose(pages.moves[0, 0], [twice, once, 1 - 2 * once - 2 * twice, once, twice])


def test_a_visitor_who_is_never_moved_by_hand() -> None:
    """One product that is always bought and half the time returns to the same: two visits."""
    shop: dict[str, Any] = {
        "products": {"a": {"price": 8.0}, "b": {"price": 8.0}},
        "segments": {"all": {}},
        "shown": 1,
        "click": 20.0,
        "purchase": 20.0,
        "return_by_level": 0.0,
    }
    truth = LureTruth(LureConfig(**shop))
    assert truth.value_of(truth.optimum) == pytest.approx(2 * 8.01)


def test_the_ladder_at_the_defaults(truth: LureTruth) -> None:
    """Myopia falls short clearly, and so does each rule; the figures stand in docs/sessions.md."""
    shares = {rung.name: rung.share for rung in truth.ladder()}
    assert shares.pop("optimum") == 1.0
    assert 0.6 < shares["myopic"] < 0.9
    assert 0.9 < max(shares.values()) < 0.95


def test_the_optimum_is_no_less_than_any_change_of_it(truth: LureTruth) -> None:
    worth = truth.action_values(truth.optimal_values)
    np.testing.assert_allclose(worth.max(axis=1), truth.optimal_values, rtol=1e-9)
    random_boosts = np.random.default_rng(0).uniform(-1.5, 1.5, (2_000, 3))
    others = truth.action_values(truth.optimal_values, pages_of(truth.laws, truth.rankings_of(random_boosts)))
    assert (others.max(axis=1) <= truth.optimal_values + 1e-9).all()


def test_a_policy_of_boosts_is_worth_what_its_pages_are(truth: LureTruth) -> None:
    chosen = truth.optimum
    by_boosts = truth.value(lambda segment, level: truth.boosts[chosen[segment, level]])
    assert by_boosts == pytest.approx(truth.value_of(chosen))


@pytest.mark.parametrize("name", ["myopic", "optimum"])
def test_simulated_lives_are_worth_the_exact_value(world: Lure, truth: LureTruth, name: str) -> None:
    """2,000 visitors, seed 3, within 3 standard errors; with the worth of the other policy the test fails."""
    chosen = getattr(truth, name)
    brought = np.zeros(VISITORS)
    for visitor in range(VISITORS):
        visit: Any = world.arrive(visitor)
        while visit is not None:
            outcome = world.serve(visit, truth.boosts[chosen[visit.segment, visit.level]])
            brought[visitor] += outcome.reward
            visit = outcome.next.visit if outcome.next else None
    error = brought.std() / np.sqrt(VISITORS)
    assert abs(brought.mean() - truth.value_of(chosen)) < 3 * error
    other = truth.optimum if name == "myopic" else truth.myopic
    assert abs(brought.mean() - truth.value_of(other)) > 3 * error


def test_looking_ahead_pays_nothing_where_satisfaction_does_not_matter() -> None:
    truth = LureTruth(LureConfig(**SMALL, return_by_level=0.0))
    assert truth.value_of(truth.myopic) == pytest.approx(truth.value_of(truth.optimum))
    lured = LureTruth(LureConfig(**SMALL))
    assert lured.value_of(lured.myopic) < 0.99 * lured.value_of(lured.optimum)


def test_the_world_keeps_its_contract() -> None:
    results = check_worlds_of(Lure, lambda seed: Lure(seed, 3_000, **SMALL))
    assert [result.message for result in results if not result.ok] == []


def test_the_truth_of_a_visit(world: Lure, truth: LureTruth) -> None:
    visit = world.arrive(0)
    known = world.truth(visit)
    assert known.expected_reward(known.best_action) == pytest.approx(known.best_reward)
    assert known.expected_reward(np.zeros(3)) < known.best_reward
    with pytest.raises(ActionError, match=r"got a boost of size 2, expected at most a_max = 1\.5"):
        world.serve(visit, np.array([0.0, 2.0, 0.0]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segments": {"a": {"share": 0.4}}}, "shares add up to 0.4, expected 1"),
        ({"levels": 20}, "visits on average, expected at most 1,000; lower comes_back"),
        ({"products": {"a": {}}}, "env.products"),
        ({"products": {"a": {"prise": 2}, "b": {}}}, "prise"),
    ],
)
def test_bad_configurations_are_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        Lure(0, 10, **changes)
    assert "\n" not in str(error.value)
