"""Files that are none, never end, stand for more than they hold, or are called what no text is: one line each.

Every case is one command with a file put in the place of a sound one. It must end with exit code 2 and one line that
names the file, within 10 seconds of processor time and 1 GB of memory.
"""

import os
import resource
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from tests.commands import ROOT, Ended, run_zoosim
from tests.fault.test_logs import write_table

MOST_SECONDS, MOST_MEMORY = 10.0, 1_000_000_000
LIMITS = {resource.RLIMIT_DATA: 6_000_000_000}
RUN = "run gauntlet --policies random --seeds 1 --steps 100 --jobs 1 --set env.n_users=20 --out {}"

SERVE = "serve --store sqlite:{}"


class Case(NamedTuple):
    """Commands, and what their one line must say; `make` puts the files into a folder."""

    make: Callable[[Path], None]
    commands: tuple[str, ...]
    line: str


def in_place_of(name: str, target: str) -> Callable[[Path], None]:
    """Return what puts a link in the place of a file."""

    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return make


def pipe(name: str) -> Callable[[Path], None]:
    """Return what puts a pipe in the place of a file."""

    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return make


def shop(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_csv(folder / "table.csv")] * 10)


def repeated_words(folder: Path) -> None:
    """A million letters that 1,000 rows share: 1 GB row by row."""
    table = shop(folder).head(1_000).with_columns(note=pl.lit("a" * 1_000_000))
    table.write_parquet(folder / "words.parquet", statistics=False)


def repeated_lists(folder: Path) -> None:
    """Half a million products that 1,000 rows lack."""
    table = shop(folder).head(1_000).with_columns(gone=pl.lit("a|" * 500_000))
    table.write_parquet(folder / "lists.parquet", statistics=False)


def repeated_items(folder: Path) -> None:
    """A brand of 30 million letters."""
    items = pl.read_csv(folder / "items.csv").with_columns(brand=pl.lit("a" * 30_000_000))
    items.write_parquet(folder / "items.parquet", statistics=False)
    schema = (folder / "schema.yaml").read_text().replace("items.csv", "items.parquet")
    (folder / "items.yaml").write_text(schema)


def wide_csv(folder: Path) -> None:
    """200,000 columns in 2.5 MB."""
    names = ",".join(f"c{number}" for number in range(200_000))
    row = ",".join(["1"] * 200_000)
    (folder / "wide.csv").write_text(f"{names}\n{row}\n{row}\n{row}\n")


def wide_parquet(folder: Path) -> None:
    pl.DataFrame({f"c{number}": [1, 2, 3] for number in range(5_000)}).write_parquet(folder / "wide.parquet")


def far_years(folder: Path) -> None:
    table = shop(folder)
    for name, moment in (("late", "10000-01-01 10:00:00"), ("early", "0000-01-01 10:00:00"), ("before", "-0001-01-01")):
        table.with_columns(at=pl.lit(moment)).write_csv(folder / f"{name}.csv")
    far = pl.Series("at", [2**62] * table.height).cast(pl.Datetime("us"))
    table.with_columns(far).write_parquet(folder / "far.parquet")


def far_log(folder: Path) -> None:
    assert run_zoosim(*["log", "log.parquet", "--n", "200"], cwd=folder).code == 0
    log = pl.read_parquet(folder / "log.parquet")
    log.with_columns(time=pl.lit(2**62).cast(pl.Datetime("us", "UTC"))).write_parquet(folder / "far-log.parquet")


def long_secret(folder: Path) -> None:
    """8 GB that take no room on the disk."""
    (folder / "long-store").mkdir()
    with (folder / "long-store/secret").open("wb") as file:
        file.truncate(8_000_000_000)


NOTHING = "expected a file, got a pipe, a device or a folder"
LOOP = "symbolic links"

CASES = {
    "words of a dictionary": Case(
        repeated_words,
        ("import words.parquet o.parquet", "import words.parquet schema.yaml o.parquet", "schema words.parquet"),
        "words.parquet: has",
    ),
    "lists of a dictionary": Case(
        repeated_lists, ("import lists.parquet schema.yaml o.parquet",), "lists.parquet: has"
    ),
    "words of products": Case(
        repeated_items,
        ("import table.csv items.yaml o.parquet", "describe search --set env.catalogue_file=items.parquet"),
        "items.parquet: has",
    ),
    "columns of a CSV file": Case(
        wide_csv,
        ("import wide.csv o.parquet", "schema wide.csv", "run labelled --data wide.csv --label c0 --out o"),
        "wide.csv: has",
    ),
    "columns of a Parquet file": Case(
        wide_parquet, ("import wide.parquet o.parquet", "evaluate wide.parquet --policy random"), "wide.parquet: has"
    ),
    "an endless run": Case(
        in_place_of("endless/config.yaml", "/dev/zero"), ("report endless", RUN.format("endless")), "config.yaml is"
    ),
    "an endless config": Case(
        in_place_of("endless.yaml", "/dev/zero"), ("run gauntlet --config endless.yaml --out o",), NOTHING
    ),
    "an endless policy": Case(in_place_of("endless.py", "/dev/zero"), ("check-policy endless.py:Mine",), "endless.py"),
    "a pipe for a table": Case(
        pipe("p.csv"), ("import p.csv o.parquet", "run labelled --data p.csv --label x --out o"), "p.csv: no such file"
    ),
    "a pipe for a schema": Case(pipe("p.yaml"), ("import table.csv p.yaml o.parquet",), NOTHING),
    "a pipe for a model": Case(pipe("p.zoosim"), ("serve p.zoosim",), NOTHING),
    "a pipe for a world": Case(pipe("p.world"), ("run p.world --out o", "describe p.world"), NOTHING),
    "a pipe in a run": Case(pipe("piped/config.yaml"), ("report piped", RUN.format("piped")), "config.yaml is"),
    "a pipe for the secret of a service": Case(pipe("piped-store/secret"), (SERVE.format("piped-store"),), NOTHING),
    "an endless secret": Case(
        in_place_of("endless-store/secret", "/dev/zero"), (SERVE.format("endless-store"),), NOTHING
    ),
    "a secret that is its own link": Case(
        in_place_of("loop-store/secret", "secret"), (SERVE.format("loop-store"),), LOOP
    ),
    "a secret of many bytes": Case(long_secret, (SERVE.format("long-store"),), "expected at most 32 bytes"),
    "a world that is its own link": Case(
        in_place_of("loop.world", "loop.world"), ("run loop.world --out o", "describe loop.world"), LOOP
    ),
    "a policy that is its own link": Case(
        in_place_of("loop.py", "loop.py"), ("check-policy loop.py:Mine", "check-world loop.py:Mine"), "loop.py"
    ),
    "a model that is its own link": Case(
        in_place_of("loop.zoosim", "loop.zoosim"), ("run gauntlet --policies loop.zoosim --out o",), "loop.zoosim"
    ),
    "years beyond the calendar": Case(
        far_years,
        ("import before.csv schema.yaml o.parquet", "import far.parquet schema.yaml o.parquet"),
        "at",
    ),
    "years beyond it in a log": Case(
        far_log,
        ("evaluate far-log.parquet --policy random", "fit-world far-log.parquet --out o"),
        "expected a time of the years 1 to 9999",
    ),
    "a name that is no UTF-8": Case(
        lambda folder: None, ("import \udcff.csv o.parquet", "report \udcff"), r"got \udcff"
    ),
}


def fault_of(ended: Ended, line: str) -> str:
    """Return what is wrong with how a command ended; empty where nothing is."""
    lines = [text for text in ended.err.splitlines() if text.startswith("zoosim: ")]
    if ended.code != 2 or len(lines) != 1 or line not in lines[0]:
        return f"exit code {ended.code}: {ended.err[-500:]}"
    if ended.seconds > MOST_SECONDS or ended.memory > MOST_MEMORY:
        return f"{ended.seconds:.1f} processor seconds, {ended.memory / 1e6:,.0f} MB"
    return ""


# Each case runs its own commands: what a fixture of the module ran would be run by each of the tests' workers.
@pytest.mark.parametrize("name", CASES)
def test_a_strange_file_is_named_in_one_line(name: str, tmp_path: Path) -> None:
    write_table(tmp_path)
    case = CASES[name]
    case.make(tmp_path)
    for text in case.commands:
        assert fault_of(run_zoosim(*shlex.split(text), cwd=tmp_path, limits=LIMITS), case.line) == "", text


def test_names_that_polars_takes_for_patterns_are_read(tmp_path: Path) -> None:
    write_table(tmp_path)
    (tmp_path / "schema.yaml").rename(tmp_path / "schema[1].yaml")
    (tmp_path / "table.csv").rename(tmp_path / "table[1].csv")
    commands = ["import table[1].csv schema[1].yaml log[1]?.parquet", "evaluate log[1]?.parquet --policy random"]
    for text in commands:
        ended = run_zoosim(*text.split(), cwd=tmp_path)
        assert ended.code == 0, ended.err


def test_a_run_in_a_folder_named_by_an_escape_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31mb"
    folder.mkdir()
    (folder / "table.csv").write_text("a,y\n" + "1,u\n2,v\n" * 20)
    (folder / "world.py").write_bytes((ROOT / "examples/my_world.py").read_bytes())
    runs = ["run WORLD --policies random", "run labelled --data TABLE --label y --policies random"]
    texts = [f"{run} --seeds 1 --steps 40 --jobs 1 --out {number}" for number, run in enumerate(runs)]
    paths = {"WORLD": f"{folder}/world.py:Bookshop", "TABLE": f"{folder}/table.csv"}
    for text in (*texts, *texts, "report 0", "report 1"):
        ended = run_zoosim(*(paths.get(word, word) for word in text.split()), cwd=folder)
        assert ended.code == 0, ended.err
