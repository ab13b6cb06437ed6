"""Q23 in small: attacks come as they are described, and are held against the same visitors without one."""

import pytest

from benchmarks.serving import poisoning
from benchmarks.serving.poisoning import ATTACKS, Hostile, share_of_oracle


def test_hostile_visitors_come_as_often_as_they_should() -> None:
    """Two of 200 visitors, 20 times each: what they are shown is judged 40 times, and never counts for the shop."""
    judged = []

    def reward(rates: object, shown: int, target: int) -> float:
        judged.append(shown)
        return float(shown == target)

    assert 0.0 < share_of_oracle("linucb", 0, Hostile(reward, when=(0.0, 0.9)), 200) < 1.0
    assert len(judged) == 40


def test_it_prints_what_the_bound_costs_and_what_each_attack_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def share(policy: str, seed: int, hostile: Hostile | None, honest: int, per_visitor: int | None = None) -> float:
        return 0.9 if hostile is None and per_visitor == 0 else 0.8 if hostile is None else 0.75

    monkeypatch.setattr(poisoning, "share_of_oracle", share)
    poisoning.report(["linucb"], range(2), 100)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Q23 linucb: 80.0% of the oracle without an attack; the bound costs 10.0 points (10.0 to 10.0)"
    assert lines[1] == "Q23 linucb, vectors of 8e8: lost 5.0 points (5.0 to 5.0)"
    assert len(lines) == 1 + len(ATTACKS)
