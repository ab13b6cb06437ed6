"""Q15: how often does `evaluate` trust an interval that misses? Logs made to fool it, beside sound ones.

Each way to fool it makes 20 logs, whose truth is known. A policy is judged twice, by all of its probabilities (`ips`,
`snips`, `dr`) and by a column of those of the logged actions (`ips`, `snips`). ZOOSIM_FOOLED_LOGS sets another number
of logs.
"""

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.quality.fooled import (
    amounts,
    dependence,
    farms,
    groups,
    learned,
    pages,
    propensities,
    rewards,
    sessions,
    sound,
    times,
    twins,
)
from benchmarks.quality.fooled.shop import Way
from zoosim.core.rng import stream
from zoosim.off_policy import findings
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST

LOGS, FIRST = 20, 1_000
"""Logs per way, and the first one's seed; those below were used for tuning."""

SOUND, HIDDEN = "sound", "no log can show"

CLASSES: dict[str, tuple[Way, ...]] = {
    SOUND: (*sound.SOUND, *twins.SOUND_USERS, *learned.OF_OTHER_ROWS, *amounts.SOUND_AMOUNTS, *pages.SOUND_PAGES),
    "users without ids": dependence.USERS,
    "bots": dependence.BOTS,
    "drift": times.DRIFT,
    "late rewards": times.LATE,
    "choices by time": times.CHANGED,
    "rewards by row": rewards.SHIFTED,
    "leaks": rewards.LEAKS,
    "reward in hand": rewards.PEEKING,
    "units": rewards.UNITS,
    "tails": rewards.TAILS,
    "propensities": propensities.PROPENSITIES,
    "missing rows": propensities.MISSING,
    "copies": propensities.COPIES,
    "codes": propensities.CODES,
    "rewards within users": sessions.BOOKED,
    "users with ids": groups.GROUPS,
    "farms": farms.FARMS,
    "kept by clicks": farms.KEPT,
    "policies of these rows": learned.OF_THESE_ROWS,
    "amounts cut": amounts.CUT,
    "returns": amounts.RETURNS,
    "clocks": amounts.CLOCKS,
    "rankings": pages.PAGES,
    HIDDEN: (
        *sound.HIDDEN,
        *twins.HIDDEN_USERS,
        farms.farm_of_two_visits,
        amounts.amounts_above_a_limit_left_out,
        learned.best_of_many_policies,
    ),
}


class Counts(NamedTuple):
    """Of how many `intervals` some are trusted, refused (`do not use`), miss, and miss though they are trusted.

    Those that are `unchecked` got their verdict without the checks of the log.
    """

    intervals: int
    trusted_unchecked: int
    trusted: int
    refused: int
    missing: int
    fooled_unchecked: int
    fooled: int


def main() -> None:
    """Print a line per way and class: verdicts, and trusted intervals that miss."""
    seeds = range(FIRST, FIRST + int(os.environ.get("ZOOSIM_FOOLED_LOGS", LOGS)))
    by_class = {}
    print(
        f"Q15 {len(seeds)} logs per way: class | way | trust without the checks, trust | do not use | misses | "
        "trust and misses without the checks, trust and misses",
        flush=True,
    )
    for name, ways in CLASSES.items():
        with threadpool_limits(1):
            counts = [count(way, seeds) for way in ways]
        for way, own in zip(ways, counts, strict=True):
            print(_line(name, way.__name__.replace("_", " "), own), flush=True)
        by_class[name] = Counts(*map(sum, zip(*counts, strict=True)))
    for name, total in by_class.items():
        print(_line(name, f"all {len(CLASSES[name])}", total))
    unsound = [total for name, total in by_class.items() if name not in (SOUND, HIDDEN)]
    n_ways = sum(len(ways) for name, ways in CLASSES.items() if name not in (SOUND, HIDDEN))
    print(_line("what a log can show", f"all {n_ways}", Counts(*map(sum, zip(*unsound, strict=True)))))


def count(way: Way, seeds: Sequence[int]) -> Counts:
    """Judge a way's logs, one per seed, and count verdicts and intervals that miss."""
    name = way.__name__
    trusted, trusted_unchecked, refused, missing = [], [], [], []
    for seed in seeds:
        case = way(stream(seed, "fooled", name))
        with patch.object(findings, "LogChecks", return_value=None):
            unchecked = evaluate(case.log, case.policies, compare=False).results
        trusted_unchecked += [row.verdict == TRUST for row in unchecked]
        for row in evaluate(case.log, case.policies, compare=False).results:
            low = -np.inf if row.low is None else row.low
            high = np.inf if row.high is None else row.high
            trusted.append(row.verdict == TRUST)
            refused.append(row.verdict == DO_NOT_USE)
            missing.append(not low <= case.value <= high)
    print(f"Q15 {name}: {len(seeds)} logs", file=sys.stderr, flush=True)
    fooled_unchecked = np.array(trusted_unchecked) & np.array(missing)
    fooled = np.array(trusted) & np.array(missing)
    counted = trusted_unchecked, trusted, refused, missing, fooled_unchecked, fooled
    return Counts(len(trusted), *(int(np.sum(each)) for each in counted))


def _line(name: str, way: str, counts: Counts) -> str:
    shares = [number / counts.intervals for number in counts[1:]]
    return f"| {name} | {way} | " + " | ".join(f"{100 * share:.1f}%" for share in shares) + " |"
