"""The study of boost learning: its summaries by hand, its baselines, and a small run with its page."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies import held_out as held_out_module
from studies.boost_curves import baselines, build_page, measure
from studies.boost_curves.baselines import (
    CONSTANT,
    NEUTRAL,
    OPTIMUM,
    PREMIUM,
    PREMIUM_RULE,
    RANDOM,
    per_cell,
    per_segment,
    single,
)
from studies.boost_curves.learners import CHANGED, DEFAULT, LEARNERS, PRINTED, SHOPS
from studies.boost_curves.measuring import checkpoints_of
from studies.boost_curves.records import ALL, OnlineResult, Score, SegmentBoosts
from studies.boost_curves.summary import ratios, share, shares
from studies.held_out import boosts_reward, draw_held_out, open_shop
from studies.rows import rows_where
from studies.run import run_study
from tests.caches import use_cache
from zoosim.core.errors import ConfigError
from zoosim.core.search_names import FEATURES, LIBRARY_NAMES, TEMPLATES
from zoosim.policies.registry import find_class
from zoosim.policies.templates.bandits import TemplateBandit
from zoosim.worlds.search import optimum
from zoosim.worlds.search import template_arms as template_world
from zoosim.worlds.search.expected_reward import groups_of, share_of

SMALL: dict[str, Any] = {"n_products": 60, "n_users": 40, "k": 5, "a_max": 0.5}
FEW = ("item-critic", "ts-vectors")
CELL = per_cell("vectors")
SINGLE = single("vectors")


def small(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make the shop small, the searches short, and the learners few."""
    use_cache(monkeypatch, folder)
    monkeypatch.setattr(optimum, "USUAL", optimum.SearchBudget(20, 30, 50))
    for module in (held_out_module, baselines):
        monkeypatch.setattr(module, "HELD_OUT_VISITS", 15)
    monkeypatch.setattr(template_world, "TRUTH_VISITS", 240)
    for behaviour in SHOPS:
        monkeypatch.setitem(SHOPS, behaviour, SHOPS[behaviour] | SMALL)
    for policy in set(LEARNERS) - set(FEW):
        monkeypatch.delitem(LEARNERS, policy)


def made_up(behaviour: str = DEFAULT, seeds: int = 2) -> list[Score | OnlineResult]:
    """Return rows with numbers that are easy to follow: the optimum is 20 EUR at seed 0, 10 at seed 1."""
    worth = {OPTIMUM: 1.0, CONSTANT: 0.9, PREMIUM: 0.4, PREMIUM_RULE: 0.25, NEUTRAL: 0.3, RANDOM: 0.2}
    for library, lower in zip(("vectors-50", "vectors", "rules-50", "rules"), (-0.01, 0.0, 0.01, 0.02), strict=True):
        worth |= {per_cell(library): 0.6 - lower, per_segment(library): 0.55 - lower, single(library): 0.5 - lower}
    rows: list[Score | OnlineResult] = []
    for seed in range(seeds):
        most = 20.0 / (1 + seed)
        for segment in (ALL, "premium", "other"):
            rows += [Score(policy, behaviour, seed, 0, segment, most * x, most) for policy, x in worth.items()]
            for number, policy in enumerate(LEARNERS):
                for visits, part in ((300, 0.45), (1_000, 0.98 - 0.1 * min(number, 8) - 0.04 * seed)):
                    rows.append(Score(policy, behaviour, seed, visits, segment, most * part, most))
        coverage = {PRINTED: 0.6 - 0.2 * seed}
        rows += [
            OnlineResult(policy, behaviour, seed, 0.8 + 0.1 * seed, 1.0 + seed, 0.5, coverage.get(policy))
            for policy in LEARNERS
        ]
    return rows


def test_a_page_shows_means_worst_seeds_and_what_templates_reach() -> None:
    page = build_page(made_up())
    assert "mean (worst seed): item-critic 96.0 (94.0), q-ensemble 86.0 (84.0)" in page.verdict
    assert (
        "56.0% (95% interval 56.0 to 56.0) as vectors-50, 55.0% (95% interval 55.0 to 55.0) as vectors, 54.0%"
        in page.verdict
    )
    assert (
        "53.0% (95% interval 53.0 to 53.0) as rules (published for vectors: 85 to 90%); the best constant vector 90.0%"
        in page.verdict
    )
    assert "item-critic +140%, q-ensemble +115%" in page.verdict  # .96 and .86 of the optimum, the template .4
    tables = {table.heading: [tuple(row) for row in table.rows] for table in page.tables}
    first = ("item-critic", "45.0", "96.0", "94.0", "85.0")
    assert tables["Share of the optimum"][0] == first
    assert tables["Time and coverage"][0] == ("item-critic", "1.50", "0.50", "")
    printed = tables["Time and coverage"][list(LEARNERS).index(PRINTED)]
    assert (printed[0], printed[-1]) == (PRINTED, "50.0 (40.0)")
    assert ("best of vectors per cell", "", "60.0 (60.0\u201360.0)") in tables["% of the optimum, with intervals"]
    assert tables["By segment"][0] == ("optimum", "15.00", "100.0 (100.0)", "EUR 15.00", "EUR 15.00")
    assert tables["Below the best template"][0] == ("item-critic", "0 of 2 (1.88)")  # .94 and .98, the template .5
    assert ("published: CEM (beta .1)", "3,000", "9.85", "1.31") in tables["Beside the published figures"]
    assert ("premium vector", "", "6.00", "1.00 (1.00\u20131.00)") in tables["Beside the published figures"]
    assert "Grey: the best constant vector and the best of vectors per cell." in page.drawings[1].caption


def test_seeds_below_the_best_template_are_counted() -> None:
    rows = made_up()
    reached = [row for row in rows if isinstance(row, Score)]
    values = ratios(reached, "linucb-vectors-50", SINGLE, DEFAULT, 1_000)
    np.testing.assert_allclose(values, [0.96, 0.88])  # .48 and .44 of the optimum, the template .5
    table = next(t for t in build_page([lowered(row) for row in rows]).tables if t.heading == "Below the best template")
    assert tuple(table.rows[list(LEARNERS).index("q-ensemble")]) == ("q-ensemble", "1 of 2 (0.40)")


def lowered(row: Score | OnlineResult) -> Score | OnlineResult:
    """Let q-ensemble end at a fifth of the optimum at seed 1."""
    if isinstance(row, Score) and (row.policy, row.visits, row.seed) == ("q-ensemble", 1_000, 1):
        return replace(row, reward=0.2 * row.optimum)
    return row


def test_a_segment_without_an_optimum_has_no_share() -> None:
    rows = [Score(CELL, DEFAULT, seed, 0, "other", 0.5, most) for seed, most in ((0, 1.0), (1, 0.0))]
    assert shares(rows, CELL, DEFAULT, 0, "other") == [0.5]
    assert share(rows[1:], CELL, DEFAULT, 0, "other") is None


def test_changed_behaviour_alone_and_one_seed_have_a_page() -> None:
    page = build_page(made_up(CHANGED, seeds=1))
    assert page.details[0].startswith("With changed behaviour and nothing retuned, after 1,000 visits")
    assert "one seed" in page.drawings[0].caption
    assert {table.heading.endswith(", changed behaviour") for table in page.tables} == {True}


def test_baselines_are_scored_on_the_held_out_visits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small(monkeypatch, tmp_path)
    rows = {(row.policy, row.segment): row for row in baselines.baseline_scores(DEFAULT, 5)}
    shop = open_shop(SMALL, 5)
    held_out = draw_held_out(shop, np.zeros((4, 10)), 15)  # bars of no boosts at all
    assert rows[NEUTRAL, ALL].reward == pytest.approx(held_out.shares @ held_out.baseline.mean(axis=1), rel=1e-12)
    premium = held_out.names.index("premium")
    assert rows[NEUTRAL, "premium"].reward == pytest.approx(held_out.baseline[premium].mean(), rel=1e-12)
    best = next(g for g in groups_of(shop, "segment") if g.name == "premium")
    boosts = optimum.best_of_group(shop, 0, best).boosts
    worth = np.mean([boosts_reward(shop, visit, boosts) for visit in held_out.visits[premium]])
    assert rows[OPTIMUM, "premium"].reward == rows[CELL, "premium"].optimum == pytest.approx(worth, rel=1e-12)
    assert rows[OPTIMUM, ALL].share == 1.0
    monkeypatch.setattr(baselines, "draw_held_out", lambda *_: pytest.fail("measured again"))
    assert {(row.policy, row.segment): row for row in baselines.baseline_scores(DEFAULT, 5)} == rows
    assert (CONSTANT, ALL) in rows


def test_the_best_single_template_weighs_cells_by_their_visits() -> None:
    shop = open_shop(SMALL, 5)
    table = np.zeros((12, len(TEMPLATES)))
    cells = groups_of(shop, "cell")
    rare = min(range(12), key=lambda n: share_of(shop, 0, cells[n]))
    table[:, 2], table[rare, 6] = 1.0, 5.0
    assert baselines.best_single(shop, table) == 2
    table[rare, 6] = 1.1 / share_of(shop, 0, cells[rare])
    assert baselines.best_single(shop, table) == 6


def test_learners_are_over_templates_where_they_say_so() -> None:
    for name, learner in LEARNERS.items():
        entry = learner.entry(name)
        assert entry.name == name
        assert issubclass(find_class(entry.source), TemplateBandit) == (learner.library in LIBRARY_NAMES)


@pytest.mark.slow
def test_a_small_run_ends_up_on_its_page_and_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small(monkeypatch, tmp_path)
    progress_lines: list[str] = []
    done = run_study("boost-curves", tmp_path / "a", seeds="0:2", visits=40, jobs=1, progress=progress_lines.append)
    rows = done.rows
    assert len(progress_lines) == 3 * 2 * (1 + len(FEW))
    assert progress_lines[-1].startswith("18 of 18, seed 1, savvy behaviour: ts-vectors ")
    assert {row.visits for row in rows if isinstance(row, Score)} == {0, 30, 40}
    assert {row.earned for row in rows if isinstance(row, OnlineResult)} == {None}
    boosts = rows_where([row for row in rows if isinstance(row, SegmentBoosts)], behaviour=DEFAULT, segment="premium")
    assert [row.policy for row in boosts] == [OPTIMUM, OPTIMUM, "item-critic", "item-critic"]  # ts-vectors has none
    [table] = [table for table in done.page.tables if table.heading == "What is boosted for whom"]
    told = next(cells for cells in table.rows if cells[:2] == ("premium", "item-critic"))
    assert told[2:] == tuple(f"{np.mean([row.boosts[name] for row in boosts[2:]]):+.2f}" for name in FEATURES)
    summary = json.loads((tmp_path / "a" / "summary.json").read_text(encoding="utf-8"))
    assert summary["rows"][0]["policy"] == OPTIMUM
    assert "changed behaviour" in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    monkeypatch.setattr(held_out_module, "play", lambda *_: pytest.fail("played again"))
    alone = measure(seeds="0:2", visits=40, policies=["item-critic"], jobs=1)
    assert {row.policy for row in alone if isinstance(row, OnlineResult)} == {"item-critic"}
    assert measure(seeds="0:2", visits=40, jobs=1) == rows


def test_changed_behaviour_has_fewer_visits() -> None:
    assert checkpoints_of(DEFAULT, 10_000) == (30, 100, 300, 1_000, 3_000, 10_000)
    assert checkpoints_of(CHANGED, 10_000) == (30, 100, 300, 1_000)
    assert checkpoints_of(CHANGED, 200) == (30, 100, 200)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"behaviour": "other"}, "behaviour: got 'other', expected default, changed, savvy or all"),
        ({"policies": ["other"]}, r"policies: got \['other'\], expected a list of some of .*item-critic"),
        ({"policies": "item-critic"}, "policies: got 'item-critic', expected a list of some of .*item-critic"),
        ({"visits": 0}, "visits: got 0, expected a whole number"),
        ({"jobs": 0}, "jobs: got 0, expected a whole number"),
        ({"seeds": "x"}, "seeds: got 'x'"),
        (
            {"steps": 9},
            "takes --seeds VALUE, --set visits=VALUE, --set behaviour=VALUE, --set policies=VALUE, --jobs VALUE, --out "
            ".* leave steps out",
        ),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        run_study("boost-curves", tmp_path, **options)
