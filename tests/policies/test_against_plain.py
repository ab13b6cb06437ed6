"""The compiled policies against the plain loops of `benchmarks.plain`, which are the truth, decision by decision.

Both meet the same visitors and learn from the same choices, the compiled policy's, so that one near tie resolved
otherwise does not part them for good.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import torch

from benchmarks.plain import (
    PlainInteractionUCB,
    PlainLinUCB,
    PlainNeuralLinearHead,
    PlainNeuralLinearOnline,
    PlainNeuralLinearStable,
    PlainStaticMLP,
)
from tests.caches import use_cache
from tests.models.embedding_parts import Network, network
from tests.worlds.visits import visit_by
from zoosim.core.config import EnvConfig
from zoosim.core.errors import PolicyError
from zoosim.core.id_table import find_slot
from zoosim.core.rng import uniform
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.models.embedding_net import embed
from zoosim.policies.kernel import KernelPolicy
from zoosim.policies.products.linucb import LinUCB
from zoosim.policies.products.published_neural_linear import NeuralLinearHead, NeuralLinearOnline, NeuralLinearStable
from zoosim.policies.products.shared_linear import DiscountedLinUCB, Greedy
from zoosim.policies.products.static_mlp import StaticMLP
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.table import TableWorld

STEPS = 1_500
TIE = 1e-9
"""Scores closer than this may be resolved either way."""


def shop(user_noise: int = 2, product_noise: int = 1, **config: Any) -> TableWorld:
    """Return a small shop with features that mean nothing, and a shock on the way."""
    noise = {"user": user_noise, "product": product_noise}
    shock = {"step": 700, "name": "fish", "set": {"budget_shopper": {"Fish Supplies": 0.9, "Cat Food": 0.1}}}
    values = {"n_products": 12, "n_users": 40, "noise_features": noise, "shocks": [shock], **config}
    return build_world(EnvConfig.model_validate(values), seed=3)


class Decision(NamedTuple):
    """One decision: `step`, the context, the features `(K, d_u + d_p)`, and the choice of the compiled policy."""

    step: int
    context: Context
    features: FloatArray
    action: int


Learn = Callable[[Decision, float], None]


def walk(world: TableWorld, policy: KernelPolicy, steps: int, learn: Learn) -> Iterator[Decision]:
    """Yield every decision before anybody learns from it."""
    for step in range(steps):
        visit = world.arrive(step)
        context = world.context(visit)
        features = np.hstack([np.tile(context.user, (world.n_products, 1)), context.products])
        decision = Decision(step, context, features, policy.select_action(context))
        yield decision
        reward = world.serve(visit, decision.action).reward
        policy.update(context, decision.action, reward)
        learn(decision, reward)


def must_agree(decision: Decision, scores: FloatArray, tie: float = TIE) -> bool:
    """Check that the choice is the best of the plain scores, or as good as that; tell whether it is the same."""
    scores = np.where(decision.context.available, scores, -np.inf)
    best = int(np.argmax(scores))
    behind = scores[best] - scores[decision.action]
    assert behind <= tie, f"step {decision.step}: chose {decision.action}, plain {best}, {behind} ahead"
    return best == decision.action


def made(cls: type[KernelPolicy], world: TableWorld, **params: Any) -> Any:
    return cls(world.spec(STEPS), np.random.default_rng(12), **params)


@pytest.mark.parametrize(("alpha", "regularization"), [(1.0, 1.0), (0.2, 0.01), (0.0, 1.0)])
def test_linucb(alpha: float, regularization: float) -> None:
    world = shop(availability=[{"step": 300, "change": "run-out", "products": [0, 4], "until": 900}])
    policy = made(LinUCB, world, alpha=alpha, regularization=regularization)
    dim = world.users.shape[1] + world.products.shape[1]
    plain = PlainLinUCB(world.n_products, dim, alpha, regularization)
    same = [
        must_agree(decision, plain.scores(decision.features))
        for decision in walk(world, policy, STEPS, lambda d, reward: plain.update(d.features, d.action, reward))
    ]
    assert len(same) == STEPS
    assert np.mean(same) > 0.99
    for k in range(world.n_products):
        learned = policy.state.ridge.theta[find_slot(policy.state.products, k)]
        theta = np.linalg.solve(plain.A[k], plain.b[k])
        np.testing.assert_allclose(learned, theta, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("cls", "params", "noise"),
    [
        (Greedy, {"epsilon": 0.0}, (2, 1)),
        (Greedy, {"epsilon": 0.0, "regularization": 0.05}, (0, 0)),
        (DiscountedLinUCB, {}, (2, 1)),
        (DiscountedLinUCB, {"discount": 0.99, "alpha": 0.3}, (2, 1)),
        (DiscountedLinUCB, {"discount": 0.999}, (6, 3)),  # more than 64 features, so a rebuild every 99 visits
    ],
)
def test_shared_linear(cls: type[KernelPolicy], params: dict[str, float], noise: tuple[int, int]) -> None:
    world = shop(*noise)
    policy = made(cls, world, **params)
    d_u, d_p = world.users.shape[1], world.products.shape[1]
    discount, alpha = getattr(policy, "discount", 1.0), getattr(policy, "alpha", 0.0)
    plain = PlainInteractionUCB(d_u, d_p, alpha, policy.regularization, discount, max(64, (1 + d_u) * (1 + d_p)))

    def learn(decision: Decision, reward: float) -> None:
        plain.update(decision.context.user, decision.context.products[decision.action], reward)

    same = [
        must_agree(decision, plain.scores(decision.context.user, decision.context.products))
        for decision in walk(world, policy, STEPS, learn)
    ]
    assert len(same) == STEPS
    if min(noise) > 0:
        assert np.mean(same) > 0.99
    a = plain.D + plain.regularization * np.eye(len(plain.b))
    theta = policy.state.ridge.theta[0].reshape(1 + d_u, 1 + d_p)
    ours = np.concatenate([theta[1:, 0], theta[0, 1:], theta[1:, 1:].ravel()])
    np.testing.assert_allclose(ours, np.linalg.solve(a, plain.b), rtol=1e-7, atol=1e-10)
    assert theta[0, 0] == 0.0, "there is no constant among the features"


def weights_of(net: Network) -> dict[str, FloatArray]:
    """Return copies of the weights as the plain agents take them."""
    names = ("w1", "b1", "w2", "b2", "w3", "b3")
    weights = {name: np.array(getattr(net, name), np.float64) for name in names}
    return weights | {"b3": weights["b3"][0]}


def net_of(policy: Any) -> Network:
    """Return the network of a Neural-Linear policy."""
    return network(policy.state.trained[0], policy.state.layers)


def embeddings(policy: Any, features: FloatArray) -> FloatArray:
    z = np.empty((len(features), policy.embedding))
    embed(policy.state.trained[0], policy.state.layers, features.astype(np.float32), z)
    return z


def near(ours: FloatArray, plain: np.ndarray, tolerance: float) -> None:
    """Compare float32 figures with float64 ones, by the size of the largest."""
    assert np.abs(ours - plain).max() <= tolerance * max(1.0, float(np.abs(plain).max()))


def compare_neural(
    policy: Any,
    plain: PlainNeuralLinearOnline | PlainNeuralLinearHead | PlainNeuralLinearStable,
    steps: int,
    tolerance: float,
) -> list[bool]:
    """Compare embeddings, theta and choice at every decision; return which choices were the very same."""
    world, same = shop(), []
    for decision in walk(world, policy, steps, lambda d, reward: plain.update(d.features, d.action, reward)):
        near(embeddings(policy, decision.features), plain.embed(decision.features), tolerance)
        near(policy.state.ridge.theta[0], np.linalg.solve(plain.A, plain.b), tolerance)
        same.append(must_agree(decision, plain.scores(decision.features), tolerance))
    return same


@pytest.mark.slow
def test_neural_linear_online() -> None:
    """Float32 against float64, 400 gradient steps deep."""
    policy = made(NeuralLinearOnline, shop(), hidden=16, embedding=8)
    start = weights_of(net_of(policy))
    plain = PlainNeuralLinearOnline(12, 0.2, 0.01, 16, 8, weights=start, dtype=torch.float64)
    same = compare_neural(policy, plain, 400, 1e-5)
    assert np.mean(same) > 0.97
    moved = np.abs(weights_of(net_of(policy))["w1"] - start["w1"]).max()
    assert moved > 0.01, "the network must have learned, or there was nothing to compare"


def test_neural_linear_head() -> None:
    """The same with a ReLU on the embedding, and steps through a head of its own."""
    policy = made(NeuralLinearHead, shop(), hidden=16, embedding=8)
    start = weights_of(net_of(policy))
    plain = PlainNeuralLinearHead(12, 1.0, 0.01, 16, 8, weights=start, dtype=torch.float64)
    same = compare_neural(policy, plain, 400, 1e-5)
    assert np.mean(same) > 0.97
    end = weights_of(net_of(policy))
    for name in ("w1", "w2", "w3"):
        assert np.abs(end[name] - start[name]).max() > 0.01, "all three layers must have learned"
    near(end["w3"], plain.head.weight.detach().numpy()[0], 1e-5)
    assert embeddings(policy, np.eye(12)).min() >= 0.0


class Batches:
    """Draws the minibatches of `neural-linear-stable`: the first steps of a shuffle that goes on where it stood."""

    def __init__(self, memory: int, train_every: int, key: np.uint64) -> None:
        self.order, self.key, self.train_every, self.time = list(range(memory)), key, train_every, 0

    def __call__(self, held: int, size: int) -> Sequence[int]:
        self.time += self.train_every
        for n in range(size):
            other = n + int(uniform(self.key, self.time, n) * (held - n))
            self.order[n], self.order[other] = self.order[other], self.order[n]
        return self.order[:size]


@pytest.mark.slow
def test_neural_linear_stable() -> None:
    """A ring of 150 that goes round four times, 64 Adam steps."""
    params = {"hidden": 16, "embedding": 8, "memory": 150, "batch_size": 10, "train_every": 10}
    policy = made(NeuralLinearStable, shop(), **params)
    start = weights_of(net_of(policy))
    batches = Batches(150, 10, policy.state.key[0])
    sizes = (12, 0.3, 0.01, 16, 8, 150, 10, 10)
    plain = PlainNeuralLinearStable(*sizes, batches, weights=start, dtype=torch.float64)
    same = compare_neural(policy, plain, 640, 1e-4)
    assert np.mean(same) > 0.97
    assert batches.time == 640
    ours, theirs = weights_of(net_of(policy)), plain.weights()
    for name in ours:
        near(ours[name], theirs[name], 1e-4)
        assert np.abs(ours[name] - start[name]).max() > 0.01, f"{name} must have learned"


def test_a_batch_is_drawn_without_replacement_from_what_is_held() -> None:
    batches = Batches(50, 1, np.uint64(99))
    for held in [10, 10, 25, 50, 50]:
        drawn = batches(held, 10)
        assert len(set(drawn)) == 10
        assert max(drawn) < held


@dataclass
class Past:
    """A log of choices among all products, whose ids are `ids` or their numbers."""

    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    features: FloatArray
    products: FloatArray
    user_ids: IntArray | None
    ids: IntArray | None = None

    @property
    def product_ids(self) -> IntArray:
        return np.arange(len(self.products)) if self.ids is None else self.ids

    def __len__(self) -> int:
        return len(self.actions)

    def available(self, start: int, stop: int) -> BoolArray:
        return np.ones((stop - start, len(self.products)), bool)


def test_static_mlp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice of every user, from the weights that the cache keeps."""
    use_cache(monkeypatch, tmp_path)
    world, rng = shop(n_users=60, n_products=30), np.random.default_rng(0)
    policy = cast(StaticMLP, made(StaticMLP, world, epochs=3, batch_size=64, learning_rate=0.01))
    n = 2_000
    user_ids, actions = rng.integers(0, 60, n), rng.integers(0, 30, n)
    rewards = (rng.random(n) < (user_ids % 3 == actions % 3) * 0.5 + 0.1).astype(np.float64)
    policy.fit(
        Past(
            actions=actions,
            rewards=rewards,
            propensities=np.full(n, 1 / 30),
            features=world.users[user_ids],
            products=world.products,
            user_ids=user_ids,
        )
    )
    [path] = tmp_path.rglob("models/*.npz")
    with np.load(path) as arrays:
        weights = dict(arrays)
    plain = PlainStaticMLP(60, 30, _as_plain(weights))
    same = []
    for user_id in range(60):
        context = world.context(visit_by(world, user_id, 0))
        decision = Decision(user_id, context, world.products, policy.select_action(context))
        same.append(must_agree(decision, plain.scores(user_id), 1e-6))
        assert policy.propensities(context)[decision.action] == 1.0
    assert np.mean(same) > 0.9
    assert len({policy.select_action(world.context(visit_by(world, u, 0))) for u in range(60)}) > 3


def test_static_mlp_knows_products_by_their_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log names products 70, 10, -40 and 20; then others come with them, in another order and number."""
    use_cache(monkeypatch, tmp_path)
    rng, n = np.random.default_rng(0), 3_000
    ids, user_ids, actions = np.array([70, 10, -40, 20]), rng.integers(0, 4, n), rng.integers(0, 4, n)
    rewards = (user_ids == actions).astype(np.float64)
    spec = PolicySpec(user_dim=1, product_dim=1, n_users=4)
    policy = StaticMLP(spec, np.random.default_rng(0), batch_size=32, learning_rate=0.01)
    past = Past(actions, rewards, np.full(n, 0.25), np.zeros((n, 1)), np.zeros((4, 1)), user_ids, ids)

    def context(user_id: int, ids: list[int]) -> Context:
        shown = {"product_ids": np.array(ids), "products": np.zeros((len(ids), 1))}
        return Context(user_id=user_id, user=np.zeros(1), available=np.ones(len(ids), bool), **shown)

    with pytest.raises(PolicyError, match="not trained"):
        policy.select_action(context(0, [70]))
    with pytest.raises(PolicyError, match="no user ids"):
        policy.fit(replace(past, user_ids=None))
    with pytest.raises(PolicyError, match="user 4 is not one of 0 to 3"):
        policy.fit(replace(past, user_ids=user_ids + 1))
    policy.fit(past)
    other = StaticMLP(spec, np.random.default_rng(1))
    other.load_state_dict(policy.state_dict())
    for either in (policy, other):
        offered = [20, 99, -40, 98, 10, 97, 70]
        assert [offered[either.select_action(context(user, offered))] for user in range(4)] == ids.tolist()
        assert [either.select_action(context(user, [10, 70])) for user in range(2)] == [1, 0]
        assert np.array_equal(either.attach(context(0, [99])).lower[0], either.state.lower[:-1].mean(axis=0))
        with pytest.raises(PolicyError, match="user 4 is not one of 0 to 3"):
            either.select_action(context(4, offered))


def _as_plain(weights: dict[str, Any]) -> dict[str, FloatArray]:
    layers = {"1": "fc1", "2": "fc2", "3": "output"}
    plain = {f"w{number}": weights[f"{name}.weight"].T for number, name in layers.items()}
    plain |= {f"b{number}": weights[f"{name}.bias"] for number, name in layers.items()}
    return plain | {"users": weights["user.weight"], "products": weights["product.weight"]}


def test_recomputed_sums_are_those_of_the_network_as_it_is() -> None:
    world = shop()
    policy = NeuralLinearStable(
        world.spec(STEPS), np.random.default_rng(1), recompute=True, training_steps=3, train_every=20, memory=150
    )
    for _ in walk(world, policy, 400, lambda decision, reward: None):
        pass
    state = policy.state
    assert state.counts.tolist() == [400, 3 * (400 // 20 - 64 // 20)]
    wide = embeddings(policy, state.memory.xs)
    gram, b = wide.T @ wide, wide.T @ state.memory.rewards
    assert np.allclose(state.ridge.gram[0], gram, rtol=1e-9, atol=1e-9)
    assert np.allclose(state.ridge.theta[0], np.linalg.solve(gram + np.eye(32), b), rtol=1e-6, atol=1e-8)
