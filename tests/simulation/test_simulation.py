"""Simulated days violate nothing, repeat to the byte, and tell broken variants of what they simulate."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.simulation.faults import Fault
from tests.simulation.run import run_days
from zoosim.core.errors import PolicyError
from zoosim.serving.endpoints.base import NO_REFUSALS, Endpoint
from zoosim.serving.events import CHAMPION
from zoosim.serving.feedback import FeedbackLog
from zoosim.serving.join import Join
from zoosim.serving.learner import LogLearner
from zoosim.serving.logged import LoggedDecisions
from zoosim.serving.upkeep import Upkeep
from zoosim.serving.writer import Writer

DAYS = range(3)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL", "zoosim.serving"):
        yield


def test_days_violate_nothing() -> None:
    report = run_days(DAYS)
    assert report.violations == []
    assert report.decisions > 200 * len(DAYS)
    assert report.feedbacks > 50 * len(DAYS)
    assert len(+report.faults) > 0.5 * len(Fault)


@pytest.mark.slow
def test_a_hundred_days_violate_nothing_and_reach_every_fault() -> None:
    report = run_days(range(100))
    assert report.violations == []
    assert not set(Fault) - set(+report.faults)


@pytest.mark.slow
def test_a_seed_repeats_to_the_byte_in_another_process() -> None:
    code = "from tests.simulation.run import run_days; print(run_days([0]).digest)"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", code]
    other = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert other.stdout.strip() == run_days([0]).digest


# Broken variants of what is simulated: of each, what it replaces, and a word of what is said of it.


def resolve_before_the_sync(writer: Writer, batch: Any, positions: Any) -> None:
    ORIGINALS[Writer, "_hand_on"](writer, [request._replace(durable=False) for request in batch], positions)


def count_twice(join: Join, row: Any, feedback: Any) -> None:
    ORIGINALS[Join, "earn"](join, row, feedback)
    ORIGINALS[Join, "earn"](join, row, feedback)


def close_too_early(join: Join, time: int) -> Any:
    return ORIGINALS[Join, "tick"](join, time + 2_000_000)


async def decide_anew(logged: LoggedDecisions, body: Any, request: bytes) -> None:
    return None


async def tick_never(upkeep: Upkeep) -> None:
    return None


def tell_on_the_way(started: LogLearner) -> None:
    started.catch_up()


async def accept_always(log: FeedbackLog, decision_id: str, body: Any) -> Any:
    answer = await ORIGINALS[FeedbackLog, "give"](log, decision_id, body)
    return answer._replace(status="accepted")


def leave_to_the_champion(
    endpoint: Any, body: Any, decision_id: str, decide: Any, refusals: Mapping[str, PolicyError] = NO_REFUSALS
) -> Any:
    failing = {name: PolicyError("fails") for name in endpoint._current.arms if name != CHAMPION}
    return ORIGINALS[Endpoint, "decided"](endpoint, body, decision_id, decide, {**refusals, **failing})


VARIANTS: list[tuple[type, str, Any, str]] = [
    (Writer, "_hand_on", resolve_before_the_sync, "not in the log"),
    (Join, "earn", count_twice, "closed"),
    (Join, "tick", close_too_early, "closed"),
    (LoggedDecisions, "earlier_answer", decide_anew, "answer"),
    (Upkeep, "tick", tick_never, "is open"),
    (LogLearner, "begin", tell_on_the_way, "went back"),
    (FeedbackLog, "give", accept_always, "accepted"),
    (Endpoint, "decided", leave_to_the_champion, "arm champion decided"),
]
ORIGINALS: dict[tuple[type, str], Callable[..., Any]] = {
    (owner, name): getattr(owner, name) for owner, name, _, _ in VARIANTS
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "broken", "words"), VARIANTS, ids=[broken.__name__ for _, _, broken, _ in VARIANTS]
)
def test_broken_variants_are_told(
    owner: type, name: str, broken: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)
    for seed in range(100):
        violations = run_days([seed]).violations
        if any(words in violation for violation in violations):
            return
    pytest.fail("nothing was violated")
