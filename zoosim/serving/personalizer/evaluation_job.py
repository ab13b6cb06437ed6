"""Estimate what policies would have earned, from a service's own log: a process of its own, so that nobody waits.

    python -m zoosim.serving.personalizer.evaluation_job FILE

FILE is the evaluation as JSON, into which the results go. Where the log lies, the environment says, as a service is
told: the list of processes would show the password that an address may hold.
"""

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.action_space import PRODUCTS
from zoosim.core.durations import HOUR, MICROSECONDS
from zoosim.core.errors import ZoosimError
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.evaluate import evaluate
from zoosim.serving.personalizer.evaluation_file import read_evaluation, write_evaluation
from zoosim.serving.served_log import read_served_log
from zoosim.serving.settings import STORE
from zoosim.serving.store.address import Address, parse_address

NICENESS = 10
WINDOW = HOUR
"""Microseconds that each line of a policy's summary covers."""

WINDOW_TEXT = "PT1H"
SOURCES = {"Online": "Online", "Baseline1": "Baseline", "RandomPolicy": "Random"}
"""The policies that are judged, and what each stands for."""


VISITS_AT_ONCE = 1_000

LOWEST, HIGHEST = -1.0, 1.0
"""The range of rewards, beyond which no interval goes."""

Target = Callable[[Log, int, int], FloatArray]


class Weighted(NamedTuple):
    """Importance weights and rewards of visits `(n,)`, from which a policy's value follows, and their times."""

    weights: FloatArray
    rewards: FloatArray
    times: IntArray


def run(address: Address, path: Path) -> None:
    """Judge policies by the part of the log that an evaluation asks for, and note what comes of it."""
    evaluation = read_evaluation(path)
    try:
        evaluation |= {"policyResults": _results(address, evaluation["from"], evaluation["to"]), "status": "completed"}
    except ZoosimError as error:
        evaluation |= {"status": "failed", "message": str(error)}
    # Whole or not at all, as the service may read the file at any moment, or end this process.
    write_evaluation(path, evaluation)


def _results(address: Address, start: float, stop: float) -> list[dict[str, Any]]:
    """Return the results of all policies between two times, in seconds since 1970."""
    served = read_served_log(address, action_space=PRODUCTS)
    times = served.log.times
    assert times is not None
    is_inside = (times >= start * MICROSECONDS) & (times <= stop * MICROSECONDS)
    if not is_inside.any():
        raise ZoosimError("No decision between start time and end time is over yet.")
    return _judged(served.log.rows(np.flatnonzero(is_inside)), served.first_candidates[is_inside])


def _judged(log: Log, first: IntArray) -> list[dict[str, Any]]:
    """Return the results of the policy that was online, of the first candidates `(n,)`, and of an even draw."""
    targets: dict[str, Target] = {
        "Baseline1": lambda log, start, stop: _certain(first[start:stop], len(log.names)),
        "RandomPolicy": lambda log, start, stop: _even(log.available(start, stop)),
    }
    estimates = {row.policy: row for row in evaluate(log, targets, estimators=["snips"], compare=False).results}
    online = _weighted(log, np.ones(len(log)))
    results = [_result("Online", online, float(log.rewards.mean()), _half_width(log.rewards))]
    for name, target in targets.items():
        row = estimates[name]
        low = LOWEST if row.low is None else max(LOWEST, row.low)
        high = HIGHEST if row.high is None else min(HIGHEST, row.high)
        value = 0.0 if math.isnan(row.value) else row.value
        result = _result(name, _weighted(log, _chances(target, log) / log.propensities), value, (high - low) / 2)
        results.append({**result, "verdict": row.verdict})
    return results


def _weighted(log: Log, weights: FloatArray) -> Weighted:
    assert log.times is not None
    return Weighted(weights, log.rewards, log.times)


def _result(name: str, weighted: Weighted, value: float, half_width: float) -> dict[str, Any]:
    """Return the result of a policy as clients read it."""
    windows = weighted.times // WINDOW
    summary = [_sums(_rows(weighted, windows == window), WINDOW_TEXT) for window in np.unique(windows)]
    total = _sums(weighted, "PT0S") | {"averageReward": value, "confidenceInterval": half_width}
    return {
        "name": name,
        "arguments": "",
        "policySource": SOURCES[name],
        "summary": summary,
        "totalSummary": total,
    }


def _rows(weighted: Weighted, chosen: BoolArray) -> Weighted:
    return Weighted(weighted.weights[chosen], weighted.rewards[chosen], weighted.times[chosen])


def _chances(target: Target, log: Log) -> FloatArray:
    """Return the probabilities `(n,)` of what was shown, a part of the visits at a time."""
    chances = np.empty(len(log))
    for start in range(0, len(log), VISITS_AT_ONCE):
        stop = min(start + VISITS_AT_ONCE, len(log))
        chances[start:stop] = target(log, start, stop)[np.arange(stop - start), log.actions[start:stop]]
    return chances


def _sums(weighted: Weighted, window: str) -> dict[str, Any]:
    """Return the sums that inverse propensity estimates are made of (Horvitz & Thompson 1952)."""
    weighted_rewards = weighted.weights * weighted.rewards
    total_weight = float(weighted.weights.sum())
    return {
        "timeStamp": _iso(int(weighted.times.min())),
        "ipsEstimatorNumerator": float(weighted_rewards.sum()),
        "ipsEstimatorDenominator": float(len(weighted_rewards)),
        "snipsEstimatorDenominator": total_weight,
        "aggregateTimeWindow": window,
        "nonZeroProbability": float(np.count_nonzero(weighted.weights)),
        "sumOfSquares": float((weighted_rewards**2).sum()),
        "confidenceInterval": _half_width(weighted_rewards),
        "averageReward": float(weighted_rewards.sum()) / total_weight if total_weight else 0.0,
    }


def _half_width(values: FloatArray) -> float:
    """Return half the width of a 95% interval of a mean; 0 for one value."""
    return 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _certain(products: IntArray, n_products: int) -> FloatArray:
    chances = np.zeros((len(products), n_products))
    chances[np.arange(len(products)), products] = 1.0
    return chances


def _even(available: BoolArray) -> FloatArray:
    return np.asarray(available / available.sum(axis=1, keepdims=True))


def _iso(microseconds: int) -> str:
    return f"{np.datetime64(microseconds, 'us')}Z"


if __name__ == "__main__":
    os.nice(NICENESS)
    run(parse_address(os.environ[STORE]), Path(sys.argv[1]))
