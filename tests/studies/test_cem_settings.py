"""The study of CEM's settings: each question on few seeds, true shares by hand, and the page."""

from collections.abc import Sequence

import numpy as np
import pytest

from studies.cem_settings import build_page
from studies.cem_settings.measuring import (
    CEM_DIMENSIONS,
    CLIMBS,
    DIMENSIONS,
    FRACTIONS,
    ITERATIONS,
    LIKENESS,
    SIZES,
    SMOOTHING,
    WARM,
    Search,
    dimensions_of,
    elites_of,
    sizes_of,
    starts_of,
    true_share,
)

SEEDS = range(1000, 1003)


def test_true_shares_by_hand() -> None:
    """With x = (1, 0, 0, 0, 0) the best is .5 - .1 * .25 = .475 at a = (.5, 0, ...), and random -.1 * 10 / 12."""
    state = np.eye(1, 5)
    best = 0.5 * np.eye(1, 10)
    assert true_share(state, best).tolist() == [1.0]
    assert true_share(state, 0 * best)[0] == pytest.approx((1 / 12) / (0.475 + 1 / 12))


@pytest.mark.slow
def test_fewer_members_and_iterations_take_fewer_passes_and_get_less_far() -> None:
    rows = {(row.case, row.setting): row for row in sizes_of(1000)}
    large, small = rows[5, "5 iterations"], rows[3, "3 iterations"]
    assert len(rows) == len(SIZES)
    assert (large.passes, small.passes) == (5 * 5 * 64, 3 * 3 * 64)
    assert 0.5 < small.share < large.share < 1


@pytest.mark.slow
def test_a_narrow_warm_start_helps_the_same_visitor_and_harms_another() -> None:
    shares = {(row.setting, row.case): row.share for row in starts_of(1000)}
    assert len(shares) == len(LIKENESS) * 2 * len(WARM)
    assert shares["fast, warm, narrow", 1.0] > shares["fast, cold", 1.0]
    assert shares["fast, warm, narrow", 0.0] < shares["fast, cold", 0.0]


def test_smoothing_keeps_the_spread_and_slows_the_search() -> None:
    rows = {(row.setting, row.case, row.seed): row for row in elites_of("rastrigin", SEEDS)}
    assert len(rows) == 2 * len(FRACTIONS) * len(SMOOTHING) * len(ITERATIONS) * len(SEEDS)
    for seed in SEEDS:
        quick, slow = (rows[f"former, 0.1, {smoothing}", 20, seed] for smoothing in ("0", "0.9"))
        assert slow.spread is not None
        assert quick.spread is not None
        assert slow.spread > 2 * quick.spread


def test_more_dimensions_are_harder_for_a_search_than_for_a_climb() -> None:
    rows = dimensions_of("concave", SEEDS)
    assert len(rows) == len(DIMENSIONS) * (len(CEM_DIMENSIONS) + len(CLIMBS)) * len(SEEDS)

    def shares(setting: str, d: int) -> list[float]:
        return [row.share for row in rows if (row.setting, row.case) == (setting, d)]

    assert min(shares("8 climbs of 30 steps", 50)) > 0.99
    assert max(shares("fast CEM", 50)) < min(shares("fast CEM", 10))


def test_the_page_averages_over_seeds() -> None:
    def searches(question: str, kind: str, settings: Sequence[str], cases: Sequence[float]) -> list[Search]:
        return [
            Search(question, kind, setting, case, seed, 0.5 + 0.1 * seed, 320.0, 0.4)
            for setting in settings
            for case in cases
            for seed in (0, 1)
        ]

    rows = searches("sizes", "true values", ["5 iterations", "3 iterations"], [5, 3])
    rows += searches("starts", "ensemble", [f"{p}, {name}" for p in ("fast", "default") for name in WARM], LIKENESS)
    settings = [f"{form}, {e:g}, {s:g}" for form in ("former", "elites") for e in FRACTIONS for s in SMOOTHING]
    for kind in ("ensemble", "rastrigin"):
        rows += searches("elites", kind, settings, ITERATIONS)
    for kind in ("concave", "ensemble", "network"):
        rows += searches("dimensions", kind, [*CEM_DIMENSIONS, *CLIMBS], DIMENSIONS)
    page = build_page(rows)
    assert "320 evaluations get 55.0% of the way in 50 dimensions, CEM's 320 get 55.0%." in page.answer
    assert "36% of the passes of 5 and 5, and get 55.0% of the way" in page.verdict
    dimensions, sizes, starts, elites = page.tables
    assert dimensions.rows[0][:2] == ("fast CEM", "10")
    assert dimensions.rows[0][2].startswith("55.0% (")
    assert [row[:2] for row in sizes.rows] == [(str(members), str(count)) for members, count in SIZES]
    assert len(starts.rows) == len(LIKENESS) * len(WARM)
    assert elites.rows[0][-1] == "0.400"
