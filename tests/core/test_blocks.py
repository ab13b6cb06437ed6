"""Rows that are read in blocks hold what the same rows hold in memory, and are never made whole."""

import numpy as np
import pytest

from zoosim.core import blocks
from zoosim.core.blocks import (
    RowArray,
    RowSelection,
    RowSigns,
    SparseRows,
    StoredRows,
    block_sum,
    extremes,
    mapped,
    row_blocks,
)

N = 1_000
VALUES = np.random.default_rng(0).normal(size=(N, 2))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 128)


def stored() -> StoredRows:
    rows = StoredRows(VALUES.shape, np.float64)
    for block in row_blocks(N):
        rows[block] = VALUES[block]
    return rows


def test_stored_rows_are_read_by_slices_and_by_numbers_in_any_order() -> None:
    rows = stored()
    np.testing.assert_array_equal(rows[100:900], VALUES[100:900])
    chosen = np.array([999, 0, 500, 500, 129])
    np.testing.assert_array_equal(rows[chosen], VALUES[chosen])
    np.testing.assert_array_equal(rows[7], VALUES[7])
    with pytest.raises(TypeError, match="never as a whole"):
        np.asarray(rows)


def test_a_selection_is_what_a_mask_selects() -> None:
    mask = np.random.default_rng(1).random(N) < 0.3
    mask[128:384] = False  # blocks of which nothing is selected
    marks = RowArray((N,), bool, lambda start, stop: mask[start:stop])
    selection = RowSelection(marks)
    selected = selection.of(stored())
    assert selection.n_rows == len(selected) == mask.sum()
    for rows in (slice(0, len(selected)), slice(3, 4), slice(50, 260), np.array([40, 2, 200])):
        np.testing.assert_array_equal(selected[rows], VALUES[mask][rows])


def test_sums_go_by_blocks_wherever_rows_are() -> None:
    column = VALUES[:, 0]
    streamed = RowArray((N,), np.float64, lambda start, stop: column[start:stop])
    by_hand = 0.0
    for start in range(0, N, 128):
        by_hand += column[start : start + 128].sum()
    assert block_sum(column) == block_sum(streamed) == by_hand
    assert by_hand != column.sum()  # numpy adds in another order
    assert block_sum(mapped(np.abs, streamed)) == block_sum(mapped(np.abs, column))


def test_sparse_rows_and_signs_do_not_depend_on_what_is_asked_for() -> None:
    sparse = SparseRows(N, np.array([0, 127, 128, 999]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert sparse[0:N].sum() == 10.0
    np.testing.assert_array_equal(sparse[np.array([999, 5, 127])], [4.0, 0.0, 2.0])
    signs = RowSigns(N, "test")
    whole = signs[0:N]
    assert set(whole) == {-1.0, 1.0}
    assert abs(whole.sum()) < 4.0 * np.sqrt(N)
    np.testing.assert_array_equal(signs[300:310], whole[300:310])


@pytest.mark.parametrize("place", [0, N - 1])
def test_extremes_hide_no_nan(place: int) -> None:
    """In whichever block it is."""
    values = np.arange(float(N))
    assert extremes(values) == (0.0, N - 1.0)
    values[place] = np.nan
    assert np.isnan(extremes(values)).all()
