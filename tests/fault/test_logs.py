"""Damaged logs, tables, catalogues and schemas: one line that names the file, or the same log to the bit."""

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.fault.mutations import bit_flips, truncations
from zoosim.core.errors import DataError, ZoosimError
from zoosim.core.parquet import decoding
from zoosim.logs.importing.convert import to_records
from zoosim.logs.importing.tables import read_table
from zoosim.logs.log import Log
from zoosim.logs.parse import read_log
from zoosim.logs.write import to_records as records_of
from zoosim.logs.write import write_records
from zoosim.schema.schema import read_schema

ROWS = 120
DETECTED, HARMLESS, SILENT = "detected", "harmless", "silent"
SHORT_FLIPS, SHORT_CUTS = 30, 12
LONG_FLIPS, LONG_CUTS = 10_000, 500
MOST_MEMORY = 1_000_000
"""Kilobytes."""

COLUMNS = {"action": "item", "propensity": "p", "user_id": "customer", "time": "at", "unavailable": "gone"}
SCHEMA = {
    "columns": COLUMNS,
    "rewards": {"click": "clicked", "revenue": "paid"},
    "features": {"country": "category", "age": "number"},
    "products": {"table": "items.csv", "id": "item", "category": "brand", "features": {"price": "number"}},
    "time_zone": "UTC",
}


class Kind(NamedTuple):
    """A kind of file: which one is damaged, how what it belongs to is read, and whether it holds a digest."""

    file: Path
    read: Callable[[], Any]
    has_digest: bool


KINDS = ("log", "export", "catalogue", "csv", "items", "parquet", "snappy", "stored", "yaml", "json")
COMPRESSIONS: dict[str, Any] = {"parquet": "zstd", "snappy": "snappy", "stored": "uncompressed"}
"""How a shop's own Parquet tables are written; only zstd would notice most damage by itself."""


def make_kind(name: str, folder: Path) -> Kind:
    """Write sound files of a kind."""
    write_table(folder)
    log = folder / "log.parquet"
    if name not in ("log", "export", "catalogue"):
        table = folder / ("table.parquet" if name in COMPRESSIONS else "table.csv")
        schema = folder / ("schema.json" if name == "json" else "schema.yaml")
        if name in COMPRESSIONS:
            pl.read_csv(folder / "table.csv").write_parquet(table, compression=COMPRESSIONS[name])
        damaged = {"items": folder / "items.csv", "yaml": schema, "json": schema}
        return Kind(damaged.get(name, table), lambda: converted(table, schema), has_digest=False)
    zoosim.import_log(folder / "table.csv", folder / "schema.yaml", log)
    if name == "export":  # as `export_log` writes what it has read of a service
        read = read_log(log)
        assert read.fitted is not None
        frames = records_of(read, {"decision_id": [f"d{number}" for number in range(len(read))]})
        write_records(*frames, log, read.fitted, list(read.rewards_by_name))
    (catalogue,) = folder.glob("catalogue-*")
    return Kind(catalogue if name == "catalogue" else log, lambda: contents(read_log(log)), has_digest=True)


def write_table(folder: Path) -> None:
    """Write a shop's tables and their schema, twice."""
    rng = np.random.default_rng(7)
    table = pl.DataFrame(
        {
            "item": rng.choice(["2", "3", "cap"], ROWS),
            "p": rng.choice([0.25, 0.5], ROWS),
            "clicked": rng.integers(2, size=ROWS),
            "paid": rng.normal(9, 2, ROWS).round(2),
            "customer": rng.integers(30, size=ROWS),
            "at": [f"2026-03-{1 + number % 28:02} 10:{number % 60:02}:00" for number in range(ROWS)],
            "country": rng.choice(["de", "fr", "it"], ROWS),
            "age": rng.integers(18, 80, ROWS),
            "gone": rng.choice(["", "hat", "hat|shoe"], ROWS),
        }
    )
    table.write_csv(folder / "table.csv")
    table.write_parquet(folder / "table.parquet")
    items = {"item": ["2", "3", "cap", "hat", "shoe"], "brand": ["a", "a", "b", "b", "c"], "price": [1.5, 2, 3, 4, 9]}
    pl.DataFrame(items, strict=False).write_csv(folder / "items.csv")
    (folder / "schema.json").write_text(json.dumps(SCHEMA, indent=1))
    (folder / "schema.yaml").write_text(json.dumps(SCHEMA, indent=1).replace('"', ""))


def converted(table: Path, schema: Path) -> Any:
    """Return what becomes of a table."""
    described = read_schema(schema)
    frame, source = read_table(table)
    result = to_records(frame, described, source=source)
    return result.records.collect().to_dict(as_series=False), result.products.to_dict(as_series=False), result.fitted


def contents(log: Log) -> Any:
    """Return all that estimates follow from, to the bit."""
    ids = [] if log.user_ids is None else [log.user_ids]
    times = [] if log.times is None else [log.times]
    arrays = [log.actions, log.propensities, log.rewards, log.features, log.products]
    arrays += [*ids, *times, log.available(0, len(log)), log.product_ids, *log.rewards_by_name.values()]
    return [array.tobytes() for array in arrays], log.names, log.categories, list(log.rewards_by_name), log.fitted


def outcome(kind: Kind, sound: Any) -> str:
    """Read a damaged file: say whether that is detected, with one line that names the file, harmless, or silent."""
    try:
        got = kind.read()
    except ZoosimError as error:
        message = str(error)
        assert "\n" not in message, message
        assert len(message) < 1_000, message
        assert str(kind.file) in message or not kind.has_digest, message
        return DETECTED
    return HARMLESS if got == sound else SILENT


def count(kind: Kind, mutations: Iterable[tuple[str, bytes]]) -> Counter[str]:
    """Count what becomes of mutations of a file; what is no error of zoosim is a failure that names the mutation."""
    sound = kind.read()
    whole = kind.file.read_bytes()
    outcomes: Counter[str] = Counter()
    for words, content in mutations:
        kind.file.write_bytes(content)
        try:
            outcomes[outcome(kind, sound)] += 1
        except BaseException as error:
            error.add_note(f"{kind.file.name}: {words}")
            raise
    kind.file.write_bytes(whole)
    assert kind.read() == sound
    return outcomes


def peak_memory() -> int:
    """Return the most memory that this process has held so far, in KB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def sampled(mutations: Iterator[tuple[str, bytes]], every: int) -> Iterator[tuple[str, bytes]]:
    return islice(mutations, 0, None, every)


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_are_named_in_one_line_or_harmless(name: str, tmp_path: Path) -> None:
    kind = make_kind(name, tmp_path)
    content = kind.file.read_bytes()
    every = max(1, min(len(content), 4_096) // SHORT_CUTS)
    cuts = sampled(truncations(content, 0, seed=1), every)
    outcomes = count(kind, chain(bit_flips(content, SHORT_FLIPS, seed=0), cuts))
    assert outcomes.total() >= SHORT_FLIPS
    if kind.has_digest:
        assert not outcomes[SILENT], outcomes


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_at_length(name: str, tmp_path: Path) -> None:
    kind, before = make_kind(name, tmp_path), peak_memory()
    content = kind.file.read_bytes()
    flips = count(kind, bit_flips(content, LONG_FLIPS, seed=2))
    cuts = count(kind, truncations(content, LONG_CUTS, seed=3))
    largest = peak_memory()
    print(f"{name}: {len(content):,} bytes; bit flips {dict(flips)}; truncations {dict(cuts)}; {largest:,} KB")
    if kind.has_digest:
        assert not flips[SILENT]
        assert not cuts[SILENT]
    assert largest <= max(before, MOST_MEMORY)


EDITS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "rows shuffled": lambda frame: frame.sample(fraction=1.0, shuffle=True, seed=1),
    "rows repeated": lambda frame: pl.concat([frame, frame.head(20)]),
    "rows dropped": lambda frame: frame.head(50),
    "no rows": lambda frame: frame.clear(),
    "all values missing": lambda frame: frame.clear(len(frame)),
}


def edits(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield what a careless hand makes of a table: without a column, with two swapped, of other types."""
    for words, edit in EDITS.items():
        yield words, edit(frame)
    names = frame.columns
    for name in names:
        yield f"without {name}", frame.drop(name)
        yield f"{name} renamed", frame.rename({name: f"{name}x"})
        yield f"{name} as words", frame.with_columns(pl.lit("word").alias(name))
        yield f"{name} as lists", frame.with_columns(pl.concat_list(pl.lit(1.5)).alias(name))
        yield f"{name} as structs", frame.with_columns(pl.struct(pl.lit(1).alias("a")).alias(name))
        yield f"{name} as infinity", frame.with_columns(pl.lit(float("inf")).alias(name))
    for first, second in pairwise(names):
        yield f"{first} and {second} swapped", frame.rename({first: second, second: first})


@pytest.mark.parametrize("name", ["log", "export", "catalogue", "parquet"])
def test_edited_parquet_files_are_named_where_they_hold_a_digest_and_never_break(name: str, tmp_path: Path) -> None:
    kind = make_kind(name, tmp_path)
    meta = {key: text for key, text in pl.read_parquet_metadata(kind.file).items() if key != "ARROW:schema"}
    sound = kind.read()
    frame = pl.read_parquet(kind.file)
    without_digest: Counter[str] = Counter()
    for words, edited in edits(frame):
        edited.write_parquet(kind.file, metadata=meta)
        if kind.has_digest:
            assert outcome(kind, sound) == DETECTED, words
        edited.write_parquet(kind.file)
        without_digest[outcome(kind._replace(has_digest=False), sound)] += 1
    assert without_digest[DETECTED] > len(frame.columns)


@pytest.mark.parametrize("name", ["csv", "items"])
def test_edited_csv_files_never_break(name: str, tmp_path: Path) -> None:
    kind = make_kind(name, tmp_path)
    sound = kind.read()
    frame = pl.read_csv(kind.file)
    for words, edited in edits(frame):
        if not any(kind.is_nested() for kind in edited.schema.values()):
            edited.write_csv(kind.file)
            assert outcome(kind, sound) in (DETECTED, HARMLESS, SILENT), words
    doubled = [f"{line},{line.split(',')[0]}" for line in frame.write_csv().splitlines()]
    kind.file.write_text("\n".join(doubled) + "\n")
    assert outcome(kind, sound) == DETECTED


def test_sound_files_in_the_place_of_others_are_refused(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    kind = make_kind("log", folders[0])
    sound = kind.read()
    write_table(folders[1])
    items = folders[1] / "items.csv"
    items.write_text(items.read_text().replace("1.5", "7.5"))
    zoosim.import_log(folders[1] / "table.csv", folders[1] / "schema.yaml", folders[1] / "log.parquet")
    (catalogue,) = folders[0].glob("catalogue-*")
    (other,) = folders[1].glob("catalogue-*")
    assert catalogue.name != other.name
    whole = catalogue.read_bytes()
    for stranger in (other, kind.file, folders[0] / "table.parquet"):
        shutil.copy(stranger, catalogue)
        assert outcome(kind._replace(file=catalogue), sound) == DETECTED, stranger
    catalogue.unlink()
    assert outcome(kind, sound) == DETECTED
    catalogue.write_bytes(whole)
    for stranger in (catalogue, folders[0] / "table.csv", folders[0] / "schema.yaml"):
        shutil.copy(stranger, kind.file)
        assert outcome(kind, sound) == DETECTED, stranger


PANICS = {"parquet": (480, 4), "snappy": (4328, 0), "stored": (1245, 2)}
"""Bits (byte, bit) at which decoders of polars panic, for which they print many lines beside raising an error."""


@pytest.mark.parametrize("name", PANICS)
def test_a_decoder_that_panics_prints_nothing(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kind = make_kind(name, tmp_path)
    damaged = bytearray(kind.file.read_bytes())
    byte, bit = PANICS[name]
    damaged[byte] ^= 1 << bit
    kind.file.write_bytes(damaged)
    with pytest.raises(pl.exceptions.PanicException if name == "snappy" else BaseException):
        pl.read_parquet(kind.file)
    assert "panicked at" in capfd.readouterr().err
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        kind.read()
    assert capfd.readouterr().err == ""


def test_what_others_print_while_a_file_is_decoded_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with decoding():
        os.write(2, b"a note\n")
    assert capfd.readouterr().err == "a note\n"


def test_two_files_decoded_at_once_leave_standard_error_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    inside, seconds = threading.Event(), 0.3

    def decode() -> None:
        with decoding():
            inside.set()
            time.sleep(seconds)

    threads = [threading.Thread(target=decode) for _ in range(2)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    for thread in threads:
        thread.join()
    os.write(2, b"still here\n")
    assert capfd.readouterr().err == "still here\n"


def bomb_of_rows(folder: Path) -> Path:
    """Write a table of a hundred million rows in a few kilobytes: 1.6 GB."""
    rows = pl.select(pl.repeat(0, 1_000_000, dtype=pl.Int64)).to_series().alias("action")
    part = pl.DataFrame({"action": rows, "reward": rows}).lazy()
    pl.concat([part] * 100).sink_parquet(folder / "bomb.parquet", row_group_size=1_000_000)
    return folder / "bomb.parquet"


def deep_yaml(folder: Path) -> Path:
    path = folder / "deep.yaml"
    path.write_text("columns: " + "[" * 100_000)
    return path


def wide_yaml(folder: Path) -> Path:
    """Write aliases of aliases: a few hundred bytes that stand for 10 ** 10 words."""
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 11)]
    path = folder / "wide.yaml"
    path.write_text("\n".join(["a0: &a0 [x, x]", *levels, "columns: *a10"]))
    return path


LIMITED = """
import resource, sys
import zoosim
resource.setrlimit(resource.RLIMIT_DATA, (1_000_000_000,) * 2)
try:
    if sys.argv[1].endswith("yaml"):
        zoosim.import_log(sys.argv[2], sys.argv[1], sys.argv[2] + ".parquet")
    else:
        zoosim.evaluate(sys.argv[1], ["random"])
except zoosim.ZoosimError as error:
    print(error)
"""


@pytest.mark.parametrize("make", [bomb_of_rows, deep_yaml, wide_yaml])
def test_small_files_that_stand_for_very_much_are_refused_in_little_memory(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    write_table(tmp_path)
    path = make(tmp_path)
    command = [sys.executable, "-c", LIMITED, str(path), str(tmp_path / "table.csv")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(path))
    assert done.stdout.count("\n") == 1
