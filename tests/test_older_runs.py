"""Runs that older zoosims made, without a manifest, are read and extended as those of today.

One has no format in its config.yaml and no seals; its `config_hash` covers the parameters of all policies that there
were, so it is the hash of no run of today. The files of the other are sealed.
"""

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import zoosim
from zoosim.arena.store import RunFolder, TrialKey
from zoosim.core.errors import ConfigError, ZoosimError
from zoosim.core.parquet import read_meta, write_parquet
from zoosim.core.seal import BLANK, KEY, seal_file
from zoosim.policies.registry import BUILT_IN

KEPT = Path(__file__).parent / "data" / "run_before_contract"
POLICIES = {"adaptive", "linucb", "random"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(KEPT, tmp_path / "run"))


def extend(folder: Path, *policies: str, **options: Any) -> zoosim.RunResult:
    asked: dict[str, Any] = {"seeds": 2, "steps": 400, "jobs": 1, "out": folder, **options}
    return zoosim.run("gauntlet", policies=policies, **asked)


def trials(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("cells/*/*.parquet"))}


def _without_ends(figures: Any) -> Any:
    """Leave out the ends of intervals, which were not corrected for several pairs, nor cut at what is possible."""
    if isinstance(figures, list):
        return [_without_ends(figure) for figure in figures]
    if isinstance(figures, dict):
        return {key: _without_ends(figure) for key, figure in figures.items() if key not in ("low", "high")}
    return figures


@pytest.mark.parametrize("added", [False, True], ids=["as it is", "with one more policy in zoosim"])
def test_it_is_read(added: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if added:
        monkeypatch.setitem(BUILT_IN, "new", "zoosim.policies.that_is_not_there:New")
    before = json.loads((folder / "summary.json").read_text())
    found = zoosim.read_run(folder)
    assert {key: _without_ends(found.summary[key]) for key in before} == _without_ends(before)
    assert set(found.summary) - set(before) == {"overtaking"}  # told of runs of today
    assert set(found.rows["policy"].unique()) == POLICIES
    assert (folder / "report.html").exists()
    assert (folder / "config.yaml").read_text() == (KEPT / "config.yaml").read_text()


def test_it_is_read_though_a_policy_has_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(BUILT_IN, "linucb")
    assert set(zoosim.read_run(folder).summary["policies"]) == POLICIES


def test_another_policy_joins_it(folder: Path) -> None:
    before = trials(folder)
    found = extend(folder, "greedy")
    after = trials(folder)
    assert {name: after[name] for name in before} == before
    assert sorted(set(after) - set(before)) == ["cells/greedy/0.parquet", "cells/greedy/1.parquet"]
    assert set(found.summary["policies"]) == {"greedy", *POLICIES}
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["format"] == 3
    assert config["config_hash"] == found.plan.config_hash == found.summary["config_hash"]
    assert {entry["name"]: entry.get("alpha") for entry in config["policies"]}["linucb"] == 0.2
    assert zoosim.read_run(folder).summary == found.summary


def test_its_own_policies_are_run_again_by_todays_code(folder: Path) -> None:
    found = extend(folder, "random")
    assert "random: its code has changed, so it ran again" in found.notes
    assert not any("its code has changed" in note for note in extend(folder, "random").notes)


def test_another_world_or_length_or_parameter_is_refused(folder: Path) -> None:
    before = trials(folder)
    others: list[tuple[dict[str, Any], str]] = [
        ({"steps": 401}, r"holds another run, with another value of run\.steps; name another folder"),
        ({"settings": ["env.n_products=51"]}, r"with another value of env\.n_products; name another folder"),
        ({"settings": ["policies.linucb.alpha=.5"]}, "holds linucb with other parameters; name another folder"),
    ]
    for options, told in others:
        with pytest.raises(ConfigError, match=told):
            extend(folder, "linucb", **options)
    assert trials(folder) == before
    assert (folder / "config.yaml").read_text() == (KEPT / "config.yaml").read_text()


def test_its_files_are_listed_when_it_is_read(folder: Path) -> None:
    """From then on an edit is noticed."""
    before = {path: path.read_bytes() for path in (folder / "config.yaml", *folder.glob("cells/*/*.parquet"))}
    zoosim.read_run(folder)
    assert {path: path.read_bytes() for path in before} == before
    assert (folder / "manifest.jsonl").exists()
    assert_each_edit_is_refused(folder, "linucb")


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    with tarfile.open(KEPT.parent / "before_one_of_each.tar.xz") as archive:
        members = [member for member in archive if member.name.startswith("./run/")]
        archive.extractall(tmp_path, members, filter="data")
    return tmp_path / "run"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def write_anew(path: Path) -> None:
    """Write other content as one who knows what zoosim keeps in a file, but leaves its seal out."""
    if path.suffix == ".parquet":
        frame = pl.read_parquet(path).with_columns(reward=1.0)
        frame.write_parquet(path, metadata={"zoosim": json.dumps(read_meta(path))})
    elif path.suffix == ".yaml":
        values = yaml.safe_load(path.read_text())
        values["env"]["n_users"] = 21
        path.write_text(yaml.safe_dump({key: value for key, value in values.items() if key != "digest"}))
    else:
        values = json.loads(path.read_text())
        values.pop("digest", None)
        path.write_text(json.dumps({**values, "wall_seconds": 3.0}))


def assert_each_edit_is_refused(run: Path, policy: str) -> None:
    for name in ("config.yaml", "summary.json", f"cells/{policy}/1.parquet"):
        content = (run / name).read_bytes()
        for harm in (flip, write_anew):
            harm(run / name)
            with pytest.raises(ZoosimError, match=rf"^{run / name} is damaged or was changed; delete [^\n]*$"):
                zoosim.read_run(run)
            (run / name).write_bytes(content)


def test_the_seals_of_a_sealed_run_are_checked(sealed: Path) -> None:
    assert_each_edit_is_refused(sealed, "linucb")
    assert not (sealed / "manifest.jsonl").exists()


@pytest.mark.parametrize("harm", [flip, write_anew])
def test_a_damaged_trial_of_a_sealed_run_is_computed_again(harm: Callable[[Path], None], sealed: Path) -> None:
    expected = [rows.tolist() for rows in RunFolder(sealed).read_trial(TrialKey("linucb", 1))]
    harm(sealed / "cells" / "linucb" / "1.parquet")
    (note,) = (note for note in extend(sealed, "linucb", "random", steps=200).notes if "moved to" in note)
    assert "linucb/1.parquet is damaged or was changed; moved to" in note
    assert [rows.tolist() for rows in RunFolder(sealed).read_trial(TrialKey("linucb", 1))] == expected


@pytest.mark.parametrize(
    "change", [{"seed": 0}, {"policy": "random"}, {"config_hash": "feed"}, {"params": {"alpha": 9.0}}]
)
def test_a_sealed_trial_of_another_run_is_refused(change: dict[str, Any], sealed: Path) -> None:
    path = sealed / "cells" / "linucb" / "1.parquet"
    write_parquet(pl.read_parquet(path), path, {**read_meta(path), **change})
    with pytest.raises(ZoosimError, match=rf"^{path} is damaged or was changed"):
        zoosim.read_run(sealed)


def test_a_sealed_run_goes_on_as_one_of_today(sealed: Path) -> None:
    """All of its policies run again, as the code of its world has changed."""
    found = extend(sealed, "greedy", "linucb", "random", steps=200)
    assert set(found.summary["policies"]) == {"greedy", "linucb", "random"}
    assert "digest" not in yaml.safe_load((sealed / "config.yaml").read_text())
    assert zoosim.read_run(sealed).summary == found.summary
    assert_each_edit_is_refused(sealed, "linucb")


def test_a_sealed_run_that_went_on_with_an_unsealed_one_is_read(sealed: Path) -> None:
    """Its config.yaml lists the trials that may lack a seal; no other may."""
    cells = sealed / "cells"
    for trial in ("linucb/0", "linucb/1"):
        frame = pl.read_parquet(cells / f"{trial}.parquet")
        frame.write_parquet(cells / f"{trial}.parquet", metadata={"zoosim": json.dumps({"policy": "linucb"})})
    reseal(sealed / "config.yaml", older_trials=["linucb/0"])
    with pytest.raises(ZoosimError, match=r"linucb/1\.parquet is damaged or was changed"):
        zoosim.read_run(sealed)
    reseal(sealed / "config.yaml", older_trials=["linucb/0", "linucb/1"])
    assert zoosim.read_run(sealed).rows.height == 4 * 200


def test_a_config_that_was_cut_short_is_refused_in_one_line(sealed: Path) -> None:
    whole = (sealed / "config.yaml").read_bytes()
    for stop in range(0, len(whole), len(whole) // 12):
        (sealed / "config.yaml").write_bytes(whole[:stop])
        with pytest.raises(ZoosimError, match=r"config\.yaml is damaged or was changed"):
            RunFolder(sealed).read_config()


def reseal(path: Path, **changes: Any) -> None:
    values = {**yaml.safe_load(path.read_text()), **changes, KEY: BLANK}
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    seal_file(path)
