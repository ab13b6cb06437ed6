"""The progress that commands show on standard error."""

from types import SimpleNamespace
from typing import Any

import pytest

from zoosim.arena.store import TrialKey
from zoosim.arena.time_left import TrialEvent
from zoosim.core.status_line import COMPILING
from zoosim.progress import Progress


def test_times_left_are_told_once_they_are_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    plan: Any = SimpleNamespace(steps=4_000)
    keys = [TrialKey("linucb", 0), TrialKey("linucb", 1)]
    with Progress() as progress:
        progress.start(plan, keys, 1)
        progress.report(keys[0], 0, TrialEvent.STARTED)
        progress.report(keys[0], 0, TrialEvent.COMPILING)
        progress.report(keys[0], 0, TrialEvent.COMPILING)
        for clock.now in (60.0, 71.0, 82.0, 93.0):
            progress.report(keys[0], 1_000, "")
        progress.report(keys[1], 0, TrialEvent.STARTED)
        for clock.now in (94.0, 105.0):
            progress.report(keys[1], 1_000, "")
    assert capsys.readouterr().err.splitlines() == [
        COMPILING,
        " 12%: linucb, seed 0",
        " 25%: linucb, seed 0",
        " 38%: linucb, seed 0",
        " 50%: linucb, seed 0",
        " 75%, about 22 s left: linucb, seed 1",  # two blocks of 11 s
    ]


def test_nothing_is_told_of_compilation_where_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    plan: Any = SimpleNamespace(steps=1_000)
    key = TrialKey("linucb", 0)
    with Progress() as progress:
        progress.start(plan, [key], 1)
        progress.report(key, 0, TrialEvent.STARTED)
        progress.report(key, 1_000, "")
    assert capsys.readouterr().err == ""
