"""A run's folder: what it refuses before anything is written, and how trials become rows."""

import json
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl
import pytest
import yaml

from zoosim.arena.store import RunFolder, TrialKey
from zoosim.core.digests import file_digest
from zoosim.core.errors import ConfigError, DataError, ZoosimError
from zoosim.core.files import atomic
from zoosim.core.manifest import Manifest
from zoosim.core.parquet import read_meta, write_parquet

POLICIES = [{"name": "a", "type": "random"}, {"name": "b", "type": "greedy", "alpha": 0.5}]
CONFIG = {"experiment": "gauntlet", "config_hash": "feed", "env": {}, "run": {"seeds": [0, 7]}, "policies": POLICIES}
META: dict[str, dict[str, Any]] = {
    "a": {"config_hash": "feed", "params": {}},
    "b": {"config_hash": "feed", "params": {"alpha": 0.5}},
}
SUMMARY = {
    "wall_seconds": 1.5,
    "policies": {"a": {"failed": []}, "b": {"failed": []}},
    "config_hash": "feed",
    "seeds": [0],
}


def columns(seed: int, n: int = 30) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "action": rng.integers(0, 9, n).astype(np.int32),
        "reward": rng.integers(0, 2, n).astype(float),
        "true_probability": rng.random(n) / 2,
        "best_probability": rng.random(n),
    }


def save(folder: RunFolder, key: TrialKey, columns: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Write a trial as a worker does, and list it as its parent does."""
    folder.write_trial(key, columns, meta)
    folder.list_trial(key)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Make a folder of two finished trials with their rows and a summary."""
    made = RunFolder(tmp_path / "run")
    made.write_config(CONFIG)
    for name in ("a", "b"):
        save(made, TrialKey(name, 0), columns(0), META[name])
    made.write_rows(made.trials())
    made.write_summary(SUMMARY)
    made.check()
    return made


def contents(path: Path) -> dict[str, bytes]:
    return {str(item.relative_to(path)): item.read_bytes() for item in path.rglob("*") if item.is_file()}


def refused(folder: RunFolder, error: type[ZoosimError] = ConfigError) -> str:
    """Return the one line of a refusal, after which the folder is as before."""
    before = contents(folder.path)
    with pytest.raises(error) as caught:
        folder.check()
    assert "\n" not in str(caught.value)
    assert contents(folder.path) == before
    return str(caught.value)


def test_a_new_or_an_empty_folder_will_do(tmp_path: Path) -> None:
    RunFolder(tmp_path).check()
    RunFolder(tmp_path / "deep" / "new").check()
    (tmp_path / ".hidden").write_text("of the system's")
    RunFolder(tmp_path).check()
    assert not (tmp_path / "deep").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert refused(RunFolder(file)) == f"--out: {file} is a file, expected a folder"
    below = refused(RunFolder(file / "run"))
    assert below.startswith(f"--out: {file} cannot be written (")
    assert file.read_text() == "mine"


@pytest.mark.parametrize("where", [".", "new", "new/deep"])
def test_a_folder_that_cannot_be_written_is_refused(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new folder's nearest ancestor is asked. (Permissions do not hold back an administrator: so they are faked.)"""

    def refuse(dir: Path) -> NoReturn:
        assert dir == tmp_path
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    told = f"--out: {tmp_path} cannot be written (Permission denied); name another folder"
    assert refused(RunFolder(tmp_path / where)) == told


@pytest.mark.parametrize("foreign", ["notes.txt", "data", "cells.parquet"])
def test_a_foreign_folder_is_refused(foreign: str, tmp_path: Path) -> None:
    (tmp_path / foreign).mkdir()
    assert refused(RunFolder(tmp_path)) == (
        f"--out: {tmp_path} holds {foreign}, not a run; name an empty or a new folder"
    )


def test_a_foreign_file_in_a_run_is_left_alone(folder: RunFolder) -> None:
    """Such as the page that `zoosim describe --out RUN` writes."""
    (folder.path / "search.html").write_text("a page")
    folder.check()
    assert folder.trials() == [("a", 0), ("b", 0)]


def test_cells_without_a_configuration_are_refused(folder: RunFolder) -> None:
    (folder.path / "config.yaml").unlink()
    assert refused(folder) == f"{folder.path} holds no config.yaml; give the folder of a run"


@pytest.mark.parametrize(
    "damage", [lambda text: "", lambda text: text[:60], lambda text: text + "\nenv: [", lambda text: "- 1\n"]
)
def test_a_damaged_configuration_is_refused(damage: Callable[[str], str], folder: RunFolder) -> None:
    path = folder.path / "config.yaml"
    path.write_text(damage(path.read_text()))
    assert refused(folder) == f"{path} is damaged or was changed; delete the folder or name another"
    with pytest.raises(ConfigError, match="damaged or was changed"):
        folder.read_config()


def test_a_configuration_of_bytes_is_refused(folder: RunFolder) -> None:
    (folder.path / "config.yaml").write_bytes(b"config_hash: \xff\xfe")
    assert "config.yaml is damaged or was changed" in refused(folder)


@pytest.mark.parametrize("failure", [{"seed": "x"}, {"seed": None}, {"step": []}, {"place": float("nan")}])
def test_a_listed_summary_whose_failures_are_none_is_refused(failure: dict[str, Any], folder: RunFolder) -> None:
    whole = {"seed": 0, "step": 1, "error": "broke", "place": "mine.py:3"}
    summary = {"wall_seconds": 1.0, "policies": {"a": {"failed": [whole]}}}
    folder.write_summary(summary)
    assert folder.old_summary() == summary
    (folder.path / "summary.json").write_text(json.dumps({**summary, "policies": {"a": {"failed": [whole | failure]}}}))
    Manifest(folder.path).add("summary.json", file_digest(folder.path / "summary.json"))
    with pytest.raises(ConfigError, match="damaged or was changed"):
        folder.old_summary()


@pytest.mark.parametrize("text", ["", '{"seeds": [0, 1', "[1, 2]", "null", "\x00"])
def test_a_damaged_summary_is_refused(text: str, folder: RunFolder) -> None:
    path = folder.path / "summary.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        folder.old_summary()
    assert str(error.value) == f"{path} is damaged or was changed; delete it and run again"


def test_the_summary_of_another_run_is_refused(folder: RunFolder, tmp_path: Path) -> None:
    other = RunFolder(tmp_path / "other")
    other.write_config(CONFIG)
    other.write_summary({**SUMMARY, "wall_seconds": 2.5})
    (folder.path / "summary.json").write_bytes((other.path / "summary.json").read_bytes())
    with pytest.raises(ConfigError, match=r"summary.json is damaged or was changed; delete it and run again"):
        folder.old_summary()


def test_no_summary_is_an_empty_one(folder: RunFolder) -> None:
    (folder.path / "summary.json").unlink()
    folder.check()
    assert folder.old_summary() == {}


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9, -1])
def test_a_truncated_table_is_refused_by_its_name(kept: float, folder: RunFolder) -> None:
    def cut(path: Path) -> str:
        whole = path.read_bytes()
        path.write_bytes(whole[: int(kept * len(whole)) if kept >= 0 else -1])
        return f"{path} is damaged or was changed; "

    trial = cut(folder.trial_path(TrialKey("b", 0)))
    assert folder.fault(TrialKey("b", 0)) == "is damaged or was changed"
    with pytest.raises(DataError, match=trial):
        folder.read_trial(TrialKey("b", 0))
    rows = cut(folder.path / "rows.parquet")
    with pytest.raises(DataError, match=rows):
        folder.read_rows()


@pytest.mark.parametrize("place", [("a", 0), ("b", 0), ("a", 1), ("c", 0)])
def test_a_sound_trial_of_another_run_is_refused(place: tuple[str, int], folder: RunFolder, tmp_path: Path) -> None:
    """In the place of a trial; where there is none, it does not count as one."""
    other = RunFolder(tmp_path / "other")
    save(other, TrialKey("a", 0), columns(1), META["a"])
    before = folder.trials()
    path = folder.trial_path(TrialKey(*place))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(other.trial_path(TrialKey("a", 0)).read_bytes())
    assert folder.trials() == before
    with pytest.raises(DataError) as error:
        folder.read_trial(TrialKey(*place))
    assert str(error.value) == f"{path} is damaged or was changed; delete it and run again"


def test_a_trial_that_was_written_anew_is_refused(folder: RunFolder) -> None:
    path = folder.trial_path(TrialKey("a", 0))
    pl.read_parquet(path).with_columns(reward=1.0).write_parquet(path)
    assert folder.fault(TrialKey("a", 0)) == "is damaged or was changed"


def test_a_damaged_file_is_set_aside_under_a_name_of_its_own(folder: RunFolder) -> None:
    key = TrialKey("a", 0)
    for number in (1, 2):
        place = folder.set_aside(folder.trial_path(key))
        assert place == folder.path / "damaged" / f"{number}-cells-a-0.parquet"
        save(folder, key, columns(0), META["a"])


def test_what_made_a_cell_is_kept_with_it(folder: RunFolder) -> None:
    meta = {**META["a"], "fingerprint": "beef", "seconds": 0.25, "fit": {"loss": 0.5}}
    save(folder, TrialKey("a", 7), columns(3), meta)
    assert read_meta(folder.trial_path(TrialKey("a", 7))) == {"policy": "a", "seed": 7, **meta}
    expected = columns(3)
    trial = folder.read_trial(TrialKey("a", 7))
    assert np.array_equal(trial.rewards, expected["reward"])
    assert np.array_equal(trial.true_probabilities, expected["true_probability"])
    assert np.array_equal(trial.best_probabilities, expected["best_probability"])


def test_a_table_that_is_not_ours_has_no_meta(tmp_path: Path) -> None:
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "plain.parquet")
    assert read_meta(tmp_path / "plain.parquet") == {}


def test_a_write_that_fails_leaves_no_trial(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a full disk or a kill in the middle leaves behind is no trial."""

    def half(self: pl.LazyFrame, file: Path, **options: Any) -> NoReturn:
        Path(file).write_bytes(b"PAR1 half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", half)
    with pytest.raises(OSError, match="No space left"):
        save(folder, TrialKey("c", 1), columns(0), {})
    assert folder.trials() == [("a", 0), ("b", 0)]
    assert list((folder.path / "cells" / "c").iterdir()) == []
    folder.check()


def test_a_full_disk_is_told_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on the size of files stands in for the disk."""
    path = tmp_path / "log.parquet"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # no module may be cut, either
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(OSError, match="File too large") as error:
            write_parquet(pl.DataFrame({"x": np.random.default_rng(0).random(10_000)}), path, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert error.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_kill_are_no_cells_and_go(folder: RunFolder) -> None:
    left = [folder.path / "cells" / "a" / ".1.parquet.x7.part", folder.path / ".config.yaml.x7.part"]
    for path in left:
        path.write_bytes(b"half")
    folder_of_rows = folder.path / ".rows.x7.part"
    folder_of_rows.mkdir()
    (folder_of_rows / "0.parquet").write_bytes(b"half")
    assert folder.trials() == [("a", 0), ("b", 0)]
    folder.check()
    with atomic(folder.path / "log.txt") as temporary:  # of a process that lives
        temporary.write_text("half")
        folder.remove_leftovers()
        assert temporary.exists()
    assert not any(path.exists() for path in (*left, folder_of_rows))


def test_cells_and_rows_are_sorted_by_policy_seed_and_step(tmp_path: Path) -> None:
    """Seeds as numbers (2 before 10), whatever the order of writing, and steps in the order of the trial."""
    folder = RunFolder(tmp_path)
    keys = [TrialKey("linucb", 10), TrialKey("d-linucb", 2), TrialKey("linucb", 2), TrialKey("d-linucb", 0)]
    for key in keys:
        save(folder, key, columns(key.seed), {})
    assert folder.trials() == [("d-linucb", 0), ("d-linucb", 2), ("linucb", 2), ("linucb", 10)]
    folder.write_rows(keys)
    frame = pl.read_parquet(tmp_path / "rows.parquet")
    assert frame["policy"].to_list() == ["d-linucb"] * 60 + ["linucb"] * 60
    assert frame["seed"].to_list() == [0] * 30 + [2] * 60 + [10] * 30
    assert frame["step"].to_list() == [*range(30)] * 4
    for number, key in enumerate(folder.trials()):
        part = frame.slice(30 * number, 30)
        assert all(np.array_equal(part[name].to_numpy(), array) for name, array in columns(key.seed).items())


def test_many_cells_are_put_together_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With parts of 3, 10 trials take parts of parts; nothing of them is left."""
    monkeypatch.setattr("zoosim.arena.store.PART", 3)
    folder = RunFolder(tmp_path)
    for seed in range(10):
        save(folder, TrialKey("a", seed), columns(seed), {})
    folder.write_rows(folder.trials())
    frame = pl.read_parquet(tmp_path / "rows.parquet")
    assert frame["seed"].to_list() == [seed for seed in range(10) for _ in range(30)]
    assert frame["step"].to_list() == [*range(30)] * 10
    assert frame["reward"].to_list() == [r for seed in range(10) for r in columns(seed)["reward"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cells", "manifest.jsonl", "rows.parquet"]


def test_rows_have_the_documented_columns(folder: RunFolder) -> None:
    assert dict(pl.read_parquet(folder.path / "rows.parquet").schema) == {
        "seed": pl.Int64,
        "step": pl.Int32,
        "policy": pl.String,
        "action": pl.Int32,
        "reward": pl.Float64,
        "true_probability": pl.Float64,
        "best_probability": pl.Float64,
        "visitor": pl.Int32,
        "visit": pl.Int32,
        "ended": pl.Boolean,
        "censored": pl.Boolean,
    }


def test_csv_holds_the_same_rows(folder: RunFolder) -> None:
    folder.write_csv()
    rows = pl.read_parquet(folder.path / "rows.parquet")
    again = pl.read_csv(folder.path / "rows.csv", schema=rows.schema)
    assert again.equals(rows)
    folder.check()


def test_dropping_a_policy_takes_its_cells_and_log_alone(folder: RunFolder) -> None:
    for name in ("a", "b"):
        write_parquet(pl.DataFrame({"x": [1]}), folder.log_path(TrialKey(name, 0)), {})
    folder.drop_trials("a")
    assert folder.trials() == [("b", 0)]
    assert not folder.log_path(TrialKey("a", 0)).exists()
    assert folder.log_path(TrialKey("b", 0)).exists()


def test_the_configuration_is_yaml_with_a_hint_in_front(folder: RunFolder) -> None:
    text = (folder.path / "config.yaml").read_text(encoding="utf-8")
    assert text.startswith("# zoosim run gauntlet --config config.yaml\n")
    assert yaml.safe_load(text) == CONFIG
    assert json.dumps(folder.read_config()) == json.dumps(CONFIG)  # in the same order


def test_a_configuration_that_lost_a_policy_is_refused(folder: RunFolder) -> None:
    text = (folder.path / "config.yaml").read_text()
    (folder.path / "config.yaml").write_text(text[: text.index("- name: b")])
    assert refused(folder).endswith("config.yaml is damaged or was changed; delete the folder or name another")


@pytest.mark.parametrize("text", ["[]", "{}", '{"wall_seconds": 1, "policies": {"a": {}}}', '{"policies": {}}'])
def test_a_summary_of_another_shape_is_refused(folder: RunFolder, text: str) -> None:
    (folder.path / "summary.json").write_text(text)
    with pytest.raises(ConfigError, match=r"summary.json is damaged or was changed"):
        folder.old_summary()


def test_rows_without_cells_have_the_columns(folder: RunFolder) -> None:
    for name in ("a", "b"):
        folder.drop_trials(name)
    folder.write_rows(folder.trials())
    rows = pl.read_parquet(folder.path / "rows.parquet")
    assert (rows.height, rows.columns[:3]) == (0, ["seed", "step", "policy"])


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:4] + b"\xff" * 116 + data[120:],
        lambda data: data[: len(data) // 2],
    ],
)
def test_a_damaged_trial_is_told_in_one_line(folder: RunFolder, damage: Any) -> None:
    path = folder.trial_path(TrialKey("a", 0))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match="is damaged or was changed; delete it and run again"):
        folder.read_trial(TrialKey("a", 0))


@pytest.mark.parametrize("column", [["x"] * 3, [None, 1.0, 2.0], [float("nan")] * 3, [1, 2, 3]])
def test_a_trial_with_other_columns_is_told_in_one_line(folder: RunFolder, column: list[Any]) -> None:
    ones = [1.0] * len(column)
    frame = pl.DataFrame({"reward": column, "true_probability": ones, "best_probability": ones}, strict=False)
    frame.write_parquet(folder.trial_path(TrialKey("a", 0)))
    with pytest.raises(DataError, match="is damaged or was changed"):
        folder.read_trial(TrialKey("a", 0))


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"policies": {"a": {"failed": [1]}}, "wall_seconds": 1}', '{"policies": {}, "wall_seconds": NaN}'],
)
def test_a_damaged_summary_is_told_in_one_line(folder: RunFolder, text: str) -> None:
    (folder.path / "summary.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="is damaged or was changed"):
        folder.old_summary()


@pytest.mark.parametrize("seeds", ["3", "null", "[a]"])
def test_a_damaged_configuration_is_told_in_one_line(folder: RunFolder, seeds: str) -> None:
    path = folder.path / "config.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    values["run"]["seeds"] = yaml.safe_load(seeds)
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    with pytest.raises(ConfigError, match="is damaged or was changed"):
        folder.read_config()
    path.write_text("[" * 3_000, encoding="utf-8")
    with pytest.raises(ConfigError, match="is damaged or was changed"):
        folder.read_config()


def test_files_with_odd_names_are_no_trials(folder: RunFolder) -> None:
    before = folder.trials()
    for name in ("9" * 23, "\u00b23", "x"):
        (folder.path / "cells" / "a" / f"{name}.parquet").touch()
    assert folder.trials() == before


@pytest.mark.parametrize(
    "name", ["../escaped", "/tmp/escaped", "config.yaml", "log/random/../../escaped", "cells/b/0.parquet"]
)
def test_files_that_no_trial_has_are_refused(tmp_path: Path, name: str) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(ConfigError, match="no trial has"):
        folder.save_trial(TrialKey("random", 0), [(name, b"x")])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
