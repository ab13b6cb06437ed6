"""S26 in small: 300 rows of 20 candidates out of 6,000 products, which count as a large catalogue."""

from pathlib import Path

import pytest

from benchmarks.speed.listed_candidates import judge, write_log


@pytest.mark.parametrize("name", ["function", "shared-linucb", "column:candidate_propensities"])
def test_listed_candidates_of_a_large_catalogue_are_judged(name: str, tmp_path: Path) -> None:
    assert write_log(tmp_path / "log.parquet", is_whole=True, rows=300, n_products=6_000, n_candidates=20) < 600
    found = judge(tmp_path / "log.parquet", name)
    assert found.startswith("snips 0.")
    if name == "shared-linucb":
        in_blocks = judge(tmp_path / "log.parquet", name, in_blocks=True)
        assert in_blocks.split(";")[0] == found.split(";")[0]
