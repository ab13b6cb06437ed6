"""The study of coverage: cells that are what they say, counts by hand, and runs that go on."""

from pathlib import Path

import numpy as np
import pytest

from studies import search_logs
from studies.known_logs import KnownLogs, effective_rows
from studies.ope_coverage import build_page, measure, measuring
from studies.ope_coverage.cells import CELLS, SEARCH, Cell, draw, logs_of, sound
from studies.ope_coverage.measuring import Covered, rows_of
from studies.ope_coverage.page import band
from tests.caches import use_cache
from zoosim.core.errors import ConfigError


def covered(number: int, cell: Cell, seeds: tuple[int, ...]) -> list[Covered]:
    shop = search_logs.CONFIG
    return rows_of(shop, number, cell, measuring.ends_of(shop, [cell], seeds, jobs=1)[0])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_cache(monkeypatch, tmp_path)
    return tmp_path


def test_effective_rows_by_hand() -> None:
    """One context; weights 2 and 0 at probabilities 1/2: E w = 1, E w^2 = 2, so 100 rows count for 50."""
    logging, target = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])
    assert effective_rows(100, logging, target, logging) == pytest.approx(50.0)
    missing = np.array([[1.0, 0.0]])
    assert effective_rows(100, missing, np.array([[0.3, 0.7]]), missing) == pytest.approx(100.0)


def test_there_are_cells_of_every_kind() -> None:
    assert len(set(CELLS)) == len(CELLS) == 31
    logs = {cell: logs_of(cell) for cell in CELLS if cell.world != SEARCH}
    assert sum(map(sound, logs.values())) == 19
    faulty = {cell.world for cell, own in logs.items() if own.faulty}
    assert faulty == {"propensities off", "2 actions missing"} | {cell.world for cell in CELLS if "boost" in cell.world}
    assert sum(cell.world == SEARCH for cell in CELLS) == 4
    near, far = (logs_of(Cell("clicks, learned log", n, distance)) for n, distance in ((1_000, 0.5), (10_000, 2.0)))
    assert isinstance(near, KnownLogs)
    assert isinstance(far, KnownLogs)
    np.testing.assert_array_equal(near.logging, far.logging)
    assert near.effective / 1_000 > far.effective / 10_000


def test_logs_are_fixed_by_cell_and_seed() -> None:
    cell = Cell("users of 5 rows", 3_000, 0.5)
    (first, _), (again, _), (other, _) = (draw(cell, logs_of(cell), seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.rewards, again.rewards)
    assert (first.rewards != other.rewards).any()
    assert not logs_of(cell).alike


def test_what_was_measured_is_kept(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = covered(0, CELLS[0], (3, 4, 5))
    assert [(row.interval, row.estimator) for row in rows] == list(measuring.ROWS)
    assert all(row.held + row.below + row.above == row.logs == 3 for row in rows)
    assert len(list((own_cache / "ope-coverage").glob("*.npz"))) == 1
    monkeypatch.setattr(measuring, "draw", None)
    assert covered(0, CELLS[0], (3, 4, 5)) == rows


def test_intervals_whose_conditions_do_not_hold_are_left_out() -> None:
    users, amounts, off = (
        next((number, cell) for number, cell in enumerate(CELLS) if cell.world == world)
        for world in ("users of 5 rows", "amounts", "propensities off")
    )
    assert [row.interval for row in covered(*users, (0,))][3:] == ["bernstein"]
    assert [row.interval for row in covered(*amounts, (0,))] == ["bootstrap"] * 3
    assert not any(row.promised for row in covered(*off, (0,)))


@pytest.mark.slow
def test_logs_without_overlap_are_caught() -> None:
    """2 actions that the log lacks, 40 logs: the default interval misses in most, Bernstein's in none."""
    number, cell = next((number, cell) for number, cell in enumerate(CELLS) if cell.world == "2 actions missing")
    rows = {(row.interval, row.estimator): row for row in covered(number, cell, tuple(range(40)))}
    assert rows["bootstrap", "dr"].held < 10
    assert rows["bernstein", "any"].held == 40
    assert sum(row.trusted for row in rows.values()) == 0


def row(cell: int, interval: str, held: int, *, promised: bool = True, trusted: int = 0) -> Covered:
    head = (cell, "clicks", 1_000, 0.5 * cell, 700.0, interval, "ips" if interval == "bootstrap" else "any", promised)
    return Covered(*head, 2_000, held, 1_900 - held if held < 1_900 else 0, 0, 0.4, trusted, round(0.94 * trusted))


def test_the_page_marks_what_breaks_a_promise() -> None:
    """Three binomial errors of 2,000 logs: 3 sqrt(.95 x .05 / 2,000) = 1.46 points."""
    assert band(2_000) == pytest.approx((0.93538, 0.96462), abs=1e-5)
    rows = [
        row(0, "bootstrap", 1_904, trusted=1_000),
        row(0, "bernstein", 2_000),
        row(1, "bootstrap", 1_866),
        row(1, "sequence", 1_899),
        row(2, "bootstrap", 900, promised=False),
    ]
    page = build_page(rows)
    assert "1 of 2 default intervals" in page.verdict
    assert "(93.3% to 95.2%)" in page.verdict
    assert "trust hold 94.0% of the time" in page.verdict
    cells = [cells[4:] for cells in page.tables[0].rows]
    assert cells[0] == ("yes", "95.2%", "", "", "100.0%", "", "50%", "94.0%")
    assert cells[1] == ("yes", "93.3% !", "", "", "", "95.0% !", "0%", "none")
    assert cells[2][:2] == ("no", "45.0%")


def test_a_wrong_number_of_cells_is_refused() -> None:
    with pytest.raises(ConfigError, match="cells: got 32, expected a whole number, 1 to 31"):
        measure(cells=32)


def test_it_runs_whole() -> None:
    rows = measure(seeds=2, cells=2, jobs=1)
    assert len(rows) == 10
    assert build_page(rows).drawings[0].figure.layout.height > 100


@pytest.mark.usefixtures("small_shop")
def test_search_logs_are_judged() -> None:
    number, cell = next((number, cell) for number, cell in enumerate(CELLS) if cell.world == SEARCH)
    assert [row.logs for row in covered(number, cell, (0, 1))] == [2] * 5


def test_rankings_and_boosts_are_judged_by_their_own_estimators() -> None:
    for world, count in (("rankings, 3 of 6", 5), ("2 boosts", 3)):
        number, cell = next((number, cell) for number, cell in enumerate(CELLS) if cell.world == world)
        rows = covered(number, cell, (0, 1))
        assert [row.logs for row in rows] == [2] * count
        assert [row.promised for row in rows] == [count == 5] * count
        assert (rows[0].effective is None) == (count == 3)
    assert build_page(rows).tables[0].rows[0][3:5] == ("", "no")
