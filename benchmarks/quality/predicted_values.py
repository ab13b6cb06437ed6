"""Q17: how near the truth are predicted values (`dm`), beside `dr`, and how often is what they tell apart wrong?

20 retail shops of 60,000 visits whose truth is known (`retail_shops`). Policies learn from the earlier 80% of the rows
and are judged by the later ones, for clicks and for revenue: three trained policies, any product, and a shop's own rule
(one of the 30 products that were clicked most). ZOOSIM_SHOPS sets another number of shops.
"""

import math
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import zoosim
from benchmarks.quality import retail_shops
from zoosim.api.logs import new_policy
from zoosim.api.served import open_log
from zoosim.core.action_space import PRODUCTS
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.off_policy.compare import LOGGED, Difference
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.results import Evaluation
from zoosim.off_policy.targets.products import PolicyTarget
from zoosim.off_policy.training import TrainingJob, earlier_and_later
from zoosim.off_policy.verdict import WORDS

SHOPS, FIRST = 20, 1_000
"""Shops, and the first one's seed; those below 100 were used for tuning."""

TRAINED = ("mixed-effects", "linear", "linucb")
SHARE, MOST_CLICKED = 0.8, 30
ESTIMATORS = ("dr", "dm")
MICROSECONDS = 1_000_000


@dataclass
class Tally:
    """Errors, verdicts and comparisons of one estimator for one reward, over all shops.

    `errors` are relative to the true value; `verdicts` counts words. Of `pairs`, `compared` have a difference in the
    evaluation, as others rest on too few rewards or cannot be used. `told_apart` are those whose interval leaves out 0,
    `wrong` of these with the wrong sign. `clear` are true differences beyond twice the half-width of the interval (of
    those of both values, where they are not compared), `clear_and_told` those of them that are told apart,
    `clear_and_silent` those that are not compared.
    """

    errors: list[float] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    pairs: int = 0
    compared: int = 0
    told_apart: int = 0
    wrong: int = 0
    clear: int = 0
    clear_and_told: int = 0
    clear_and_silent: int = 0

    def add_compared(self, row: Difference, true_difference: float) -> None:
        """Count a pair that the evaluation compares; the first policy truly earns so much more."""
        is_above = row.low is not None and row.low > 0.0
        is_below = row.high is not None and row.high < 0.0
        self.pairs += 1
        self.compared += 1
        self.told_apart += is_above or is_below
        self.wrong += (is_above and true_difference < 0.0) or (is_below and true_difference > 0.0)
        if abs(true_difference) > _width(Interval(row.value, row.low, row.high)):
            self.clear += 1
            self.clear_and_told += is_above or is_below

    def add_not_compared(self, values: Sequence[Interval], true_difference: float) -> None:
        """Count a pair of which the evaluation gives two values alone."""
        is_clear = abs(true_difference) > math.hypot(*map(_width, values))
        self.pairs += 1
        self.clear += is_clear
        self.clear_and_silent += is_clear

    def line(self, of: str) -> str:
        """Return the figures in a line."""
        errors = np.abs(self.errors)
        n = len(errors)
        words = ", ".join(f"{word} {self.verdicts.count(word) / n:.0%}" for word in WORDS)
        compared = f"{self.compared} of {self.pairs} pairs are compared"
        wrong = f"{self.wrong} of {self.told_apart} pairs told apart have the wrong sign"
        clear = (
            f"{self.clear_and_told} of {self.clear} true differences beyond twice the half-width are told apart, "
            f"{self.clear_and_silent} are not compared"
        )
        return (
            f"Q17 {of}: error {np.median(errors):.1%} (median), {np.mean(errors):.1%} (mean) of the true value; "
            f"95% intervals hold {np.mean(self.covered):.1%} of {n}; {words}; {compared}; {wrong}; {clear}"
        )


def main(first: int = FIRST) -> None:
    """Print a line per reward and estimator over all shops, and one per trained policy."""
    n_shops = int(os.environ.get("ZOOSIM_SHOPS", SHOPS))
    tallies: dict[tuple[str, ...], Tally] = {}
    for number in range(n_shops):
        with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
            judge(Path(folder), first + number, tallies)
        print(f"Q17 shop {first + number}: {number + 1} of {n_shops}", file=sys.stderr, flush=True)
    print(f"Q17 {n_shops} shops, seeds {first} to {first + n_shops - 1}")
    for key in sorted(tallies, key=lambda key: (len(key), key)):
        tally = tallies[key]
        if len(key) == 2:
            print(tally.line(", ".join(key)), flush=True)
        else:
            hold = f"95% intervals hold {np.mean(tally.covered):.0%} of {len(tally.covered)}"
            print(f"Q17 {', '.join(key)}: error {np.median(np.abs(tally.errors)):.1%} (median); {hold}", flush=True)


def judge(
    folder: Path, seed: int, tallies: dict[tuple[str, ...], Tally], visits: int = retail_shops.VISITS
) -> Evaluation:
    """Judge the policies of one shop, and count what comes of it in `tallies`, by reward, estimator and policy."""
    shop = retail_shops.write_shop(folder, seed, visits)
    zoosim.import_log(str(folder / "shop.csv"), retail_shops.schema(folder), str(folder / "log.parquet"))
    log = open_log(str(folder / "log.parquet"), action_space=PRODUCTS).in_order()
    _, customer, _ = retail_shops.draw_visits(shop, visits)
    earlier, later = earlier_and_later(log, SHARE)
    customers, row_of = np.unique(customer, return_index=True)
    chances = _policies(log, earlier, replace(log.rows(row_of), user_ids=None))
    place = np.searchsorted(customers, customer[len(earlier) :])
    evaluation = evaluate(later, {name: _by_row(each, place) for name, each in chances.items()}, earlier=earlier)

    position = {sku: number for number, sku in enumerate(shop.products["sku"])}
    products = [position[name] for name in log.names]
    for reward, of_reward in evaluation.by_reward.items():
        rates = shop.values(reward)[customers][:, products] * _busy(later)
        values = {name: float((each * rates).sum(axis=1).mean()) for name, each in chances.items()}
        logged = shop.propensities[customers][:, products]
        values[LOGGED] = float((logged * rates).sum(axis=1).mean())
        _count(reward, of_reward, values, tallies)
    return evaluation


def _policies(log: Log, earlier: Log, visitors: Log) -> dict[str, FloatArray]:
    """Return by policy how likely it shows each product to each of the `visitors` `(m, K)`."""
    policies = {name: new_policy(name, name, log, 0) for name in (*TRAINED, "random")}
    for name in TRAINED:
        TrainingJob(policies[name], replace(earlier, user_ids=None)).run(lambda line: None)
    chances = {
        name: PolicyTarget(policy, visitors).distributions(visitors, 0, len(visitors)).matrix(log.n_actions)
        for name, policy in policies.items()
    }
    clicks = np.bincount(earlier.actions, earlier.rewards, log.n_actions)
    is_most_clicked = np.isin(np.arange(log.n_actions), np.argsort(-clicks)[:MOST_CLICKED])
    return {**chances, "most clicked": np.tile(is_most_clicked / MOST_CLICKED, (len(visitors), 1))}


def _count(
    reward: str, evaluation: Evaluation, values: Mapping[str, float], tallies: dict[tuple[str, ...], Tally]
) -> None:
    """Compare estimates and differences with the true `values`."""
    for row in evaluation.results:
        if row.estimator not in ESTIMATORS:
            continue
        truth = values[row.policy]
        low = -np.inf if row.low is None else row.low
        high = np.inf if row.high is None else row.high
        for key in ((reward, row.estimator), (reward, row.estimator, row.policy)):
            tally = tallies.setdefault(key, Tally())
            tally.errors.append(row.value / truth - 1.0)
            tally.covered.append(bool(low <= truth <= high))
            tally.verdicts.append(row.verdict)
    for estimator in ESTIMATORS:
        of_estimator = [row for row in evaluation.results if row.estimator == estimator]
        intervals = {LOGGED: evaluation.logged}
        intervals |= {row.policy: Interval(row.value, row.low, row.high) for row in of_estimator}
        compared = {(row.policy, row.other): row for row in evaluation.differences if row.estimator == estimator}
        tally = tallies[reward, estimator]
        for other, policy in combinations(intervals, 2):
            true_difference = values[policy] - values[other]
            if (policy, other) in compared:
                tally.add_compared(compared[policy, other], true_difference)
            else:
                tally.add_not_compared((intervals[policy], intervals[other]), true_difference)


def _width(interval: Interval) -> float:
    """Return how far the ends of an interval lie apart: twice its half-width."""
    if interval.low is None or interval.high is None:
        return math.inf
    return interval.high - interval.low


def _by_row(chances: FloatArray, places: Sequence[int] | np.ndarray) -> object:
    """Return a policy as `evaluate` takes it, from its probabilities by customer."""
    return lambda log, start, stop: chances[places[start:stop]]


def _busy(log: Log) -> float:
    """Return how much more is clicked than usual at the times of a log's rows, on average."""
    assert log.times is not None
    seconds = log.times // MICROSECONDS - retail_shops.START
    return float((1.0 + 0.15 * np.sin(2.0 * np.pi * seconds / (7 * 86_400))).mean())
