"""Damaged tables of a search shop, logs of searches and fitted search worlds: one line, or the same to the bit."""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.fault.mutations import bit_flips, truncations
from tests.fault.test_logs import MOST_MEMORY, SILENT, Kind, count, peak_memory, sampled
from tests.worlds.search.test_import_searches import Shop
from zoosim.api.runs import write_log
from zoosim.api.shops import fit_world, import_log
from zoosim.logs.parse import read_log

IMPORTED = ("searches.csv", "searches.yaml", "catalogue.csv", "queries.csv", "scores.csv")
LOGGED = ("own.parquet", "catalogue-*.parquet")
FITTED = ("catalogue.parquet", "queries.parquet", "scores.parquet", "world.yaml")
SHORT_FLIPS = 16
LONG_FLIPS, LONG_CUTS = 2_000, 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search shop's tables, their schema, the log that is made of them, and the world fitted to it."""
    shop = Shop(tmp_path_factory.mktemp("searches"), 240)
    shop.table.write_csv(shop.folder / "searches.csv")
    shop.imported()
    fit_world(shop.folder / "own.parquet", shop.folder / "world")
    return shop.folder


def kind_of(name: str, folder: Path) -> Kind:
    """Return a kind of file, and what is read of it."""
    if name in FITTED:
        return Kind(folder / "world" / name, lambda: simulated(folder), has_digest=name != "world.yaml")
    if name in LOGGED:
        (path,) = folder.glob(name)
        return Kind(path, lambda: contents(folder / "own.parquet"), has_digest=True)
    return Kind(folder / name, lambda: imported(folder), has_digest=False)


def imported(folder: Path) -> Any:
    """Return the log that becomes of a shop's tables."""
    out = folder / "again" / "log.parquet"
    out.parent.mkdir(exist_ok=True)
    imported = import_log(folder / "searches.csv", folder / "searches.yaml", out)
    return imported.skipped, contents(out)


def simulated(folder: Path) -> Any:
    """Return a log of the fitted world."""
    out = folder / "simulated" / "log.parquet"
    write_log(out, n=5, policy="random-boosts", config=folder / "world" / "world.yaml")
    return contents(out)


def contents(path: Path) -> Any:
    """Return all that a log of searches says, to the bit."""
    log = read_log(path)
    arrays = [array.tobytes() for array in (log.actions, log.propensities, log.rewards, log.features)]
    if log.searches is None:  # the search shop without tables
        return arrays
    requests = log.searches.requests
    table = [array.tobytes() for array in requests.table]
    return arrays, log.searches.frame.to_dict(as_series=False), table, requests.schema


@pytest.mark.parametrize("name", [*IMPORTED, *LOGGED, *FITTED])
@pytest.mark.parametrize(
    ("flips", "cuts", "every"),
    [
        pytest.param(SHORT_FLIPS, 0, 400, id="short"),
        pytest.param(LONG_FLIPS, LONG_CUTS, 8, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(3_000)]),
    ],
)
def test_damaged_files_of_searches_are_refused_or_harmless(
    name: str, flips: int, cuts: int, every: int, folder: Path
) -> None:
    kind, before = kind_of(name, folder), peak_memory()
    content = kind.file.read_bytes()
    cut = sampled(truncations(content, cuts, seed=1), every)
    outcomes = count(kind, chain(bit_flips(content, flips, seed=0), cut))
    print(f"\n{name}: {len(content):,} bytes; {outcomes.total():,} copies: {dict(outcomes)}")
    assert outcomes.total() >= flips
    if kind.has_digest:
        assert not outcomes[SILENT]
    assert peak_memory() <= max(before, MOST_MEMORY)  # the peak of all tests in this process so far
