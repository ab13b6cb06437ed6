"""The study of CEM's ends: its landscapes, how ends are counted, and what is measured ends up on the page."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from studies.cem_optima import build_page
from studies.cem_optima.ends import FINISH, RADII, SETTINGS, Ends, Step, agreement, ends_of, steps_of
from studies.cem_optima.landscapes import KINDS, Landscape, landscape, repeated
from studies.cem_optima.shares import share_interval
from studies.run import run_study
from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray
from zoosim.optimizers import CEMConfig

D = 5
FEW_POPULATIONS, FEW_RADII = (16, 64), (0.1, 0.4)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_values(kind: str) -> None:
    """An ensemble computes in float32: larger steps, and less to ask for."""
    slope, rng = landscape(kind, D, [0, 1]).slope, np.random.default_rng(0)
    actions, step, close = rng.uniform(-0.4, 0.4, (2, 3, D)), 1e-6, 1e-5
    if kind == "ensemble":
        step, close = 3e-3, 2e-3
    _, gradients = slope(actions)
    for k in range(D):
        moved = actions + step * np.eye(D)[k]
        back = actions - step * np.eye(D)[k]
        slopes = (slope(moved)[0] - slope(back)[0]) / (2 * step)
        np.testing.assert_allclose(gradients[..., k], slopes, rtol=close, atol=close)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_has_its_own_objective_whoever_comes_with_it(kind: str) -> None:
    actions = np.random.default_rng(0).uniform(-0.4, 0.4, (1, 5, D))
    alone = landscape(kind, D, [7]).slope(actions)[0]
    beside = landscape(kind, D, [3, 7]).slope(np.repeat(actions, 2, axis=0))[0]
    np.testing.assert_allclose(beside[1], alone[0], rtol=1e-12)
    assert not np.allclose(beside[0], alone[0])
    doubled = repeated(landscape(kind, D, [7]).slope, 2)(np.concatenate([actions, actions]))[0]
    np.testing.assert_allclose(doubled, np.concatenate([alone, alone]), rtol=1e-12)


def test_ends_are_counted() -> None:
    """0 and .05 are one place; 1 another; 1.05 is near that, so there are two."""
    ends = np.array([[0.0], [0.05], [1.0], [1.05]])
    assert agreement(ends) == (False, 2)
    assert agreement(ends[:2]) == (True, 1)


def test_an_unfinished_search_is_told_from_a_finished_one() -> None:
    """On concave functions: the published search ends apart and meets when finished; the default meets at once."""
    seeds = range(1000, 1005)
    short = ends_of("concave", 20, "x", SETTINGS["published, 5 x 64"], seeds)
    done = ends_of("concave", 20, "x", SETTINGS["default"], seeds)
    assert not any(row.agree for row in short)
    assert sum(row.finished_agree for row in short) >= 4
    assert all(row.evaluations == 320 and row.converged == 0 for row in short)
    assert all(row.agree and row.converged == 1 and row.gap < 1e-3 for row in done)


def test_optima_that_differ_are_told() -> None:
    rows = ends_of("rastrigin", 20, "x", CEMConfig(), range(1000, 1003))
    assert not any(row.agree or row.finished_agree for row in rows)
    assert all(row.gap > 1e-3 for row in rows)


def test_a_tight_trust_region_gets_there_in_many_decisions() -> None:
    """The example printed in docs/lessons.md 7.5.2: one decision within .2 goes a fifth of the way, ten arrive."""
    rows = steps_of("concave", 0.2, range(1000, 1005))
    share = {count: np.mean([row.share for row in rows if row.decisions == count]) for count in (1, 3, 10)}
    assert 0.1 < share[1] < 0.3 < share[3] < 0.8
    assert share[10] > 0.95


def best_of_few(made: Landscape, d: int, rng: np.random.Generator) -> FloatArray:
    """Return the best value of each query among a few random actions."""
    values: FloatArray = made.slope(rng.uniform(-0.5, 0.5, (len(made.typical), 200, d)))[0]
    return np.asarray(values.max(axis=1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run with few iterations, populations and radii."""
    made = tmp_path_factory.mktemp("optima")
    with pytest.MonkeyPatch.context() as patch:
        quick = {name: replace(config, n_iters=3) for name, config in SETTINGS.items()}
        patch.setattr("studies.cem_optima.ends.SETTINGS", quick)
        patch.setattr("studies.cem_optima.ends.KINDS", {"concave": None, "ensemble": None, "network": None})
        patch.setattr("studies.cem_optima.ends._known", best_of_few)
        patch.setattr("studies.cem_optima.ends.FINISH", replace(FINISH, n_steps=20))
        patch.setattr("studies.cem_optima.ends.POPULATIONS", FEW_POPULATIONS)
        for module in ("ends", "page", "drawings"):
            patch.setattr(f"studies.cem_optima.{module}.RADII", FEW_RADII)
        run_study("cem-optima", made, seeds="1000:1002", jobs=1)
    return made


@pytest.mark.slow
def test_everything_is_measured_and_written(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    ends = [row for row in summary["rows"] if "agree" in row]
    assert {row["setting"] for row in ends} == {*SETTINGS, "population"}
    assert {row["seed"] for row in summary["rows"]} == {1000, 1001}
    assert len([row for row in ends if row["setting"] == "population"]) == 2 * 2 * len(FEW_POPULATIONS)
    assert len(summary["rows"]) - len(ends) == 2 * 3 * len(FEW_RADII) * 2
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert summary["verdict"].split(":")[0] in page
    assert "python -m studies cem-optima --seeds 1000:1002" in page
    assert "printed (lessons.md 7.5.2)" in page


def test_the_page_counts_by_hand() -> None:
    def end(kind: str, setting: str, seed: int, agree: bool, gap: float) -> Ends:
        return Ends(kind, 20, setting, 64, seed, agree, 1 if agree else 3, gap, True, gap / 2, 320.0, 0.0)

    rows: list[Ends | Step] = [
        end(kind, setting, seed, agree=kind == "concave" and seed == 0, gap=0.1)
        for kind in ("concave", "ensemble", "network")
        for setting in SETTINGS
        for seed in (0, 1)
    ]
    rows += [replace(row, setting="population") for row in rows[:2] if isinstance(row, Ends)]
    rows += [Step("concave", radius, count, 0, 0.5) for radius in RADII for count in (1, 3, 10)]
    page = build_page(rows)
    assert "end apart in 50% of queries, the default in 50%" in page.verdict
    assert "on trained Q-ensembles in 0% of queries, by 5.0%" in page.verdict
    assert "on random networks in 0%, by 5%" in page.verdict
    row = page.tables[0].rows[1]
    assert row[2].startswith("50% (")
    assert row[3].startswith("50% (")
    assert row[4] == "10.0% (10.0\u201310.0)"
    assert row[7] == "320"


def test_seeds_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="seeds: got 'x'"):
        run_study("cem-optima", tmp_path, seeds="x")


def test_the_interval_of_a_share_by_hand() -> None:
    """Wilson's for 0 of 10: upper end z^2 / (10 + z^2) = 3.8415 / 13.8415; for 5 of 10 it is symmetric."""
    none, half = share_interval([False] * 10), share_interval([True, False] * 5)
    assert none == pytest.approx((0.0, 0.0, 3.841459 / 13.841459), abs=1e-6)
    assert none.low == 0.0
    assert half.mean == 0.5
    assert half.low is not None
    assert half.high is not None
    assert half.low + half.high == pytest.approx(1.0)
    assert half.low == pytest.approx(0.2366, abs=1e-4)  # R's prop.test(5, 10, correct = FALSE)
    assert share_interval([True]) == (1.0, None, None)
