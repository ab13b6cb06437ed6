"""The table of a comparison: one row per policy, and one for the best settings of each in hindsight."""

from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.peers.contests import Contest
from benchmarks.peers.rivals import settings
from zoosim.core.statistics import Interval, cut, mean_interval

REFERENCE = "adaptive"
NOT_THERE = "\u2013"
"""What stands for the result of a policy that cannot take part."""


def lines(contests: Sequence[Contest], names: Sequence[str], *, tune: bool) -> Iterable[str]:
    """Yield the table in Markdown, and which settings were the best.

    A cell holds the mean over seeds in percent, its 95% interval, and in shops the worst one. "less" is what the
    reference has more than the row, paired by seed; the time of a visit is that of the first contest.
    """
    heads = [contest.title for contest in contests]
    yield " | ".join(["| policy", *heads, f"{REFERENCE} less this, {heads[0]}", "ms per visit |"])
    yield "|" + " --- |" * (len(heads) + 3)
    for name in names:
        yield _row(contests, name, [name] * len(contests))
    chosen = {name: best_settings(contests, name) for name in names if tune and len(settings(name, tune=True)) > 1}
    for name, best in chosen.items():
        yield _row(contests, f"{name}, tuned", best)
        first = contests[0]
        yield _cells(f"{name}, tuned for each seed of {first.title}", [_value(_best_of_each_seed(first, name), first)])
    for name, best in chosen.items():
        words = settings(name, tune=True)
        yield f"{name}: " + ", ".join(f"{head} {words[key]}" for head, key in zip(heads, best, strict=True))


def best_settings(contests: Sequence[Contest], name: str) -> list[str]:
    """Return under which name a policy has the highest mean of each contest."""
    keys = list(settings(name, tune=True))
    return [
        max(keys, key=lambda key: float(np.mean(list(contest.reached.get(key, {0: 0.0}).values()))))
        for contest in contests
    ]


def _best_of_each_seed(contest: Contest, name: str) -> dict[int, float]:
    """Return what a policy reaches where each seed has the best of its settings."""
    tried = [contest.reached.get(key, {}) for key in settings(name, tune=True)]
    return {seed: max(reached[seed] for reached in tried) for seed in tried[0]}


def _row(contests: Sequence[Contest], head: str, keys: Sequence[str]) -> str:
    """Return the row of a policy, which competes under the name `keys[i]` in contest i."""
    values = [_value(contest.reached.get(key, {}), contest) for contest, key in zip(contests, keys, strict=True)]
    first = contests[0]
    time = f"{first.milliseconds[keys[0]]:.2f}" if keys[0] in first.milliseconds else NOT_THERE
    return _cells(head, [*values, _lead(first, keys[0]), time])


def _cells(head: str, cells: Sequence[str]) -> str:
    return " | ".join([f"| {head}", *cells]) + " |"


def _value(reached: dict[int, float], contest: Contest) -> str:
    if not reached:
        return NOT_THERE
    values = list(reached.values())
    interval = cut(mean_interval(values), (contest.least, 1.0))
    return f"{_words(interval)}, worst {100 * min(values):.1f}"


def _lead(contest: Contest, key: str) -> str:
    """Return what the reference reaches more, paired by seed."""
    reference = contest.reached.get(REFERENCE)
    if reference is None or key == REFERENCE or key not in contest.reached:
        return ""
    return _words(mean_interval([reference[seed] - value for seed, value in contest.reached[key].items()]))


def _words(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return f"{100 * interval.mean:.1f}"
    return f"{100 * interval.mean:.1f} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"
