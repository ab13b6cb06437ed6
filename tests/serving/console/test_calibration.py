"""Predictions of policies beside what came: by bins, with intervals, in bounded memory."""

import asyncio
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.serving.mock_time import MockTime
from tests.serving.shop import make_model, running
from tests.serving.test_learner import Listener
from zoosim.serving.bodies import DecideBody, FeedbackBody
from zoosim.serving.console import calibration as module
from zoosim.serving.console.calibration import EDGES, Bin, Calibration, load_calibrations
from zoosim.serving.console.calibration_view import calibration_panels
from zoosim.serving.learner import LearnerJob, LogLearner
from zoosim.serving.machine import Machine


def a_calibration(predicts: bool = True) -> Calibration:
    return Calibration("champion", "model/1", "linucb", predicts, 0.0, 1.0)


def test_decisions_count_in_the_bin_of_their_prediction() -> None:
    calibration = a_calibration()
    for predicted in (-0.3, 0.005, 0.12, 0.9, 2.0):
        calibration.add(predicted, 1.0)
    counts = [each.count for each in calibration.bins]
    assert counts[0] == 2.0
    assert counts[EDGES.index(0.1)] == 1.0
    assert counts[-1] == 2.0


def test_intervals_hold_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    n, runs, held = 60, 2_000, 0
    for came in rng.random((runs, n)) < 0.1:
        _, low, high = Bin(n, 0.0, float(came.sum()), float(came.sum())).interval(0.0, 1.0)
        held += low <= 0.1 <= high
    assert held / runs > 0.93


def test_of_many_decisions_older_ones_count_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FADING", 100)
    calibration = a_calibration()
    for came in [0.0] * 500 + [1.0] * 100:
        calibration.add(0.5, came)
    kept = calibration.bins[EDGES.index(0.4)]
    assert kept.count <= 101
    assert kept.came / kept.count > 0.6
    assert calibration.decisions == 600


def test_it_is_said_in_words_where_a_policy_is_right() -> None:
    calibration = a_calibration()
    for number in range(400):
        calibration.add(0.25, float(number % 4 == 0))
        calibration.add(0.7, 0.0)
    unable = a_calibration(predicts=False)
    first, second = calibration_panels([calibration, unable])
    assert first.sentence == (
        "champion (linucb) predicts rewards: 0.475 on average, 0.125 came. In 1 of 2 bins what came agrees with it."
    )
    assert [row[-1] for row in first.rows] == ["agrees", "is off"]
    assert second.rows == []
    assert second.sentence.startswith("champion (linucb) tells no reward that it expects")


@pytest.mark.parametrize("policy", ["linucb", "linear"])
def test_a_learner_compares_predictions_before_it_learns(tmp_path: Path, policy: str) -> None:
    model = make_model(tmp_path / "model", policy)

    async def run() -> LogLearner:
        time = MockTime()
        async with running(tmp_path / "service", model, time.clock()) as service:
            learner = LogLearner(LearnerJob(service.address, 1e9), Listener(), Machine(time.clock()))
            learner.begin()
            for number in range(30):
                answer = await service.decide(DecideBody({"country": "de"}, visitor_id=f"v{number}"))
                if number % 3 == 0:
                    await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
                time.pass_by(5.0)
                await service.tick()
            learner.end()
            return learner

    learner = asyncio.run(run())
    (calibration,) = learner._console.figures().calibrations
    assert (calibration.predicts, calibration.policy) == (True, policy)
    assert calibration.decisions >= 29
    assert sum(each.came for each in calibration.bins) == 10.0
    assert 0.0 < sum(each.predicted for each in calibration.bins) / calibration.decisions < 0.9
    saved = (tmp_path / "service" / "snapshots" / "calibrations.json").read_bytes()
    assert load_calibrations(saved, 0) == [calibration]


@pytest.mark.parametrize("content", [b"", b"{}", msgspec.json.encode([Calibration("a", "b", "c", False, 0.0, 0.0)])])
def test_a_broken_file_is_none(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"truncated|Expected `array`|other bins"):
        load_calibrations(content, 0)
