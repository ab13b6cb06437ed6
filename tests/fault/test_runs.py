"""Files of runs and of the cache, damaged, edited and swapped: one line names the file, or nothing changes."""

import io
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

import zoosim
from tests.fault.mutations import bit_flips, truncations
from tests.fault.runs import POLICIES, STEPS, Outcome, count_outcomes, make_run, outcome
from zoosim.arena.metrics import FIGURES
from zoosim.arena.store import RunFolder, TrialKey
from zoosim.core import kernel_cache
from zoosim.core.array_cache import kept
from zoosim.core.digests import content_digest
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.jit import bind, jit
from zoosim.core.manifest import Manifest
from zoosim.core.parquet import read_meta, write_parquet
from zoosim.core.private_folder import read_sealed

KEY = TrialKey("greedy", 1)
TRIAL = "cells/greedy/1.parquet"
FORMS = [
    pytest.param(100, 20, id="short"),
    pytest.param(10_000, 500, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(3_000)]),
]
"""Bits that are flipped, and truncations beyond the first 4 kB, of which the short form takes each 64th."""


@pytest.fixture(scope="module", autouse=True)
def _plain_pages() -> Iterator[None]:
    """Write a word for the page of each run: to draw one takes longer than all else of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zoosim.RunResult, "page", lambda _: "a page")
        yield


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "sound"
    make_run(folder)
    return folder


@pytest.fixture
def run(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "run"))


def figures(result: zoosim.RunResult) -> Any:
    """Return what a run says, but for how long it took."""
    summary = {key: value for key, value in result.summary.items() if key != "wall_seconds"}
    return summary, result.rows.to_dicts()


def read_trial(run: Path) -> Any:
    trial = RunFolder(run).read_whole_trial(KEY)
    return [np.asarray(part).tolist() for part in (*trial.rows, *trial.parts.values(), trial.actions)]


READERS: dict[str, Callable[[Path], Any]] = {
    TRIAL: read_trial,
    "rows.parquet": lambda run: RunFolder(run).read_rows().to_dicts(),
    "summary.json": lambda run: RunFolder(run).old_summary(),
    "config.yaml": lambda run: RunFolder(run).read_config(),
}


def damaged_copies(content: bytes, flips: int, lengths: int) -> Iterator[tuple[str, bytes]]:
    """Yield bits flipped, and the beginnings of a file."""
    yield from bit_flips(content, flips, seed=0)
    every = 1 if flips >= 10_000 else 64
    yield from itertools.islice(truncations(content, lengths, seed=0), 0, None, every)


def assert_none_passes(name: str, counts: Counter[Outcome], faults: list[str]) -> None:
    print(f"\n{name}: {counts.total():,} copies, {dict(counts)}")
    assert counts.total() > 0
    assert not faults, faults[:5]


@pytest.mark.parametrize(("flips", "lengths"), FORMS)
@pytest.mark.parametrize("name", READERS)
def test_no_flipped_bit_and_no_cut_passes(name: str, flips: int, lengths: int, run: Path) -> None:
    content = (run / name).read_bytes()
    copies = damaged_copies(content, flips, lengths)
    assert_none_passes(name, *count_outcomes(run / name, copies, lambda: READERS[name](run)))


@pytest.mark.parametrize(("flips", "lengths"), FORMS)
def test_no_damaged_manifest_passes(flips: int, lengths: int, run: Path) -> None:
    """A line that is damaged, or that is gone from the end."""

    def read() -> Any:
        return [RunFolder(run).trials(), *(reader(run) for reader in READERS.values())]

    path = run / "manifest.jsonl"
    sound, content = read(), path.read_bytes()
    counts = Counter[Outcome]()
    for _, damaged in damaged_copies(content, flips, lengths):
        path.write_bytes(damaged)
        counts[outcome(read, sound, str(run))] += 1
    print(f"\nmanifest: {dict(counts)}")
    assert set(counts) == {Outcome.DETECTED}


def edited_table(path: Path, edit: Callable[[pl.DataFrame], pl.DataFrame], *, keeps_meta: bool) -> None:
    """Edit a table as a notebook would, or as one who knows what zoosim keeps beside it."""
    meta = {key: json.dumps(read_meta(path)) for key in ("zoosim",)} if keeps_meta else {}
    edit(pl.read_parquet(path)).write_parquet(path, metadata=meta)


TABLE_EDITS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "as it is": lambda frame: frame,
    "a reward more": lambda frame: frame.with_columns(reward=pl.col("reward") + 1),
    "a row less": lambda frame: frame.head(-1),
    "no rows": lambda frame: frame.clear(),
    "another order": lambda frame: frame.reverse(),
    "a column less": lambda frame: frame.drop("reward"),
    "another name": lambda frame: frame.rename({"reward": "click"}),
    "other types": lambda frame: frame.cast(pl.String),
    "nothing in it": lambda frame: frame.with_columns(reward=pl.lit(None, pl.Float64)),
}


@pytest.mark.parametrize("keeps_meta", [False, True])
@pytest.mark.parametrize("edit", TABLE_EDITS.values(), ids=TABLE_EDITS)
def test_no_edited_trial_passes(edit: Callable[[pl.DataFrame], pl.DataFrame], keeps_meta: bool, run: Path) -> None:
    sound = read_trial(run)
    edited_table(run / TRIAL, edit, keeps_meta=keeps_meta)
    assert outcome(lambda: read_trial(run), sound, "1.parquet") == Outcome.DETECTED


def _set(values: dict[str, Any], *path: Any, value: Any) -> None:
    for key in path[:-1]:
        values = values[key]
    values[path[-1]] = value


CONFIG_EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another hash": lambda values: _set(values, "config_hash", value="feed"),
    "another world": lambda values: _set(values, "env", "n_users", value=21),
    "another length": lambda values: _set(values, "run", "steps", value=STEPS - 1),
    "another seed": lambda values: _set(values, "run", "seeds", value=[0, 1, 2]),
    "another parameter": lambda values: _set(values, "policies", 1, "epsilon", value=0.5),
    "a policy less": lambda values: values["policies"].pop(),
    "older": lambda values: _set(values, "older_trials", value=["greedy/1"]),
    "an older format": lambda values: _set(values, "format", value=2),
    "no policies": lambda values: values.pop("policies"),
}


@pytest.mark.parametrize("edit", CONFIG_EDITS.values(), ids=CONFIG_EDITS)
def test_no_edited_configuration_passes(edit: Callable[[dict[str, Any]], Any], run: Path) -> None:
    path = run / "config.yaml"
    sound = figures(zoosim.read_run(run))
    content = path.read_text()
    values = yaml.safe_load(content)
    edit(values)
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    assert outcome(lambda: figures(zoosim.read_run(run)), sound, "config.yaml") == Outcome.DETECTED


def test_no_edited_summary_passes(run: Path) -> None:
    path = run / "summary.json"
    values = json.loads(path.read_text())
    values["wall_seconds"] += 1.0
    path.write_text(json.dumps(values))
    assert outcome(lambda: RunFolder(run).old_summary(), None, "summary.json") == Outcome.DETECTED


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _noise(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(5_000))


def _a_bomb(path: Path) -> None:
    """300 MB of zeros, which take no room on the disk."""
    with path.open("r+b") as file:
        file.truncate(300_000_000)


@pytest.mark.parametrize("harm", [Path.unlink, _emptied, _a_folder, _noise, _a_bomb])
def test_a_run_without_its_manifest_is_refused(harm: Callable[[Path], None], run: Path) -> None:
    harm(run / "manifest.jsonl")
    for read in (zoosim.read_run, make_run):
        assert outcome(lambda: figures(read(run)), None, str(run)) == Outcome.DETECTED  # noqa: B023


@pytest.mark.parametrize("name", [TRIAL, "rows.parquet", "summary.json", "config.yaml", "report.html"])
@pytest.mark.parametrize("harm", [Path.unlink, _emptied, _a_folder, _noise, _a_bomb])
def test_a_run_says_what_is_wrong_or_mends_it(harm: Callable[[Path], None], name: str, run: Path, sound: Path) -> None:
    """`read_run` refuses or is right, and running again is right wherever it is possible."""
    expected = figures(zoosim.read_run(sound))
    harm(run / name)
    first = outcome(lambda: figures(zoosim.read_run(run)), expected, name if name != TRIAL else "1.parquet")
    is_gone = harm is Path.unlink and name == TRIAL
    assert first in ((Outcome.SILENT,) if is_gone else (Outcome.DETECTED, Outcome.HARMLESS)) or _names(run, name)
    again = outcome(lambda: figures(make_run(run)), expected, "config.yaml")
    assert again in (Outcome.DETECTED, Outcome.HARMLESS) or _names(run, name)
    assert again == Outcome.HARMLESS or name in ("config.yaml", "rows.parquet", "report.html")


def _names(run: Path, name: str) -> bool:
    """Whether what is raised is an `OSError` that names the file: the command line prints it in a line."""
    try:
        zoosim.read_run(run)
    except OSError as error:
        return name in str(error)
    return False


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make runs that differ from the sound one in one thing each, and one that differs in nothing."""
    folder = tmp_path_factory.mktemp("others")
    make_run(folder / "same")
    make_run(folder / "seeds", seeds=[2, 3])
    make_run(folder / "policies", policies=["random", "linucb"])
    make_run(folder / "world", config={"env": {"n_products": 6, "n_users": 21}})
    make_run(folder / "parameters", settings=["policies.greedy.epsilon=0.5"])
    make_run(folder / "length", steps=STEPS + 1)
    return folder


SWAPS = ("seeds", "policies", "world", "parameters", "length", "same")


def swapped_trials(others: Path, which: str) -> Iterator[Path]:
    yield from sorted((others / which / "cells").glob("*/*.parquet"))


@pytest.mark.parametrize("which", SWAPS)
def test_no_sound_trial_passes_for_another(which: str, run: Path, others: Path) -> None:
    """Each trial of another run, put in each place of this one."""
    folder = RunFolder(run)
    harmless = 0
    for place in folder.trials():
        path = folder.trial_path(place)
        expected = [array.tolist() for array in folder.read_trial(place)]
        content = path.read_bytes()
        for other in swapped_trials(others, which):
            path.write_bytes(other.read_bytes())
            read = RunFolder(run).read_trial
            result = outcome(lambda: [array.tolist() for array in read(place)], expected, path.name)  # noqa: B023
            assert result in (Outcome.DETECTED, Outcome.HARMLESS), (place, other)
            harmless += result == Outcome.HARMLESS
        path.write_bytes(content)
    assert harmless == 0  # even of the same run: a trial says how long it took


@pytest.mark.parametrize("which", SWAPS)
@pytest.mark.parametrize("name", ["summary.json", "config.yaml", "rows.parquet"])
def test_no_sound_file_passes_for_that_of_another_run(name: str, which: str, run: Path, others: Path) -> None:
    expected = figures(zoosim.read_run(run))
    (run / name).write_bytes((others / which / name).read_bytes())
    result = outcome(lambda: figures(zoosim.read_run(run)), expected, name)
    # Rows are made anew, and two runs of the same have the same configuration.
    is_harmless = name == "rows.parquet" or (name, which) == ("config.yaml", "same")
    assert result == (Outcome.HARMLESS if is_harmless else Outcome.DETECTED)


@pytest.mark.parametrize(("flips", "lengths"), FORMS)
def test_no_damaged_array_is_taken_from_the_cache(
    flips: int, lengths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOOSIM_CACHE", str(tmp_path))
    made = {"weights": np.arange(200.0), "bias": np.ones(3)}

    def read() -> Any:
        return {name: array.tolist() for name, array in kept("models", ("a",), tuple(made), lambda: made).items()}

    read()
    [path] = (tmp_path / "models").iterdir()
    counts, faults = count_outcomes(path, damaged_copies(path.read_bytes(), flips, lengths), read)
    assert_none_passes("arrays", counts, faults)
    assert counts[Outcome.HARMLESS] == counts.total()


def test_no_array_passes_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOOSIM_CACHE", str(tmp_path))
    for value in (1.0, 2.0):
        kept("models", (value,), ("weights",), lambda: {"weights": np.full(3, value)})  # noqa: B023
    one, two = sorted((tmp_path / "models").iterdir())
    contents = one.read_bytes(), two.read_bytes()
    one.write_bytes(contents[1])
    two.write_bytes(contents[0])
    for value in (1.0, 2.0):
        arrays = kept("models", (value,), ("weights",), lambda: {"weights": np.full(3, value)})  # noqa: B023
        assert arrays["weights"].tolist() == [value] * 3


def halved(x: float) -> float:
    return x / 2.0


def doubled(x: float) -> float:
    return x * 2.0


def called(x: float) -> float:
    return halved(x)


FUNCTIONS: tuple[Any, ...] = (halved, doubled, called)


def through_part(function: Any) -> Any:
    """Return a compiled function that calls another as a part of its own."""
    return bind(called, "through_part", halved=jit(function))


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep compiled code of two functions and of two that call them, as if they stood in the package, in a folder."""
    monkeypatch.setattr(kernel_cache, "FOLDER", tmp_path)
    for function in FUNCTIONS:
        monkeypatch.setattr(function, "__module__", "zoosim.core.rng")
    for function in (halved, doubled):
        jit(function)(1.0)
        through_part(function)(1.0)
    folder = next(path for path in tmp_path.iterdir() if path.is_dir())
    for path in folder.glob("*through_part*"):
        path.unlink()  # so that it is linked anew, from what is kept of its parts
    return folder


CALLS = {"nbc": jit, "bc": through_part}


@pytest.mark.parametrize("suffix", CALLS)
@pytest.mark.parametrize(("flips", "lengths"), FORMS)
def test_no_damaged_kernel_is_run(flips: int, lengths: int, suffix: str, kernels: Path) -> None:
    """What is damaged is not even unpickled; each 100th copy is met by a process's first call, too."""
    (path,) = kernels.glob(f"*halved*.{suffix}")
    content = path.read_bytes()
    copies = list(damaged_copies(content, flips, lengths))
    for what, damaged in copies:
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged"):
            read_sealed(path)
        assert damaged != content, what
    for _, damaged in copies[::100]:
        path.write_bytes(damaged)
        assert CALLS[suffix](halved)(3.0) == 1.5
    print(f"\nkernel, {suffix}: {len(copies):,} copies, all detected")


@pytest.mark.parametrize("suffix", CALLS)
def test_no_kernel_passes_for_another(suffix: str, kernels: Path) -> None:
    one, two = (next(kernels.glob(f"*{name}*.{suffix}")) for name in ("halved", "doubled"))
    contents = one.read_bytes(), two.read_bytes()
    one.write_bytes(contents[1])
    two.write_bytes(contents[0])
    compiled = CALLS[suffix]
    assert (compiled(halved)(3.0), compiled(doubled)(3.0)) == (1.5, 6.0)


def test_what_is_computed_again_is_what_was_lost(run: Path, sound: Path) -> None:
    """All trials damaged at once, and the summary: running again gives the same figures, and keeps what it found."""
    expected = figures(zoosim.read_run(sound))
    for path in [*run.glob("cells/*/*.parquet"), run / "summary.json"]:
        path.write_bytes(path.read_bytes()[:-1])
    result = make_run(run)
    assert figures(result) == expected
    assert len(list((run / "damaged").iterdir())) == 2 * len(POLICIES) + 1
    assert len(result.notes) >= 2 * len(POLICIES) + 1


def test_a_seal_is_of_content_and_not_of_a_name(tmp_path: Path) -> None:
    """A sound table that zoosim wrote, but that is no trial, is refused for what it lacks."""
    folder = RunFolder(tmp_path)
    write_parquet(pl.DataFrame({"x": [1]}), folder.trial_path(KEY), KEY._asdict())
    with pytest.raises(zoosim.ZoosimError, match=r"1.parquet is damaged or was changed"):
        folder.read_trial(KEY)


def _listed(run: Path, name: str, content: bytes) -> None:
    """Let a file of a run hold something else, as a stranger's folder may: with a manifest that lists it."""
    (run / name).write_bytes(content)
    Manifest(run).add(name, content_digest(content))


def _parquet(columns: dict[str, list[float]]) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(columns).write_parquet(file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.yaml", b"[1, 2]"),
        ("config.yaml", b"\xff\xfe"),
        ("config.yaml", b"a: [1"),
        ("config.yaml", b"format: 3"),
        ("summary.json", b"[]"),
        ("summary.json", b'{"wall_seconds": 1.0, "policies": {"greedy": {"failed": [{}]}}}'),
        (TRIAL, b"no table"),
        (TRIAL, _parquet({"reward": [1.0]})),
        (TRIAL, _parquet({figure: [float("nan")] for figure in FIGURES})),
    ],
)
def test_a_strangers_run_that_lists_what_is_no_run_is_refused_in_one_line(name: str, content: bytes, run: Path) -> None:
    _listed(run, name, content)
    with pytest.raises((ConfigError, DataError)) as error:
        zoosim.read_run(run)
    assert f"{run / name} is damaged or was changed" in str(error.value)
    assert "\n" not in str(error.value)
