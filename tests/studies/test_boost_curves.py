"""The study of learners of boosts and of templates: its lines by hand, what it tells, and a small run on its page."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies import held_out
from studies.boost_curves import lines, measure, tell
from studies.boost_curves.courses import checkpoints_of
from studies.boost_curves.learners import CHANGED, DEFAULT, LEARNERS, WORLDS
from studies.boost_curves.lines import CELL, CONSTANT, NEUTRAL, OPTIMUM, PREMIUM, RANDOM, SINGLE
from studies.boost_curves.records import ALL, Reached, Way
from studies.boost_curves.summary import share, shares, times
from studies.held_out import exam_of, expected, open_shop
from studies.run import run_study
from zoosim.core.errors import ConfigError
from zoosim.core.search_config import TEMPLATES
from zoosim.policies.registry import find_class
from zoosim.policies.templates.bandits import TemplateBandit
from zoosim.worlds.search import optimum
from zoosim.worlds.search import template_arms as template_world
from zoosim.worlds.search.expected_reward import groups_of, share_of

SMALL: dict[str, Any] = {"n_products": 60, "n_users": 40, "k": 5, "a_max": 0.5}
FEW = ("item-critic", "template-ts")


def small(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make the shop small, the searches short, and the learners few."""
    monkeypatch.setenv("ZOOSIM_CACHE", str(folder))
    for name, count in (("ROUGH_VISITS", 40), ("FINE_VISITS", 60), ("JUDGED_VISITS", 100)):
        monkeypatch.setattr(optimum, name, count)
    for module in (held_out, lines):
        monkeypatch.setattr(module, "EXAM_VISITS", 15)
    monkeypatch.setattr(template_world, "APART_VISITS", 1_200)
    for laws in WORLDS:
        monkeypatch.setitem(WORLDS, laws, WORLDS[laws] | SMALL)
    for who in set(LEARNERS) - set(FEW):
        monkeypatch.delitem(LEARNERS, who)


def made_up(laws: str = DEFAULT, seeds: int = 2) -> list[Reached | Way]:
    """Return rows with numbers that are easy to follow: the optimum is 20 EUR at seed 0, 10 at seed 1."""
    worth = {OPTIMUM: 1.0, CONSTANT: 0.9, CELL: 0.6, SINGLE: 0.5, PREMIUM: 0.4, NEUTRAL: 0.3, RANDOM: 0.2}
    rows: list[Reached | Way] = []
    for seed in range(seeds):
        most = 20.0 / (1 + seed)
        for segment in (ALL, "premium", "other"):
            rows += [Reached(who, laws, seed, 0, segment, most * x, most) for who, x in worth.items()]
            for number, who in enumerate(LEARNERS):
                for visits, part in ((300, 0.45), (1_000, 0.98 - 0.1 * number - 0.04 * seed)):
                    rows.append(Reached(who, laws, seed, visits, segment, most * part, most))
        rows += [Way(who, laws, seed, 0.8 + 0.1 * seed, 1.0 + seed, 0.5) for who in LEARNERS]
    return rows


def test_a_story_tells_means_worst_seeds_and_what_templates_reach() -> None:
    story = tell(made_up())
    assert "mean (worst seed): item-critic 96.0 (94.0), q-ensemble 86.0 (84.0)" in story.verdict
    assert (
        "reach 60.0% (95% interval 60.0 to 60.0) (printed: 85 to 90%), the best constant vector 90.0%" in story.verdict
    )
    assert "item-critic +140%, q-ensemble +115%" in story.verdict  # .96 and .86 of the optimum, the template .4
    tables = {table.heading: [tuple(row) for row in table.rows] for table in story.tables}
    first = ("item-critic", "45.0 (45.0)", "96.0 (94.0)", "85.0 (80.0)", "1.50 + 0.50")
    assert tables["Share of the optimum"][0] == first
    assert ("best template a cell", "", "60.0 (60.0\u201360.0)") in tables["% of the optimum, with intervals"]
    assert tables["By segment"][0] == ("optimum", "15.00", "100.0 (100.0)", "EUR 15.00", "EUR 15.00")
    assert tables["Below the best template"][0] == ("item-critic", "0 of 2 (1.88)")  # .94 and .98, the template .5
    assert ("printed: CEM (beta .1)", "3,000", "9.85", "1.31") in tables["Beside the table of 7.4"]
    assert ("premium template", "", "6.00", "1.00 (1.00\u20131.00)") in tables["Beside the table of 7.4"]
    assert "Grey: the best constant vector and the best template a cell." in story.drawings[1].caption


def test_seeds_below_the_best_template_are_counted() -> None:
    rows = made_up()
    reached = [row for row in rows if isinstance(row, Reached)]
    found = times(reached, "template-linucb", SINGLE, DEFAULT, 1_000)
    np.testing.assert_allclose(found, [1.16, 1.08])  # .58 and .54 of the optimum, the template .5
    table = next(t for t in tell([lowered(row) for row in rows]).tables if t.heading == "Below the best template")
    assert tuple(table.rows[list(LEARNERS).index("q-ensemble")]) == ("q-ensemble", "1 of 2 (0.40)")


def lowered(row: Reached | Way) -> Reached | Way:
    """Let q-ensemble end at a fifth of the optimum at seed 1."""
    if isinstance(row, Reached) and (row.who, row.visits, row.seed) == ("q-ensemble", 1_000, 1):
        return replace(row, reward=0.2 * row.optimum)
    return row


def test_a_segment_without_an_optimum_has_no_share() -> None:
    rows = [Reached(CELL, DEFAULT, seed, 0, "other", 0.5, most) for seed, most in ((0, 1.0), (1, 0.0))]
    assert shares(rows, CELL, DEFAULT, 0, "other") == [0.5]
    assert share(rows[1:], CELL, DEFAULT, 0, "other") is None


def test_changed_laws_alone_and_one_seed_can_be_told() -> None:
    story = tell(made_up(CHANGED, seeds=1))
    assert story.verdict.startswith("With the laws changed and nothing retuned, after 1,000 visits")
    assert "one seed" in story.drawings[0].caption
    assert {table.heading.endswith(", laws changed") for table in story.tables} == {True}


def test_lines_are_scored_on_the_visits_of_the_exam(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small(monkeypatch, tmp_path)
    found = {(row.who, row.segment): row for row in lines.lines_of(DEFAULT, 5)}
    shop = open_shop(SMALL, 5)
    exam = exam_of(shop, np.zeros((4, 10)), 15)  # bars of no boosts at all
    assert found[NEUTRAL, ALL].reward == pytest.approx(exam.shares @ exam.bars.mean(axis=1), rel=1e-12)
    premium = exam.names.index("premium")
    assert found[NEUTRAL, "premium"].reward == pytest.approx(exam.bars[premium].mean(), rel=1e-12)
    best = next(g for g in groups_of(shop, "segment") if g.name == "premium")
    boosts = optimum.best_of_group(shop, 0, best).boosts
    worth = np.mean([expected(shop, visit, boosts) for visit in exam.visits[premium]])
    assert found[OPTIMUM, "premium"].reward == found[CELL, "premium"].optimum == pytest.approx(worth, rel=1e-12)
    assert found[OPTIMUM, ALL].share == 1.0
    monkeypatch.setattr(lines, "exam_of", lambda *_: pytest.fail("measured again"))
    assert {(row.who, row.segment): row for row in lines.lines_of(DEFAULT, 5)} == found
    assert (CONSTANT, ALL) in found


def test_the_best_single_template_weighs_cells_by_their_visits() -> None:
    shop, table = open_shop(SMALL, 5), np.zeros((12, len(TEMPLATES)))
    cells = groups_of(shop, "cell")
    rare = min(range(12), key=lambda n: share_of(shop, 0, cells[n]))
    table[:, 2], table[rare, 6] = 1.0, 5.0
    assert lines.best_single(shop, table) == 2
    table[rare, 6] = 1.1 / share_of(shop, 0, cells[rare])
    assert lines.best_single(shop, table) == 6


def test_learners_are_over_templates_where_they_say_so() -> None:
    for name, learner in LEARNERS.items():
        entry = learner.entry(name)
        assert entry.name == name
        assert issubclass(find_class(entry.source), TemplateBandit) == learner.discrete


def test_a_small_run_ends_up_on_its_page_and_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small(monkeypatch, tmp_path)
    told: list[str] = []
    done = run_study("boost-curves", tmp_path / "a", seeds="0:2", visits=40, jobs=1, progress=told.append)
    rows = done.rows
    assert len(told) == 2 * 2 * (1 + len(FEW))
    assert told[-1].startswith("12 of 12, seed 1, laws changed: template-ts ")
    assert {row.visits for row in rows if isinstance(row, Reached)} == {0, 30, 40}
    assert {row.earned for row in rows if isinstance(row, Way)} == {None}
    summary = json.loads((tmp_path / "a" / "summary.json").read_text(encoding="utf-8"))
    assert summary["rows"][0]["who"] == OPTIMUM
    assert "laws changed" in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    monkeypatch.setattr(held_out, "play", lambda *_: pytest.fail("played again"))
    assert measure(seeds="0:2", visits=40, jobs=1) == rows


def test_changed_laws_are_met_by_fewer_visits() -> None:
    assert checkpoints_of(DEFAULT, 10_000) == (30, 100, 300, 1_000, 3_000, 10_000)
    assert checkpoints_of(CHANGED, 10_000) == (30, 100, 300, 1_000)
    assert checkpoints_of(CHANGED, 200) == (30, 100, 200)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"laws": "other"}, "laws: got 'other', expected default, changed or both"),
        ({"visits": 0}, "visits: got 0, expected a whole number"),
        ({"jobs": 0}, "jobs: got 0, expected a whole number"),
        ({"seeds": "x"}, "seeds: got 'x'"),
        (
            {"steps": 9},
            "takes --seeds VALUE, --jobs VALUE, --set visits=VALUE, --set laws=VALUE, --out, .* leave --steps out",
        ),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        run_study("boost-curves", tmp_path, **options)
