"""Files that are whole or not there."""

import os
from pathlib import Path

import pytest

from zoosim.core import files
from zoosim.core.files import atomic, cache_folder, write_text


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def test_a_file_appears_when_the_block_ends_well(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    with atomic(path) as temporary:
        temporary.write_text("half")
        assert not path.exists()
        temporary.write_text("whole")
    assert path.read_text() == "whole"
    assert names(tmp_path) == ["figures.json"]


def test_the_old_file_stands_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text("old")
    with atomic(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["figures.json"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("old", ["old", None])
def test_an_exception_leaves_what_was_there_and_no_temporary(
    error: type[BaseException], old: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "figures.json"
    if old is not None:
        path.write_text(old)

    def fail() -> None:
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == ([] if old is None else ["figures.json"])
    assert old is None or path.read_text() == old


def test_a_temporary_lies_beside_its_file_and_is_hidden(tmp_path: Path) -> None:
    """On one file system, so that it can be renamed; hidden, so that nobody takes it for the file."""
    with atomic(tmp_path / "rows.parquet") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(".rows.parquet.")
        assert temporary.suffix == ".part"


def test_a_temporary_that_was_taken_for_a_leftover_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may find it before it is locked."""
    lock = files._lock
    removed: list[str] = []

    def remove_first(handle: int, waits: bool = False) -> bool:
        if waits and not removed:
            removed.extend(names(tmp_path))
            files.remove_leftovers(tmp_path)
        return lock(handle, waits)

    monkeypatch.setattr(files, "_lock", remove_first)
    write_text(tmp_path / "note.txt", "whole")
    assert len(removed) == 1
    assert names(tmp_path) == ["note.txt"]
    assert (tmp_path / "note.txt").read_text() == "whole"


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    with atomic(path) as one:
        with atomic(path) as two:
            one.write_text("one")
            two.write_text("two")
        assert path.read_text() == "two"
    assert path.read_text() == "one"
    assert names(tmp_path) == ["shared"]


def test_a_folder_in_the_way_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "taken" / "inner").mkdir(parents=True)
    with pytest.raises(OSError, match="taken"), atomic(tmp_path / "taken") as temporary:
        temporary.write_text("new")
    assert names(tmp_path) == ["taken"]
    assert names(tmp_path / "taken") == ["inner"]


def test_a_failure_names_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    path = tmp_path / "none" / "page.html"
    with pytest.raises(OSError, match="No such file or directory") as missing:
        write_text(path, "text")
    assert missing.value.filename == str(path)
    with pytest.raises(OSError, match="No space left") as full, atomic(tmp_path / "page.html"):
        raise OSError(28, "No space left on device")
    assert full.value.filename == str(tmp_path / "page.html")
    with pytest.raises(OSError, match="other") as other, atomic(tmp_path / "page.html"):
        (tmp_path / "other").read_text()
    assert other.value.filename == str(tmp_path / "other")


def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "page.html", "text")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o640


def test_text_is_utf8(tmp_path: Path) -> None:
    write_text(tmp_path / "text", "Häschen → 🐇\n")
    assert (tmp_path / "text").read_bytes() == "Häschen → 🐇\n".encode()


def test_the_cache_lies_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOOSIM_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.setenv("ZOOSIM_CACHE", "")
    assert cache_folder().name == "zoosim"
    monkeypatch.delenv("ZOOSIM_CACHE")
    assert cache_folder().name == "zoosim"
