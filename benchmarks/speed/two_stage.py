"""S35: two stages over 1,000,000 products: retrieve 500 by the posterior, rank them, with exact propensities and not.

Then the same behind HTTP (`served_stages.py`).

Products have 64 features, visitors 8: a posterior over 9 x 65 numbers, which has learned 2,000 rewards. Milliseconds
are processor time of one core; `ZOOSIM_PRODUCTS` sets another number of products.
"""

import resource
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.speed import retrieval, served_stages
from zoosim.core.types import Context, PolicySpec
from zoosim.policies.products.two_stage import TwoStage
from zoosim.policies.products.two_stage_kernel import learn_rows, look
from zoosim.retrieval import IVF, Exact, Index

USERS, REWARDS, TIMED, SHARE = 8, 2_000, 100, 0.04


def main() -> None:
    """Print what a decision takes by each index, beside what scoring all products takes, and what a service adds."""
    report_indexes()
    served_stages.main()


def report_indexes() -> None:
    """Print what a decision takes by each index, and beside it what scoring all products takes."""
    with threadpool_limits(1):
        vectors, _ = retrieval.draw_products(np.random.default_rng(1000))
        ids = np.arange(len(vectors))
        made: dict[str, Callable[[], Index]] = {
            "IVF": lambda: IVF(ids, vectors, share=SHARE),
            "Exact": lambda: Exact(ids, vectors),
        }
        for name, make in made.items():
            report(name, make(), vectors)


def report(name: str, index: Index, vectors: np.ndarray) -> None:
    """Print what decisions from an index take."""
    policy = TwoStage(PolicySpec(user_dim=USERS, product_dim=vectors.shape[1]), np.random.default_rng(0))
    policy.use_index(index)
    teach(policy, vectors)
    rng = np.random.default_rng(3)
    requests = [Context(user_id=0, user=rng.normal(size=USERS)) for _ in range(TIMED)]
    whole = times_of(lambda request: score_all(policy, vectors, request), requests[:20])
    print(f"S35 {len(vectors):,} products, {name}: scoring all takes {np.median(whole):.2f} ms", flush=True)
    decided = {
        "a decision with its propensities": times_of(policy.decide, requests),
        "without": times_of(lambda request: policy._draw_product(request.user, 0.5), requests),
    }
    for what, milliseconds in decided.items():
        p50, p99 = np.quantile(milliseconds, [0.5, 0.99])
        ratio = np.median(whole) / p50
        print(f"S35 {name}, {what}: p50 {p50:.2f}, p99 {p99:.2f} ms; {ratio:.1f} times as fast as all", flush=True)
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"S35 {name}: {gigabytes:.1f} GB at most, with the vectors twice and all that the process has loaded")


def teach(policy: TwoStage, vectors: np.ndarray) -> None:
    """Let a policy learn rewards of random products."""
    rng = np.random.default_rng(2)
    users = rng.normal(size=(REWARDS, USERS))
    shown = vectors[rng.integers(len(vectors), size=REWARDS)].astype(np.float64)
    weights = rng.normal(size=(USERS, vectors.shape[1]))
    rewards = (np.einsum("ij,jk,ik->i", users, weights, shown) > 0.0).astype(float)
    learn_rows(policy.ridge, policy.updates, users, shown, np.arange(REWARDS), rewards)


def score_all(policy: TwoStage, vectors: np.ndarray, request: Context) -> int:
    """Return the best of all products by one draw, by a product of a matrix and a vector."""
    view = look(policy.ridge, request.user)
    weights = view.mean + policy._deviations(view, 7, 1)[:, 0]
    return int(np.argmax(vectors @ weights.astype(np.float32)))


def times_of(ask: Callable[[Context], object], requests: list[Context]) -> np.ndarray:
    """Return the milliseconds of processor time that each request takes."""
    for request in requests[:3]:
        ask(request)
    milliseconds = []
    for request in requests:
        began = time.process_time()
        ask(request)
        milliseconds.append(1e3 * (time.process_time() - began))
    return np.array(milliseconds)
