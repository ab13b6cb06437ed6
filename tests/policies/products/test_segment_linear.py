"""The linear policies of segments against plain numpy, decision by decision, and what each memory is there for."""

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
from zoosim.policies.products.segment_linear import HYPOTHESES, MAX_ENTRIES
from zoosim.policies.products.segment_state import last_shown, read_slots
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

    def __init__(self, shared: bool, memory: str, alpha: float, discount: float, window: int, hazard: float) -> None:
        self.shared, self.memory, self.alpha, self.discount = shared, memory, alpha, discount
        self.window, self.hazard = window, hazard
        self.dim = 0
        self.clock: dict[Any, int] = {}
        self.seen: dict[Any, list[tuple[FloatArray, float, int]]] = {}
        self.filters: dict[Any, list[list[Any]]] = {}

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
        parts = [(1.0, self.seen.get(model, []))]
        if self.memory == "filter":
            parts = [(w, past) for w, past in self.filters.get(model, [[1.0, []]]) if w > 0]
        posteriors = [(w, *self.posterior(model, past, x)) for w, past in parts]
        mean = sum(w * m for w, m, _ in posteriors)
        return float(mean + self.alpha * np.sqrt(sum(w * (v + (m - mean) ** 2) for w, m, v in posteriors)))

    def posterior(self, model: Any, past: list[Any], x: FloatArray) -> tuple[float, float]:
        """Return mean and variance of theta' x, where each visit of the past has its weight."""
        weights = np.array([self.weight(model, visit) for _, _, visit in past])
        xs, rewards = np.array([p[0] for p in past]).reshape(-1, len(x)), np.array([p[1] for p in past])
        inverse = np.linalg.inv((xs.T * weights) @ xs + np.eye(len(x)))
        return float(x @ inverse @ xs.T @ (weights * rewards)), float(x @ inverse @ x)

    def weight(self, model: Any, visit: int) -> float:
        clock = self.clock.get(model[0], 0)
        if self.memory == "window":
            return float(visit > clock - self.window)
        period = max(PERIOD, self.dim)
        turns = (clock - model[1]) // period - (visit - 1 - model[1]) // period
        return self.discount ** (period * turns) if self.memory == "discount" else 1.0

    def update(self, decision: Decision, reward: float) -> None:
        (segment, number), x = self.model(decision, decision.action), self.features(decision, decision.action)
        model = (segment, number)
        visit = self.clock[segment] = self.clock.get(segment, 0) + 1
        if self.memory == "filter":
            self.weigh(model, x, reward, visit)
        self.seen.setdefault(model, []).append((x, reward, visit))

    def weigh(self, model: Any, x: FloatArray, reward: float, visit: int) -> None:
        parts = self.filters.setdefault(model, [[1.0, []]] + [[0.0, []] for _ in range(HYPOTHESES - 1)])
        before = self.seen[model][-1][2] if self.seen.get(model) else 0
        kept = (1 - self.hazard) ** (visit - before)
        for part in parts:
            part[0] *= kept
        weakest = min(parts, key=lambda part: part[0])
        weakest[:] = [weakest[0] + 1 - kept, []]
        for part in parts:
            mean, variance = self.posterior(model, part[1], x)
            chance = np.clip(mean + variance / (x @ x) / 2, 0.01, 0.99)
            part[0] *= chance if reward else 1 - chance
            part[1].append((x, reward, visit))
        total = sum(part[0] for part in parts)
        for part in parts:
            part[0] /= total


@pytest.mark.parametrize("memory", ["all", "discount", "window", "filter"])
@pytest.mark.parametrize("name", ["shared-linucb", "product-linucb"])
def test_it_decides_as_the_plain_loop(name: str, memory: str) -> None:
    """700 visits of a shop with noise features and products that run out, with a short memory."""
    steps, shared = 700, name.startswith("shared")
    world = shop(n_products=6, availability=[{"step": 200, "change": "run-out", "products": [0, 4], "until": 500}])
    user_dim, product_dim = world.users.shape[1], world.products.shape[1]
    params = {"alpha": 0.8, "half_life": 100.0, "window": 60, "hazard": 0.02, "due": 0.0}
    policy = made(name, user_dim, product_dim, memory=memory, **params)
    plain = Plain(shared, memory, 0.8, 0.5 ** (1 / 100), 60, 0.02 / (1 if shared else 6))
    plain.dim = (1 + user_dim) * ((1 + product_dim) if shared else 1)
    same = [
        must_agree(decision, plain.scores(decision))
        for decision in walk(world, policy, steps, lambda d, reward: plain.update(d, reward))
    ]
    assert np.mean(same) > 0.97
    assert policy.state.segments.found[0] == len(plain.clock) > 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("memory", ["all", "discount", "window", "filter", "restart"])
def test_segments_have_models_and_clocks_of_their_own(name: str, memory: str) -> None:
    """What one segment sees changes nothing for another: an oracle with no chance in it."""
    products = np.eye(3)
    one, both = (made(name, 2, 3, memory=memory, window=20, half_life=10.0) for _ in range(2))
    first, second = context([1, 0], products), context([0, 1], products)
    for policy in (one, both):
        policy.update(first, 0, 1.0)
        policy.update(second, 1, 1.0)
    for n in range(150):
        both.update(second, n % 3, float(n % 2))
    one.state.updates[:] = both.state.updates  # that number the draws
    assert np.array_equal(one.propensities(first), both.propensities(first))
    models, count = len(one.state.turns), one.state.weights.shape[1]
    assert np.array_equal(one.state.ridge.theta[: models * count], both.state.ridge.theta[: models * count])
    assert one.state.segments.clock[0] == both.state.segments.clock[0] == 1


def test_all_is_cleared_when_a_column_turns_out_to_be_a_number() -> None:
    products = np.eye(2)
    for name in NAMES:
        for memory in ("all", "window", "filter", "restart"):
            policy, fresh = (made(name, 2, 2, memory=memory, window=5) for _ in range(2))
            for used in (policy, fresh):
                used.update(context([0.0, 0.0], products), 1, 1.0)
            for n in range(30):
                here = context([float(n % 2), float(n % 3 == 0)], products)
                policy.update(here, policy.select_action(here), 1.0)
                policy.select_action(here)
            for used in (policy, fresh):
                used.update(context([0.5, 1.0], products), 1, 1.0)
            learned, own = (
                policy.state_dict(),
                ("segments.clock", "segments.decided", "segments.found", "ridge", "weights"),
            )
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


@pytest.mark.parametrize("detector", ["adwin", "page-hinkley", "glr"])
@pytest.mark.parametrize("name", NAMES)
def test_a_restart_forgets_what_no_longer_holds(name: str, detector: str) -> None:
    """A product that always paid, then never does: the model that believed in it is cleared."""
    products, here = np.eye(2), [1.0]
    policy = made(name, 1, 2, memory="restart", detector=detector)
    lasting = made(name, 1, 2, memory="all")
    for reward, visits in ((1.0, 300), (0.0, 150)):
        for _ in range(visits):
            policy.update(context(here, products), 0, reward)
            lasting.update(context(here, products), 0, reward)
    x = (
        np.array([1.0, 1.0])
        if name.startswith("product")
        else np.kron([1.0, 1.0], [1.0, 1.0, 0.0]) * [0, 1, 1, 1, 1, 1]
    )
    assert lasting.state.ridge.theta[model_of(lasting, 0)] @ x > 0.5
    assert policy.state.ridge.theta[model_of(policy, 0)] @ x < 0.1


@pytest.mark.parametrize("memory", ["filter", "restart"])
def test_what_was_not_shown_for_long_is_shown_again(memory: str) -> None:
    products = np.eye(2)
    policy = made("shared-linucb", 1, 2, memory=memory, due=0.1, alpha=0.0, hazard=0.0)
    here, shown = context([1.0], products), []
    for n in range(40):
        policy.update(here, n % 2, 0.5 if n % 2 == 0 else 0.0)
    for _ in range(400):
        chances = policy.propensities(here)
        action = policy.select_action(here)
        assert chances[action] == 1.0
        policy.update(here, action, 0.5 if action == 0 else 0.0)
        shown.append(action)
    again = np.flatnonzero(np.array(shown) == 1)
    assert len(again) >= 10
    assert np.ptp(np.diff(again)) <= 3
    while policy.recommend(here) == policy.select_action(here):
        pass  # until the other one is due, which is not what seems best
    never = made("shared-linucb", 1, 2, memory=memory, due=0.0, alpha=0.0, hazard=0.0)
    never.load_state_dict(policy.state_dict())
    assert never.select_action(here) == 0


@pytest.mark.parametrize("memory", ["discount", "window", "filter"])
@pytest.mark.parametrize("name", NAMES)
def test_the_models_fit_into_the_memory_that_they_may_take(name: str, memory: str) -> None:
    """Room is made for as many segments as fit into MAX_ENTRIES, vectors aside."""
    policy = made(name, 30, 15, memory=memory)
    products = np.eye(15)[np.arange(130) % 15]
    policy.attach_block(np.arange(130), products, 1_000)
    state, segments = policy.state, len(policy.state.segments.clock)
    assert len(state.turns) == (1 if name.startswith("shared") else 131)
    widths = state.widths.ahead if state.ahead else state.ridge._replace(gram=np.zeros(0), inverse=np.zeros(0))
    matrices = sum(array.size for array in (*state.ridge[:2], *widths[:2], *state.window))
    assert 1 < segments < 256
    assert matrices < 1.03 * MAX_ENTRIES < 1.05 * matrices * (1 + 1 / segments)


@pytest.mark.parametrize("memory", ["all", "discount", "window", "filter", "restart"])
@pytest.mark.parametrize("name", NAMES)
def test_room_for_more_products_changes_nothing(name: str, memory: str) -> None:
    """Two policies in the same shop, one of which was told at once of all products that come up one after another."""
    rng, products = np.random.default_rng(8), np.eye(4)[np.arange(40) % 4]
    one, other = (made(name, 2, 4, memory=memory, window=30, half_life=40.0, due=0.05) for _ in range(2))
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
    loaded = made(name, 2, 4, memory=memory, window=30, half_life=40.0, due=0.05)
    loaded.load_state_dict(one.state_dict())
    assert np.array_equal(one.propensities(here), loaded.propensities(here))


@pytest.mark.parametrize("memory", ["all", "discount", "window", "filter", "restart"])
def test_the_product_used_longest_ago_makes_room(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room for 3 products; one that returns is as new as one that was never there."""
    monkeypatch.setattr(segment_linear, "FIRST_PRODUCTS", 4)
    monkeypatch.setattr(segment_linear, "MAX_ENTRIES", 4 * 2**2 * 4 * 4)
    policy = made("product-linucb", 1, 1, memory=memory, window=4)
    here = context([1.0], np.ones((5, 1)))
    for n in range(60):
        policy.update(here, n % 3, 1.0)
    assert len(policy.state.turns) == 4
    policy.update(here, 3, 0.5)
    assert [model_of(policy, product) > 0 for product in range(5)] == [False, True, True, True, False]
    theta, gram = policy.state.ridge.theta, policy.state.ridge.gram
    per = policy.state.weights.shape[1]
    assert gram[per * model_of(policy, 3) :][:per].sum(axis=0)[0, 0] >= 1.0
    assert theta[per * model_of(policy, 3), 0] <= 0.5
    for _ in range(6):
        policy.update(here, 1, 1.0)  # what the window still held of product 0 leaves it
    assert np.isfinite(gram).all()
    own = gram[model_of(policy, 3) * per : (model_of(policy, 3) + 1) * per]
    assert (own >= 0.0).all()


@pytest.mark.parametrize("memory", ["filter", "restart"])
@pytest.mark.parametrize("name", ["shared-linucb", "product-linucb"])
def test_what_was_shown_belongs_to_a_product_wherever_it_stands(name: str, memory: str) -> None:
    """Another assortment orders the distinct products anew; a new one counts as shown to each segment just now."""
    one, two, new = [0.0, 1.0], [1.0, 0.0], [0.0, 0.5]
    policy = made(name, 1, 2, memory=memory, due=0.1, alpha=0.0)
    before, after = np.array([one, two, two]), np.array([two, new, one])

    def shown(here: Context) -> list[list[float]]:
        """Return when each product of a request was shown last to two segments."""
        candidates = policy.attach(here)
        read_slots(policy.state.products, policy.state.arms, candidates)
        state, arms = policy.state, candidates.arm_of
        slots = [last_shown(state.shown[s], candidates.places, state.segments.decided[s]) for s in range(2)]
        return [last[arms].tolist() for last in slots]

    for n in range(50):
        here = context([float(n == 7)], before, [7, 8, 9])
        policy.note_decision(here, int(n == 12))
    alike = 12.0 if name.startswith("shared") else 0.0
    assert shown(here) == [[49, 12, alike], [1, 0, 0]]
    there = context([0.0], after, [8, 6, 7])
    policy.propensities(there)
    assert shown(there) == [[12, 49, 49], [0, 1, 1]]
    action = policy.select_action(there)
    later = [12, 49, 49]
    later[action] = 50
    assert shown(there) == [later, [0, 1, 1]]
    loaded = made(name, 1, 2, memory=memory, due=0.1, alpha=0.0)
    loaded.load_state_dict(policy.state_dict())
    assert np.array_equal(loaded.state.shown, policy.state.shown)
    assert np.array_equal(loaded.propensities(here), policy.propensities(here))


def test_there_is_room_for_ever_new_patterns() -> None:
    products = np.eye(2)
    for name in NAMES:
        policy = made(name, 10, 2, memory="window", window=1_000_000 // 64)
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
        blocks = list(play(world, policy, 16_000))
        chosen, best = (
            np.array([np.sum(getattr(b, kind)) for b in blocks]) for kind in ("expected_rewards", "best_rewards")
        )
        return chosen[8:].sum() / best[8:].sum(), chosen[-3:].sum() / best[-3:].sum()

    since, at_last = fractions()
    assert since > least
    assert at_last > 0.95
    assert fractions(memory="all")[0] < least


def test_words_that_are_no_memory_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"memory: got 'fading', expected one of all, discount, window, filter or restart$"
    ):
        made("shared-linucb", 1, 2, memory="fading")
    with pytest.raises(ConfigError, match=r"detector: got 'cusum', expected one of adwin, page-hinkley or glr$"):
        made("shared-linucb", 1, 2, detector="cusum")


LARGE_POLICIES = [
    *[
        (name, {"memory": memory})
        for name in NAMES[:2]
        for memory in ("all", "discount", "window", "filter", "restart")
    ],
    ("product-linucb", {}),
    ("d-linucb", {"discount": 0.99}),
    ("greedy", {}),
]


def large(name: str, **params: Any) -> Any:
    """Return a policy whose models have 289 features, or 289 a product: terms wait beside their matrices."""
    short = {"half_life": 200.0, "window": 70} if name in NAMES else {}
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
