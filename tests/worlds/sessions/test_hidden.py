"""Bounds where nobody says which of two personas comes: against what is known exactly, and against simulated lives."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.config import PERSONAS
from zoosim.core.errors import ConfigError
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.hidden import Bounds, belief_bounds
from zoosim.worlds.sessions.states import all_observations, policy_table
from zoosim.worlds.sessions.truth import SessionTruth
from zoosim.worlds.sessions.visitors import CLICKS, LAST, LEVEL
from zoosim.worlds.sessions.world import Sessions

TWO = {name: PERSONAS[name] for name in ("new_puppy_parent", "cat_connoisseur")}


@pytest.fixture(scope="module")
def truth() -> SessionTruth:
    return SessionTruth(SessionConfig(personas=TWO, observe="anonymous"))


@pytest.fixture(scope="module")
def bounds(truth: SessionTruth) -> Bounds:
    return belief_bounds(truth)


def test_personas_that_are_alike_hide_nothing() -> None:
    alike = SessionTruth(SessionConfig(personas={"one": TWO["cat_connoisseur"], "other": TWO["cat_connoisseur"]}))
    optimum = alike.value(alike.optimum)
    lower, upper, myopic = belief_bounds(alike, points=5)
    assert lower == pytest.approx(optimum, rel=1e-3)
    assert upper == pytest.approx(optimum, rel=1e-3)
    assert myopic == pytest.approx(alike.value(alike.myopic), rel=1e-3)


def test_bounds_are_near_and_lie_between_what_is_known(truth: SessionTruth, bounds: Bounds) -> None:
    assert bounds.lower <= bounds.upper < 1.001 * bounds.lower
    assert bounds.upper < 0.95 * truth.value(truth.optimum), "to be told the persona is worth something"
    chances = np.tensordot(truth.laws.shares, truth.clicks, axes=1)
    blind = np.broadcast_to(truth.shows(chances), truth.optimum.shape)
    assert truth.value(blind) < bounds.myopic < bounds.lower, "a belief is worth something"


def test_a_finer_grid_brings_bounds_nearer(truth: SessionTruth, bounds: Bounds) -> None:
    coarse = belief_bounds(truth, points=9)
    assert coarse.upper > bounds.upper
    assert coarse.lower < bounds.upper
    assert coarse.upper - coarse.lower > 2.0 * (bounds.upper - bounds.lower)


def test_lives_under_a_belief_have_the_worth_that_is_computed(truth: SessionTruth, bounds: Bounds) -> None:
    """What is most likely to be clicked, by Bayes' rule decision by decision in the world itself: 3 standard errors."""
    world = Sessions(5, 2_000, personas=TWO, per_kind=1, observe="behaviour")
    clicks = np.zeros(2_000)
    for visitor in range(len(clicks)):
        visit: Any = world.arrive(visitor)
        belief = truth.laws.shares.copy()
        while visit is not None:
            state = int(np.ravel_multi_index(visit[[LAST, LEVEL, CLICKS]], truth.laws.shape))
            chances = truth.clicks[:, state]
            kind = int((belief @ chances).argmax())
            outcome = world.serve(visit, kind)
            seen = chances[:, kind] if outcome.reward else 1.0 - chances[:, kind]
            belief = belief * seen / (belief @ seen)
            clicks[visitor] += outcome.reward
            visit = outcome.next.visit if outcome.next else None
    error = clicks.std() / np.sqrt(len(clicks))
    assert abs(clicks.mean() - bounds.myopic) < 3 * error


def test_the_ladder_has_what_it_is_worth_to_guess_the_persona(truth: SessionTruth, bounds: Bounds) -> None:
    """Against the grid of beliefs: 3 standard errors, and what the nearest of a grid may cost."""
    rungs = {step.name: step for step in truth.ladder()}
    myopic = rungs["myopic, persona guessed"]
    assert abs(myopic.clicks - bounds.myopic) < 3 * myopic.error + 0.002 * bounds.myopic
    qmdp = rungs["QMDP, persona guessed"]
    assert 0.0 < qmdp.error < 0.003 * qmdp.clicks
    assert qmdp.clicks < bounds.upper + 3 * qmdp.error
    assert qmdp.clicks > 0.95 * bounds.lower, "a belief by the wrong rule is worth less"
    assert not SessionTruth(SessionConfig(personas=TWO)).guessed, "who sees the persona guesses nothing"


def test_behaviour_is_the_state_without_the_persona(truth: SessionTruth) -> None:
    world = Sessions(0, 10, personas=TWO, observe="behaviour")
    every = all_observations(truth.laws)[0][:, 2:]
    visit = world.arrive(0)
    for action in (0, 11, 2, 3):
        state = int(np.ravel_multi_index(visit[[LAST, LEVEL, CLICKS]], truth.laws.shape))
        np.testing.assert_array_equal(world.context(visit).user, every[state])
        outcome = world.serve(visit, action)
        if outcome.next is None:
            break
        visit = outcome.next.visit
    assert every.shape[1] == len(world.user_columns)
    table = policy_table(truth.laws, lambda seen: seen[:, :5].argmax(axis=1), sees_persona=False)
    np.testing.assert_array_equal(table[0], table[1])


def test_more_than_two_personas_are_refused() -> None:
    with pytest.raises(ConfigError, match="got 4 personas, expected 2"):
        belief_bounds(SessionTruth(SessionConfig()))
