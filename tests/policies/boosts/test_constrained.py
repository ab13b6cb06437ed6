"""Boost policies with floors and a ceiling: quantities by hand, what prices change, saved states, and refusals."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.policies.boosts.constrained import ConstrainedBoosts
from zoosim.policies.boosts.item_critic import ItemCritic
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.policies.checks.search_shop import LARGER

FLOORS = {"cm2": 1.0, "strategic": 0.2}
ALL: dict[str, Any] = {"floors": FLOORS, "rank_ceiling": 2.0}


def made(cls: type[ConstrainedBoosts] = ItemCritic, **params: Any) -> ConstrainedBoosts:
    return cls(LARGER.spec, np.random.default_rng(0), **params)


def walk(policy: ConstrainedBoosts, visits: int, first: int = 0) -> list[np.ndarray]:
    actions = []
    for visit in range(first, first + visits):
        context = LARGER.context(visit)
        actions.append(policy.select_action(context))
        policy.update(context, actions[-1], *LARGER.feedback(visit, actions[-1]))
    return actions


def set_levels(policy: ConstrainedBoosts, *levels: float) -> None:
    state = policy._dual.state_dict()
    policy._dual.load_state_dict({**state, "levels": np.array(levels), "sizes": np.ones(1 + len(levels))})


def test_quantities_are_those_of_what_was_bought_and_of_the_top_that_was_shown() -> None:
    policy = made(**ALL)
    action = np.full(4, 0.4)
    for visit in range(5):
        context = LARGER.context(visit)
        _, feedback = LARGER.feedback(visit, action)
        parts = feedback["reward_parts"]
        top = np.argsort(-context.base_scores, kind="stable")[: LARGER.spec.reward.rank_change_at]
        left = set(context.product_ids[top]) - set(feedback["shown"][: len(top)])
        expected = [parts["cm2"], parts["strategic"], len(left)]
        np.testing.assert_allclose(policy._quantities_of(context, feedback), expected, rtol=1e-12)


def shown_by(policy: ConstrainedBoosts, visit: int) -> np.ndarray:
    context = LARGER.context(visit)
    scores = context.base_scores + context.boost_features @ policy.recommend(context)
    return np.argsort(-scores, kind="stable")[: LARGER.k]


def test_multipliers_bring_strategic_products_to_the_top_and_the_base_rankers_back_there() -> None:
    policy = made(**ALL)
    walk(policy, 30)
    counts = {}
    for name, levels in (("free", (0.003,) * 3), ("strategic", (0.003, 10.0, 0.003)), ("ranks", (0.003, 0.003, 10.0))):
        set_levels(policy, *levels)
        ranked = [shown_by(policy, visit) for visit in range(100, 110)]
        tops = [np.argsort(-LARGER.context(visit).base_scores, kind="stable")[:10] for visit in range(100, 110)]
        n_strategic = sum(LARGER.table.strategic[shown[:3]].sum() for shown in ranked)
        n_left = sum(len(set(top) - set(shown[:10])) for top, shown in zip(tops, ranked, strict=True))
        counts[name] = (n_strategic, n_left)
    assert counts["strategic"][0] > counts["free"][0]
    assert counts["ranks"][1] < counts["free"][1]


@pytest.mark.parametrize("cls", [ItemCritic, QEnsemble])
def test_saved_and_loaded_a_policy_goes_on_to_the_bit(cls: type[ConstrainedBoosts]) -> None:
    policy = made(cls, **ALL)
    walk(policy, 35)
    loaded = made(cls, **ALL)
    loaded.load_state_dict(policy.state_dict())
    one, other = (np.array(walk(each, 3, first=35)) for each in (policy, loaded))
    np.testing.assert_array_equal(one, other)
    assert policy.prices == loaded.prices
    assert policy.constraints == loaded.constraints
    assert not any("dual" in name for name in made(cls).state_dict())  # states of earlier releases are as before


def test_prices_count_in_what_q_ensemble_learns() -> None:
    policy = made(QEnsemble, floors={"cm2": 1e3})
    walk(policy, 10)
    replay = policy._replay  # type: ignore[attr-defined]
    prices = policy._dual.prices()
    assert prices[0] > 0.0
    plain, priced = (
        replay.draw(20, scaled=False, prices=each, rng=np.random.default_rng(1)).targets
        for each in (prices * 0, prices)
    )
    numbers = replay.draw(20, scaled=False, rng=np.random.default_rng(1)).numbers
    np.testing.assert_allclose(priced, plain + replay._quantities[numbers, 0] * prices[0], rtol=1e-12)
    means, units = replay.scales(prices)
    assert np.isfinite(means).all()
    assert (units > 0.0).all()


class PastSearches:
    """A log of ten searches in which another policy boosted nothing."""

    def __init__(self) -> None:
        feedbacks = [LARGER.feedback(visit, np.zeros(4)) for visit in range(10)]
        self.visit_rewards = np.array([reward for reward, _ in feedbacks])
        self.actions = np.zeros((10, 4))
        self.searches = SimpleNamespace(
            visit=lambda row: SimpleNamespace(context=LARGER.context(row), feedback=feedbacks[row][1])
        )

    def __len__(self) -> int:
        return 10


def test_a_log_of_another_policy_moves_no_multiplier() -> None:
    policy = made(**ALL)
    before = policy._dual.state_dict()
    policy.fit(PastSearches())
    for name, values in policy._dual.state_dict().items():
        np.testing.assert_array_equal(values, before[name])
    walk(policy, 1)
    assert policy._dual.visits == 1


def test_what_is_no_floor_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"item-critic.floors: unknown part 'margin'; known: gmv, cm2, strategic"):
        made(floors={"margin": 1.0})
    for wrong in ({"cm2": "much"}, {"cm2": float("nan")}, ["cm2"], "cm2", {"cm2": True}):
        with pytest.raises(ConfigError, match=r"item-critic.floors: got .*, expected numbers by name"):
            made(floors=wrong)
    context = LARGER.context(0)
    with pytest.raises(DataError, match="q-ensemble: got feedback without shown, which floors and ceilings"):
        made(QEnsemble, **ALL).update(context, np.zeros(4), 1.0)
