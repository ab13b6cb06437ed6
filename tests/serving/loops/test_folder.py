"""The folder of loops: a loop is there, whole, or not at all, whenever a change is cut off."""

import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.serving.shop import make_model
from zoosim.core.errors import ConfigError, StoreError
from zoosim.serving.folder import keep_model_file
from zoosim.serving.loops.folder import LOOP_FILE, REMOVED, LoopFile, LoopsFolder, check_name
from zoosim.serving.settings import Settings
from zoosim.serving.store.address import LOG

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


@pytest.fixture
def loops(tmp_path: Path) -> LoopsFolder:
    folder = LoopsFolder(tmp_path / "loops")
    with folder.locked():
        return folder


def test_a_loop_is_added_with_model_and_settings_and_removed_with_its_log(loops: LoopsFolder, tmp_path: Path) -> None:
    digest = keep_model_file(loops.path, make_model(tmp_path))
    loops.add("home", digest, {"wait": 60.0})
    assert loops.names() == ["home"]
    assert loops.read("home") == LoopFile(f"models/{digest}.zoosim", {"wait": 60.0})
    assert loops.model("home") == loops.folder("home") / "models" / f"{digest}.zoosim"
    common = Settings(wait=5.0, tick=0.5, loops=f"{loops.path}")
    own = loops.settings("home", common)
    assert (own.wait, own.tick, own.loops, own.address.folder) == (60.0, 0.5, "", loops.folder("home"))
    (loops.folder("home") / LOG).write_bytes(b"rows")
    first = loops.remove("home", NOW)
    assert first == loops.path / REMOVED / "home-20260504T030201"
    assert ((first / LOG).read_bytes(), loops.names()) == (b"rows", [])
    loops.add("home", "", {})
    assert loops.remove("home", NOW) == first.with_name(f"{first.name}-2")


@pytest.mark.parametrize("name", ["", "a b", "../home", "removed", "models", "lock", "x" * 41, "home\n", "é"])
def test_names_are_short_words_that_are_not_taken(name: str) -> None:
    with pytest.raises(ConfigError, match="expected 1 to 40 letters"):
        check_name(name)


@pytest.mark.parametrize("step", ["mkdir", "copy", "write"])
def test_an_addition_that_is_cut_off_leaves_no_loop_and_succeeds_when_it_comes_again(
    loops: LoopsFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Cut off as a kill does: nothing is undone."""
    digest = keep_model_file(loops.path, make_model(tmp_path))
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    targets = {"mkdir": "pathlib.Path.mkdir", "copy": "pathlib.Path.write_bytes", "write": "pathlib.Path.write_text"}

    def kill(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patches:
        patches.setattr(targets[step], kill)
        with pytest.raises(KeyboardInterrupt):
            loops.add("home", digest, {"wait": 1.0})
    assert loops.names() == []
    loops.add("home", digest, {"wait": 1.0})
    assert loops.names() == ["home"]


def test_a_full_disk_refuses_an_addition_and_leaves_nothing(
    loops: LoopsFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = keep_model_file(loops.path, make_model(tmp_path))

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    with pytest.raises(StoreError, match="loop home: cannot be kept"):
        loops.add("home", digest, {})
    assert not loops.folder("home").exists()


def test_a_loop_that_cannot_be_moved_stays(loops: LoopsFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    loops.add("home", "", {})

    def fail(*_: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(StoreError, match="loop home: cannot be moved to"):
        loops.remove("home", NOW)
    assert loops.names() == ["home"]


def test_an_addition_is_undone_as_far_as_it_was_one(loops: LoopsFolder) -> None:
    loops.add("new", "", {})()
    assert not loops.folder("new").exists()
    log = loops.folder("moved") / LOG
    log.parent.mkdir()
    log.write_bytes(b"rows")
    loops.add("moved", "", {})()
    assert (log.read_bytes(), loops.names()) == (b"rows", [])
    (log.parent / LOOP_FILE).write_text("wait: 7\n")
    loops.add("moved", "", {})()
    assert loops.read("moved").settings == {"wait": 7}
    with pytest.raises(ConfigError, match="which says both"):
        loops.add("moved", "", {"wait": 1.0})


def test_folders_that_look_like_loops_are_named(loops: LoopsFolder) -> None:
    for name, file in (("old", LOG), ("My shop", LOOP_FILE), ("other", "readme.txt")):
        (loops.path / name).mkdir()
        (loops.path / name / file).write_text("")
    reasons = loops.unserved()
    assert set(reasons) == {"old", "My shop"}
    assert "zoosim loops add old" in reasons["old"]
    assert "rename" in reasons["My shop"]
    assert loops.names() == []


def test_settings_of_the_service_are_not_those_of_a_loop(loops: LoopsFolder) -> None:
    loops.add("home", "", {})
    for line, reason in (("port: 1\n", "port: is a setting of the whole service"), ("wai: 1\n", "did you mean wait")):
        (loops.folder("home") / LOOP_FILE).write_text(line)
        with pytest.raises(ConfigError, match=reason):
            loops.settings("home", Settings())


def test_one_service_uses_a_folder_of_loops_and_none_that_of_one_loop(loops: LoopsFolder) -> None:
    with loops.locked(), pytest.raises(ConfigError, match="another service uses it"), loops.locked():
        pass
    (loops.path / LOG).write_bytes(b"")
    with pytest.raises(ConfigError, match="is the folder of one loop"), loops.locked():
        pass
