"""What the console says of one decision."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.serving.shop import make_model, running
from zoosim.serving import logged
from zoosim.serving.bodies import DecideBody, FeedbackBody
from zoosim.serving.console.decision_view import _came, decision_values
from zoosim.serving.service import Service


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


async def shown(service: Service, decision_id: str) -> dict[str, Any]:
    row, choice = await service.decision(decision_id)
    answer = msgspec.to_builtins(await service.answer(decision_id))
    values = await decision_values(service, row, choice, answer)
    return {**values, **dict(values["facts"])}


def test_a_decision_is_told_from_what_was_known_to_what_came(tmp_path: Path, model: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, model) as service:
            body = DecideBody(decision_id="one", visitor={"country": "fr"}, candidates=["p1", "p2"])
            answer = await service.decide(body)
            before = await shown(service, "one")
            assert before["What was known of the visitor"] == "country is fr"
            assert before["What came"] == "no reward so far"
            await service.decide(DecideBody(decision_id="two"))
            await service.give_feedback("two", FeedbackBody({"click": 0.0}))
            await service.give_feedback("one", FeedbackBody({"click": 1.0}, feedback_id="f"))
            after = await shown(service, "one")
            assert after["What came"].startswith("click 1 after 0")
            assert after["What came"].endswith("the first is worth 1 to the policy")
            row, _ = await service.decision("two")
            assert _came(row, [], {}, True) == "no reward among the 5,000 rows behind it"
            product = answer.shown[0].product
            most = max(answer.propensities, key=lambda name: answer.propensities[name])
            words = "the policy shows most" if product == most else f"shows {most} more often"
            assert words in after["Why"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (DecideBody(decision_id="d", candidates=["p1"]), "p1 was all that could be shown"),
        (DecideBody(decision_id="d", pinned={"1": "p2"}), "p2 was pinned to the top"),
        (
            DecideBody(decision_id="d", candidates=["p1", "p2"], forbidden=["p2"]),
            "p1 was all that could be shown; rules of the shop kept back 1 more",
        ),
    ],
)
def test_a_decision_says_what_rules_left(tmp_path: Path, model: Path, body: DecideBody, why: str) -> None:
    async def run() -> None:
        async with running(tmp_path, model) as service:
            await service.decide(body)
            assert (await shown(service, "d"))["Why"] == why

    asyncio.run(run())


def test_what_was_drawn_although_another_is_likelier_is_said(tmp_path: Path, model: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, model, exploration=0.5) as service:
            whys = []
            for number in range(30):
                await service.decide(DecideBody(decision_id=f"{number}", candidates=["p1", "p2", "p3"]))
                whys.append((await shown(service, f"{number}"))["Why"])
            assert any("that others are tried, too" in why for why in whys)
            assert any("the one that the policy shows most" in why for why in whys)

    asyncio.run(run())


def test_feedback_is_looked_for_in_the_rows_behind(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged, "MOST_SEARCHED", 6)
    monkeypatch.setattr(logged, "SEARCHED_AT_ONCE", 2)

    async def run() -> None:
        async with running(tmp_path, model) as service:
            await service.decide(DecideBody(decision_id="one"))
            for number in range(5):
                await service.decide(DecideBody(decision_id=f"{number}"))
            for number in range(3):  # the first within six rows, the others beyond
                await service.give_feedback("one", FeedbackBody({"click": 1.0}, feedback_id=f"{number}"))
            row, _ = await service.decision("one")
            assert [each.rewards for _, each in await service.logged.feedback_to(row)] == [{"click": 1.0}]

    asyncio.run(run())
