"""The study of launches over HTTP: its rows, its page, and in its long form a launch that a service takes back."""

from pathlib import Path

import numpy as np
import pytest

from studies.served_launches import build_page, measure
from studies.served_launches.measuring import COMPUTED, EFFECTS, METHODS, RAMP, SAME_DRAWS, SERVED, Run, cut_course
from studies.served_launches.service import serve_launch
from zoosim.core.errors import ConfigError
from zoosim.monitoring.launch import State
from zoosim.playground.visitors import draw_visitors
from zoosim.rehearsal.launches.course import Course

WORSE, BETTER = EFFECTS
HOURS = {SERVED: 20.5, SAME_DRAWS: 20.25, COMPUTED: 30.0, RAMP: 30.0}
LOST = {SERVED: 100.0, SAME_DRAWS: 100.0, COMPUTED: 110.0, RAMP: 1_000.0}


def rows() -> list[Run]:
    states = {WORSE: State.ROLLED_BACK, BETTER: State.COMPLETED}
    return [
        Run(seed, effect, method, states[effect], HOURS[method], 900, LOST[method])
        for seed in range(8)
        for effect in EFFECTS
        for method in METHODS
    ]


def test_the_page_says_how_alike_launches_ended() -> None:
    page = build_page(rows())
    assert page.answer == (
        "16 of 16 launches over HTTP ended as computed from the same draws, 0.25 hours apart in the median."
    )
    assert page.details == ["A model 20% worse costs 0.10 of what the ramp costs in the same shops."]
    outcomes, agreement = page.tables
    assert outcomes.rows[0][:5] == ("-20%", SERVED, "8", "0 (0\N{EN DASH}32%)", "8")
    assert outcomes.rows[0][6] == "20 (20 to 20)"
    assert [row[2:4] for row in agreement.rows[:2]] == [("8 of 8", "0.25 (most 0.25)"), ("8 of 8", "9.50 (most 9.50)")]


def test_launches_that_a_file_holds_are_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[int, float]] = []

    def launches(visitors: object, effect: float, seed: int, hours: float) -> list[Run]:
        done.append((seed, effect))
        return [row for row in rows() if (row.seed, row.effect) == (seed, effect)]

    monkeypatch.setattr("studies.served_launches.measuring._launches", launches)
    file = tmp_path / "results.jsonl"
    measure(seeds="0:1", days=2, effects=[WORSE], results=file)
    assert measure(seeds="0:2", days=2, results=file) == rows()[:16]
    assert done == [(0, WORSE), (0, BETTER), (1, WORSE), (1, BETTER)]


def test_a_launch_that_is_left_as_it_is_cannot_be_told_yet() -> None:
    course = Course(State.RUNNING, 0.0, (0.0,), (0.1,)).then(2.0, State.RUNNING, 0.5).then(9.0, State.COMPLETED, 1.0)
    assert cut_course(course, 9.0) == course
    assert cut_course(course, 8.0) == Course(State.CANNOT_TELL, 2.0, (0.0, 2.0), (0.1, 0.5))


def test_options_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="served-launches: hours"):
        measure(seeds="0:1", days=2, hours=49)
    with pytest.raises(ConfigError, match=r"served-launches: effects: got 0\.3"):
        measure(seeds="0:1", effects=[0.3])
    (tmp_path / "other").write_text("[{}]\n")
    with pytest.raises(ConfigError, match=r"results: got .*other, which cannot be read"):
        measure(seeds="0:1", results=tmp_path / "other")


@pytest.mark.slow
def test_a_service_takes_back_what_is_computed_to_be_taken_back() -> None:
    visitors = draw_visitors(1, days=3)
    served = serve_launch(visitors, -0.7, 1, hours=60.0)
    assert served.course.state is State.ROLLED_BACK
    assert served.course.shares[-1] == 0.0
    assert served.refused == 0
    took_part = visitors.hour < served.course.hour
    assert np.isin(served.visitors.luck[took_part][:-50], (0.0, 1.0)).all()
