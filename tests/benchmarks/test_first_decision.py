"""S21 runs: a service is started, asked and told, and a line is printed."""

import re

import pytest

from benchmarks.speed import first_decision
from benchmarks.speed.first_decision import Kind, main


@pytest.mark.slow
def test_a_line_compares_the_first_decision_with_those_after_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(first_decision, "ROWS", 300)
    main([Kind("mixed-effects", 2)], starts=1, later=3)
    printed = capsys.readouterr()
    ratio = r"[\d.]+ \([\d.]+ to [\d.]+\)"
    assert re.fullmatch(
        rf"S21 mixed-effects, 2 shown: the first decision takes {ratio} times as long as the median of the 3 after it "
        rf"\([\d.]+ and [\d.]+ ms\); the first feedback {ratio} times; 1 starts\n",
        printed.out,
    )
    assert re.fullmatch(r"S21 mixed-effects, 2 shown, start 1 of 1: [\d.]+\n", printed.err)
