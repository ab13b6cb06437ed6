"""A service says of floors how they stand, in the learner's lines, in what it answers, and on the page."""

import asyncio
from pathlib import Path

import pytest

import zoosim
from tests.serving.shop import make_model, running
from tests.serving.test_learner import Listener
from tests.serving.test_service import visit
from zoosim.optimizers import dual_ascent
from zoosim.serving.console.view import findings
from zoosim.serving.learner import LearnerJob, LogLearner
from zoosim.serving.machine import Machine
from zoosim.serving.publishing import Message, decode


class Teller(Listener):
    """A ranker that hands on what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Message] = []

    def send(self, content: bytes) -> None:
        self.messages.append(decode(content))


def test_a_floor_that_cannot_be_met_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dual_ascent, "FEWEST", 10)
    make_model(tmp_path)
    parameters = {"constrained": {"floors": {"click": 5.0}, "dual_step": 100.0}}
    zoosim.train(tmp_path / "log.parquet", ["constrained"], tmp_path / "floored.zoosim", parameters=parameters)

    async def use() -> None:
        async with running(tmp_path / "service", tmp_path / "floored.zoosim") as service:
            assert service.deployment()["arms"]["champion"]["floors"] == [
                "click: floor 5 per visit, too few visits to tell"
            ]
            for number in range(31):
                await visit(service, number)
            ranker = Teller()
            learner = LogLearner(LearnerJob(service.address, 60.0), ranker, Machine())
            learner.begin()
            for _ in range(2):
                learner.step()
                learner._is_new = True
                learner._published_at = 0.0
            for message in ranker.messages:
                service.current.take(message)
            (sentence,) = service.deployment()["arms"]["champion"]["floors"]
            assert "cannot be met" in sentence
            assert [line for line in caplog.messages if "cannot be met" in line] == [f"arm champion: {sentence}"]
            assert (False, "Floors of champion", sentence) in findings(service, None)

    asyncio.run(use())
