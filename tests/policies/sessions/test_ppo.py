"""PPO: what it draws from, what it remembers of a decision, and whose decisions follow each other."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import PolicyError
from zoosim.core.id_table import find_slot
from zoosim.core.types import NOBODY, Context, PolicySpec
from zoosim.models.actor_critic import HELD, STEPS
from zoosim.nets.network import BIAS_STEP, BIASES
from zoosim.policies.sessions.base import kinds_among
from zoosim.policies.sessions.ppo import PPO

SPEC = PolicySpec(user_dim=1, product_dim=1, steps=100)
# The first two products are of one kind.
PRODUCTS = np.array([[1.0], [1.0], [0.0]])
STAYS = {"visit_ended": False}


def request(
    state: float,
    available: tuple[bool, ...] = (True, True, True),
    user_id: int = 5,
    products: np.ndarray = PRODUCTS,
) -> Context:
    """Return a request of a visitor in a state."""
    return Context(
        user_id=user_id,
        user=np.array([state]),
        product_ids=np.array([7, 9, 11]),
        products=products,
        available=np.array(available),
    )


def learner(**params: Any) -> PPO:
    """Return a policy that does not explore by chance, with small networks."""
    chosen: dict[str, Any] = {"hidden": "8", "rollout": 50, "batch_size": 10, "learning_rate": 0.02, **params}
    return PPO(SPEC, np.random.default_rng(0), **chosen)


def test_kinds_that_are_open_share_the_decisions_and_products_those_of_their_kind() -> None:
    policy = learner()
    np.testing.assert_allclose(policy.propensities(request(0.0)), [0.25, 0.25, 0.5])
    np.testing.assert_allclose(policy.propensities(request(0.0, (False, True, True))), [0.0, 0.5, 0.5])
    np.testing.assert_allclose(policy.propensities(request(0.0, (True, True, False))), [0.5, 0.5, 0.0])


def test_a_draw_settles_the_decision_by_its_propensities() -> None:
    policy = learner()
    actions = [policy.decide(request(0.0), draw).action for draw in (0.0, 0.24, 0.26, 0.49, 0.51, 0.999)]
    assert actions == [0, 0, 1, 1, 2, 2]


def test_the_likeliest_kind_is_recommended_however_many_products_share_its_decisions() -> None:
    policy = learner()
    weights = policy.state.net.actor[0]
    weights[:] = 0.0
    policy.note_decision(request(0.0), 0)
    number = int(find_slot(policy.state.kinds, kinds_among(PRODUCTS).ids[0]))
    *_, last = policy.state.net.actor_layers
    weights[last[BIASES] + number * last[BIAS_STEP]] = np.log(1.5)
    np.testing.assert_allclose(policy.propensities(request(0.0)), [0.3, 0.3, 0.4], rtol=1e-6)
    assert policy.recommend(request(0.0)) == 0
    assert policy.recommend(request(0.0, (False, False, True))) == 2


def test_it_learns_to_give_up_a_click_for_what_follows() -> None:
    # In state 0 product 2 brings 1 at once, and the visitor goes; the others lead to state 1, where anything brings 3.
    policy = learner()
    for visitor in range(400):
        first = request(0.0, user_id=visitor)
        action = policy.select_action(first)
        if action == 2:
            policy.update(first, action, 1.0)
            continue
        second = request(1.0, user_id=visitor)
        policy.update(first, action, 0.0, STAYS, second)
        policy.update(second, policy.select_action(second), 3.0)
    assert policy.state.net.counts[STEPS] > 0
    assert policy.recommend(request(0.0)) == 0
    assert policy.propensities(request(0.0))[2] < 0.2
    myopic = learner(horizon="visit")
    for visitor in range(400):
        first = request(0.0, user_id=visitor)
        action = myopic.select_action(first)
        myopic.update(first, action, float(action == 2), {"visit_ended": True}, request(1.0, user_id=visitor))
    assert myopic.recommend(request(0.0)) == 2


def test_the_probability_is_that_of_the_decision_when_feedback_comes_late() -> None:
    policy = learner(entropy=0.0)
    early = request(0.0, (True, False, True))
    chance = policy.propensities(early)[0]
    policy.note_decision(early, 0)
    for visitor in range(100, 150):
        policy.update(request(0.0, user_id=visitor), 2, 1.0)
    assert policy.propensities(early)[0] < chance
    policy.update(early, 0, 1.0)
    place = int(policy.state.net.counts[HELD]) - 1
    rollout = policy.state.rollout
    assert rollout.log_chances[place] == pytest.approx(np.log(chance))
    # What was not noted counts as decided now, from all candidates.
    policy.update(early, 0, 1.0)
    now = policy.propensities(request(0.0))[:2].sum()
    assert rollout.log_chances[place + 1] == pytest.approx(np.log(now), rel=1e-5)


def followed(policy: PPO) -> list[int]:
    """Return which decision of the rollout follows each one that it holds."""
    numbers: list[int] = policy.state.rollout.following[: policy.state.net.counts[HELD]].tolist()
    return numbers


def test_decisions_of_visitors_who_come_in_turns_are_kept_apart() -> None:
    policy = learner()
    a, b = 1, 2
    policy.update(request(0.0, user_id=a), 0, 1.0, STAYS, request(1.0, user_id=a))
    policy.update(request(0.0, user_id=b), 0, 1.0, STAYS, request(1.0, user_id=b))
    policy.update(request(1.0, user_id=b), 2, 1.0)
    policy.update(request(1.0, user_id=a), 2, 1.0, STAYS, request(2.0, user_id=a))
    # A's decision in state 2 is unknown: another one does not follow.
    policy.update(request(3.0, user_id=a), 0, 1.0, STAYS, request(4.0, user_id=a))
    # B has gone; who comes by the same number later is new.
    policy.update(request(0.0, user_id=b), 0, 1.0)
    assert followed(policy) == [3, 2, 2, 3, 4, 5]
    nobody = learner()
    nobody.update(request(0.0, user_id=NOBODY), 0, 1.0, STAYS, request(1.0, user_id=NOBODY))
    nobody.update(request(1.0, user_id=NOBODY), 0, 1.0)
    assert followed(nobody) == [0, 1], "who is not recognised has no next decision"


def test_what_a_rollout_holds_of_a_kind_that_made_room_is_not_taken_for_the_next_ones() -> None:
    policy = learner(kinds=2)
    policy.update(request(0.0), 0, 1.0, STAYS, request(1.0))
    policy.note_decision(request(0.0, user_id=6), 0)
    policy.update(request(1.0, products=np.array([[2.0], [2.0], [0.0]])), 0, 1.0)
    rollout = policy.state.rollout
    # The third kind has the number of the first one, 1.
    np.testing.assert_array_equal(rollout.kinds[:2], [0, 1])
    np.testing.assert_array_equal(rollout.offered[:2], [[1, 0, 1], [0, 1, 1]])
    decided = policy.state.decided
    assert decided.kinds[decided.waits == 1] == [0]


def test_a_new_rollout_knows_nothing_of_the_one_before() -> None:
    policy = learner(rollout=2)
    for state in range(3):
        policy.update(request(float(state)), 0, 1.0, STAYS, request(state + 1.0))
    assert followed(policy) == [0]


def test_the_visitor_who_decided_longest_ago_makes_room() -> None:
    policy = learner(visitors=2)
    for visitor in (1, 2, 3):
        policy.update(request(0.0, user_id=visitor), 0, 1.0, STAYS, request(1.0, user_id=visitor))
    policy.update(request(1.0, user_id=1), 0, 1.0)
    policy.update(request(1.0, user_id=3), 0, 1.0)
    assert followed(policy) == [0, 1, 4, 3, 4]


def test_a_log_is_refused_in_one_line() -> None:
    with pytest.raises(PolicyError, match="ppo: learns from its own decisions alone, so that no log can train it"):
        learner().fit(object())  # type: ignore[arg-type]
