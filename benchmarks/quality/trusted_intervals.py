"""Q13: do the intervals hold that `evaluate` calls `trust`? Logs of 20 shops of `examples/shop`, whose truth is known.

Four policies learn from the earlier 25,000 impressions of a log; the later 25,000 judge them, by clicks and by revenue.
Each shows its best guess, or any product of that one's category; always, or in half of the visits and any product in
the others. Beside them stand two simple ones: any product, and any of the 30 that were clicked most.
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks.quality.own_shops import POLICIES, SEEDS, Shop, open_shop, train_policy
from examples.shop import shop as example
from zoosim.core.statistics import cut, mean_interval
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.results import Evaluation
from zoosim.off_policy.training import earlier_and_later
from zoosim.off_policy.verdict import TRUST

SHARE, MOST_CLICKED = 0.5, 30

Judged = tuple[bool, bool]
"""Whether an interval is trusted, and whether it holds the true value."""


def main(seeds: range = SEEDS) -> None:
    """Print how many intervals are trusted, and how many of those hold, by reward and estimator and in all."""
    shops = []
    for seed in seeds:
        with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
            shops.append(judge(Path(folder), seed))
        print(f"Q13 shop {seed}: {len(shops)} of {len(seeds)}", file=sys.stderr, flush=True)
    for way in shops[0]:
        report(way, [shop[way] for shop in shops])
    report("all", [list(chain.from_iterable(shop.values())) for shop in shops])


def report(way: str, shops: list[list[Judged]]) -> None:
    """Print the share of trusted intervals that hold, with its interval over shops (the delta method)."""
    n = sum(len(shop) for shop in shops)
    trusted = np.array([sum(is_trusted for is_trusted, _ in shop) for shop in shops])
    holding = np.array([sum(is_trusted and holds for is_trusted, holds in shop) for shop in shops])
    share = holding.sum() / trusted.sum()
    mean, low, high = cut(mean_interval(share + (holding - share * trusted) / trusted.mean()), (0.0, 1.0))
    counts = f"{holding.sum()} of {trusted.sum()} trusted intervals hold (of {n})"
    print(f"Q13 {way}: {counts}, {mean:.1%} ({low:.1%} to {high:.1%})", flush=True)


def judge(folder: Path, seed: int) -> dict[str, list[Judged]]:
    """Return by reward and estimator what the intervals of a shop's policies are worth."""
    truth = example.make_shop(seed)
    # The same visitors, coming as often as in the log, at other times: what the log's values are estimates of.
    visits = example.make_log(truth, seed, 2 * example.IMPRESSIONS)[example.IMPRESSIONS :]
    shop = open_shop(folder, seed, visits)
    earlier, later = earlier_and_later(shop.log, SHARE)
    kinds, kind = np.unique(np.vstack([later.features, shop.visitors]), axis=0, return_inverse=True)
    kind_of_row, kind_of_visit = np.split(kind, [len(later)])
    click_rates = _mean_rates(shop.rates, kind_of_visit, len(kinds))
    revenue = dict(zip(truth.products["item"], example.revenue_of_clicks(truth), strict=True))
    rates = {"click": click_rates, "revenue": click_rates * [revenue[name] for name in later.names]}

    targets = _targets(shop._replace(earlier=earlier), kinds)
    policies = {name: _by_row(target, kind_of_row) for name, target in targets.items()}
    evaluation = evaluate(later, policies, compare=False)
    return _compared(evaluation, targets, rates)


def _compared(
    evaluation: Evaluation, targets: dict[str, FloatArray], rates: dict[str, FloatArray]
) -> dict[str, list[Judged]]:
    """Compare intervals with what policies would earn by the mean `rates (n_kinds, K)` of a reward."""
    judged = defaultdict(list)
    for reward, results in {evaluation.reward: evaluation, **evaluation.others}.items():
        for row in results.results:
            value = float((targets[row.policy] * rates[reward]).sum())
            low = -np.inf if row.low is None else row.low
            high = np.inf if row.high is None else row.high
            judged[f"{reward}, {row.estimator}"].append((row.verdict == TRUST, low <= value <= high))
    return dict(judged)


def _targets(shop: Shop, kinds: FloatArray) -> dict[str, FloatArray]:
    """Return by policy how likely it shows each product to each kind of visitor `(n_kinds, K)`."""
    n_products = shop.log.n_actions
    even = np.full((len(kinds), n_products), 1.0 / n_products)
    clicks = np.bincount(shop.earlier.actions, shop.earlier.rewards, n_products)
    is_most_clicked = np.isin(np.arange(n_products), np.argsort(-clicks)[:MOST_CLICKED])
    targets = {"any product": even, "most clicked": np.tile(is_most_clicked / MOST_CLICKED, (len(kinds), 1))}
    categories = np.array(shop.log.categories)
    for name in POLICIES:
        guess = train_policy(shop, name)(kinds)
        is_alike = categories[guess.argmax(axis=1)][:, None] == categories
        category = is_alike / is_alike.sum(axis=1, keepdims=True)
        targets |= {name: guess, f"{name}, half": (guess + even) / 2.0}
        targets |= {f"{name}, category": category, f"{name}, category, half": (category + even) / 2.0}
    return targets


def _by_row(target: FloatArray, kinds: IntArray) -> Callable[[Log, int, int], FloatArray]:
    """Return a policy as `evaluate` takes it, from its probabilities by kind of visitor."""
    return lambda log, start, stop: target[kinds[start:stop]]


def _mean_rates(rates: FloatArray, kinds: IntArray, n_kinds: int) -> FloatArray:
    """Sum click rates `(m, K)` by the visits' kind, divided by m: a policy's value is its product with that."""
    visits = np.arange(len(kinds))
    share = np.full(len(kinds), 1.0 / len(kinds))
    return np.asarray(sparse.csr_matrix((share, (kinds, visits)), (n_kinds, len(kinds))) @ rates)
