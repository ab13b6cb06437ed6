"""S19 and S20: a decision among many candidates, and memory with 100,000 products, beside other libraries.

d = 64: 32 features of visitors and 32 of products. `adaptive` and Vowpal Wabbit read both; a model of MABWiser and
contextualbandits belongs to one product, and reads the 32 of visitors. Each library holds all products in one object.
"""

import importlib.util
import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers.vowpal_wabbit import VWSquareCB
from zoosim import Context, Policy, PolicySpec
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray
from zoosim.policies.registry import make_entry

HALF = 32
CANDIDATES = (50, 1_000, 10_000)
LEAST_REQUESTS, ALL_CANDIDATES, LEARNED_FIRST = 15, 5_000, 200
"""A median is over 5,000 candidates in all, or 15 requests where these have more."""
PRODUCTS, LEARNED = 100_000, 9_000
"""In the catalogue whose memory counts, and how many of them are learned of."""

LIBRARIES = ("vowpalwabbit", "mabwiser", "contextualbandits")


class Learner(NamedTuple):
    """Makes a request of a visitor's features `(HALF,)`, and decides it among all products."""

    request: Callable[[FloatArray], Any]
    decide: Callable[[Any], Any]


def decisions() -> None:
    """Print the median time of a decision, by the number of candidates."""
    if _lacks("S19"):
        return
    for count in CANDIDATES:
        times = {name: _milliseconds(make(count), count) for name, make in LEARNERS.items()}
        ours = times["adaptive"]
        for name, milliseconds in times.items():
            beside = "" if name == "adaptive" else f", {milliseconds / ours:.1f} times `adaptive`"
            print(f"S19 {name}: {count:,} candidates, d = {2 * HALF}: {milliseconds:.3f} ms{beside}", flush=True)


def memory() -> None:
    """Print the most memory that a process with each of them takes."""
    if _lacks("S20"):
        return
    spawn = multiprocessing.get_context("spawn")
    for name in LEARNERS:
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            gigabytes = pool.submit(_peak_memory, name).result()
        print(f"S20 {name}: {PRODUCTS:,} products, d = {2 * HALF}: at most {gigabytes:.2f} GB", flush=True)


def _lacks(benchmark: str) -> bool:
    """Say which libraries are missing."""
    missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
    if missing:
        print(f"{benchmark}: {', '.join(missing)}: not installed; pip install '.[peers]'")
    return bool(missing)


def _peak_memory(name: str) -> float:
    """Return the largest resident set of this process, in gigabytes, after learning and a decision."""
    learner = LEARNERS[name](PRODUCTS, LEARNED)
    learner.decide(learner.request(np.zeros(HALF)))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _milliseconds(learner: Learner, count: int) -> float:
    """Return the median milliseconds of a decision, without what making the request takes."""
    rng = np.random.default_rng(1)
    times = []
    for _ in range(max(LEAST_REQUESTS, ALL_CANDIDATES // count)):
        request = learner.request(rng.normal(size=HALF))
        began = time.perf_counter()
        learner.decide(request)
        times.append(time.perf_counter() - began)
    return 1_000 * float(np.median(times))


def _policy(policy: Policy, count: int, learned: int) -> Learner:
    """Let a policy of the arena learn, and return it; each request brings arrays of its own."""
    rng = np.random.default_rng(0)
    products = rng.normal(size=(count, HALF))

    def request(user: FloatArray) -> Context:
        arrays = {"user": user, "product_ids": np.arange(count), "products": products.copy()}
        for array in arrays.values():
            array.setflags(write=False)
        return Context(user_id=0, available=np.ones(count, bool), **arrays)

    context = request(rng.normal(size=HALF))
    for visit in range(learned):
        policy.update(context, visit % count, float(visit % 2))
    return Learner(request, policy.select_action)


def _adaptive(count: int, learned: int = LEARNED_FIRST) -> Learner:
    policy = make_entry("adaptive").make(PolicySpec(user_dim=HALF, product_dim=HALF), stream(0, "policy"))
    return _policy(policy, count, learned)


def _vowpal_wabbit(count: int, learned: int = LEARNED_FIRST) -> Learner:
    """Return Vowpal Wabbit, which learns of few visits: all candidates are in each."""
    policy = VWSquareCB(PolicySpec(user_dim=HALF, product_dim=HALF), stream(0, "policy"))
    return _policy(policy, count, min(learned, 5))


def _mabwiser(count: int, learned: int = LEARNED_FIRST) -> Learner:
    from mabwiser.mab import MAB, LearningPolicy

    bandit = MAB(list(range(count)), LearningPolicy.LinUCB())
    bandit.fit(*_history(count, learned))
    return Learner(_as_row, bandit.predict)


def _contextualbandits(count: int, learned: int = LEARNED_FIRST) -> Learner:
    from contextualbandits.online import LinUCB

    bandit = LinUCB(count, alpha=0.1, ucb_from_empty=False, beta_prior="auto", random_state=1)
    arms, rewards, users = _history(count, learned)
    bandit.partial_fit(users, arms, rewards)
    return Learner(_as_row, bandit.predict)


def _as_row(user: FloatArray) -> FloatArray:
    return user[np.newaxis]


def _history(count: int, learned: int) -> tuple[Any, FloatArray, FloatArray]:
    """Return products, rewards and visitors of the past: every product once before any comes twice."""
    visits = np.arange(learned)
    return visits % count, (visits % 2).astype(float), np.random.default_rng(0).normal(size=(learned, HALF))


LEARNERS: dict[str, Callable[..., Learner]] = {
    "adaptive": _adaptive,
    "vowpalwabbit": _vowpal_wabbit,
    "mabwiser": _mabwiser,
    "contextualbandits": _contextualbandits,
}
