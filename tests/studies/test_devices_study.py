"""The devices study: what is measured, and what its page and that of `bottleneck` say of cards, found or not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from studies.cards import NO_CARD, card_sentence
from studies.devices import timing
from studies.devices.page import answer, build_page
from studies.devices.timing import Timing
from studies.run import run_study

CPU = Timing("decision", "cpu", 16, 16, 3.0, 2.0, 5, 0.0)
CARD = "NVIDIA H100"


def test_without_a_card_the_page_says_that_none_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "find_cards", dict)
    monkeypatch.setattr(timing, "TRAINING", ((200, 64),))
    monkeypatch.setattr(timing, "REQUESTS", (1, 3))
    monkeypatch.setattr(timing, "BUDGET", 0.0)
    run_study("devices", tmp_path)
    rows = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["task"], row["device"], row["size"], row["rows"]) for row in rows] == [
        ("decision", "cpu", 1, 1),
        ("decision", "cpu", 3, 3),
        ("epoch", "cpu", 64, 200),
    ]
    assert all(row["calls"] == 3 and 0 < row["shortest"] <= row["median"] for row in rows)
    assert NO_CARD in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_names_the_card_and_from_which_size_on_it_is_faster() -> None:
    timings = [CPU, replace(CPU, size=256, rows=256, shortest=20.0)]
    slower = [replace(row, device=CARD, shortest=25.0, difference=2e-6) for row in timings]
    faster = [slower[0], replace(slower[1], shortest=5.0)]
    assert answer([*timings, *faster]) == "Take a card for 256 requests at once: 4.0 times one thread's speed."
    assert "no number of requests at once was decided faster on a card" in answer([*timings, *slower])
    page = build_page([*timings, *faster])
    assert [row[-1] for row in page.tables[0].rows] == ["1.00", "1.00", "0.08", "4.00"]
    assert page.details[0] == f"The graphics card is {CARD}."
    assert "at most 2.0e-06 of their standard deviation" in page.details[1]


def test_the_sentence_about_cards() -> None:
    assert card_sentence(["cpu", "cpu"]) == NO_CARD
    assert card_sentence(["cpu", "B", "A", "B"]) == "The graphics card is A and B."
