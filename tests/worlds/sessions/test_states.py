"""Policies that observe visitors' states, as tables in the numbering of the exact truth."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ActionError
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.states import all_observations, policy_table
from zoosim.worlds.sessions.truth import SessionTruth
from zoosim.worlds.sessions.visitors import CLICKS, LAST, LEVEL, PERSONA, STEP
from zoosim.worlds.sessions.world import Sessions


@pytest.fixture(scope="module")
def truth() -> SessionTruth:
    return SessionTruth(SessionConfig())


def states_of(observations: FloatArray, truth: SessionTruth) -> tuple[IntArray, IntArray]:
    """Read persona and number of the state out of the one-hot parts."""
    ends = np.cumsum([truth.n_personas, *truth.laws.shape])[:-1]
    persona, *parts = (part.argmax(axis=1) for part in np.split(observations, ends, axis=1))
    return persona, np.ravel_multi_index(tuple(parts), truth.laws.shape)


def test_a_policy_that_looks_the_optimum_up_by_what_it_observes_is_the_optimum(truth: SessionTruth) -> None:
    def choose(observations: FloatArray) -> IntArray:
        best: IntArray = truth.optimum[states_of(observations, truth)].argmax(axis=1)
        return best

    np.testing.assert_array_equal(policy_table(truth.laws, choose), truth.optimum)
    products = policy_table(truth.laws, lambda observations: choose(observations) + 3 * truth.laws.kinds)
    np.testing.assert_array_equal(products, truth.optimum)


def test_probabilities_of_products_are_those_of_their_kinds(truth: SessionTruth) -> None:
    table = policy_table(truth.laws, lambda observations: np.full((len(observations), 50), 0.02))
    np.testing.assert_allclose(table, truth.rungs["random"])


def test_where_products_sell_out_a_policy_is_asked_for_its_order_of_kinds() -> None:
    truth = SessionTruth(SessionConfig(sold_out=0.3, per_kind=1))

    def choose(observations: FloatArray, there: BoolArray) -> IntArray:
        values = truth.optimal_values[states_of(observations, truth)]
        best: IntArray = np.where(there, values, -np.inf).argmax(axis=1)
        return best

    table = policy_table(truth.laws, choose)
    np.testing.assert_array_equal(table, truth.shows(truth.optimal_values))
    assert truth.value(table) == pytest.approx(truth.value(truth.optimum))
    # One that does not say what it takes next: the next number.
    always = policy_table(truth.laws, lambda observations: np.full(len(observations), 9))
    np.testing.assert_allclose(always[0, 0, [9, 0, 1]], [0.7 + 0.3**10, 0.7 * 0.3, 0.7 * 0.3**2])
    with pytest.raises(ActionError, match="got a kind that is sold out"):
        policy_table(truth.laws, lambda observations, there: np.zeros(len(observations), int))


@pytest.mark.parametrize("felt_after", [0, 1])
def test_observations_are_those_of_the_world(felt_after: int) -> None:
    world = Sessions(0, 100, observe="state", felt_after=felt_after)
    truth = world.truth_of(0)
    every = all_observations(truth.laws)
    assert every.shape[2] == len(world.user_columns)
    met = set()
    for visitor in range(100):
        visit: Any = world.arrive(visitor)
        while visit is not None:
            state = int(np.ravel_multi_index(visit[[LAST, LEVEL, CLICKS]], truth.laws.shape))
            np.testing.assert_array_equal(world.context(visit).user, every[visit[PERSONA], state])
            met.add((visit[PERSONA], state))
            outcome = world.serve(visit, (visit[STEP] * 7) % 50)
            visit = outcome.next.visit if outcome.next else None
    assert len(met) > 100


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros(3, int), r"got int64 of shape \(3,\), expected 1848 whole numbers"),
        (np.zeros(1848), r"got float64 of shape \(1848,\), expected"),
        (np.full(1848, -1), "expected 1848 whole numbers from 0 on"),
        (np.full((1848, 7), 1 / 7), r"got shape \(1848, 7\), expected \(1848,\) or \(1848, 10\)"),
        (np.full((1848, 10), 0.2), "do not add up to 1"),
    ],
)
def test_answers_that_are_none_are_refused(truth: SessionTruth, answer: Any, message: str) -> None:
    with pytest.raises(ActionError, match=message):
        policy_table(truth.laws, lambda observations: answer)
