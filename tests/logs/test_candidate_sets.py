"""Sets of candidates as lists, held against masks."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from zoosim.core.errors import DataError
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.parse import read_log, to_log


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_lists_are_what_their_masks_say(share: float) -> None:
    """Of products, or of those that lack, whichever is shorter; an empty set and a whole one among them."""
    rng = np.random.default_rng(0)
    masks = rng.random((7, 12)) < share
    masks[3], masks[5] = False, True
    sets = CandidateSets.from_masks(masks)
    assert sets.are_lacking == (share > 0.5)
    chosen = rng.integers(7, size=40)
    np.testing.assert_array_equal(sets.masks(chosen), masks[chosen])
    distinct, mask_of = sets.distinct_masks(chosen)
    np.testing.assert_array_equal(distinct[mask_of], masks[chosen])
    assert len(distinct) == len(np.unique(chosen))
    few, number_of = sets.only(chosen[:4])
    assert len(few) == len(np.unique(chosen[:4]))
    np.testing.assert_array_equal(few.masks(number_of), masks[chosen[:4]])
    assert len(sets.only(chosen[:0])[0]) == 0
    gone = rng.integers(12, size=(40, 3))
    left = masks[chosen]
    np.put_along_axis(left, gone, False, axis=1)
    np.testing.assert_array_equal(sets.without(chosen, gone).masks(np.arange(40)), left)


def test_everything_is_one_set() -> None:
    sets = CandidateSets.everything(4)
    assert (len(sets), sets.are_everything) == (1, True)
    np.testing.assert_array_equal(sets.masks(np.array([0, 0])), np.ones((2, 4), bool))
    assert not sets.without(np.array([0]), np.array([[2]])).are_everything


def visits() -> pl.DataFrame:
    listed = [[0, 3], [1, 2, 3], [0, 3], None, [3]]
    return pl.DataFrame({"candidates": listed, "action": [0, 2, 3, 1, 3], "propensity": 0.5, "reward": 1.0})


def test_a_column_lists_candidates_or_what_is_none(tmp_path: Path) -> None:
    """A missing list of candidates leaves all of them; equal lists are one set."""
    log = to_log(visits())
    expected = np.array([[1, 0, 0, 1], [0, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 1]], bool)
    np.testing.assert_array_equal(log.available(0, 5), expected)
    assert (len(log.candidates), log.candidate_set.tolist()) == (4, [0, 1, 0, 2, 3])
    gone = pl.Series("unavailable", [np.flatnonzero(~row).tolist() for row in expected], dtype=pl.List(pl.Int64))
    complement = visits().drop("candidates").with_columns(gone)
    complement.write_parquet(tmp_path / "log.parquet")
    np.testing.assert_array_equal(read_log(tmp_path / "log.parquet").available(0, 5), expected)
    with pytest.raises(DataError, match="got columns candidates and unavailable, expected one of them"):
        to_log(visits().with_columns(gone))


def test_a_product_that_is_listed_twice_is_one_candidate() -> None:
    log = to_log(visits().with_columns(candidates=pl.Series([[3, 0, 3], [1, 2, 3], [3, 3], None, [3]])))
    assert log.candidate_lists(0, 5).lengths.tolist() == [2, 3, 1, 4, 1]
    assert log.candidate_lists(0, 1).of(0).tolist() == [3, 0]
    gone = pl.Series("unavailable", [[1, 2, 1], [0], [], [], [0, 0]])
    complement = to_log(visits().drop("candidates").with_columns(gone))
    assert complement.candidate_lists(0, 5).lengths.tolist() == [2, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("row", "listed", "message"),
    [
        (1, [0, 1], "row 1, column action: got 2, expected one of the row's candidates"),
        (4, [], "row 4, column action: got 3, expected one of the row's candidates"),
        (0, [0, -1], r"row 0, column candidates: got \[0, -1\], expected actions from 0 to 3"),
        (0, [0, None], "row 0, column candidates: .* expected actions from 0 to 3"),
    ],
)
def test_a_bad_list_of_candidates_is_named(row: int, listed: list[int | None], message: str) -> None:
    lists = visits()["candidates"].to_list()
    lists[row] = listed
    with pytest.raises(DataError, match=message):
        to_log(visits().with_columns(candidates=pl.Series(lists)))


def test_a_log_of_many_sets_takes_the_room_of_its_lists() -> None:
    """20,000 visits with 50 of 10,000 products each: masks would take 200 MB."""
    rng = np.random.default_rng(0)
    listed = rng.integers(200, size=(20_000, 50)) + 200 * np.arange(50)
    frame = pl.DataFrame({"candidates": pl.Series(listed).arr.to_list(), "action": listed[:, 7], "reward": 0.0})
    log = to_log(frame, n_actions=10_000)
    assert log.candidates.products.nbytes + log.candidates.starts.nbytes < 5_000_000
    np.testing.assert_array_equal(np.flatnonzero(log.available(19_999, 20_000)[0]), listed[-1])
