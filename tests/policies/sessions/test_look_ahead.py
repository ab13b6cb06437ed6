"""Policies that look ahead: what they learn of a decision that others follow, and how exploration falls."""

import math
from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError
from zoosim.core.types import Context, PolicySpec
from zoosim.logs.lives import Lives
from zoosim.models.expectile_net import write_kind_scores
from zoosim.policies.sessions.base import known_decisions
from zoosim.policies.sessions.dqn import DQN
from zoosim.policies.sessions.iql import IQL
from zoosim.policies.sessions.q_table import QTable

SPEC = PolicySpec(user_dim=1, product_dim=1, steps=4)
IDS = np.array([7, 9, 11])
# The first two products are of one kind.
PRODUCTS = np.array([[1.0], [1.0], [0.0]])


def request(state: float, available: tuple[bool, ...] = (True, True, True)) -> Context:
    """Return a request of a visitor in a state."""
    return Context(user_id=0, user=np.array([state]), product_ids=IDS, products=PRODUCTS, available=np.array(available))


def table(**params: Any) -> QTable:
    """Return a table that takes over each goal at once: the n-th moves a value by 1/n, and each is met once."""
    return QTable(SPEC, np.random.default_rng(0), power=1.0, random_last=0.0, **params)


def value(policy: QTable, state: float, product: int) -> float:
    """Return the value of a product at a state, 0 where that was never met."""
    return float(policy.action_values(request(state))[product])


def test_a_last_decision_is_worth_its_reward_and_one_before_the_best_that_follows() -> None:
    policy = table()
    policy.update(request(1.0), 0, 3.0)
    policy.update(request(1.0), 2, 5.0)
    policy.update(request(0.0), 0, 1.0, {"visit_ended": True}, request(1.0))
    assert value(policy, 1.0, 1) == 3.0, "products of one kind share a value"
    assert value(policy, 0.0, 0) == 1.0 + 5.0
    # Where the best may not be shown next, it does not count.
    policy.update(request(0.0), 2, 1.0, {}, request(1.0, (True, True, False)))
    assert value(policy, 0.0, 2) == 1.0 + 3.0


def test_the_visit_and_the_discount_limit_what_counts() -> None:
    within = table(horizon="visit")
    within.update(request(1.0), 0, 3.0)
    within.update(request(0.0), 0, 1.0, {"visit_ended": True}, request(1.0))
    assert value(within, 0.0, 0) == 1.0
    within.update(request(0.0), 2, 1.0, {"visit_ended": False}, request(1.0))
    assert value(within, 0.0, 2) == 1.0 + 3.0
    discounted = table(discount=0.5)
    discounted.update(request(1.0), 0, 3.0)
    discounted.update(request(0.0), 0, 1.0, {}, request(1.0))
    assert value(discounted, 0.0, 0) == 1.0 + 0.5 * 3.0


@pytest.mark.parametrize("cls", [QTable, DQN])
def test_exploration_falls_with_the_visitors_who_have_gone(cls: Any) -> None:
    policy = cls(SPEC, np.random.default_rng(0), random_first=0.8, random_last=0.2, random_fall=0.5)
    shares = []
    for _ in range(4):
        shares.append(3 * float(policy.propensities(request(0.0)).min()))
        policy.update(request(0.0), 0, 1.0, {}, request(1.0))
        policy.update(request(1.0), 0, 1.0)
    # 4 visitors are planned: from .8 to .2 over the first half of them.
    np.testing.assert_allclose(shares, [0.8, 0.5, 0.2, 0.2])


def test_copies_that_go_on_from_one_training_draw_batches_of_their_own() -> None:
    first, second = (DQN(SPEC, np.random.default_rng(0)) for _ in range(2))
    assert first.state.net.key == second.state.net.key
    second.reseed(np.random.default_rng(1))
    assert first.state.net.key != second.state.net.key
    double = table(double=True)
    key = double.state.coins.key.copy()
    double.reseed(np.random.default_rng(1))
    assert double.state.coins.key != key


def test_the_state_met_longest_ago_makes_room() -> None:
    policy = table(states=2)
    for state in (0.0, 1.0, 2.0):
        policy.update(request(state), 0, 4.0)
    assert value(policy, 2.0, 0) == 4.0
    assert value(policy, 1.0, 0) == 4.0
    assert value(policy, 0.0, 0) == 0.0


def test_a_kind_that_makes_room_leaves_nothing_to_the_next_one() -> None:
    policy = DQN(SPEC, np.random.default_rng(0), kinds=2, train_every=1, batch_size=8, learning_rate=0.01)
    for _ in range(50):
        policy.update(request(0.0), 0, 5.0)
        policy.update(request(0.0), 2, 0.0)
    others = Context(
        user_id=0,
        user=np.zeros(1),
        product_ids=np.array([1, 2]),
        products=np.array([[3.0], [4.0]]),
        available=np.ones(2, bool),
    )
    policy.update(others, 0, 1.0, {}, others)
    state = policy.state
    weights = state.net.target.reshape(-1)
    assert np.isfinite(weights).all()
    assert int(state.kinds.counts[0]) == 3, "two kinds and the unknown one"


def of_kinds(*features: float) -> Context:
    """Return a request with a product of each of some kinds."""
    return Context(
        user_id=0,
        user=np.zeros(1),
        product_ids=np.arange(len(features)),
        products=np.array([[feature] for feature in features]),
        available=np.ones(len(features), bool),
    )


def test_what_is_remembered_of_a_kind_that_made_room_is_not_taken_for_the_next_ones() -> None:
    policy = DQN(SPEC, np.random.default_rng(0), kinds=2, memory=100)
    policy.update(of_kinds(1.0), 0, 5.0, {}, of_kinds(1.0, 2.0))
    policy.update(of_kinds(2.0, 3.0), 1, 7.0)
    memory = policy.state.net.memory
    # The third kind has the number of the first one, 1.
    np.testing.assert_array_equal(memory.kinds[:2], [0, 1])
    np.testing.assert_array_equal(memory.offered[:2], [[1, 0, 0], [0, 1, 1]])
    np.testing.assert_array_equal(memory.next_open[:2], [[1, 0, 1], [0, 0, 0]])


def test_of_more_kinds_than_there_are_numbers_the_first_ones_keep_theirs() -> None:
    policy = DQN(SPEC, np.random.default_rng(0), kinds=2, memory=100)
    for shown in (0, 1, 2):
        policy.update(of_kinds(1.0, 2.0, 3.0), shown, 1.0)
    np.testing.assert_array_equal(policy.state.net.memory.kinds[:3], [1, 2, 0])


class LifeLog:
    """A log of three visitors, the first and the last cut off, whose rows stand in no order."""

    actions = np.array([2, 0, 0, 2, 0, 2])
    rewards = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    propensities = np.full(6, 0.5)
    features = np.array([[1.0], [0.0], [0.0], [1.0], [2.0], [2.0]])
    products = PRODUCTS
    user_ids = None
    product_ids = IDS
    # Steps are numbered anew in each visit. Visitor 0: row 5, then cut off. Visitor 1: rows 1, 3 and, in another visit,
    # 2, where it ended. Visitor 2: rows 4 and 0, then cut off.
    lives = Lives(
        visitor=np.array([2, 1, 1, 1, 2, 0]),
        visit=np.array([1, 0, 1, 0, 0, 0]),
        step=np.array([0, 0, 0, 1, 0, 0]),
        ended=np.array([False, False, True, False, False, False]),
        censored=np.array([True, False, False, False, False, True]),
    )

    def __len__(self) -> int:
        return 6

    def available(self, start: int, stop: int) -> np.ndarray:
        """Return that everything may be shown, but product 2 in row 3."""
        masks = np.ones((stop - start, 3), bool)
        masks[:, 2] = np.arange(start, stop) != 3
        return masks


def taught_as_logged(policy: Any) -> Any:
    """Return the policy after the decisions of `LifeLog` of which is known what followed."""
    end, same, other = {"ended": True}, {"visit_ended": False}, {"visit_ended": True}
    policy.update(request(2.0), 0, 5.0, other, request(1.0))
    policy.update(request(0.0), 0, 2.0, same, request(1.0, (True, True, False)))
    policy.update(request(1.0), 2, 4.0, other, request(0.0))
    policy.update(request(0.0), 0, 3.0, end)
    return policy


def test_decisions_of_a_log_keep_its_order_and_that_of_lives() -> None:
    known = known_decisions(LifeLog())
    # Rows 0 and 4 are of one visitor, who decided in row 4 first; rows 1, 2 and 3 of another one, by 1, 3 and 2.
    np.testing.assert_array_equal(known.rows, [4, 1, 3, 2])
    np.testing.assert_array_equal(known.next_rows, [0, 3, 2, -1])
    np.testing.assert_array_equal(known.visit_ended, [True, False, True, True])


def test_a_log_of_nothing_teaches_nothing() -> None:
    empty = ChainLog(0)
    assert len(known_decisions(empty).rows) == 0


@pytest.mark.parametrize("horizon", ["lifetime", "visit"])
def test_a_log_of_lives_teaches_a_table_what_these_decisions_would(horizon: str) -> None:
    logged, taught = (QTable(SPEC, np.random.default_rng(0), horizon=horizon) for _ in range(2))
    logged.fit(LifeLog())
    expected = taught_as_logged(taught).state_dict()
    for name, array in logged.state_dict().items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


@pytest.mark.parametrize("cls", [DQN, IQL])
@pytest.mark.parametrize("horizon", ["lifetime", "visit"])
def test_a_log_of_lives_fills_a_memory_as_these_decisions_would(cls: Any, horizon: str) -> None:
    logged, taught = (cls(SPEC, np.random.default_rng(0), horizon=horizon, fit_steps=150) for _ in range(2))
    lines: list[str] = []
    logged.fit(LifeLog(), lines.append)
    assert lines == ["took 100 of 150 steps of training", "took 150 of 150 steps of training"]
    taught_as_logged(taught)
    assert logged.state.progress.gone[0] == taught.state.progress.gone[0] == 1
    for name, array in logged.state.net.memory._asdict().items():
        # A log tells what could be shown at each decision; elsewhere all candidates count.
        if name != "offered":
            np.testing.assert_array_equal(array, getattr(taught.state.net.memory, name), err_msg=name)


def test_a_memory_that_is_smaller_than_a_log_holds_its_end() -> None:
    policy = DQN(SPEC, np.random.default_rng(0), memory=100, fit_steps=1)
    policy.fit(ChainLog(60))
    policy.fit(ChainLog(10))
    # 480 and 80 decisions: the ring goes round, and the last one stands at place 559 modulo 100.
    assert policy.state.net.counts[0] == 560
    expected = np.roll(np.tile(ChainLog(1).features, (13, 1))[-100:], 60, axis=0)
    np.testing.assert_array_equal(policy.state.net.memory.states, expected)


class ChainLog:
    """A log of a chain of two states, `times` times four visitors.

    In state 0 product 0 earns nothing and leads to state 1, in which three visitors of four are shown product 0, which
    earns nothing, and the fourth one product 2, which earns 1. All then go. The other kind is offered, too.
    """

    propensities = np.ones(0)
    products = PRODUCTS
    user_ids = None
    product_ids = IDS

    def __init__(self, times: int) -> None:
        self.actions = np.tile([0, 0, 0, 0, 0, 0, 0, 2], times)
        self.rewards = (self.actions == 2).astype(float)
        self.features = np.tile([[0.0], [1.0]], (4 * times, 1))
        visitor = np.repeat(np.arange(4 * times), 2)
        step = np.tile([0, 1], 4 * times)
        self.lives = Lives(visitor, np.zeros_like(step), step, step == 1, np.zeros(8 * times, bool))

    def __len__(self) -> int:
        return len(self.actions)

    def available(self, start: int, stop: int) -> np.ndarray:
        """Return that everything may be shown."""
        return np.ones((stop - start, 3), bool)


TRAINED = {
    "hidden": "16",
    "learning_rate": 1e-2,
    "last_rate": 0.01,
    "trail": 0.05,
    "batch_size": 64,
    "weight_decay": 0.0,
}


def test_pessimism_values_what_a_log_shows_seldom_or_never_below_what_it_is_worth() -> None:
    policy = DQN(SPEC, np.random.default_rng(0), pessimism=0.5, fit_steps=2_000, **TRAINED)
    policy.fit(ChainLog(100))
    # Kumar et al. (2020), section 3: where a share m of a log shows an action, and a softmax of Q has p of it, the loss
    # is least at Q = r - alpha (p / m - 1). In state 1 that leaves an equation for the distance of both actions.
    low, high = 0.0, 1.0
    for _ in range(50):
        gap = (low + high) / 2
        seldom = 1.0 / (1.0 + np.exp(-gap))
        values = np.array([-0.5 * ((1.0 - seldom) / 0.75 - 1.0), 1.0 - 0.5 * (seldom / 0.25 - 1.0)])
        low, high = (gap, high) if values[1] - values[0] > gap else (low, gap)
    assert values[1] < 0.5, "what is shown to one of four is worth 1"
    np.testing.assert_allclose(policy.action_values(request(1.0))[[0, 2]], values, atol=0.05)
    at_start = policy.action_values(request(0.0))
    assert at_start[0] == pytest.approx(values.max(), abs=0.05), "what all are shown is worth what follows"
    assert at_start[2] < -1.0, "what nobody was shown is held to be worth less and less"
    plain = DQN(SPEC, np.random.default_rng(0), fit_steps=2_000, **TRAINED)
    plain.fit(ChainLog(100))
    np.testing.assert_allclose(plain.action_values(request(1.0))[[0, 2]], [0.0, 1.0], atol=0.05)


@pytest.mark.parametrize(("expectile", "worth"), [(0.5, 0.25), (0.75, 0.5)])
def test_a_state_is_worth_an_expectile_of_what_was_shown(expectile: float, worth: float) -> None:
    # One of four brings 1: t/4 (1 - v) = (1 - t) 3/4 v, so that v = t / (t + 3 (1 - t)).
    policy = IQL(SPEC, np.random.default_rng(0), expectile=expectile, sharpness=math.log(9), fit_steps=3_000, **TRAINED)
    policy.fit(ChainLog(100))
    np.testing.assert_allclose(policy.action_values(request(1.0))[[0, 2]], [0.0, 1.0], atol=0.05)
    assert policy.action_values(request(0.0))[0] == pytest.approx(worth, abs=0.05)
    # The log has 3 to 1 against product 2, which weighs exp(sharpness) = 9 times as much: 3 to 1 for it.
    scores = np.empty(2)
    write_kind_scores(policy.state.nets, np.ones(1), np.array([1, 2]), scores)
    assert abs(scores[1] - scores[0]) == pytest.approx(np.log(3.0), abs=0.15)
    assert policy.recommend(request(1.0)) == 2
    assert policy.recommend(request(0.0)) == 0


def test_imitation_alone_shows_what_the_log_shows_most() -> None:
    policy = IQL(SPEC, np.random.default_rng(0), sharpness=0.0, fit_steps=500, **TRAINED)
    policy.fit(ChainLog(100))
    assert policy.recommend(request(1.0)) == 0


def test_a_saved_imitator_decides_alike() -> None:
    policy = IQL(SPEC, np.random.default_rng(0), fit_steps=300, **TRAINED)
    policy.fit(ChainLog(10))
    loaded = IQL(SPEC, np.random.default_rng(1), fit_steps=300, **TRAINED)
    loaded.load_state_dict(policy.state_dict())
    for state in (0.0, 1.0):
        np.testing.assert_array_equal(loaded.action_values(request(state)), policy.action_values(request(state)))
        assert loaded.recommend(request(state)) == policy.recommend(request(state))


@pytest.mark.parametrize(("cls", "name"), [(DQN, "net.layers"), (IQL, "nets.actor_layers")])
def test_a_saved_network_of_other_layers_is_refused(cls: Any, name: str) -> None:
    policy = cls(SPEC, np.random.default_rng(0))
    saved = policy.state_dict()
    saved[name] = saved[name] + np.eye(*saved[name].shape, dtype=np.int64)
    with pytest.raises(ConfigError, match=f"{name} holds another network than the parameters say"):
        policy.load_state_dict(saved)


def test_two_tables_learn_each_of_what_the_other_one_knows() -> None:
    policy = QTable(SPEC, np.random.default_rng(0), power=1.0, random_last=0.0, double=True)
    coins = np.random.default_rng(1)
    # The update of van Hasselt (2010), algorithm 1, with rates 1/n of each table, in plain dictionaries.
    tables: list[dict[tuple[float, int], float]] = [{}, {}]
    counts: list[dict[tuple[float, int], int]] = [{}, {}]
    for _ in range(300):
        state, action, following = float(coins.integers(2)), int(coins.choice([0, 2])), float(coins.integers(2))
        reward = float(coins.normal())
        before = policy.state.values.copy()
        policy.update(request(state), action, reward, {}, request(following))
        moved = np.flatnonzero((policy.state.values != before).any(axis=(1, 2)))
        assert len(moved) == 1, "a reward moves one of both tables"
        mine, other = tables[moved[0]], tables[1 - moved[0]]
        best = max((0, 2), key=lambda kind: mine.get((following, kind), 0.0))
        goal = reward + other.get((following, best), 0.0)
        key = (state, action)
        counts[moved[0]][key] = counts[moved[0]].get(key, 0) + 1
        mine[key] = mine.get(key, 0.0) + (goal - mine.get(key, 0.0)) / counts[moved[0]][key]
    for state in (0.0, 1.0):
        for action in (0, 2):
            mean = sum(table[state, action] for table in tables) / 2
            assert value(policy, state, action) == pytest.approx(mean, abs=1e-12)
    assert 110 < sum(counts[0].values()) < 190, "both as often"
