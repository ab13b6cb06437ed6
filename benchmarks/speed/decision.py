"""S2, S3, S12 and S15: what a decision and an update cost, through the contract's own calls, and whether that grows."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.plain import PlainLinUCB
from zoosim.arena.loop import play
from zoosim.core.config import EnvConfig
from zoosim.core.rng import stream
from zoosim.core.types import Context, FloatArray, IntArray, PolicySpec, frozen
from zoosim.policies.base import Policy
from zoosim.policies.products.linucb import LinUCB
from zoosim.policies.registry import make_entry
from zoosim.worlds.recommendation.world import build_world

PRODUCTS, USER_DIM, PRODUCT_DIM = 1_000, 8, 12
JOINT_HALF, JOINT_VISITS = 32, 2 * 33**2  # two rebuilds
FRESH = ((500, 40), (10_000, 20))


def linucb() -> None:
    """Print the cost of `linucb` with 1,000 products and 20 dense features, against the plain loop."""
    rng = np.random.default_rng(0)
    ids, products = frozen(np.arange(PRODUCTS)), frozen(rng.normal(size=(PRODUCTS, PRODUCT_DIM)))
    contexts = [_context(rng.normal(size=USER_DIM), ids, products) for _ in range(500)]
    policy = LinUCB(PolicySpec(user_dim=USER_DIM, product_dim=PRODUCT_DIM), stream(0, "policy"), alpha=0.5)
    actions = [policy.select_action(context) for context in contexts]
    for context, action in zip(contexts, actions, strict=True):
        policy.update(context, action, 1.0)
    decide = _milliseconds(lambda i: policy.select_action(contexts[i]), 500)
    update = _milliseconds(lambda i: policy.update(contexts[i], actions[i], 1.0), 500)
    plain = PlainLinUCB(PRODUCTS, USER_DIM + PRODUCT_DIM, alpha=0.5)
    rows = [np.hstack([np.tile(context.user, (PRODUCTS, 1)), context.products]) for context in contexts[:20]]
    slow = _milliseconds(lambda i: plain.select(rows[i]), 20)
    print(f"S2 linucb, 1,000 products, d = 20: decision {decide:.3f} ms (plain {slow:.1f} ms: {slow / decide:.0f}x)")
    print(f"S2 linucb, 1,000 products, d = 20: update {update:.4f} ms")


def growth() -> None:
    """Print the time of the last tenth of a 400,000-visit run over that of the second tenth, for every policy."""
    world = build_world(EnvConfig(), seed=0)
    for name in ("random", "greedy", "linucb", "neural-linear-online", "neural-linear-stable", "d-linucb"):
        policy = make_entry(name).make(world.spec(400_000), stream(0, "policy"))
        times = [time.perf_counter()]
        times += [time.perf_counter() for _ in play(world, policy, 400_000)]
        tenths = np.diff(times).reshape(10, -1).sum(axis=1)
        print(f"S3 growth: {name}, last tenth / second tenth of 400,000 visits: {tenths[9] / tenths[1]:.2f}")


def fresh_candidates() -> None:
    """Print the cost of deciding a request whose candidates were never seen, in a new array each time."""
    for candidates, dim in FRESH:
        for name in ("linucb", "d-linucb", "adaptive", "neural-linear", "neural-ucb"):
            rng, half = np.random.default_rng(0), dim // 2
            policy = make_entry(name).make(PolicySpec(user_dim=half, product_dim=half), stream(0, "policy"))
            requests = [_fresh(rng, candidates, half) for _ in range(25)]
            for context in requests[:10]:
                policy.update(context, policy.select_action(context), 1.0)
            decide = partial(_decide, policy, requests[10:])
            print(
                f"S12 {name}, {candidates:,} fresh candidates, d = {dim}: decision {_milliseconds(decide, 15):.2f} ms"
            )


def joint_features() -> None:
    """Print the cost of joint models of 33 x 33 dense features, 50 candidates, rebuilds of the models included."""
    for name in ("shared-linucb", "shared-lin-ts"):
        rng = np.random.default_rng(0)
        ids, products = frozen(np.arange(50)), frozen(rng.normal(size=(50, JOINT_HALF)))
        policy = make_entry(name).make(PolicySpec(user_dim=JOINT_HALF, product_dim=JOINT_HALF), stream(0, "policy"))
        decide = update = 0.0
        for visit in range(-1, JOINT_VISITS):
            context = Context(
                user_id=0,
                user=rng.normal(size=JOINT_HALF),
                product_ids=ids,
                products=products,
                available=np.ones(50, bool),
            )
            began = time.perf_counter()
            action = policy.select_action(context)
            decided = time.perf_counter()
            policy.update(context, action, float(visit % 2))
            if visit >= 0:  # the visit before the first one compiles
                decide += decided - began
                update += time.perf_counter() - decided
        each = 1000 / JOINT_VISITS
        print(f"S15 {name}, 1,089 joint features: decision {decide * each:.2f} ms, update {update * each:.2f} ms")


def _decide(policy: Policy, requests: list[Context], i: int) -> None:
    policy.select_action(requests[i])


def _fresh(rng: np.random.Generator, candidates: int, dim: int) -> Context:
    return Context(
        user_id=0,
        user=rng.normal(size=dim),
        product_ids=rng.integers(0, 2**40, candidates),
        products=rng.normal(size=(candidates, dim)),
        available=np.ones(candidates, bool),
    )


def _context(user: FloatArray, ids: IntArray, products: FloatArray) -> Context:
    return Context(user_id=0, user=user, product_ids=ids, products=products, available=np.ones(PRODUCTS, bool))


def _milliseconds(call: Callable[[int], object], n: int) -> float:
    """Return the median milliseconds of `call(0)` to `call(n - 1)`."""
    times = []
    for i in range(n):
        began = time.perf_counter()
        call(i)
        times.append(time.perf_counter() - began)
    return 1000 * float(np.median(times))
