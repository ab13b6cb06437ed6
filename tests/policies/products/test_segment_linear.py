"""The linear policies of segments against plain numpy, decision by decision, and what their memory is there for."""

from typing import Any

import numpy as np
import pytest

from tests.policies.test_against_plain import Decision, must_agree, shop, walk
from zoosim import Context, PolicySpec
from zoosim.arena.loop import play
from zoosim.core.config import EnvConfig
from zoosim.core.errors import ConfigError
from zoosim.core.id_table import find_slot
from zoosim.core.types import FloatArray
from zoosim.linear.rank_one import count_terms
from zoosim.policies.products import segment_linear
from zoosim.policies.products.segment_linear import MAX_ENTRIES
from zoosim.policies.registry import find_class
from zoosim.worlds.recommendation.world import build_world

NAMES = ("shared-linucb", "shared-lin-ts", "product-linucb", "product-lin-ts")
PERIOD = 64


def made(name: str, user_dim: int, product_dim: int, **params: Any) -> Any:
    spec = PolicySpec(user_dim=user_dim, product_dim=product_dim, steps=1_000)
    return find_class(name)(spec, np.random.default_rng(5), **params)


def context(user: list[float], products: FloatArray, ids: list[int] | None = None) -> Context:
    product_ids = np.arange(len(products)) if ids is None else np.array(ids)
    fields = {"user": np.array(user, float), "product_ids": product_ids, "products": products}
    return Context(user_id=0, available=np.ones(len(products), bool), **fields)


def model_of(policy: Any, product: int) -> int:
    """Return the model of a product for the first segment."""
    return int(find_slot(policy.state.products, product))


class Plain:
    """LinUCB with a model for each segment, or product and segment, solved anew from all visits at every decision."""

    def __init__(self, shared: bool, alpha: float, discount: float) -> None:
        self.shared, self.alpha, self.discount = shared, alpha, discount
        self.dim = 0
        self.clock: dict[Any, int] = {}
        self.seen: dict[Any, list[tuple[FloatArray, float, int]]] = {}

    def features(self, decision: Decision, k: int) -> FloatArray:
        if not self.shared:
            return np.asarray(decision.features[k])
        user, product = decision.context.user, decision.context.products[k]
        joint: FloatArray = np.kron(np.append(1.0, user), np.append(1.0, product))[1:]
        return joint

    def model(self, decision: Decision, k: int) -> tuple[Any, int]:
        """Return segment and model: the last two columns of a user are noise."""
        return tuple(decision.context.user[:-2]), 0 if self.shared else k

    def scores(self, decision: Decision) -> FloatArray:
        return np.array([self.score(decision, k) for k in range(len(decision.features))])

    def score(self, decision: Decision, k: int) -> float:
        model, x = self.model(decision, k), self.features(decision, k)
        mean, variance = self.posterior(model, self.seen.get(model, []), x)
        return float(mean + self.alpha * np.sqrt(variance))

    def posterior(self, model: Any, past: list[Any], x: FloatArray) -> tuple[float, float]:
        """Return mean and variance of theta' x, where each visit of the past has its weight."""
        weights = np.array([self.weight(model, visit) for _, _, visit in past])
        xs, rewards = np.array([p[0] for p in past]).reshape(-1, len(x)), np.array([p[1] for p in past])
        inverse = np.linalg.inv((xs.T * weights) @ xs + np.eye(len(x)))
        return float(x @ inverse @ xs.T @ (weights * rewards)), float(x @ inverse @ x)

    def weight(self, model: Any, visit: int) -> float:
        clock = self.clock.get(model[0], 0)
        period = max(PERIOD, self.dim)
        turns = (clock - model[1]) // period - (visit - 1 - model[1]) // period
        return float(self.discount ** (period * turns))

    def update(self, decision: Decision, reward: float) -> None:
        (segment, number), x = self.model(decision, decision.action), self.features(decision, decision.action)
        model = (segment, number)
        visit = self.clock[segment] = self.clock.get(segment, 0) + 1
        self.seen.setdefault(model, []).append((x, reward, visit))


@pytest.mark.parametrize("memory", ["all", "discount"])
@pytest.mark.parametrize("name", ["shared-linucb", "product-linucb"])
def test_it_decides_as_the_plain_loop(name: str, memory: str) -> None:
    """400 visits of a shop with noise features and products that run out, with a short memory."""
    steps, shared = 400, name.startswith("shared")
    world = shop(n_products=6, availability=[{"step": 120, "change": "run-out", "products": [0, 4], "until": 280}])
    user_dim, product_dim = world.users.shape[1], world.products.shape[1]
    policy = made(name, user_dim, product_dim, memory=memory, alpha=0.8, half_life=100.0)
    plain = Plain(shared, 0.8, 0.5 ** (1 / 100) if memory == "discount" else 1.0)
    plain.dim = (1 + user_dim) * ((1 + product_dim) if shared else 1)
    same = [
        must_agree(decision, plain.scores(decision))
        for decision in walk(world, policy, steps, lambda d, reward: plain.update(d, reward))
    ]
    assert np.mean(same) > 0.97
    assert policy.state.segments.found[0] == len(plain.clock) > 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("memory", ["all", "discount"])
def test_segments_have_models_and_clocks_of_their_own(name: str, memory: str) -> None:
    """What one segment sees changes nothing for another: an oracle with no chance in it."""
    products = np.eye(3)
    one, both = (made(name, 2, 3, memory=memory, half_life=10.0) for _ in range(2))
    first, second = context([1, 0], products), context([0, 1], products)
    for policy in (one, both):
        policy.update(first, 0, 1.0)
        policy.update(second, 1, 1.0)
    for n in range(150):
        both.update(second, n % 3, float(n % 2))
    one.state.updates[:] = both.state.updates  # that number the draws
    assert np.array_equal(one.propensities(first), both.propensities(first))
    models = len(one.state.turns)
    assert np.array_equal(one.state.ridge.theta[:models], both.state.ridge.theta[:models])
    assert one.state.segments.clock[0] == both.state.segments.clock[0] == 1


def test_all_is_cleared_when_a_column_turns_out_to_be_a_number() -> None:
    products = np.eye(2)
    for name in NAMES:
        for memory in ("all", "discount"):
            policy, fresh = (made(name, 2, 2, memory=memory) for _ in range(2))
            for used in (policy, fresh):
                used.update(context([0.0, 0.0], products), 1, 1.0)
            for n in range(30):
                here = context([float(n % 2), float(n % 3 == 0)], products)
                policy.update(here, policy.select_action(here), 1.0)
                policy.select_action(here)
            for used in (policy, fresh):
                used.update(context([0.5, 1.0], products), 1, 1.0)
            learned = policy.state_dict()
            own = ("segments.clock", "segments.decided", "segments.found", "ridge")
            for key, array in fresh.state_dict().items():
                if key.startswith(own) and key != "ridge.condition":
                    assert np.array_equal(array, learned[key]), (name, memory, key)
            assert policy.state.widths.late[0] == policy.state.widths.decisions.total[0] == 0


def test_the_uncertainty_of_what_is_not_shown_grows_again() -> None:
    products = np.eye(2)
    policy = made("product-linucb", 1, 2, half_life=50.0)
    here = context([1.0], products)
    for _ in range(30):
        policy.update(here, 0, 0.0)
    known = policy.state.ridge.inverse[model_of(policy, 0)].copy()
    for _ in range(1_500):
        policy.update(here, 1, 1.0)
    assert known[0, 0] < 0.6
    np.testing.assert_allclose(policy.state.ridge.inverse[model_of(policy, 0)], np.eye(2), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_models_fit_into_the_memory_that_they_may_take(name: str) -> None:
    """Room is made for as many segments as fit into MAX_ENTRIES, vectors aside."""
    policy = made(name, 30, 15)
    products = np.eye(15)[np.arange(130) % 15]
    policy.attach_block(np.arange(130), products, 1_000)
    state, segments = policy.state, len(policy.state.segments.clock)
    assert len(state.turns) == (1 if name.startswith("shared") else 131)
    widths = state.widths.ahead if state.ahead else state.ridge._replace(gram=np.zeros(0), inverse=np.zeros(0))
    matrices = sum(array.size for array in (*state.ridge[:2], *widths[:2]))
    assert 1 < segments < 256
    assert matrices < 1.03 * MAX_ENTRIES < 1.05 * matrices * (1 + 1 / segments)


@pytest.mark.parametrize("memory", ["all", "discount"])
@pytest.mark.parametrize("name", NAMES)
def test_room_for_more_products_changes_nothing(name: str, memory: str) -> None:
    """Two policies in the same shop, one of which was told at once of all products that come up one after another."""
    rng, products = np.random.default_rng(8), np.eye(4)[np.arange(40) % 4]
    one, other = (made(name, 2, 4, memory=memory, half_life=40.0) for _ in range(2))
    other.attach_block(np.arange(40), products, 1_000)
    waiting = []
    for n in range(250):
        ids = rng.permutation(4 + n // 7)[:6]
        here = context([float(n % 2), float(n % 3 == 0)], products[ids], ids.tolist())
        assert np.array_equal(one.propensities(here), other.propensities(here))
        waiting.append((here, one.select_action(here), float(rng.random() < 0.4)))
        assert other.select_action(here) == waiting[-1][1]
        while len(waiting) > n // 50:  # rewards come at once in the beginning, and up to 4 visits late in the end
            came = waiting.pop(0)
            one.update(*came)
            other.update(*came)
    if name.startswith("product"):
        assert len(other.state.turns) == 41
        assert len(one.state.turns) > len(made(name, 2, 4).state.turns)
    loaded = made(name, 2, 4, memory=memory, half_life=40.0)
    loaded.load_state_dict(one.state_dict())
    assert np.array_equal(one.propensities(here), loaded.propensities(here))


@pytest.mark.parametrize("memory", ["all", "discount"])
def test_the_product_used_longest_ago_makes_room(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room for 3 products; one that returns is as new as one that was never there."""
    monkeypatch.setattr(segment_linear, "FIRST_PRODUCTS", 4)
    monkeypatch.setattr(segment_linear, "MAX_ENTRIES", 4 * 2**2 * 4 * 4)
    policy = made("product-linucb", 1, 1, memory=memory)
    here = context([1.0], np.ones((5, 1)))
    for n in range(60):
        policy.update(here, n % 3, 1.0)
    assert len(policy.state.turns) == 4
    policy.update(here, 3, 0.5)
    assert [model_of(policy, product) > 0 for product in range(5)] == [False, True, True, True, False]
    theta, gram = policy.state.ridge.theta, policy.state.ridge.gram
    assert gram[model_of(policy, 3), 0, 0] >= 1.0
    assert theta[model_of(policy, 3), 0] <= 0.5


def test_there_is_room_for_ever_new_patterns() -> None:
    products = np.eye(2)
    for name in NAMES:
        policy = made(name, 10, 2)
        room = len(policy.state.segments.clock)
        for n in range(room + 20):
            user = [float(bit) for bit in f"{n:010b}"]
            policy.update(context(user, products), policy.select_action(context(user, products)), 0.0)
        assert policy.state.segments.found[0] == room
        assert policy.state.segments.clock[room - 1] == policy.state.segments.decided[room - 1] == 21


@pytest.mark.parametrize("memory", ["all", "discount"])
@pytest.mark.parametrize("name", ["shared-linucb", "product-linucb"])
def test_widths_count_what_was_shown_before_its_reward_comes(name: str, memory: str) -> None:
    """Rewards 7 visits late: covariances are those of a policy whose rewards come at once, means wait for them."""
    rng, products = np.random.default_rng(4), np.eye(3)
    late, prompt = (made(name, 2, 3, memory=memory, half_life=30.0) for _ in range(2))
    waiting = []
    for n in range(300):
        here = context([float(n % 2), float(n % 3 == 0)], products)
        action = late.select_action(here)
        waiting.append((here, action, float(rng.random() < 0.3)))
        prompt.note_decision(here, action)
        prompt.update(*waiting[-1])
        if len(waiting) > 7:
            late.update(*waiting.pop(0))
        if 1 < n < 250:
            assert late.state.widths.late[0] == 1
            ahead = late.state.widths.ahead.inverse
            np.testing.assert_allclose(ahead, prompt.state.ridge.inverse, rtol=1e-9, atol=1e-12)
            assert not np.allclose(late.state.ridge.inverse, prompt.state.ridge.inverse, rtol=1e-9, atol=1e-12)
    for came in waiting:
        late.update(*came)
    assert late.state.widths.late[0] == 0
    np.testing.assert_allclose(late.state.ridge.inverse, prompt.state.ridge.inverse, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(late.state.ridge.theta, prompt.state.ridge.theta, rtol=1e-9, atol=1e-12)


CHANGED = {
    "budget_shopper": {"Cat Food": 0.05, "Dog Toy": 0.6},
    "cat_connoisseur": {"Cat Food": 0.05, "Cat Toy": 0.05, "Dog Toy": 0.6},
    "new_puppy_parent": {"Dog Toy": 0.05, "Dog Food": 0.05, "Cat Toy": 0.6},
    "fish_hobbyist": {"Fish Supplies": 0.05, "Cat Food": 0.6},
}


@pytest.mark.parametrize(("name", "least"), [("shared-linucb", 0.85), ("shared-lin-ts", 0.7)])
def test_it_learns_the_shop_and_notices_a_shock(name: str, least: float) -> None:
    """16,000 visits, all tastes change at 8,000, seed 3: `least` of oracle from then on; with all kept, less."""
    world = build_world(EnvConfig.model_validate({"shocks": [{"step": 8_000, "name": "all", "set": CHANGED}]}), seed=3)

    def fractions(**params: Any) -> tuple[float, float]:
        policy = find_class(name)(world.spec(16_000), np.random.default_rng(0), **params)
        blocks = list(play(world, policy, 16_000, logged=True))  # the loop that tests/arena compiles, too
        chosen, best = (
            np.array([np.sum(getattr(b, kind)) for b in blocks]) for kind in ("expected_rewards", "best_rewards")
        )
        return chosen[8:].sum() / best[8:].sum(), chosen[-3:].sum() / best[-3:].sum()

    since, at_last = fractions()
    assert since > least
    assert at_last > 0.95
    assert fractions(memory="all")[0] < least


def test_words_that_are_no_memory_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"memory: got 'fading', expected one of all or discount$"):
        made("shared-linucb", 1, 2, memory="fading")


LARGE_POLICIES = [
    *[(name, {"memory": memory}) for name in NAMES[:2] for memory in ("all", "discount")],
    ("product-linucb", {}),
    pytest.param("d-linucb", {"discount": 0.99}, marks=pytest.mark.slow),
    ("greedy", {}),
]


def large(name: str, **params: Any) -> Any:
    """Return a policy whose models have 289 features, or 289 a product: terms wait beside their matrices."""
    short = {"half_life": 200.0} if name in NAMES else {}
    return made(name, 16 if name != "product-linucb" else 288, 16, **{**short, **params})


def visits(policy: Any, n: int) -> list[Context]:
    rng = np.random.default_rng(6)
    products = rng.normal(size=(12, policy.spec.product_dim)) / 4
    return [context(list(rng.normal(size=policy.spec.user_dim) / 4), products) for _ in range(n)]


@pytest.mark.parametrize(("name", "params"), LARGE_POLICIES)
def test_large_models_decide_as_if_no_term_waited(
    name: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rewards of every third visit come 5 visits late; both policies have more than one rebuild behind them."""
    policy, rng, waiting = large(name, **params), np.random.default_rng(7), list[tuple[Context, int, float]]()
    [first] = visits(policy, 1)
    policy.select_action(first)  # now it has room for all products
    monkeypatch.setattr("zoosim.linear.joint.rows_for_terms", lambda dim: 0)
    plain = large(name, **params)
    plain.select_action(first)
    assert policy.state.ridge.gram.shape[1] > plain.state.ridge.gram.shape[1] == 289
    for n, here in enumerate(visits(policy, 320)):
        action = policy.select_action(here)
        assert plain.select_action(here) == action
        if n % 40 == 0:
            before = policy.state_dict()
            np.testing.assert_allclose(policy.propensities(here), plain.propensities(here), atol=1e-12)
            after = policy.state_dict()
            assert all(np.array_equal(before[key], after[key]) for key in before)
        waiting.append((here, action, float(rng.random() < 0.5)))
        for came in waiting if n % 3 else waiting[5:]:
            policy.update(*came)
            plain.update(*came)
        waiting = [] if n % 3 else waiting[:5]
    np.testing.assert_allclose(policy.state.ridge.theta, plain.state.ridge.theta, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("name", "params"), LARGE_POLICIES)
def test_large_models_are_saved_while_terms_wait(name: str, params: dict[str, Any]) -> None:
    policy, rng, here = large(name, **params), np.random.default_rng(8), visits(large(name), 120)
    for n in range(45):
        policy.update(here[n], policy.select_action(here[n]), float(rng.random() < 0.5))
    if name != "product-linucb":
        assert count_terms(policy.state.ridge.gram[0]) > 0
    loaded = large(name, **params)
    loaded.load_state_dict(policy.state_dict())
    for n in range(45, 120):
        assert np.array_equal(policy.propensities(here[n]), loaded.propensities(here[n]))
        action, reward = policy.select_action(here[n]), float(rng.random() < 0.5)
        assert loaded.select_action(here[n]) == action
        policy.update(here[n], action, reward)
        loaded.update(here[n], action, reward)
    one, other = policy.state_dict(), loaded.state_dict()
    assert all(np.array_equal(one[key], other[key]) for key in one)
