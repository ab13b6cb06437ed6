"""The exact worth of what sees what a shop does."""

from typing import Any

import numpy as np
import pytest

from studies.shop_worth import shop_observations, shop_worth
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.truth import SessionTruth
from zoosim.worlds.sessions.world import Sessions


def parts_of(truth: SessionTruth, observations: FloatArray) -> list[IntArray]:
    """Read persona, kind clicked last, sum and clicks of the visit out of the one-hot parts."""
    sizes = (truth.n_personas, truth.laws.kinds + 1, 7, truth.laws.shape[2])
    return [part.argmax(axis=1) for part in np.split(observations, np.cumsum(sizes)[:-1], axis=1)]


def test_where_the_sum_is_satisfaction_a_shop_may_know_the_optimum() -> None:
    truth = SessionTruth(SessionConfig())
    best = truth.optimum.argmax(axis=2).reshape(truth.n_personas, *truth.laws.shape)

    def choose(observations: FloatArray) -> IntArray:
        persona, kind, total, count = parts_of(truth, observations)
        chosen: IntArray = best[persona, kind // 2, total, count]
        return chosen

    assert shop_worth(truth, choose) == pytest.approx(truth.value(truth.optimum), abs=1e-3)


def test_where_it_is_not_the_worth_is_that_of_visitors_who_live() -> None:
    """Teasers where a sum is 3 that is not satisfaction, and other products after one: 3 standard errors."""
    world = Sessions(0, 2_000, levels=1)
    truth = world.truth_of(0)

    def choose(observations: FloatArray) -> IntArray:
        _, kind, total, _ = parts_of(truth, observations)
        return np.where(kind % 2 == 1, 4, np.where(total == 6, 7, 2))

    observed = shop_observations(truth).reshape(-1, len(world.user_columns))
    shown = dict(zip(map(bytes, observed), choose(observed), strict=True))
    clicks = np.zeros(2_000)
    for visitor in range(len(clicks)):
        visit: Any = world.arrive(visitor)
        while visit is not None:
            outcome = world.serve(visit, shown[bytes(world.context(visit).user)])
            clicks[visitor] += outcome.reward
            visit = outcome.next.visit if outcome.next else None
    assert abs(clicks.mean() - shop_worth(truth, choose)) < 3 * clicks.std() / np.sqrt(len(clicks))
