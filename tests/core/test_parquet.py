"""Tests of Parquet files: checking one takes no memory by its size."""

import re
import sys
from pathlib import Path

import polars as pl
import pytest

from zoosim.core.parquet import check_parquet, sink_parquet

ROWS = 20_000_000
"""Rows of 8 bytes: 160 MB."""

MOST_BYTES = 110e6


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_large_file_is_checked_without_holding_it(tmp_path: Path, is_sealed: bool) -> None:
    path = tmp_path / "log.parquet"
    # Parts of it that are read through a map are resident, and the digest of a sealed file goes over all of it.
    sink_parquet(pl.select(number=pl.int_range(ROWS)), path, {}, sealed=is_sealed, compression="uncompressed")
    assert path.stat().st_size > 1.4 * MOST_BYTES
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
    check_parquet(path)
    assert _resident("VmHWM") - before < MOST_BYTES


def _resident(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])
