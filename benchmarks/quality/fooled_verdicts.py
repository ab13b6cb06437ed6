"""Q15: how often does `evaluate` trust an interval that misses? Logs made to fool it, beside sound ones.

Each way to fool it makes 20 logs, whose truth is known. A policy is judged twice, by all of its probabilities (`ips`,
`snips`, `dr`) and by a column of those of the logged actions (`ips`, `snips`); of rankings by `cascade-ips` and
`cascade-dr`. ZOOSIM_FOOLED_LOGS sets another number of logs; ZOOSIM_FOOLED_CLASSES chooses classes by words of their
names, such as `third round`, or leaves them out, as `-third round` does.
"""

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.quality.fooled import (
    amounts,
    dependence,
    farms,
    groups,
    held_out,
    learned,
    pages,
    propensities,
    rewards,
    sessions,
    sound,
    third_round,
    times,
    twins,
)
from benchmarks.quality.fooled.shop import Case, Way
from zoosim.core.rng import stream
from zoosim.off_policy import findings
from zoosim.off_policy.actions.base import PolicyEvaluation
from zoosim.off_policy.checks.checks import LogChecks
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.findings import Estimate
from zoosim.off_policy.options import EvaluationOptions
from zoosim.off_policy.results import Result
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST

LOGS, FIRST = 20, 1_000
"""Logs per way, and the first one's seed; those below were used for tuning."""

SHOWN, SOUND, HIDDEN = "what a log can show", "sound", "no log can show"

PARTS: dict[str, dict[str, tuple[Way, ...]]] = {
    SOUND: {SOUND: sound.SOUND},
    f"{SOUND}, second round": {
        "sound users": twins.SOUND_USERS,
        "policies of other rows": learned.OF_OTHER_ROWS,
        "sound amounts": amounts.SOUND_AMOUNTS,
        "sound rankings": pages.SOUND_PAGES,
    },
    f"{SOUND}, third round": third_round.SOUND,
    f"{SOUND}, held out": held_out.SOUND,
    SHOWN: {
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
    },
    f"{SHOWN}, second round": {
        "rewards within users": sessions.BOOKED,
        "users with ids": groups.GROUPS,
        "farms": farms.FARMS,
        "kept by clicks": farms.KEPT,
        "policies of these rows": learned.OF_THESE_ROWS,
        "amounts cut": amounts.CUT,
        "returns": amounts.RETURNS,
        "clocks": amounts.CLOCKS,
        "rankings": pages.PAGES,
    },
    f"{SHOWN}, third round": third_round.SHOWN,
    f"{SHOWN}, held out": held_out.SHOWN,
    HIDDEN: {HIDDEN: sound.HIDDEN},
    f"{HIDDEN}, second round": {
        "no log can show: users": twins.HIDDEN_USERS,
        "no log can show: others": (
            farms.farm_of_two_visits,
            amounts.amounts_above_a_limit_left_out,
            learned.best_of_many_policies,
        ),
    },
    f"{HIDDEN}, third round": third_round.HIDDEN,
    f"{HIDDEN}, held out": held_out.HIDDEN,
}
"""Classes of ways by part: parts are summed up each, and those of a beginning (`sound`) together."""

CLASSES = {name: ways for classes in PARTS.values() for name, ways in classes.items()}


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
    classes = chosen_classes(os.environ.get("ZOOSIM_FOOLED_CLASSES", ""))
    print(
        f"Q15 {len(seeds)} logs per way: class | way | trust without the checks, trust | do not use | misses | "
        "trust and misses without the checks, trust and misses | seconds per log",
        flush=True,
    )
    by_class = {}
    for name, ways in classes.items():
        with threadpool_limits(1):
            by_class[name] = [_printed(name, way, seeds) for way in ways]
        print_total(name, by_class[name])
    for part, own in PARTS.items():
        print_total(part, _counts_of(by_class, own))
    for kind in (SOUND, SHOWN, HIDDEN):
        of_kind = [name for part, own in PARTS.items() if part.startswith(kind) for name in own]
        print_total(f"{kind}: all parts", _counts_of(by_class, of_kind))


def chosen_classes(words: str) -> dict[str, tuple[Way, ...]]:
    """Return the classes whose names hold one of some `words`, by commas; or, after a `-`, hold none of them.

    Without words all of them. Raises `SystemExit` where there are none.
    """
    is_left_out = words.startswith("-")
    wanted = [word.strip() for word in words.removeprefix("-").split(",") if word.strip()]
    if not wanted:
        return CLASSES
    classes = {name: ways for name, ways in CLASSES.items() if any(word in name for word in wanted) != is_left_out}
    if not classes:
        raise SystemExit(f"ZOOSIM_FOOLED_CLASSES: got {words}, expected words of some of: {', '.join(CLASSES)}")
    return classes


def print_total(name: str, counts: Sequence[Counts]) -> None:
    """Print what the ways of a class or part sum up to; nothing without ways."""
    if counts:
        print(_line(name, f"all {len(counts)}", Counts(*map(sum, zip(*counts, strict=True)))), flush=True)


def _printed(name: str, way: Way, seeds: Sequence[int]) -> Counts:
    """Count a way's verdicts and print them, and how long a log took."""
    start = time.perf_counter()
    counts = count(way, seeds)
    seconds = (time.perf_counter() - start) / len(seeds)
    print(f"{_line(name, way.__name__.replace('_', ' '), counts)} {seconds:.1f} |", flush=True)
    return counts


def count(way: Way, seeds: Sequence[int]) -> Counts:
    """Judge a way's logs, one per seed, and count verdicts and intervals that miss."""
    name = way.__name__
    trusted, trusted_unchecked, refused, missing = [], [], [], []
    for seed in seeds:
        case = way(stream(seed, "fooled", name))
        results, unchecked = _judge(case)
        trusted_unchecked += [row.verdict == TRUST for row in unchecked]
        for row in results:
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


def _judge(case: Case) -> tuple[list[Result], list[Result]]:
    """Return the results on a log, and the same without the checks of the log, in the same order."""
    estimates = findings._estimates
    unchecked: list[Result] = []

    def both(policy: str, evaluated: PolicyEvaluation, options: EvaluationOptions, checks: LogChecks) -> list[Estimate]:
        unchecked.extend(result for result, _ in estimates(policy, evaluated, options, None))
        return estimates(policy, evaluated, options, checks)

    with patch.object(findings, "_estimates", both):
        return list(evaluate(case.log, case.policies, compare=False).results), unchecked


def _counts_of(by_class: Mapping[str, Sequence[Counts]], names: Iterable[str]) -> list[Counts]:
    """Return the counts of all ways of the classes of some names."""
    return [counts for name in names for counts in by_class.get(name, ())]


def _line(name: str, way: str, counts: Counts) -> str:
    shares = [number / counts.intervals for number in counts[1:]]
    return f"| {name} | {way} | " + " | ".join(f"{100 * share:.1f}%" for share in shares) + " |"
