"""What a log showed: single products and rankings, clicked or not; what cannot be learned from is refused."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.logs.log import Log
from zoosim.logs.parse import to_log
from zoosim.off_policy.retrievers.shown import shown_rows


def single(rewards: list[float]) -> Log:
    frame = pl.DataFrame(
        {"action": [0, 2, 2], "reward": rewards, "user": [[1.0], [2.0], [3.0]], "propensity": [0.5] * 3}
    )
    return to_log(frame, n_actions=4)


def test_each_row_of_single_products_counts() -> None:
    rows = shown_rows(single([1.0, 0.0, 0.0]))
    np.testing.assert_array_equal(rows.product, [0, 2, 2])
    np.testing.assert_array_equal(rows.clicked, [1, 0, 0])
    np.testing.assert_array_equal(rows.visitors[:, 0], [1, 2, 3])
    assert rows.n_products == 4
    order, starts = rows.of_product()
    np.testing.assert_array_equal(order, [0, 1, 2])
    np.testing.assert_array_equal(starts, [0, 1, 1, 3, 3])


def test_each_position_of_a_ranking_counts() -> None:
    frame = pl.DataFrame(
        {
            "decision_id": ["a", "a", "b", "b"],
            "position": [0, 1, 0, 1],
            "action": [3, 1, 0, 2],
            "reward": [0.0, 1.0, 0.0, 0.0],
            "propensity": [0.25, 0.3, 0.25, 0.3],
            "user": [[1.0], [1.0], [2.0], [2.0]],
        }
    )
    rows = shown_rows(to_log(frame, action_space="rankings", n_actions=4))
    np.testing.assert_array_equal(rows.visit, [0, 0, 1, 1])
    np.testing.assert_array_equal(rows.product, [3, 1, 0, 2])
    np.testing.assert_array_equal(rows.position, [0, 1, 0, 1])
    np.testing.assert_array_equal(rows.clicked, [0, 1, 0, 0])


def test_products_that_were_never_shown_come_last() -> None:
    log = replace(
        single([1.0, 0.0, 0.0]), products=np.ones((4, 1)), other_names=("new",), other_products=np.zeros((1, 1))
    )
    np.testing.assert_array_equal(shown_rows(log).products[:, 0], [1, 1, 1, 1, 0])


def test_a_reward_is_taken_by_name() -> None:
    log = replace(single([2.5, 0.0, 0.0]), rewards_by_name={"click": np.array([0.0, 1.0, 0.0]), "revenue": np.ones(3)})
    np.testing.assert_array_equal(shown_rows(log, "click").clicked, [0, 1, 0])
    with pytest.raises(ConfigError, match="the log has no 'clicks'"):
        shown_rows(log, "clicks")
    with pytest.raises(
        DataError, match=r"log: got 2.5 as reward, expected clicks, 0 or 1; name a reward.*click, revenue"
    ):
        shown_rows(log)


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_clicks_on_all_or_nothing_teach_nothing(reward: float) -> None:
    with pytest.raises(DataError, match=f"got reward {reward:g} in every row, expected some"):
        shown_rows(single([reward] * 3))
