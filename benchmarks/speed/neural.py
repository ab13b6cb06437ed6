"""S6 to S8: what a decision of exact NeuralUCB costs, choosing and learning, against the plain loop with an inverse.

Features are 4 + 5 dense numbers (p = 705 with 64 hidden units), unless few distinct rows are wanted. Both sides have
the same network and the same history when they are compared; every line says how often they chose the same arm. The
plain side runs a sample.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.plain import PlainNeuralUCB
from benchmarks.plain.neural_forms import Diagonal, Jacobian
from benchmarks.plain.neural_ucb import split
from zoosim.core.types import Context, PolicySpec
from zoosim.neural.primal import Primal
from zoosim.policies.products import neural_ucb
from zoosim.policies.products.neural_ucb import NeuralUCB

USER_DIM, PRODUCT_DIM = 4, 5
FIXED = {"mean": "network", "train_every": 1_000_000_000, "alpha": 1.0, "discount": 1.0}
TRAINED = {"mean": "network", "memory": 1_000, "alpha": 1.0, "discount": 1.0}
PUBLISHED = {"mean": "network", "history": "published", "alpha": 1.0, "discount": 1.0}


def decisions() -> None:
    """Print the cost of a decision with p = 705: few rows, as published, and fresh candidates."""
    few = Shop(50, one_hot=True)
    for updates in (1_000, 10_000):
        what = f"50 candidates of 20 distinct rows, trained every 50, after {updates:,} updates"
        _compare("S6", what, few, {}, updates, timed=1_000, sample=3)
    _compare("S6", "50 candidates, a step after every decision, 1,000 updates", Shop(50), PUBLISHED, 1_000, 100, 3)
    for count, sample in ((50, 3), (1_000, 2)):
        what = f"{count:,} fresh candidates, 1,000 distinct rows observed, trained every 50"
        _compare("S6", what, Shop(count), TRAINED, 1_000, 100, sample)
    _compare_forms(Shop(50), 1_000)


def lazy() -> None:
    """Print the cost of a decision over a fixed pool and network, against a scan of the whole pool."""
    for count in (1_000, 50_000):
        shop = Shop(count, users=1)
        policy = _warm(shop, FIXED, 1_000)
        timings, chosen = _walk(policy, shop, 200)
        above, neural_ucb.LAZY_ABOVE = neural_ucb.LAZY_ABOVE, count
        scan, again = _warm(shop, FIXED, 1_000), 200 if count < 10_000 else 12
        slow, scanned = _walk(scan, shop, again)
        neural_ucb.LAZY_ABOVE = above
        same = sum(a == b for a, b in zip(chosen, scanned, strict=False))
        ours, full = 1000 * float(np.median(timings)), 1000 * float(np.median(slow))
        what = f"S7 lazy argmax, p = 705, fixed pool of {count:,}: {ours:.2f} ms a decision"
        print(f"{what}, full scan {full:.1f} ms: {full / ours:.0f}x; {same} of {again} arms the same")


def large() -> None:
    """Print the cost of a decision with p = 9,601 after 1,000 updates, and the memory of what the policy keeps."""
    shop, params = Shop(50), {**FIXED, "hidden": "128-64"}
    policy = _compare("S8", "50 fresh candidates, after 1,000 updates", shop, params, 1_000, 50, 1)
    arrays = [value.nbytes for value in policy.state_dict().values() if isinstance(value, np.ndarray)]
    plain = 8 * policy._learner.network.slopes**2
    print(f"S8 neural-ucb, p = 9,601: own arrays {sum(arrays) / 1e6:.0f} MB, plain A {plain / 1e6:.0f} MB")


def _compare_forms(shop: "Shop", updates: int) -> None:
    """Print what an observation and 50 bonuses cost: in the primal form, by an explicit Jacobian, by a diagonal."""
    policy = _warm(shop, {**FIXED, "form": "primal"}, updates)
    learner = policy._learner
    rows = np.hstack([np.tile(shop.known[0], (len(shop.products), 1)), shop.products])
    factors, noise = learner.network.factors(rows), policy.regularization
    own, sizes = learner.form, learner.network.sizes
    assert isinstance(own, Primal)
    milliseconds = {}
    for form in (own, Jacobian(sizes, noise), Diagonal(sizes, noise)):
        seconds = []
        for step in range(20):
            began = time.perf_counter()
            form.observe(factors[step], 1.0)
            form.posterior(factors)
            seconds.append(time.perf_counter() - began)
        milliseconds[form.name] = 1000 * float(np.median(seconds))
    told = ", ".join(f"{name} {value:.3f} ms" for name, value in milliseconds.items())
    print(f"S6 forms, p = {learner.network.slopes}, an observation and 50 bonuses: {told} (the diagonal's are others)")


class Shop:
    """Visitors with dense features, ever new ones or `users` of them, or one-hot ones: 4 x 5 distinct rows."""

    def __init__(self, n_products: int, users: int = 0, one_hot: bool = False) -> None:
        self.rng, self.users, self.one_hot = np.random.default_rng(0), users, one_hot
        labels = np.arange(n_products) % PRODUCT_DIM
        self.products = np.eye(PRODUCT_DIM)[labels] if one_hot else self.rng.normal(size=(n_products, PRODUCT_DIM))
        self.ids = np.arange(n_products)
        self.products.setflags(write=False)
        self.ids.setflags(write=False)
        self.known = np.eye(USER_DIM) if one_hot else self.rng.normal(size=(max(users, 1), USER_DIM))
        self.available = np.ones(n_products, bool)

    def visits(self, seed: int) -> Iterator[Context]:
        """Yield contexts for ever, the same ones for the same seed."""
        rng = np.random.default_rng(seed)
        while True:
            user = self.known[rng.integers(len(self.known))]
            if not self.users and not self.one_hot:
                user = rng.normal(size=USER_DIM)
            yield Context(user_id=0, user=user, product_ids=self.ids, products=self.products, available=self.available)


def _reward(step: int) -> float:
    return float(step * 7919 % 10 < 3)


def _warm(shop: Shop, params: dict[str, Any], updates: int) -> NeuralUCB:
    """Return a policy that has seen `updates` random actions."""
    spec = PolicySpec(user_dim=USER_DIM, product_dim=PRODUCT_DIM)
    policy = NeuralUCB(spec, np.random.default_rng(1), **params)
    rng = np.random.default_rng(2)
    context = next(shop.visits(3))
    for step, context in zip(range(updates), shop.visits(3), strict=False):
        policy.update(context, int(rng.integers(len(shop.products))), _reward(step))
    policy.select_action(context)
    return policy


def _walk(policy: NeuralUCB, shop: Shop, timed: int) -> tuple[list[float], list[int]]:
    """Return the seconds that each of `timed` decisions took, learning included, and what was chosen."""
    seconds, chosen, visits = [], [], shop.visits(4)
    for step, context in zip(range(timed), visits, strict=False):
        began = time.perf_counter()
        chosen.append(policy.select_action(context))
        policy.update(context, chosen[-1], _reward(step))
        seconds.append(time.perf_counter() - began)
    return seconds, chosen


def _twin(policy: NeuralUCB) -> PlainNeuralUCB:
    """Return the plain loop with the policy's network as it is, and nothing learned."""
    network = policy._learner.network
    layers = split(network.trained[0], network.sizes.tolist())
    return PlainNeuralUCB(layers, policy.alpha, policy.regularization, network.length, policy.mean == "posterior")


def _replayed(policy: NeuralUCB, shop: Shop, updates: int, chosen: list[int]) -> PlainNeuralUCB:
    """Return the plain loop after the visits of `_warm` and `_walk`, a step after each."""
    twin, rng = _twin(_warm(shop, PUBLISHED, 0)), np.random.default_rng(2)
    twin.length = policy._learner.network.length
    actions = [int(rng.integers(len(shop.products))) for _ in range(updates)]
    for seed, taken in ((3, actions), (4, chosen)):
        for step, (action, context) in enumerate(zip(taken, shop.visits(seed), strict=False)):
            x = np.concatenate([context.user, shop.products[action]])
            twin.update(x, _reward(step))
            twin.step(x, _reward(step), policy.learning_rate)
    return twin


def _compare(
    name: str, what: str, shop: Shop, params: dict[str, Any], updates: int, timed: int, sample: int
) -> NeuralUCB:
    """Print a typical decision of `timed` ones against the plain loop's, and on how many of `sample` both agree."""
    policy = _warm(shop, params, updates)
    seconds, chosen_before = _walk(policy, shop, timed)
    if params.get("history") == "published":
        twin = _replayed(policy, shop, updates, chosen_before)
    else:
        twin = _twin(policy)
        twin.recompute(*(getattr(policy._learner.history, name) for name in ("xs", "counts", "sums")))
    slow, same = [], 0
    for step, context in zip(range(sample), shop.visits(5), strict=False):
        action = policy.select_action(context)
        xs = np.hstack([np.tile(context.user, (len(shop.products), 1)), shop.products])
        began = time.perf_counter()
        chosen = twin.select(xs)
        twin.update(xs[chosen], _reward(step))
        slow.append(time.perf_counter() - began)
        same += action == chosen
        if params.get("history") == "published":
            twin.step(xs[chosen], _reward(step), policy.learning_rate)
        policy.update(context, action, _reward(step))
    trained = "history" not in params and policy.train_every < timed
    typical = np.mean(seconds) if trained else np.median(seconds)  # the mean counts the trainings in
    ours, plain = 1000 * float(typical), 1000 * float(np.min(slow))
    speed = f"{ours:.3f} ms a decision, plain {plain:,.0f} ms: {plain / ours:,.0f}x"
    print(
        f"{name} neural-ucb, p = {policy._learner.network.slopes:,}, {what}: {speed}; {same} of {sample} arms the same"
    )
    return policy
