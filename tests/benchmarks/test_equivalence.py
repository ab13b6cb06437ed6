"""Benchmark Q19, small: worlds that are off on purpose are not said to agree, and figures are printed."""

import pytest

from benchmarks.quality.equivalence import FACTORS, NAMES, Answer, answers_of, report
from zoosim.fitting import features
from zoosim.fitting.equivalence import MARGIN


@pytest.mark.slow
def test_answers_of_a_small_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 rows, about 50 clicks, a model of few features: hardly anything can be told, and nothing far off agrees."""
    monkeypatch.setattr(features, "MOST_PAIRS", 150)
    answers = answers_of(0, visits=2_000)
    assert [(row.choices, row.factor) for row in answers] == [(name, factor) for name in NAMES for factor in FACTORS]
    assert not any(row.agrees for row in answers if abs(row.off) > 3.0 * MARGIN)
    scaled = {row.factor: row.off for row in answers if row.choices == NAMES[0]}
    assert 1.0 + scaled[1.3] == pytest.approx(1.3 * (1.0 + scaled[1.0]))


def test_shares_by_how_far_worlds_are_off(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Answer(name, 1.0, off, says) for name in NAMES for off, says in ((0.0, True), (0.2, False), (0.2, None))]
    report(rows)
    printed = capsys.readouterr().out
    assert "both, worlds off by more than the margin: agree 0.0%, differ 50.0%, cannot be told 50.0% of 4" in printed
    assert "both, worlds off by less than a third of the margin: agree 100.0%" in printed
