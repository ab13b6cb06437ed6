"""The rows that an estimate rests on: their count in effect, and the largest of them."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.action_space import RANKINGS
from zoosim.logs.parse import to_log
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.evidence import count_rewards, rewarded_rows
from zoosim.off_policy.results import Result
from zoosim.off_policy.verdict import DO_NOT_USE, WEAK


def test_effective_rewards_by_hand() -> None:
    """Four equal ones are four; 3, 1 and 1 are 25 / 11; a loss counts as a gain does; none are none.

    Of weights 1, 1, 1 and 9 the three rewarded ones are 144 / 84 rows in effect, times 3 / 12.
    """

    def effective(rewards: list[float], weights: list[float]) -> float:
        return count_rewards(np.array(rewards), np.array(weights)).effective

    assert effective([1.0, 1.0, 1.0, 1.0, 0.0], [7.0] * 5) == pytest.approx(4.0)
    assert effective([1.0, -1.0, 1.0, 5.0], [3.0, 1.0, 1.0, 0.0]) == pytest.approx(25 / 11)
    assert effective([0.0] * 3, [1.0] * 3) == effective([1.0] * 3, [0.0] * 3) == 0.0
    assert effective([1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 9.0]) == pytest.approx(144 / 84 * 3 / 12)


def test_expected_rewards_by_hand() -> None:
    """Two rows count, which hold no reward where half of all rows do: 0 came of 1 expected."""
    count = count_rewards(np.array([0.0, 0.0, 1.0, 1.0]), np.array([2.0, 2.0, 0.0, 0.0]))
    assert count == (0.0, 1.0)
    assert count.evidence == 1.0


def test_the_largest_rewarded_rows_come_first() -> None:
    log = drawn(TableWorld(0, 0.5), 50)
    rewards, weights = np.zeros(50), np.ones(50)
    rewards[[4, 9, 30]] = 2.0, 1.0, 1.0
    weights[9], weights[30], weights[31] = 6.0, 0.5, 100.0
    timed = replace(log, rewards=rewards, times=np.arange(50) * 1_000_000, user_ids=np.arange(50) + 7)
    rows = rewarded_rows(timed, weights)
    assert [(row.row, row.user, row.reward, row.weight) for row in rows] == [
        (9, 16, 1.0, 6.0),
        (4, 11, 2.0, 1.0),
        (30, 37, 1.0, 0.5),
    ]
    assert [row.share for row in rows] == pytest.approx([6 / 8.5, 2 / 8.5, 0.5 / 8.5])
    assert rows[0].time == "1970-01-01T00:00:09+00:00"
    assert rows[0].action == f"action {log.actions[9]}"
    assert len(rewarded_rows(timed, weights, most=2)) == 2
    assert rewarded_rows(replace(timed, rewards=np.zeros(50)), weights) == ()


def test_rows_are_numbered_as_in_the_file() -> None:
    """A bad row, rows set aside and the order of time change nothing: row 5 alone is clicked."""
    clicks = np.arange(8) == 5
    frame = pl.DataFrame({"action": [0, 1] * 4, "propensity": [0.5] * 8, "reward": clicks.astype(float)})
    frame = frame.with_columns(
        pl.Series("propensity", [0.5, 7.0, *[0.5] * 6]),
        time=pl.Series(range(8, 0, -1)).cast(pl.Datetime("us", "UTC")),
    )
    log = to_log(frame, skip_bad=True)
    for part in (log, log.in_order(), log.rows(log.actions == 1), log.in_order().rows(np.arange(4))):
        assert [row.row for row in rewarded_rows(part, np.ones(len(part)))] == [5]
    whole = to_log(frame.with_columns(propensity=pl.lit(0.5)))
    assert [row.row for row in rewarded_rows(whole, np.ones(8))] == [5]


def test_visits_of_rankings_are_numbered_by_the_row_of_their_top() -> None:
    frame = pl.DataFrame(
        {
            "decision_id": ["a", "a", "b", "b"],
            "position": [0, 1, 1, 0],
            "action": [0, 1, 0, 1],
            "propensity": [0.5, 1.0, 1.0, 0.5],
            "reward": [0.0, 0.0, 1.0, 0.0],
        }
    )
    log = to_log(frame, action_space=RANKINGS)
    assert [row.row for row in rewarded_rows(log, np.ones(2))] == [3]


def test_an_evaluation_names_the_rows_of_each_reward() -> None:
    """Weights by hand: those of the policy over the log's, times rewards; in JSON, too."""
    world = TableWorld(0, 0.5)
    log = drawn(world, 600)
    twice = replace(log, rewards_by_name={"double": 2.0 * log.rewards, "reward": log.rewards})
    target = log.features @ world.target
    found = evaluate(twice, {"new": target}, estimators=["ips", "dr"])
    weights = target[np.arange(600), log.actions] / log.propensities
    for evaluation in found.by_reward.values():
        for result in evaluation.results:
            count = count_rewards(log.rewards, weights)
            assert (result.effective_rewards, result.expected_rewards) == pytest.approx(count)
            assert result.rests_on[0].row == int(np.argmax(weights * log.rewards))
    plain = found.summary["others"]["double"]["results"][0]["rests_on"][0]
    assert plain["reward"] == 2.0 * found.summary["results"][0]["rests_on"][0]["reward"]
    assert set(plain) == {"row", "user", "time", "action", "reward", "weight", "share"}
    assert "rests_on" not in found.table.columns


def test_estimates_by_weights_need_rewards_to_be_compared_and_the_direct_method_a_verdict() -> None:
    few = Result("new", "dr", 0.1, 0.05, 0.15, 500.0, 1.0, 2.0, WEAK, (), effective_rewards=12.0, expected_rewards=9.0)
    assert not few.is_comparable
    assert few._replace(expected_rewards=20.0).is_comparable
    assert few._replace(estimator="dm").is_comparable
    assert not few._replace(estimator="dm", verdict=DO_NOT_USE).is_comparable
