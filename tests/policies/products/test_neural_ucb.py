"""NeuralUCB and neural Thompson sampling against the plain loop with an inverse, in every form."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.plain.neural_ucb import PlainNeuralUCB, split
from zoosim import Context, PolicySpec
from zoosim.arena.loop import play
from zoosim.core.config import EnvConfig
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.types import FloatArray
from zoosim.policies.products.neural_ucb import LAZY_ABOVE, NeuralTS, NeuralUCB
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.table import TableWorld

EXACT = ("auto", "rows", "dual", "primal")


def shop(**config: Any) -> TableWorld:
    shock = {"step": 150, "name": "fish", "set": {"budget_shopper": {"Fish Supplies": 0.9, "Cat Food": 0.1}}}
    return build_world(EnvConfig.model_validate({"n_products": 12, "n_users": 30, "shocks": [shock], **config}), seed=3)


def made(world: TableWorld, **params: Any) -> NeuralUCB:
    return NeuralUCB(world.spec(1_000), np.random.default_rng(5), **params)


def visits(world: TableWorld, policy: Any, steps: int) -> Iterator[tuple[Context, int, float]]:
    """Let `policy` decide and learn; yield each context, choice and reward in between."""
    for step in range(steps):
        visit = world.arrive(step)
        context = world.context(visit)
        action = policy.select_action(context)
        reward = world.serve(visit, action).reward
        yield context, action, reward
        policy.update(context, action, reward)


def posterior(policy: NeuralUCB, context: Context) -> tuple[FloatArray, FloatArray]:
    """Return mean and bonus of each product as the policy has them."""
    learner, products = policy._learner, policy.attach(context)
    candidates = products.seen_by(np.asarray(context.user))
    means, variances = learner.posterior(candidates)
    if policy.mean == "network":
        learner.look(candidates, at_posterior=False)
        means = candidates.means
    return means[products.row_of], np.sqrt(variances)[products.row_of]


def plain_of(policy: NeuralUCB) -> PlainNeuralUCB:
    network = policy._learner.network
    layers = split(network.trained[0], network.sizes.tolist())
    return PlainNeuralUCB(layers, policy.alpha, policy.regularization, network.length, policy.mean == "posterior")


def features(context: Context) -> FloatArray:
    return np.hstack([np.tile(context.user, (len(context.products), 1)), context.products])


@pytest.mark.parametrize("mean", ["posterior", "network"])
@pytest.mark.parametrize("form", EXACT)
def test_fresh_forms_decide_as_the_plain_loop(form: str, mean: str) -> None:
    """120 visits, trained every 10 with a fading history; after each training the plain sums begin anew."""
    world = shop()
    policy = made(world, form=form, mean=mean, hidden="6-4", train_every=10, discount=0.99, steps=2)
    plain, history = None, dict[bytes, FloatArray]()
    for step, (context, action, reward) in enumerate(visits(world, policy, 120)):
        xs = features(context)
        if plain is None or step % 10 == 0:
            plain = plain_of(policy)
        if step and step % 10 == 0:
            plain.recompute(np.array([np.frombuffer(x) for x in history]), *np.array(list(history.values())).T)
        means, bonuses = plain.parts(xs)
        ours = posterior(policy, context)
        np.testing.assert_allclose(ours[1], bonuses, rtol=1e-9)
        np.testing.assert_allclose(ours[0], means, rtol=0, atol=1e-9)
        assert plain.scores(xs)[action] >= plain.scores(xs).max() - 1e-9
        plain.update(xs[action], reward)
        history.setdefault(xs[action].tobytes(), np.zeros(2))[:] += [1.0, reward]
        if step % 10 == 9:
            history = {x: 0.99**10 * counted for x, counted in history.items()}
    assert policy._learner.form.name == ("rows" if form == "auto" else form)


@pytest.mark.parametrize(("form", "penalty"), [("auto", 0.0), ("auto", 0.05), ("dual", 0.0), ("primal", 0.0)])
def test_published_forms_decide_as_the_plain_loop(form: str, penalty: float) -> None:
    """150 visits with a step after each, p = 90; `auto` goes from dual to primal on the way."""
    world = shop()
    params = {"history": "published", "discount": 1.0, "mean": "network", "alpha": 1.0, "penalty": penalty}
    policy = made(world, form=form, hidden="8", **params)
    plain, names = None, set[str]()
    for context, action, reward in visits(world, policy, 150):
        plain = plain_of(policy) if plain is None else plain
        xs = features(context)
        means, bonuses = plain.parts(xs)
        ours = posterior(policy, context)
        np.testing.assert_allclose(ours[1], bonuses, rtol=1e-9)
        np.testing.assert_allclose(ours[0], means, rtol=0, atol=1e-9)
        assert action == plain.select(xs)
        plain.update(xs[action], reward)
        plain.step(xs[action], reward, policy.learning_rate, penalty)
        names.add(policy._learner.form.name)
    assert names == ({"dual", "primal"} if form == "auto" else {form})


def test_a_penalty_keeps_weights_small() -> None:
    lengths = []
    for penalty in (0.0, 0.1):
        policy = made(shop(), hidden="8", penalty=penalty, train_every=10)
        for _ in visits(shop(), policy, 100):
            pass
        lengths.append(np.linalg.norm(policy._learner.network.trained[0]))
    assert lengths[1] < 0.7 * lengths[0]


@pytest.mark.parametrize("cls", [NeuralUCB, NeuralTS])
@pytest.mark.parametrize("noise", [0, 2], ids=["few rows", "many rows"])
def test_all_forms_choose_the_same_arms(cls: type, noise: int) -> None:
    """300 visits of a shop with 20 or with 480 distinct rows."""
    world = shop(noise_features={"user": noise, "product": noise}, n_users=40)
    chosen = {}
    for form in EXACT:
        policy = cls(world.spec(300), np.random.default_rng(5), form=form, hidden="8", train_every=20)
        chosen[form] = [action for _, action, _ in visits(world, policy, 300)]
    assert all(actions == chosen["auto"] for actions in chosen.values())
    assert len(set(chosen["auto"])) > 4


def test_auto_leaves_the_rows_form_for_a_history_of_many() -> None:
    world = shop(noise_features={"user": 2, "product": 2}, n_users=200)
    policy, names = made(world, hidden="8", train_every=20), []
    for _ in visits(world, policy, 400):
        names += [policy._learner.form.name] if policy._learner.form.name not in names else []
    assert names == ["rows", "dual", "primal"]


@pytest.mark.parametrize(("mean", "form"), [("network", "primal"), ("posterior", "primal"), ("posterior", "dual")])
@pytest.mark.parametrize("steps", [0, 8])
@pytest.mark.parametrize("cls", [NeuralUCB, NeuralTS])
def test_the_lazy_argmax_decides_as_a_full_scan(
    cls: type, steps: int, mean: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 visits, 90 distinct products; trainings on the way fade the history and restart the bounds."""
    world = shop(n_products=90, noise_features={"user": 0, "product": 2}, n_users=6)
    assert len(world.products) > LAZY_ABOVE
    params = {
        "mean": mean,
        "form": form,
        "discount": 0.95,
        "hidden": "8",
        "train_every": 40,
        "alpha": 2.0,
        "steps": steps,
    }
    runs = []
    for above in (LAZY_ABOVE, 1_000):
        monkeypatch.setattr("zoosim.policies.products.neural_ucb.LAZY_ABOVE", above)
        policy = cls(world.spec(400), np.random.default_rng(5), **params)
        runs.append([action for _, action, _ in visits(world, policy, 400)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 5


def fresh_request(rng: np.random.Generator, count: int, dim: int = 3, *, lasting: bool = False) -> Context:
    """Return a request of a new visitor with 2 features and `count` new products, in read-only arrays if `lasting`."""
    products = rng.normal(size=(count, dim))
    products.flags.writeable = not lasting
    available = rng.random(count) < 0.9
    available[0] = True
    return Context(
        user_id=0,
        user=rng.normal(size=2),
        product_ids=rng.integers(0, 10**9, count),
        products=products,
        available=available,
    )


def learned(cls: type, requests: int, **params: Any) -> Any:
    """Return a policy that has learned from as many requests, each with candidates of its own."""
    policy = cls(PolicySpec(user_dim=2, product_dim=3), np.random.default_rng(5), hidden="4", train_every=20, **params)
    rng = np.random.default_rng(6)
    for step in range(requests):
        context = fresh_request(rng, (5, 12, 3)[step % 3])
        policy.update(context, policy.select_action(context), float(step % 3 == 0))
    return policy


@pytest.mark.parametrize("form", EXACT)
@pytest.mark.parametrize("cls", [NeuralUCB, NeuralTS])
def test_rewards_may_come_late_and_in_any_order(cls: type, form: str) -> None:
    """9 requests of 3 to 100 candidates, decided before the first reward comes: the posterior is that of any order."""
    found = []
    for turn in (1, -1):
        policy = learned(cls, 10, form=form)
        rng, waiting = np.random.default_rng(7), []
        for count in (3, 100, 20) * 3:
            context = fresh_request(rng, count)
            waiting.append((context, policy.select_action(context)))
        for context, action in waiting[::turn]:
            policy.update(context, action, float(action % 2))
        found.append(posterior(policy, fresh_request(rng, 30)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9)


@pytest.mark.parametrize("requests", [0, 1, 50])
@pytest.mark.parametrize("form", EXACT)
@pytest.mark.parametrize("cls", [NeuralUCB, NeuralTS])
def test_what_only_reads_moves_nothing(cls: type, form: str, requests: int) -> None:
    """A policy that is asked 10 times and one that is not choose alike ever after, from what was told."""
    asked, left = (learned(cls, requests, form=form, floor=0.2) for _ in range(2))
    rng = np.random.default_rng(8)
    for count in (4, 100, 4, 30):
        context = fresh_request(rng, count)
        before = asked.state_dict()
        for _ in range(10):
            chances = asked.propensities(context)
            asked.recommend(context)
        assert same(asked.state_dict(), before)
        assert chances.sum() == pytest.approx(1)
        assert not chances[~context.available].any()
        action = asked.select_action(context)
        assert left.select_action(context) == action
        assert chances[action] > 0
        for policy in (asked, left):
            policy.update(context, action, 1.0)
    assert same(asked.state_dict(), left.state_dict())


@pytest.mark.parametrize("mean", ["posterior", "network"])
@pytest.mark.parametrize("count", [12, 100])
@pytest.mark.parametrize("cls", [NeuralUCB, NeuralTS])
def test_actions_are_drawn_from_the_propensities(cls: type, count: int, mean: str) -> None:
    """5,120 evenly spaced draws, floor .25: each action as often as its propensity says, to 1 in 5,120 at its ends."""
    policy = learned(cls, 50, floor=0.25, mean=mean)
    context = fresh_request(np.random.default_rng(9), count)
    chances = policy.propensities(context)
    draws = (np.arange(5_120) + 0.5) / 5_120
    chosen = np.bincount([policy.decide(context, float(draw)).action for draw in draws[::5]], minlength=count)
    np.testing.assert_allclose(chosen / 1_024, chances, rtol=0, atol=5 / 1_024)
    assert chances[context.available].min() == pytest.approx(0.25 / context.available.sum())
    assert (chances > 0.3).sum() == 1 or cls is NeuralTS


def test_where_a_product_stands_does_not_matter() -> None:
    """Candidates turned around, and beside others that are not available: the same propensities of each product."""
    policy, rng = learned(NeuralTS, 50), np.random.default_rng(9)
    context = fresh_request(rng, 12)
    chances = policy.propensities(context)
    turned = {name: context[name][::-1] for name in ("product_ids", "products", "available")}
    np.testing.assert_allclose(policy.propensities(Context(**{**context, **turned}))[::-1], chances, atol=1e-12)
    more = fresh_request(rng, 9)
    joined = {name: np.concatenate((more[name], context[name])) for name in turned}
    joined["available"][:9] = False
    np.testing.assert_allclose(policy.propensities(Context(**{**context, **joined}))[9:], chances, atol=1e-12)


def test_recommend_does_not_explore() -> None:
    """The highest posterior mean, whatever the width of the bonus."""
    for cls in (NeuralUCB, NeuralTS):
        policy = learned(cls, 50, alpha=50.0, floor=0.9)
        context = fresh_request(np.random.default_rng(9), 12)
        means, _ = posterior(policy, context)
        assert policy.recommend(context) == np.argmax(np.where(context.available, means, -np.inf))


COMPILED = """
import gc
from collections import Counter
from numba.core.dispatcher import Dispatcher
from tests.policies.products.test_neural_ucb import fresh_request, np, PolicySpec
from zoosim.policies.registry import find_class

def compiled():
    counts = Counter()
    for kernel in gc.get_objects():
        if isinstance(kernel, Dispatcher):
            counts[kernel.py_func.__module__, kernel.py_func.__name__] += len(kernel.overloads)
    return counts

for name in ("neural-ucb", "neural-ts"):
    policy = find_class(name)(PolicySpec(user_dim=2, product_dim=3), np.random.default_rng(0), hidden="6", floor=0.1)
    before = policy.state_dict()
    policy.prepare()
    assert str(policy.state_dict()) == str(before)
    ready = compiled()
    rng = np.random.default_rng(1)
    for step in range(150):
        context = fresh_request(rng, 200 if step == 60 else 3, lasting=step % 2 == 0)
        policy.propensities(context)
        policy.recommend(context)
        policy.decide(context)
        policy.update(context, policy.select_action(context), float(step % 2))
    assert policy._learner.form.name == "primal"
    assert compiled() == ready, set(compiled().items()) - set(ready.items())
"""


def test_nothing_is_compiled_after_prepare() -> None:
    """In a process of its own: 150 requests that lead through all forms and past trainings."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_shop_is_learned_and_a_shock_noticed() -> None:
    """8,000 visits with a loud shock at 4,000, seed 3, both policies: above 93% of oracle, 95% in the last 2,000."""
    shock = {"step": 4_000, "name": "fish", "set": {"budget_shopper": {"Fish Supplies": 0.9, "Cat Food": 0.05}}}
    world = build_world(EnvConfig.model_validate({"shocks": [shock]}), seed=3)
    for cls in (NeuralUCB, NeuralTS):
        blocks = list(play(world, cls(world.spec(8_000), np.random.default_rng(0)), 8_000))
        chosen = np.concatenate([block.expected_rewards for block in blocks])
        best = np.concatenate([block.best_rewards for block in blocks])
        assert chosen.sum() / best.sum() > 0.93
        assert chosen[6_000:].sum() / best[6_000:].sum() > 0.95


@pytest.mark.parametrize("form", ["rows", "dual", "primal"])
def test_a_loaded_policy_decides_and_learns_on_to_the_bit(form: str) -> None:
    """Saved in the middle of a period, with new visitors still to come."""
    world = shop(noise_features={"user": 1, "product": 1})
    policy = NeuralTS(world.spec(400), np.random.default_rng(5), form=form, hidden="8", train_every=40)
    other = NeuralTS(world.spec(400), np.random.default_rng(6), form=form, hidden="8", train_every=40)
    list(visits(world, other, 10))
    for step, (context, action, reward) in enumerate(visits(world, policy, 300)):
        if step == 130:
            other.load_state_dict(policy.state_dict())
        if step >= 130:
            assert step == 130 or other.select_action(context) == action
            other.update(context, action, reward)
    one, two = policy.state_dict(), other.state_dict()
    assert set(one) == set(two)
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("form", ["rows", "dual", "primal", "last-layer"])
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1e6])
@pytest.mark.filterwarnings("ignore:neural-ucb. the matrix:RuntimeWarning")
def test_scores_are_finite_at_any_scale(form: str, scale: float) -> None:
    rng = np.random.default_rng(1)
    products = scale * rng.normal(size=(6, 3))
    for normalise in (True, False):
        spec = PolicySpec(user_dim=2, product_dim=3)
        params = {"form": form, "mean": "network", "normalise": normalise, "hidden": "5", "train_every": 9}
        policy = NeuralUCB(spec, np.random.default_rng(0), **params)
        for step in range(60):
            arrays = {"product_ids": np.arange(6), "products": products, "available": np.ones(6, bool)}
            context = Context(user_id=0, user=scale * np.array([step % 3, 1.0]), **arrays)
            policy.update(context, policy.select_action(context), float(step % 2))
            means, bonuses = posterior(policy, context)
            assert np.isfinite(means).all()
            assert np.isfinite(bonuses).all()
            assert (bonuses >= 0).all()


def same(one: Any, two: Any) -> bool:
    return set(one) == set(two) and all(np.array_equal(one[name], two[name]) for name in one)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"reward": np.nan}, "reward: got nan, expected a finite number"),
    ({"reward": -2e9}, "reward: got -2000000000.0, expected a finite number from -1e[+]09 to 1e[+]09; scale it"),
    ({"reward": "1"}, "reward: got '1'"),
    ({"action": -1}, "action: got -1, expected a whole number from 0 to 11"),
    ({"action": 12}, "action: got 12"),
    ({"action": 1.0}, "action: got 1.0"),
    ({"user": np.full(4, np.nan)}, "user: got NaN or infinity"),
    ({"user": np.full(4, 2e9)}, "user: got a feature of 2e[+]09, expected at most 1e[+]09; scale it"),
    ({"products": np.full((12, 5), np.inf)}, "products: got NaN or infinity"),
    ({"products": np.full((12, 5), -2e9)}, "products: got a feature of 2e[+]09"),
    ({"available": np.zeros(12, bool)}, "available: got no product that may be shown"),
    ({"available": np.ones(11, bool)}, "available: got shape"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[message.split(",")[0] for _, message in WRONG])
@pytest.mark.parametrize("cls", [NeuralUCB, NeuralTS])
def test_what_is_wrong_is_refused_before_it_touches_anything(cls: type, wrong: dict[str, Any], message: str) -> None:
    world = shop()
    policy = cls(world.spec(100), np.random.default_rng(5), mean="network")
    [*_, (context, action, _)] = visits(world, policy, 20)
    before = policy.state_dict()
    fields = {name: value for name, value in wrong.items() if name in context}
    asked = Context({**context, **fields})
    with pytest.raises(PolicyError, match=message):
        policy.update(asked, wrong.get("action", action), wrong.get("reward", 1.0))
    if fields:
        with pytest.raises(PolicyError, match=message):
            policy.select_action(asked)
        with pytest.raises(PolicyError, match=message):
            policy.propensities(asked)
        with pytest.raises(PolicyError, match=message):
            policy.recommend(asked)
    assert same(before, policy.state_dict())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"hidden": "64-"}, "neural-ucb.hidden: got '64-', expected 1 to 8 layer sizes"),
        ({"hidden": "0"}, "neural-ucb.hidden: got '0'"),
        ({"form": "diagonal"}, "form: got 'diagonal', expected one of auto, rows, dual, primal or last-layer"),
        ({"history": "stale"}, "neural-ucb.history: got 'stale', expected one of fresh or published"),
        ({"mean": "mode"}, "neural-ucb.mean: got 'mode', expected one of posterior or network"),
        ({"history": "published"}, "neural-ucb.discount: got 0.999, expected 1 when history is published"),
        (
            {"history": "published", "discount": 1.0, "form": "rows"},
            "neural-ucb.form: rows are for fresh gradients; set form to auto, or history to fresh",
        ),
        ({"train_every": 4_603}, "neural-ucb.train_every: got 4,603, expected at most 4,602 with a discount of 0.999"),
        ({"discount": 0.9}, "neural-ucb.train_every: got 50, expected at most 43 with a discount of 0.9"),
        ({"hidden": "4096-4096", "form": "primal"}, "got '4096-4096', whose form primal takes 2,259,503 GB"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        NeuralUCB(PolicySpec(user_dim=2, product_dim=2), np.random.default_rng(0), **params)


def test_the_largest_parameters_that_make_sense_are_taken() -> None:
    spec, rng = PolicySpec(user_dim=2, product_dim=2), np.random.default_rng(0)
    for params in ({"train_every": 4_602}, {"train_every": 10**9, "discount": 1.0}, {"hidden": "4096-8"}):
        NeuralUCB(spec, rng, **params)
