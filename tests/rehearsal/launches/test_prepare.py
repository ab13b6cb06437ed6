"""What a rehearsal takes from a log: its traffic, its plan, and the rows to rehearse with."""

from dataclasses import replace

import numpy as np
import pytest

from tests.fitting.shops import shop_log
from zoosim.core.durations import DAY
from zoosim.core.errors import ConfigError
from zoosim.monitoring.launch_plan import OBJECTIVE
from zoosim.rehearsal.launches import prepare
from zoosim.rehearsal.launches.prepare import rehearsed_plan, rehearsed_rows, traffic_of_log

LOG = shop_log(np.random.default_rng(0), 400, rows_a_user=2)
ROWS = np.arange(400)
USERS = ROWS // 2


def test_without_times_somebody_must_say_how_many_come() -> None:
    with pytest.raises(ConfigError, match="--visits-a-day"):
        traffic_of_log(LOG, USERS, ROWS, None)
    traffic = traffic_of_log(LOG, USERS, ROWS, 800.0)
    assert traffic.period == pytest.approx(12.0)
    assert 24.0 * traffic.visits_per_hour == pytest.approx(800.0)


def test_by_its_times_as_many_come_as_in_the_log_or_as_one_says() -> None:
    timed = replace(LOG, times=ROWS * DAY // 100)
    assert 24.0 * traffic_of_log(timed, USERS, ROWS, None).visits_per_hour == pytest.approx(100.0, rel=0.01)
    faster = traffic_of_log(timed, USERS, ROWS, 1_000.0)
    assert 24.0 * faster.visits_per_hour == pytest.approx(1_000.0)
    assert faster.period == pytest.approx(4 * 24.0, rel=0.01)
    some = np.flatnonzero(USERS % 2 == 0)
    assert 24.0 * traffic_of_log(timed, USERS, some, None).visits_per_hour == pytest.approx(100.0, rel=0.01)


def test_of_a_large_log_whole_visitors_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (rehearsed_rows(USERS, 20) == ROWS).all()
    monkeypatch.setattr(prepare, "MOST_CELLS", 20 * 100)
    rows = rehearsed_rows(USERS, 20)
    assert len(rows) == 100
    assert (np.unique(USERS[rows], return_counts=True)[1] == 2).all()


def test_a_reward_that_the_shop_does_not_know_cannot_be_rehearsed() -> None:
    metrics = [{"role": "success"}, {"role": "guardrail", "reward": "margin"}]
    with pytest.raises(ConfigError, match=r"plan\.yaml: metrics: got the reward margin, which cannot be rehearsed"):
        rehearsed_plan({"metrics": metrics}, LOG, "plan.yaml")
    assert rehearsed_plan({"metrics": metrics[:1]}, LOG, "plan.yaml").metrics[0].reward == OBJECTIVE


def test_the_default_plan_cuts_amounts_where_few_earn_more() -> None:
    assert rehearsed_plan(None, LOG, "plan").metrics[0].high == 1.0
    amounts = replace(LOG, rewards=LOG.rewards * np.linspace(1.0, 100.0, 400))
    plan = rehearsed_plan(None, amounts, "plan")
    assert {(metric.low, metric.high) for metric in plan.metrics} == {(0.0, 99.0)}
    losses = replace(LOG, rewards=np.where(ROWS % 9 == 0, -7.0, amounts.rewards))
    assert rehearsed_plan(None, losses, "plan").metrics[0].low == -7.0
