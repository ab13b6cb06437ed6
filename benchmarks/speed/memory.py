"""S14: the most memory that each policy takes in a shop of 100,000 products with 64 features.

Each policy runs in a process of its own. It decides 5 requests that offer all products in new arrays, is asked for
propensities, and then learns of 9,000 different products, so that those with a model per product reach their bound.
"""

import multiprocessing
import resource
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.rng import stream
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.policies.kernel import DrawingPolicy
from zoosim.policies.registry import BUILT_IN, find_class, make_entry

PRODUCTS, HALF, USERS = 100_000, 32, 100
REQUESTS, LEARNED, PAST = 5, 9_000, 5_000


def main() -> None:
    """Print the peak memory of each policy over products, that of the task itself included."""
    spawn = multiprocessing.get_context("spawn")
    for name in BUILT_IN:
        cls = find_class(name)
        if "products" in cls.chooses and not name.startswith("template"):
            with ProcessPoolExecutor(1, mp_context=spawn) as pool:
                answer = pool.submit(peak_memory, name).result()
            print(f"S14 {name}: {PRODUCTS:,} products, d = {2 * HALF}: {answer}", flush=True)


def peak_memory(name: str) -> str:
    """Return the largest resident set of this process in words, or that the policy refuses so many products."""
    try:
        _play(name)
    except ConfigError as error:
        return f"refused ({error})"
    return f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9:.2f} GB"


def _play(name: str) -> None:
    """Let a policy decide and learn."""
    warnings.simplefilter("ignore", RuntimeWarning)  # of 5,000 rows for 100,000 products
    rng = np.random.default_rng(0)
    policy = make_entry(name).make(PolicySpec(user_dim=HALF, product_dim=HALF, n_users=USERS), stream(0, "policy"))
    if policy.past_visits or not isinstance(policy, DrawingPolicy):
        policy.fit(Past.drawn(rng))
    for _ in range(REQUESTS):
        context = _context(rng)
        policy.update(context, policy.select_action(context), 1.0)
    policy.propensities(context)
    for action in range(LEARNED):
        policy.update(context, action, float(action % 2))


def _context(rng: np.random.Generator) -> Context:
    """Return a request that offers all products, in new arrays that nobody can change."""
    ids, products = np.arange(PRODUCTS), rng.normal(size=(PRODUCTS, HALF))
    ids.flags.writeable = products.flags.writeable = False
    user_id = int(rng.integers(USERS))
    available = np.ones(PRODUCTS, bool)
    return Context(user_id=user_id, user=rng.normal(size=HALF), product_ids=ids, products=products, available=available)


@dataclass(frozen=True)
class Past:
    """A log of uniformly random choices among all products."""

    actions: IntArray
    features: FloatArray
    user_ids: IntArray
    products: FloatArray
    product_ids: IntArray = field(default_factory=lambda: np.arange(PRODUCTS))

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> "Past":
        """Draw a log."""
        actions, user_ids = rng.integers(0, PRODUCTS, PAST), rng.integers(0, USERS, PAST)
        return cls(actions, rng.normal(size=(PAST, HALF)), user_ids, rng.normal(size=(PRODUCTS, HALF)))

    @property
    def rewards(self) -> FloatArray:
        """Return a click for every other choice."""
        return (self.actions % 2).astype(np.float64)

    @property
    def propensities(self) -> FloatArray:
        """Return the probability of each logged choice."""
        return np.full(PAST, 1 / PRODUCTS)

    def __len__(self) -> int:
        return len(self.actions)

    def available(self, start: int, stop: int) -> BoolArray:
        """Return what could be shown in rows `start` to `stop - 1`: everything."""
        return np.ones((stop - start, PRODUCTS), bool)
