"""Findings of a run beside its verdict: an experiment's hypotheses, and when a learner overtakes what never learns."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zoosim.core.number_format import counted, fixed
from zoosim.core.statistics import mean_interval
from zoosim.core.types import FloatArray
from zoosim.worlds.facts import RewardScale

HOLDS, REFUTED, OPEN = "holds", "does not hold", "open"


def judged(better: Mapping[int, float], worse: Mapping[int, float]) -> dict[str, Any]:
    """Return whether one policy earned more than another, over the seeds that both finished.

    Args:
        better: Mean reward of the policy that is thought to earn more, by seed.
        worse: That of the other one.

    Returns:
        The `verdict`, by whether the 95% interval of the mean difference lies above or below 0; `difference`, `low` and
        `high` in units of the reward; `lift`, the difference as a share of what the other one earned; `seeds`.
    """
    shared = sorted(set(better) & set(worse))
    if not shared:
        return {"verdict": OPEN, "difference": None, "low": None, "high": None, "lift": None, "seeds": 0}
    mean, low, high = mean_interval([better[seed] - worse[seed] for seed in shared])
    base = float(np.mean([worse[seed] for seed in shared]))
    return {
        "verdict": _verdict(low, high),
        "difference": mean,
        "low": low,
        "high": high,
        "lift": mean / base if base > 0.0 else None,
        "seeds": len(shared),
    }


def _verdict(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return OPEN
    if low > 0.0:
        return HOLDS
    return REFUTED if high < 0.0 else OPEN


def overtaken_after(at: Sequence[int], lead: FloatArray) -> int | None:
    """Return after how many visits a policy is ahead for good, None where it is not ahead at the end.

    Args:
        at: Numbers of visits done, `(n,)`.
        lead: What it has earned more than the other one by then, `(n,)`.
    """
    behind = np.flatnonzero(lead <= 0.0)
    if not len(behind):
        return int(at[0])
    return int(at[behind[-1] + 1]) if behind[-1] + 1 < len(at) else None


def median_visits(visits: Sequence[int | None]) -> dict[str, Any]:
    """Return the median of numbers of visits, None for never, with the 95% interval that order statistics give.

    The interval holds whatever the distribution (Conover 1999, section 3.2), and needs six seeds.

    Args:
        visits: After how many visits each seed got there; None where it did not.

    Returns:
        `median`, `low` and `high`, None where infinite or, of the ends, with too few seeds; `reached` of `of` seeds.
    """
    ordered = sorted(np.inf if value is None else float(value) for value in visits)
    n = len(ordered)
    # The largest k such that the k-th value from either end is beyond the median with a chance of at most 2.5%.
    chances = np.cumsum([math.comb(n, k) / 2**n for k in range(n // 2)])
    k = int((chances <= 0.025).sum())
    ends = (ordered[k - 1], ordered[n - k]) if k else (np.inf, np.inf)
    middle = float(np.median(ordered)) if n and np.isfinite(ordered[n // 2]) else np.inf
    low, median, high = (int(value) if np.isfinite(value) else None for value in (ends[0], middle, ends[1]))
    reached = sum(value is not None for value in visits)
    return {"median": median, "low": low, "high": high, "reached": reached, "of": n}


def sentences(summary: Mapping[str, Any], reward: RewardScale) -> list[str]:
    """Return the findings of a run in a sentence each.

    Args:
        summary: The content of summary.json.
        reward: What the world says of rewards.
    """
    hypotheses = [_hypothesis(finding, reward) for finding in summary.get("hypotheses", ())]
    return [*hypotheses, *(_overtaking(finding) for finding in summary.get("overtaking", ()))]


def _hypothesis(finding: Mapping[str, Any], reward: RewardScale) -> str:
    difference = finding["difference"]
    if difference is None:
        return f"Hypothesis: {finding['text']}: no seed was finished by both."
    more = "more" if difference >= 0.0 else "less"
    scale = 100.0 if reward.is_share else 1.0
    unit = f"points of {reward.name}" if reward.is_share else reward.unit or reward.word
    low, high = ("" if finding[end] is None else f"{scale * finding[end]:+.1f}" for end in ("low", "high"))
    interval = f"95% interval {low} to {high}, " if low else ""
    lift = "" if finding["lift"] is None else f" ({100 * finding['lift']:+.1f}%)"
    return (
        f"Hypothesis: {finding['text']}: {finding['verdict']}. In visits {finding['from']:,} to {finding['to'] - 1:,} "
        f"{finding['better']} earns {fixed(scale * abs(difference), 1)} {unit} {more} than {finding['worse']}{lift}, "
        f"{interval}{counted(finding['seeds'], 'seed')}."
    )


def _overtaking(finding: Mapping[str, Any]) -> str:
    seeds = f"{finding['reached']} of {counted(finding['of'], 'seed')}"
    pair = f"{finding['policy']} overtakes {finding['over']}, which does not learn,"
    if not finding["reached"]:
        return f"{pair} on none of {counted(finding['of'], 'seed')}."
    if finding["median"] is None:
        return f"{pair} for good on {seeds}."
    ends = [f"{finding[end]:,}" if finding[end] is not None else "never" for end in ("low", "high")]
    interval = f", 95% interval {ends[0]} to {ends[1]}" if finding["low"] is not None else ""
    visits = f"{finding['median']:,} visits (median{interval}; {seeds})"
    return f"{pair} for good after {visits}, by what both earn in expectation."
