"""What a rehearsal of launches takes from a log: who comes and when, the plan, and how late rewards are."""

from dataclasses import replace
from typing import Any

import numpy as np

from zoosim.core.arrays import evenly_spread
from zoosim.core.config import build
from zoosim.core.durations import DAY, HOUR
from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.monitoring.launch_plan import OBJECTIVE, Plan
from zoosim.rehearsal.launches.traffic import Traffic, traffic_of
from zoosim.rehearsal.shop import visits_a_day

MOST_CELLS = 20_000_000
"""Visits times products of a log that are rehearsed with; of more, some visitors are drawn."""

RARE = 0.99
"""Quantile of what a response earns at which the default plan cuts rewards."""


def rehearsed_rows(users: IntArray, n_products: int) -> IntArray:
    """Return the rows of a shop to rehearse with: all, or all of some visitors, as evenly spread as they come.

    Args:
        users: Who came at each row, numbered from 0 `(R,)`.
        n_products: How many products there are.
    """
    most = max(MOST_CELLS // n_products, 1)
    if len(users) <= most:
        return np.arange(len(users))
    n_users = int(users.max()) + 1
    kept = np.zeros(n_users, bool)
    kept[evenly_spread(n_users, max(n_users * most // len(users), 1))] = True
    return np.flatnonzero(kept[users])


def traffic_of_log(log: Log, users: IntArray, rows: IntArray, a_day: float | None) -> Traffic:
    """Return who comes during a launch.

    Args:
        log: The shop's log, in order of time, of the rows that the fitted shop has.
        users: Who came at each of its rows.
        rows: The rows that are rehearsed with.
        a_day: Visits a day; None for as many as in the log.

    Raises:
        ConfigError: nobody says how many come a day.
    """
    logged = visits_a_day(log)
    if a_day is None and logged is None:
        raise ConfigError(
            f"{log.source}: its times do not span a day, so it does not say how many visits come a day, which decides "
            "how long a launch takes; give --visits-a-day"
        )
    wanted = logged if a_day is None else a_day
    assert wanted is not None
    if logged is None:
        period = len(rows) * DAY / wanted
        times = np.arange(len(rows)) / len(rows) * period
        return traffic_of(users[rows], times / HOUR, period / HOUR)
    assert log.times is not None
    # The gap to the next visit, too: else a period would begin at the moment at which the one before ends.
    period = float(np.ptp(log.times)) * len(log) / (len(log) - 1)
    hours = (log.times[rows] - log.times.min()) / HOUR
    in_log = len(rows) * DAY / period
    return traffic_of(users[rows], hours, period / HOUR, wanted / in_log)


def rehearsed_plan(fields: Any, log: Log, origin: str) -> Plan:
    """Return the plan of a launch, whose metrics must be the objective's: the fitted shop knows no other reward.

    Args:
        fields: The fields of the plan; None for the default plan, which cuts what a visitor earns where few earn more.
        log: The shop's log.
        origin: What messages call the plan.

    Raises:
        ConfigError: it is no plan, or goes by a reward that cannot be rehearsed.
    """
    if fields is None:
        return _default_plan(log)
    plan: Plan = build(Plan, fields, origin)
    for metric in plan.metrics:
        if metric.reward not in (OBJECTIVE, log.objective):
            raise ConfigError(
                f"{origin}: metrics: got the reward {metric.reward}, which cannot be rehearsed: the shop is fitted to "
                f"{log.objective}, the objective; leave it out"
            )
    return plan


def _default_plan(log: Log) -> Plan:
    plan: Plan = build(Plan, {}, "plan")
    earned = log.rewards[log.rewards != 0.0]
    if (earned == 1.0).all():
        return plan
    high = float(f"{max(float(np.quantile(earned, RARE)), 1e-9):.1e}")
    low = min(float(f"{float(earned.min()):.1e}"), 0.0)
    return plan.model_copy(update={"metrics": [replace_range(each, low, high) for each in plan.metrics]})


def replace_range(metric: Any, low: float, high: float) -> Any:
    """Return the plan of a metric with another range of what a visitor earns."""
    return metric.model_copy(update={"low": low, "high": high})


def in_order_of_shop(log: Log, n_rows: int) -> Log:
    """Return the rows of a log that a shop kept that was fitted to it, in order of time."""
    ordered = log.in_order()
    if len(ordered) <= n_rows:
        return ordered
    return ordered.rows(evenly_spread(len(ordered), n_rows))


def exploring_chances(chances: FloatArray, available: FloatArray, exploration: float) -> FloatArray:
    """Return how likely products are shown where a part of the decisions is spread evenly over all candidates.

    Args:
        chances: How likely the model shows each product `(n, K)`.
        available: The chance of each where candidates are shown evenly `(n, K)`.
        exploration: That part.
    """
    return (1.0 - exploration) * chances + exploration * available


def without_users(log: Log) -> Log:
    """Return a log that names no visitors, as a model that decides is told none."""
    return replace(log, user_ids=None)
