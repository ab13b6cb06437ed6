"""Q26: the bias of estimates from logs of two stages, by what weighs them; a known shop of 300 products.

Retrieval takes the 20 products that a linear model scores highest, a softmax ranks them. Each log has 2,000 rows; what
a policy is worth is known for each row, so the bias is that of the weights alone, in % of the worth.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.estimators import single

PRODUCTS, CANDIDATES, DIM, ROWS, LOGS = 300, 20, 8, 2_000, 60
POOL_SHARE = 0.1
RANDOM_SLOTS = 5


class Shop(NamedTuple):
    """Products `(K, d)`, and weights `(d, d)`: of clicks, of two retrievals, and of two rankers."""

    products: FloatArray
    clicks: FloatArray
    retrievals: tuple[FloatArray, FloatArray]
    rankers: tuple[FloatArray, FloatArray]


class Asked(NamedTuple):
    """What a log has to say of its rows.

    Actions and rewards `(n,)`; the logged probability of each action given its candidates, and from wherever `(n,)`;
    of the target, the probability of each action, its worth at each row, and what the log could not show `(n,)`.
    """

    actions: IntArray
    rewards: FloatArray
    given: FloatArray
    marginal: FloatArray
    target: FloatArray
    worth: FloatArray
    missed: FloatArray


def main() -> None:
    """Print the bias of each case, and how many standard errors that is."""
    shop = draw_shop(np.random.default_rng(1000))
    cases: dict[str, tuple[Callable[..., Asked], bool, str]] = {
        "one retrieval; the same retrieval, another ranker; given candidates": (deterministic, False, "given"),
        "one retrieval; another retrieval; given candidates": (deterministic, True, "given"),
        "10% of all products; another retrieval; from wherever": (pooled, True, "marginal"),
        "10% of all products; another retrieval; given candidates": (pooled, True, "given"),
        "5 random slots of 20; another retrieval; given candidates": (with_random_slots, True, "given"),
    }
    for name, (write, is_other, weigher) in cases.items():
        errors = []
        missed = []
        for seed in range(LOGS):
            asked = write(shop, is_other, np.random.default_rng(2_000 + seed))
            weights = asked.target / getattr(asked, weigher)
            errors.append(single.ips(weights, asked.rewards).value / asked.worth.mean() - 1.0)
            missed.append(asked.missed.mean())
        bias = 100 * np.mean(errors)
        error = 100 * np.std(errors, ddof=1) / LOGS**0.5
        print(
            f"Q26 {name}: {bias:+.1f}% (se {error:.2f}, {abs(bias) / error:.1f} of it), "
            f"{100 * np.mean(missed):.1f}% of the choices without support",
            flush=True,
        )


def draw_shop(rng: np.random.Generator) -> Shop:
    """Return a shop whose two retrievals and two rankers know its clicks more or less well."""
    clicks = rng.normal(size=(DIM, DIM)) / DIM**0.5
    known = [clicks + noise * rng.normal(size=(DIM, DIM)) / DIM**0.5 for noise in (0.3, 0.4, 0.3, 0.5)]
    return Shop(rng.normal(size=(PRODUCTS, DIM)), clicks, (known[0], known[1]), (known[2], known[3]))


def deterministic(shop: Shop, is_other: bool, rng: np.random.Generator) -> Asked:
    """Write a log whose candidates are those of the first retrieval."""
    return _write(shop, is_other, rng, pool_share=0.0, n_random=0)


def pooled(shop: Shop, is_other: bool, rng: np.random.Generator) -> Asked:
    """Write a log of which a share shows a product that is drawn evenly from all."""
    return _write(shop, is_other, rng, pool_share=POOL_SHARE, n_random=0)


def with_random_slots(shop: Shop, is_other: bool, rng: np.random.Generator) -> Asked:
    """Write a log whose last candidates are drawn at random: how likely a set is has no closed form."""
    return _write(shop, is_other, rng, pool_share=0.0, n_random=RANDOM_SLOTS)


def _write(shop: Shop, is_other: bool, rng: np.random.Generator, *, pool_share: float, n_random: int) -> Asked:
    rows = np.arange(ROWS)
    users = rng.normal(size=(ROWS, DIM))
    chances = 1.0 / (1.0 + np.exp(2.0 - users @ shop.clicks @ shop.products.T))
    retrieved = _retrieve(users @ shop.retrievals[0] @ shop.products.T)
    if n_random:
        retrieved = _with_random_slots(retrieved, n_random, rng)
    logging = _rank(users @ shop.rankers[0] @ shop.products.T, retrieved)
    others = _retrieve(users @ shop.retrievals[1] @ shop.products.T) if is_other else retrieved
    target = _rank(users @ shop.rankers[1] @ shop.products.T, others)
    actions = (logging.cumsum(axis=1) > rng.random((ROWS, 1))).argmax(axis=1)
    from_pool = rng.random(ROWS) < pool_share
    actions[from_pool] = rng.integers(PRODUCTS, size=from_pool.sum())
    marginal = (1.0 - pool_share) * logging[rows, actions] + pool_share / PRODUCTS
    # Of the pool the one candidate is given, and shown for certain; what a ranker alone knows of it is 1, too.
    given = np.where(from_pool, 1.0, logging[rows, actions])
    missed = np.zeros(ROWS) if pool_share else np.where(retrieved, 0.0, target).sum(axis=1)
    rewards = (rng.random(ROWS) < chances[rows, actions]).astype(float)
    return Asked(actions, rewards, given, marginal, target[rows, actions], (target * chances).sum(axis=1), missed)


def _retrieve(scores: FloatArray) -> np.ndarray:
    """Return which products are among the `CANDIDATES` with the highest scores `(n, K)`."""
    least = np.partition(scores, -CANDIDATES, axis=1)[:, [-CANDIDATES]]
    return np.asarray(scores >= least)


def _with_random_slots(retrieved: np.ndarray, n_random: int, rng: np.random.Generator) -> np.ndarray:
    """Return sets of which some candidates gave way to as many random ones `(n, K)`."""
    draws = rng.random(retrieved.shape)
    leaving = np.argsort(np.where(retrieved, draws, 2.0), axis=1)[:, :n_random]
    coming = np.argsort(np.where(retrieved, 2.0, draws), axis=1)[:, :n_random]
    sets = retrieved.copy()
    np.put_along_axis(sets, leaving, False, axis=1)
    np.put_along_axis(sets, coming, True, axis=1)
    return sets


def _rank(scores: FloatArray, candidates: np.ndarray) -> FloatArray:
    """Return the probabilities of a softmax over candidates `(n, K)`."""
    odds = np.where(candidates, np.exp(scores - scores.max(axis=1, keepdims=True)), 0.0)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
