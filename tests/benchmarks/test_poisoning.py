"""Q23 in small: attacks come as they are described, and are held against the same visitors without one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.serving import poisoning
from benchmarks.serving.poisoning import ATTACKS, Hostile, Results, share_of_oracle


def test_hostile_visitors_come_as_often_as_they_should() -> None:
    """Two of 200 visitors, 20 times each: what they are shown is judged 40 times, and never counts for the shop."""
    judged = []

    def reward(rates: object, shown: int, target: int) -> float:
        judged.append(shown)
        return float(shown == target)

    assert 0.0 < share_of_oracle("linucb", 0, Hostile(reward, when=(0.0, 0.9)), 200) < 1.0
    assert len(judged) == 40


def test_it_prints_what_the_bound_costs_and_what_each_attack_takes_and_goes_on_from_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    runs = []

    def share(policy: str, seed: int, hostile: Hostile | None, honest: int, rules: Mapping[str, Any]) -> float:
        runs.append(seed)
        if hostile is not None:
            return 0.75
        return 0.9 if rules == {"per_visitor": 0} else 0.8

    monkeypatch.setattr(poisoning, "share_of_oracle", share)
    poisoning.report(["linucb"], list(ATTACKS), range(2), Results(100, tmp_path / "results"))
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert lines[0] == "Q23 linucb: 80.0% of the oracle without an attack; the bound costs 10.0 points (10.0 to 10.0)"
    assert lines[1] == "Q23 linucb, vectors of 8e8: lost 5.0 points (5.0 to 5.0)"
    assert len(lines) == 1 + len(ATTACKS)
    assert len(runs) == 2 * (2 + len(ATTACKS))
    poisoning.report(["linucb"], list(ATTACKS), range(2), Results(100, tmp_path / "results"))
    assert capsys.readouterr().out == printed
    assert len(runs) == 2 * (2 + len(ATTACKS))
    poisoning.report(["linucb"], [], range(2), Results(200, tmp_path / "results"))
    assert len(runs) == 2 * (4 + len(ATTACKS))


def test_what_comes_of_honest_visits_hangs_on_the_attack_alone() -> None:
    """The same visitors, draws and minds: an attack after the last honest visit moves nothing."""
    calm = share_of_oracle("linucb", 0, None, 200)
    assert share_of_oracle("linucb", 0, Hostile(lambda *_: 0.0, when=(0.999, 1.0)), 200) == calm
    assert share_of_oracle("linucb", 0, Hostile(lambda *_: 1.0, when=(0.0, 1.0), visitors=20), 200) != calm


def test_an_unknown_attack_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOOSIM_ATTACKS", "all but the best;flood")
    with pytest.raises(SystemExit, match="got 'flood', expected some of: vectors of 8e8; "):
        poisoning.main()
