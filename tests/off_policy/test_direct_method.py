"""The direct method on logs that hardly tell anything: equal rewards, one user, one row."""

import math
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import zoosim
from benchmarks.quality.fooled import sound
from tests.api.test_models import imported
from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.errors import DataError
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray
from zoosim.logs.parse import read_log
from zoosim.off_policy.actions import products
from zoosim.off_policy.direct_method import _calibrate
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.verdict import DISCREPANCY_ERRORS, TRUST, WEAK

UNIFORM = {"uniform": np.full(10, 0.1)}


@pytest.mark.parametrize("reward", [1.0, 0.1, 7.5, -1.0])
def test_rewards_that_are_all_alike_are_predicted_as_they_are(reward: float) -> None:
    log = drawn(TableWorld(0, 0.5), 400)
    rewards = np.full(len(log), reward)
    evaluation = evaluate(replace(log, rewards=rewards, rewards_by_name={"same": rewards}), UNIFORM)
    for by_reward in evaluation.by_reward.values():
        values = {row.estimator: row.value for row in by_reward.results}
        assert values["dm"] == pytest.approx(reward)
        assert not any("apart" in reason for row in by_reward.results for reason in row.reasons)


@pytest.mark.parametrize("predicted", [np.full(50, 0.3), np.linspace(0.1, 0.5, 50)])
def test_calibration_brings_the_mean_to_that_of_equal_rewards(predicted: FloatArray) -> None:
    """Where predictions differ, none becomes negative."""
    corrected = _calibrate(np.full(50, 1.0), predicted, is_positive=True).apply(predicted)
    assert corrected.mean() == pytest.approx(1.0)
    assert corrected.min() > 0.0


def test_policies_are_trained_on_rewards_that_are_all_alike(tmp_path: Path) -> None:
    log = read_log(imported(tmp_path, n=600))
    training = zoosim.train(replace(log, rewards=np.ones(len(log))), ["random", "linear"])
    assert training.predicted == pytest.approx({"random": 1.0, "linear": 1.0})


@pytest.mark.parametrize("rows", [1, 400])
def test_one_user_leaves_the_direct_method_out(rows: int) -> None:
    log = drawn(TableWorld(0, 0.5), 400).rows(np.arange(rows))
    log = replace(log, user_ids=np.zeros(rows, np.int64))
    evaluation = evaluate(log, UNIFORM, overlap=True)
    assert {row.estimator for row in evaluation.results} == {"ips", "snips", "dr"}
    assert evaluation.notes["uniform"] == ("dm is left out: log: got rows of one user alone, expected 2 users or more",)
    with pytest.raises(DataError, match="got rows of one user alone"):
        evaluate(log, UNIFORM, estimators=["dm"])


def test_an_interval_is_wider_where_weights_find_the_model_off() -> None:
    """The best of linear scores earns 1, and all else 0, which no model of the family can tell."""
    for seed in (0, 1, 3):
        case = sound.answers(stream(seed, "fooled", "answers"))
        (result,) = evaluate(case.log, {"policy": case.policy}, estimators=["dm"]).results
        assert any("the interval is as much wider" in reason for reason in result.reasons)
        assert result.verdict == WEAK
        assert result.low is not None
        assert result.high is not None
        assert result.low < case.value < result.high


def test_an_interval_is_as_it_was_where_weights_agree_with_the_model() -> None:
    case = sound.plain(stream(0, "fooled", "plain"))
    (result,) = evaluate(case.log, {"policy": case.policy}, estimators=["dm"]).results
    with patch.object(products, "DISCREPANCY_ERRORS", DISCREPANCY_ERRORS._replace(weak=math.inf)):
        (without,) = evaluate(case.log, {"policy": case.policy}, estimators=["dm"]).results
    assert result == without
    assert result.verdict == TRUST
