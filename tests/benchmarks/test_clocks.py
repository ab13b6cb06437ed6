"""S24 in small: a life on a clock that is set, and lives that its report must find fault with."""

from pathlib import Path

import pytest

from benchmarks.serving.clocks import DAY, live, report
from tests.serving.shop import make_model


def test_a_life_goes_on_whatever_its_clock_is_set_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    life, lines = live([f"sqlite:{tmp_path / 'service'}"], make_model(tmp_path), 100 * DAY, seed=1, steps=60)
    assert report("one service", life, lines)
    assert "S24 one service: of 40 visits" in capsys.readouterr().out
    assert any("jumped 100.0 days forward" in line for line in lines)
    assert not report("one without a word", life, [])
    life.ages.append(0.9)
    assert not report("one that removed a row too early", life, lines)
    life.ages.clear()
    life.visits += 1
    assert not report("one with a visit that earned nothing", life, lines)
