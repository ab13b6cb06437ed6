"""A run that an older zoosim made, without a format in its config.yaml, is read and extended as one of today.

Its `config_hash` covers the parameters of all policies that there were, so it is the hash of no run of today.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import zoosim
from zoosim.core.errors import ConfigError
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
    assert _without_ends(found.summary) == _without_ends(before)
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
    assert config["format"] == 2
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
