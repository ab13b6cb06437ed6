"""Q9: do intervals hold where a log's propensities are estimated? 500 logs of each of 6 shops, and of one that hides.

The logging policy of the 6 depends on what is logged, in 6 ways; in the seventh on a preference that nobody logs, which
moves clicks, too: there the verdict must never be `trust`, and intervals miss. Beside it, the same with the shop's own
propensities.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.statistics import share_intervals
from zoosim.core.threads import n_threads
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.verdict import TRUST

SEEDS = range(1000, 1500)
SAMPLES = 399
ESTIMATORS = ("snips", "dr")
CONTEXTS_OF_TRUTH = 200_000
CATEGORIES = 5
FEATURES = 4


class Shop(NamedTuple):
    """A shop of `products`, and logs of `rows` that it writes.

    Visitors are `kind` of "segments" (one of 4), "numbers" (4 normal ones) or "rules" (2 numbers, 2 of yes or no), with
    `rows_a_user`. Products may be `described` by their category, and `sold_out` in a third of the visits each. What is
    `hidden` is a preference that moves choices and clicks.
    """

    name: str
    rows: int
    products: int
    kind: str = "numbers"
    rows_a_user: int = 1
    described: bool = False
    sold_out: bool = False
    hidden: float = 0.0


SHOPS = (
    Shop("segments", 2_000, 8, kind="segments"),
    Shop("numbers", 3_000, 12),
    Shop("categories", 3_000, 30, described=True),
    Shop("users of 4 rows", 3_000, 10, rows_a_user=4),
    Shop("rules", 3_000, 10, kind="rules"),
    Shop("sold out", 3_000, 15, sold_out=True),
)
HIDING = Shop("hidden preference", 3_000, 10, hidden=1.0)


class Logs:
    """A shop's tastes, policies and logs; `seed` draws the shop."""

    def __init__(self, shop: Shop, seed: int = 0) -> None:
        self.shop = shop
        rng = np.random.default_rng([seed, *shop.name.encode()])
        size = (shop.products, FEATURES)
        self.category = np.arange(shop.products) % CATEGORIES
        by_category = rng.normal(size=(CATEGORIES, FEATURES))
        self._logged_tastes = 0.35 * (by_category[self.category] + rng.normal(size=size))
        self._logged_shares = 0.5 * rng.normal(size=shop.products)
        self._click_tastes = 0.5 * rng.normal(size=size)
        self._click_levels = rng.normal(-1.8, 0.5, shop.products)
        self._target_tastes = 0.5 * self._logged_tastes + 0.5 * rng.normal(size=size)
        self._target_shares = 0.5 * rng.normal(size=shop.products)
        self._hidden_tastes = rng.normal(size=shop.products)

    @cached_property
    def truth(self) -> float:
        """What the target earns per visit."""
        rng = np.random.default_rng(7)
        visitors = self._visitors(rng, CONTEXTS_OF_TRUTH)
        sets = self._candidate_sets(rng, CONTEXTS_OF_TRUTH)
        preference = rng.normal(size=CONTEXTS_OF_TRUTH)
        return float((self.target(visitors, sets) * self.click_rates(visitors, preference)).sum(axis=1).mean())

    def draw(self, seed: int) -> tuple[Log, FloatArray]:
        """Draw a log with the shop's own propensities, and the target's probabilities `(n, K)` in its rows."""
        shop = self.shop
        rng = np.random.default_rng([seed, 1])
        users = np.arange(shop.rows) // shop.rows_a_user
        visitors = self._visitors(rng, users[-1] + 1)[users]
        preference = rng.normal(size=users[-1] + 1)[users]
        sets = self._candidate_sets(rng, shop.rows)
        chances = self.logging(visitors, preference, sets)
        actions = (rng.random((shop.rows, 1)) > chances.cumsum(axis=1)).sum(axis=1).clip(max=shop.products - 1)
        of_shown = np.arange(shop.rows), actions
        clicks = rng.random(shop.rows) < self.click_rates(visitors, preference)[of_shown]
        log = Log(
            actions=actions,
            propensities=chances[of_shown],
            rewards=clicks.astype(float),
            candidates=CandidateSets.from_masks(self.candidates),
            candidate_set=sets,
            features=visitors,
            positions=np.zeros(shop.rows, np.int64),
            products=np.eye(CATEGORIES)[self.category] if shop.described else np.zeros((shop.products, 0)),
            user_ids=users if shop.rows_a_user > 1 else None,
        )
        return log, self.target(visitors, sets)

    @property
    def candidates(self) -> BoolArray:
        """Which products can be shown, in each of 3 ways `(3, K)`."""
        candidates = np.ones((3, self.shop.products), bool)
        if self.shop.sold_out:
            candidates[1, : self.shop.products // 3] = candidates[2, -self.shop.products // 3 :] = False
        return candidates

    def logging(self, visitors: FloatArray, preference: FloatArray, sets: IntArray) -> FloatArray:
        """Return the probabilities of the policy that writes the log `(n, K)`."""
        scores = visitors @ self._logged_tastes.T + self._logged_shares
        if self.shop.kind == "rules":  # by what visitors said, and whether their first number is high
            high = visitors[:, :1] > 0.5
            scores = 2.0 * np.hstack([visitors[:, 2:], high]) @ self._logged_tastes[:, 1:].T + self._logged_shares
        scores = scores + self.shop.hidden * np.outer(preference, self._hidden_tastes)
        return self._among_candidates(0.9 * softmax(scores) + 0.1 / self.shop.products, sets)

    def target(self, visitors: FloatArray, sets: IntArray) -> FloatArray:
        """Return the probabilities of the policy that is judged `(n, K)`."""
        return self._among_candidates(softmax(visitors @ self._target_tastes.T + self._target_shares), sets)

    def click_rates(self, visitors: FloatArray, preference: FloatArray) -> FloatArray:
        """Return the probability of a click on each product `(n, K)`."""
        scores = visitors @ self._click_tastes.T + self._click_levels
        scores += self.shop.hidden * np.outer(preference, self._hidden_tastes)
        return np.asarray(1.0 / (1.0 + np.exp(-scores)))

    def _visitors(self, rng: np.random.Generator, n: int) -> FloatArray:
        if self.shop.kind == "segments":
            return np.eye(FEATURES)[rng.integers(FEATURES, size=n)]
        visitors = rng.normal(size=(n, FEATURES))
        if self.shop.kind == "rules":
            visitors[:, 2:] = rng.random((n, 2)) < 0.4
        return visitors

    def _candidate_sets(self, rng: np.random.Generator, n: int) -> IntArray:
        return rng.integers(3 if self.shop.sold_out else 1, size=n)

    def _among_candidates(self, chances: FloatArray, sets: IntArray) -> FloatArray:
        chances = chances * self.candidates[sets]
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))


@cache
def logs_of(shop: Shop) -> Logs:
    """Return a shop's logs, whose truth is worked out once per process."""
    return Logs(shop)


def softmax(scores: FloatArray) -> FloatArray:
    """Return probabilities `(n, K)` of scores."""
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def judge(shop: Shop, seed: int) -> dict[str, tuple[bool, bool]]:
    """Return for each way to judge a log whether its interval holds, and whether it is trusted."""
    logs = logs_of(shop)
    log, target = logs.draw(seed)
    unknown = replace(log, propensities=np.full(len(log), np.nan))
    options: dict[str, Any] = {"estimators": ESTIMATORS, "samples": SAMPLES, "seed": seed, "compare": False}
    ways = {
        "estimated": evaluate(unknown, {"new": target}, propensity_model="multinomial", **options),
        "the shop's own": evaluate(log, {"new": target}, **options),
    }
    held = {}
    for way, evaluation in ways.items():
        for row in evaluation.results:
            low = -np.inf if row.low is None else row.low
            high = np.inf if row.high is None else row.high
            held[f"{way}, {row.estimator}"] = (low <= logs.truth <= high, row.verdict == TRUST)
    return held


def report(name: str, logs: list[dict[str, tuple[bool, bool]]]) -> None:
    """Print how often the intervals of logs hold."""
    for way in logs[0]:
        holds, trusted = np.array([log[way] for log in logs]).T
        (low,), (high,) = share_intervals(holds.sum(keepdims=True), len(logs))
        interval = f"{100 * holds.mean():.1f}% ({100 * low:.1f} to {100 * high:.1f}) of {len(logs)} logs"
        print(f"Q9 {name}, {way}: intervals hold on {interval}, {trusted.sum()} are trusted", flush=True)


def main(seeds: range = SEEDS) -> None:
    """Print coverage by shop, way and estimator, and over all shops that hide nothing."""
    all_logs = []
    with ProcessPoolExecutor(n_threads()) as pool:
        for shop in (*SHOPS, HIDING):
            logs = list(pool.map(partial(judge, shop), seeds, chunksize=10))
            report(shop.name, logs)
            if shop is not HIDING:
                all_logs += logs
    report(f"all but {HIDING.name}", all_logs)
