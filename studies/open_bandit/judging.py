"""Judge each policy of the Open Bandit Dataset by the log that the other one wrote."""

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from studies.open_bandit.thompson import item_probabilities
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, Progress
from zoosim.logs.log import Log
from zoosim.logs.open_bandit import CAMPAIGNS, POLICIES, open_bandit_folder, read_open_bandit
from zoosim.off_policy.actions.products import BY_WEIGHTS
from zoosim.off_policy.compare import LOGGED
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.intervals.clusters import group_sums, make_clusters
from zoosim.off_policy.intervals.intervals import bootstrap_interval
from zoosim.off_policy.results import Evaluation

UNIFORM, THOMPSON = "uniform", "Thompson sampling"
JUDGED = {"random": THOMPSON, "bts": UNIFORM}
"""Whom a log's author is not: the policy that it judges."""


@dataclass(frozen=True)
class Told:
    """One estimate of `policy` by the log `log` of `rows` rows and `clicks` clicks; ends are None if open.

    `logged` is what the log's own choices earned, `ratio` the value over it, `difference` the value less it, on the
    same rows, None where that rests on too few rewards. `played` is what the policy earned in the log that it wrote
    itself; None where that is not there.
    """

    log: str
    policy: str
    estimator: str
    rows: int
    clicks: int
    logged: float
    logged_low: float | None
    logged_high: float | None
    value: float
    low: float | None
    high: float | None
    ratio: float
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    played: float | None
    played_low: float | None
    played_high: float | None
    ess: float
    mean_weight: float
    max_weight: float
    verdict: str
    reasons: tuple[str, ...]


def measure(*, data: str | os.PathLike[str] | None = None, progress: Progress = lambda line: None) -> list[Told]:
    """Judge by all logs in the folder `data`, or what `ZOOSIM_DATA` names. Raises `ConfigError` where there is none."""
    folder, rows = open_bandit_folder(data), list[Told]()
    logs = {
        (policy, campaign): read_open_bandit(policy, campaign, folder)
        for campaign in CAMPAIGNS
        for policy in POLICIES
        if (folder / policy / campaign).is_dir()
    }
    for (author, campaign), log in logs.items():
        progress(f"{author}/{campaign}: {JUDGED[author]} by {len(log):,} rows")
        other = logs.get((next(policy for policy in POLICIES if policy != author), campaign))
        target = _target(folder, author, campaign, log)
        evaluation = evaluate(log, {JUDGED[author]: target}, estimators=list(BY_WEIGHTS))
        rows += _estimates(f"{author}/{campaign}", log, evaluation, None if other is None else _earned(other))
    return rows


def _target(folder: Path, author: str, campaign: str, log: Log) -> FloatArray:
    """Return the probabilities of the policy that did not write the log: `(K,)` or `(n, K)`."""
    if JUDGED[author] == UNIFORM:
        return np.full(log.n_actions, 1.0 / log.n_actions)
    return np.ascontiguousarray(item_probabilities(folder, campaign, log.n_actions).T)[log.positions]


def _earned(log: Log) -> Interval:
    """Return the mean reward of a log with its interval."""
    return bootstrap_interval(group_sums(make_clusters(len(log), log.user_ids), Terms(log.rewards)))


def _estimates(name: str, log: Log, evaluation: Evaluation, played: Interval | None) -> list[Told]:
    leads = {
        row.estimator: Interval(row.value, row.low, row.high) for row in evaluation.differences if row.other == LOGGED
    }
    uncompared = Interval(math.nan, None, None)
    if played is None:
        played = Interval(math.nan, None, None)
    return [
        Told(
            log=name,
            policy=row.policy,
            estimator=row.estimator,
            rows=len(log),
            clicks=int((log.rewards > 0.0).sum()),
            logged=evaluation.logged.mean,
            logged_low=_end(evaluation.logged.low),
            logged_high=_end(evaluation.logged.high),
            value=row.value,
            low=_end(row.low),
            high=_end(row.high),
            ratio=row.value / evaluation.logged.mean,
            difference=_end(leads.get(row.estimator, uncompared).mean),
            difference_low=_end(leads.get(row.estimator, uncompared).low),
            difference_high=_end(leads.get(row.estimator, uncompared).high),
            played=_end(played.mean),
            played_low=_end(played.low),
            played_high=_end(played.high),
            ess=row.ess,
            mean_weight=row.mean_weight,
            max_weight=row.max_weight,
            verdict=row.verdict,
            reasons=row.reasons,
        )
        for row in evaluation.results
    ]


def _end(end: float | None) -> float | None:
    return end if end is not None and math.isfinite(end) else None
