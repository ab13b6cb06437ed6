"""S9: visits to a search shop a second, every product ranked anew at each, against plain loops over the products."""

import resource
import time
from collections.abc import Callable

import numpy as np

from benchmarks.plain import search as plain
from benchmarks.plain.search_visits import plain_products, plain_query, plain_user, plain_visit, relevance_noise
from zoosim.core.search_config import SearchConfig
from zoosim.envs.search_env import SearchEnv
from zoosim.envs.search_vector import SearchVectorEnv
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.world import build_search_world

ROWS, SECONDS = 8, 5.0


def main() -> None:
    """Print visits a second with 10,000 products, then how time and memory grow to a million."""
    slow = _plain(10_000)
    for what, fast in (("one at a time", _single(10_000)), (f"vector form of {ROWS}", _vector(10_000))):
        ratio = f"{1 / fast:,.0f} visits a second, plain loops {1 / slow:.1f}: {slow / fast:,.0f}x"
        print(f"S9 search, 10,000 products, {what}: {ratio}")
    for count in (1_000, 10_000, 100_000, 1_000_000):
        milliseconds = 1e3 * _single(count)
        print(f"S9 search, {count:,} products: {milliseconds:.3f} ms a visit, {1e6 * milliseconds / count:.0f} ns each")
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"S9 search, largest memory: {megabytes:,.0f} MB")


def _action() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, 10)


def _single(count: int) -> float:
    """Return the seconds of a visit of `SearchEnv`, all of it."""
    env, action = SearchEnv(SearchConfig(n_products=count)), _action()
    env.reset(seed=0)

    def visit() -> None:
        env.step(action)
        env.reset()

    return _seconds(visit)


def _vector(count: int) -> float:
    env, actions = SearchVectorEnv(ROWS, SearchConfig(n_products=count)), np.tile(_action(), (ROWS, 1))
    env.reset(seed=0)
    return _seconds(lambda: env.step(actions)) / ROWS


def _plain(count: int) -> float:
    """Return the seconds of a visit in plain loops: base scores, boosts, both rankings, the visit."""
    shop = SearchShop(build_search_world(SearchConfig(n_products=count), seed=0))
    products, action = plain_products(shop.world), _action().tolist()
    visits = [shop.arrive(step) for step in range(3)]
    made = [(plain_user(shop.world, visit), plain_query(shop.world, visit)) for visit in visits]
    noise = [relevance_noise(shop.world, visit.step) for visit in visits]
    began = time.perf_counter()
    for visit, (user, query), draws in zip(visits, made, noise, strict=True):
        base = plain.base_scores(products, query, draws)
        plain.top(base, 20)
        shown = plain.top(plain.boosted(base, plain.boost_features(products, user, query), action), 20)
        assert shown == shop.rank(visit, np.array(action)).tolist()
    spent = time.perf_counter() - began
    plain_visit(shop, visits[0], shown)
    return spent / len(visits)


def _seconds(visit: Callable[[], object]) -> float:
    """Return the typical seconds of a call, after the first ones."""
    for _ in range(3):
        visit()
    times, deadline = list[float](), time.perf_counter() + SECONDS
    while len(times) < 5 or time.perf_counter() < deadline:
        began = time.perf_counter()
        visit()
        times.append(time.perf_counter() - began)
    return float(np.mean(times))
