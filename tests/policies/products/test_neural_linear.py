"""Neural-Linear that holds: its sums are those of its network, it explores anew, and does not hang on a seed."""

from typing import Any

import numpy as np
import pytest

from zoosim import Context, PolicySpec
from zoosim.arena.loop import play
from zoosim.core.config import EnvConfig, LabelledConfig
from zoosim.core.types import FloatArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.models.heads_net import hidden_layer
from zoosim.policies.products.category_heads import MAX_HEADS
from zoosim.policies.products.neural_linear import FIRST_HEADS, SCALE, VARIANCE, NeuralLinear
from zoosim.worlds.labelled import build_labelled_world, read_table
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.table import TableWorld

CATEGORIES = np.repeat(np.eye(3), 2, axis=0)


def made(user_dim: int, products: FloatArray, seed: int = 0, **params: Any) -> Any:
    spec = PolicySpec(user_dim=user_dim, product_dim=products.shape[1], steps=1_000)
    return NeuralLinear(spec, np.random.default_rng(seed), **params)


def context(user: FloatArray, products: FloatArray) -> Context:
    fields = {"user": user, "product_ids": np.arange(len(products)), "products": products}
    return Context(user_id=0, available=np.ones(len(products), bool), **fields)


def fractions(world: TableWorld, policy: Any, steps: int) -> FloatArray:
    """Return chosen over best true probability for each thousand visits."""
    blocks = list(play(world, policy, steps))
    return np.array([b.expected_rewards.sum() / b.best_rewards.sum() for b in blocks])


def shop(**config: Any) -> TableWorld:
    return build_world(EnvConfig.model_validate({"n_products": 20, "n_users": 200, **config}), seed=3)


def test_the_sums_are_those_of_the_network_as_it_is() -> None:
    """After a training, gram and b of each head are those of its memory's embeddings, scaled to a mean square of 1."""
    policy, rng = made(2, CATEGORIES, train_every=30, horizon=100.0), np.random.default_rng(0)
    users = rng.normal(size=(4, 2))
    for visit in range(90):
        shown = context(users[visit % 4], CATEGORIES)
        policy.update(shown, policy.select_action(shown), float(rng.random() < 0.4))
    learner, levels, ridge = policy.state.learner, policy.state.levels, policy.state.ridge
    memory, used = learner.memory, np.flatnonzero(learner.memory.seen)
    raw = np.array([hidden_layer(learner, memory.xs[slot]) for slot in used], np.float64)
    weights, sums, heads = memory.counts[used], memory.sums[used], memory.heads[used]
    assert weights.sum() == pytest.approx(30 * sum((1 - 1 / 100) ** (30 * n) for n in (1, 2, 3)))
    z = raw * levels[SCALE]
    assert (weights * (z**2).sum(axis=1)).sum() / weights.sum() == pytest.approx(1)
    for head in (1, 2, 3):
        own = heads == head
        gram = (z[own].T * weights[own]) @ z[own]
        assert np.allclose(ridge.gram[head], gram, atol=1e-9)
        wanted = np.linalg.solve(gram + 0.5 * np.eye(128), z[own].T @ sums[own])
        assert np.allclose(ridge.theta[head], wanted, atol=1e-8)


def logged(visits: int) -> Log:
    """Return a log of random choices: a visitor clicks on the category that suits best, of three."""
    rng = np.random.default_rng(3)
    users = rng.normal(size=(visits, 2))
    actions = rng.integers(6, size=visits)
    best = np.argmax([users[:, 0], users[:, 1], -users.sum(axis=1)], axis=0)
    return Log(
        actions=actions,
        propensities=np.full(visits, 1 / 6),
        rewards=(actions // 2 == best).astype(float),
        candidates=CandidateSets.from_masks(np.ones((1, 6), bool)),
        candidate_set=np.zeros(visits, np.int64),
        features=users,
        positions=np.zeros(visits, np.int64),
        products=CATEGORIES,
    )


@pytest.mark.parametrize("tune", ["all", "head"])
def test_a_log_trains_the_network_and_rewards_train_it_or_its_head_alone(tune: str) -> None:
    """With "head" the weights stay to the bit as the log left them, while the sums go on and the memory fades."""
    policy = made(2, CATEGORIES, tune=tune, train_every=30, horizon=500.0)
    fresh = policy.state.learner.trained.copy()
    policy.fit(logged(600))
    left = policy.state.learner.trained.copy()
    thetas = policy.state.ridge.theta.copy()
    assert not np.array_equal(left, fresh)
    rng = np.random.default_rng(4)
    for _ in range(60):
        shown = context(rng.normal(size=2), CATEGORIES)
        policy.update(shown, policy.select_action(shown), 1.0)
    assert np.array_equal(policy.state.learner.trained, left) == (tune == "head")
    assert not np.array_equal(policy.state.ridge.theta, thetas)
    assert policy.state.learner.memory.counts.sum() == pytest.approx(
        30 * sum((1 - 1 / 500) ** (30 * n) for n in range(1, 23))
    )


def test_a_loaded_policy_tunes_what_its_own_parameters_say() -> None:
    """A network that was trained whole goes on with its head alone."""
    policy, other = made(2, CATEGORIES, train_every=30), made(2, CATEGORIES, tune="head", train_every=30)
    policy.fit(logged(300))
    other.load_state_dict(policy.state_dict())
    for visit in range(60):
        for each in (policy, other):
            each.update(context(np.array([1.0, 0.0]), CATEGORIES), visit % 6, 1.0)
    assert other.state.learner.counts[1] == 8 * 10 < policy.state.learner.counts[1]


def test_products_of_one_category_share_a_head() -> None:
    policy = made(2, CATEGORIES)
    shown = context(np.ones(2), CATEGORIES)
    policy.update(shown, 3, 1.0)
    assert policy.attach(shown).group_of.tolist() == [1, 1, 2, 2, 3, 3]
    assert np.flatnonzero(policy.state.ridge.b.any(axis=1)).tolist() == [2]


def test_room_for_models_grows_with_the_categories() -> None:
    """63 categories have heads of their own, and what was learned of the first stays; one more, and all share one."""
    policy = made(2, np.eye(MAX_HEADS), hidden=8)
    few, most, more = (context(np.ones(2), np.eye(MAX_HEADS)[:count]) for count in (5, MAX_HEADS - 1, MAX_HEADS))
    policy.update(few, 3, 1.0)
    assert len(policy.state.ridge.b) == FIRST_HEADS
    before = policy.state.ridge.theta[4].copy()
    policy.update(most, 62, 1.0)
    assert len(policy.state.ridge.b) == MAX_HEADS
    assert np.array_equal(policy.state.ridge.theta[4], before)
    assert policy.state.ridge.b.any(axis=1).tolist() == [head in (4, 63) for head in range(MAX_HEADS)]
    other = made(2, np.eye(MAX_HEADS), seed=1, hidden=8)
    other.load_state_dict(policy.state_dict())
    assert other.propensities(most).tolist() == policy.propensities(most).tolist()
    policy.update(more, 63, 1.0)
    assert policy.state.joint[0]
    assert np.flatnonzero(policy.state.ridge.b.any(axis=1)).tolist() == [0]


def test_late_rewards_of_other_candidates_are_learned_from_in_any_order() -> None:
    """Each request shows other products; rewards come up to 20 visits later, the newest first.

    Clicks follow the category that suits the visitor. Decisions move nothing learned: `quiet` makes none.
    """
    policy, quiet = (made(2, CATEGORIES, train_every=10) for _ in range(2))
    for either in (policy, quiet):
        either.attach(context(np.ones(2), CATEGORIES))  # categories are numbered as they come up
    rng, hits, waiting = np.random.default_rng(0), list[float](), list[tuple[Context, int, float]]()
    for visit in range(2_000):
        kinds = rng.integers(3, size=4)
        shown = context(np.eye(2)[rng.integers(2)], np.eye(3)[kinds])
        action = policy.select_action(shown)
        suits = kinds == int(shown.user[1])
        hits.append(float(suits[action] or not suits.any()))
        waiting.append((shown, action, float(suits[action])))
        if visit % 20 == 19:
            for earlier in reversed(waiting):
                policy.update(*earlier)
                quiet.update(*earlier)
            waiting.clear()
    assert np.mean(hits[-500:]) > 0.9
    one, two = policy.state_dict(), quiet.state_dict()
    assert all(np.array_equal(one[name], two[name]) for name in one if name.startswith(("ridge", "learner")))


def test_many_distinct_products_share_one_head_that_reads_them() -> None:
    """Clicks follow the sign of user times product: with one head the network must read both."""
    rng = np.random.default_rng(2)
    products = rng.normal(size=(MAX_HEADS + 6, 1))
    policy, hits = made(1, products, train_every=10, alpha=1.0), list[float]()
    for _ in range(1_500):
        shown = context(rng.choice([-1.0, 1.0], 1), products)
        action = policy.select_action(shown)
        hits.append(float(shown.user[0] * products[action, 0] > 0))
        policy.update(shown, action, hits[-1])
    assert policy.state.joint[0]
    assert np.mean(hits[-500:]) > 0.9  # half of the products by chance


def test_the_noise_is_that_of_the_rewards() -> None:
    """Clicks of chance .5 have a variance of .25, clicks that are certain none."""
    for chance, low, high in ((0.5, 0.2, 0.32), (1.0, 0.0, 0.01)):
        policy, rng = made(1, np.eye(2)), np.random.default_rng(1)
        for _ in range(2_500):
            policy.update(context(np.ones(1), np.eye(2)), 0, float(rng.random() < chance))
        assert low < policy.state.levels[VARIANCE] < high


@pytest.mark.slow
def test_it_finds_what_became_better_unseen() -> None:
    """The silent shock: only a memory that fades looks again; without fading the improvement stays unfound."""
    shocks = [{"step": 4_000, "name": "silent", "set": {"cat_connoisseur": {"Dog Toy": 0.95}}}]
    world = shop(shocks=shocks, persona_mix={"cat_connoisseur": 1.0})
    fading, lasting = (
        fractions(world, made_for(world, horizon=horizon), 12_000)[-3:].mean() for horizon in (1_500.0, 1e12)
    )
    assert fading > 0.9
    assert lasting < 0.7


def made_for(world: TableWorld, seed: int = 0, **params: Any) -> Any:
    return NeuralLinear(world.spec(12_000), np.random.default_rng(seed), **params)


@pytest.mark.slow
def test_it_does_not_hang_on_the_seed_of_its_network() -> None:
    """Six networks in one world, 8,000 visits: the published forms end between 40 and 97%."""
    world = shop()
    results = [fractions(world, made_for(world, seed), 8_000)[-3:].mean() for seed in range(6)]
    assert min(results) > 0.95
    assert np.std(results) < 0.02


def test_it_learns_what_no_linear_model_can() -> None:
    """Handwritten digits: the last 1,000 of 6,000 visits above 98% right, where linear models stay below."""
    world = build_labelled_world(read_table(LabelledConfig()), seed=0, steps=6_000, repeat=True)
    policy = NeuralLinear(world.spec(6_000), np.random.default_rng(0))
    rewards = np.concatenate([block.rewards for block in play(world, policy, 6_000)])
    assert rewards[-1_000:].mean() > 0.98


def test_probabilities_for_known_categories_copy_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = made(2, CATEGORIES)
    policy.note_decision(context(np.zeros(2), CATEGORIES), 0)
    monkeypatch.setattr("zoosim.policies.products.category_heads.copy.deepcopy", pytest.fail)
    propensities = policy.propensities(context(np.zeros(2), CATEGORIES[::2]))
    assert propensities.sum() == pytest.approx(1.0)
