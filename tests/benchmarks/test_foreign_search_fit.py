"""The second half of benchmark Q10, small: a shop outside the family is drawn, fitted and compared with its truth."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.quality.foreign_search_fit import report, respond
from benchmarks.quality.foreign_search_shops import SEGMENTS, SHOWN, write_foreign_shop


def test_the_truth_is_that_of_the_tables(tmp_path: Path) -> None:
    """Segments differ in what a price 10% higher does to them, in the order of their slopes; clicks are the log's."""
    shop = write_foreign_shop(tmp_path, 0, searches=900)
    log = pl.read_csv(tmp_path / "searches.csv")
    assert len(log) == 900 * SHOWN
    clicks = dict(log.group_by("segment").agg(pl.col("clicked").sum()).iter_rows())
    assert [clicks[name] for name in SEGMENTS] == shop.clicks.tolist()
    assert (log["purchased"] <= log["clicked"]).all()
    assert np.ptp(shop.price_responses) > 0.02
    assert np.abs(shop.price_responses).max() < 0.2


def test_a_small_shop_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    response = respond(1, searches=600)
    assert response.intervals.shape == (len(SEGMENTS), 2)
    assert (response.intervals[:, 0] < response.estimates).all()
    report([response])
    printed = capsys.readouterr().out
    assert "price responses of 3 segments in order in" in printed
    assert "intervals that hold the truth" in printed
