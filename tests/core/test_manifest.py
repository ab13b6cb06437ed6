"""The manifest of a folder: what is listed is found again, damage is named, and a kill at any moment loses nothing."""

import multiprocessing
from itertools import chain
from pathlib import Path

import pytest

from tests.fault.mutations import bit_flips, truncations
from zoosim.core.digests import content_digest
from zoosim.core.errors import ConfigError
from zoosim.core.manifest import NAME, Manifest


def write(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return content_digest(content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    manifest = Manifest(tmp_path)
    for name in ("a", "b", "z"):
        manifest.add(name, write(tmp_path, name, name.encode()))
    return tmp_path


def test_what_is_listed_is_found_again(folder: Path) -> None:
    for manifest in (Manifest(folder), Manifest(folder, lambda: {"c": "never asked"})):
        assert all(name in manifest and manifest.holds(name) for name in ("a", "b", "z"))
        assert "c" not in manifest
        (folder / "b").write_bytes(b"other")
        assert not manifest.holds("b")
        (folder / "b").write_bytes(b"b")
        with pytest.raises(FileNotFoundError):
            manifest.holds("c")


def test_a_line_is_added_and_no_other_is_written_again(folder: Path) -> None:
    before = (folder / NAME).read_bytes()
    first, second = Manifest(folder), Manifest(folder)
    first.add("c", content_digest(b"1"))
    second.add("d", content_digest(b"2"))
    content = (folder / NAME).read_bytes()
    assert content.startswith(before)
    assert content.count(b"\n") == before.count(b"\n") + 2
    assert first.lists("d", content_digest(b"2"))
    assert Manifest(folder).lists("c", content_digest(b"1"))
    assert Manifest(folder).lists("d", content_digest(b"2"))


def test_a_replaced_file_is_sound_before_and_after_it_is_moved(folder: Path) -> None:
    new = content_digest(b"new")
    Manifest(folder).add("a", new)
    assert Manifest(folder).holds("a")
    write(folder, "a", b"new")
    assert Manifest(folder).holds("a")


def test_what_a_folder_held_before_comes_first(tmp_path: Path) -> None:
    digests = {"a": write(tmp_path, "a", b"a"), "b": ""}
    manifest = Manifest(tmp_path, lambda: digests)
    assert manifest.holds("a")
    assert not (tmp_path / NAME).exists()
    manifest.add("c", write(tmp_path, "c", b"c"))
    again = Manifest(tmp_path)
    write(tmp_path, "b", b"b")
    assert (again.holds("a"), again.holds("b"), again.holds("c")) == (True, False, True)


def test_a_line_that_was_cut_short_counts_as_none_and_goes(folder: Path) -> None:
    content = (folder / NAME).read_bytes()
    start = content.rindex(b"\n", 0, -1) + 1
    for length in range(start, len(content)):
        (folder / NAME).write_bytes(content[:length])
        manifest = Manifest(folder)
        assert manifest.holds("b")
        assert "z" not in manifest
    manifest.add("z", content_digest(b"z"))
    assert (folder / NAME).read_bytes() == content


def test_a_damaged_line_is_refused(folder: Path) -> None:
    content = (folder / NAME).read_bytes()
    last = content.rindex(b"\n", 0, -1)
    for what, damaged in chain(bit_flips(content, 1_000, 0), [("noise", b"\xff\n"), ("a list", b"[]\n" + content)]):
        (folder / NAME).write_bytes(damaged)
        if damaged[:-1] == content[:-1]:  # the end of the last line, which then counts as cut short
            assert "z" not in Manifest(folder), what
            continue
        with pytest.raises(ConfigError, match=r"^[^\n]*manifest.jsonl is damaged or was changed; delete the folder"):
            Manifest(folder)
    for _, cut in truncations(content[: last + 1], 0, 0):
        (folder / NAME).write_bytes(cut)
        assert "z" not in Manifest(folder)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(ConfigError, match=r"manifest.jsonl is damaged"):
        Manifest(tmp_path)


def add_many(folder: Path, name: str) -> None:
    manifest = Manifest(folder, lambda: {"first": "0", "second": "1"})
    for number in range(100):
        manifest.add(f"{name} {number}", content_digest(name))


def test_several_processes_lose_no_line(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=add_many, args=(tmp_path, name)) for name in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(Manifest(tmp_path)) == 202
    assert len((tmp_path / NAME).read_bytes().splitlines()) == 202


def test_an_empty_file_is_no_manifest(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    manifest = Manifest(tmp_path, lambda: {"first": "0"})
    manifest.add("second", "1")
    assert set(Manifest(tmp_path)) == {"first", "second"}


def test_nothing_is_written_through_a_link_or_into_a_file_of_another_kind(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    other = tmp_path / "other"
    other.write_bytes(b"a" * 10_000)
    (folder / NAME).symlink_to(other)
    with pytest.raises(ConfigError, match="is damaged or was changed"):
        Manifest(folder)
    (folder / NAME).unlink()
    (folder / NAME).write_bytes(other.read_bytes())
    with pytest.raises(ConfigError, match="is damaged or was changed"):
        Manifest(folder).add("a", "0")
    assert {path.read_bytes() for path in (other, folder / NAME)} == {b"a" * 10_000}


def test_a_file_that_is_listed_is_not_listed_again(folder: Path) -> None:
    before = (folder / NAME).read_bytes()
    for manifest in (Manifest(folder), Manifest(folder)):
        manifest.add("b", content_digest(b"b"))
    assert (folder / NAME).read_bytes() == before
