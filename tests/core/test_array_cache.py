"""Arrays on disk: kept under what they depend on, made again where they are damaged, the oldest making room."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.fault.mutations import bit_flips
from zoosim.core.array_cache import kept, make_room


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZOOSIM_CACHE", str(tmp_path))


class Maker:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, np.ndarray]:
        self.calls += 1
        return {"a": np.arange(3.0), "b": np.array(self.calls)}


def test_made_once_for_each_key(tmp_path: Path) -> None:
    make = Maker()
    for _ in range(2):
        found = kept("place", ("x", 1), ("a", "b"), make)
    assert (make.calls, found["a"].tolist(), int(found["b"])) == (1, [0.0, 1.0, 2.0], 1)
    kept("place", ("x", 2), ("a", "b"), make)
    kept("place", ("x", 1), ("a", "b"), make, ["zoosim.worlds.table"])
    assert make.calls == 3
    assert len(list((tmp_path / "place").iterdir())) == 3


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", None])
def test_made_again_where_the_file_is_damaged(tmp_path: Path, damage: bytes | None) -> None:
    make = Maker()
    kept("place", ("x",), ("a", "b"), make)
    (path,) = (tmp_path / "place").iterdir()
    path.write_bytes(path.read_bytes()[:150] if damage is None else damage)
    assert kept("place", ("x",), ("a", "b"), make)["b"] == 2
    assert kept("place", ("x",), ("a", "b"), make)["b"] == 2
    assert kept("place", ("x",), ("a", "c"), lambda: {"a": 0, "c": 5})["c"] == 5


def test_made_again_where_one_bit_is_another(tmp_path: Path) -> None:
    make = Maker()
    kept("place", ("x",), ("a", "b"), make)
    (path,) = (tmp_path / "place").iterdir()
    content = path.read_bytes()
    damages = [damaged for _, damaged in bit_flips(content, 200, 0)]
    for damaged in damages:
        path.write_bytes(damaged)
        kept("place", ("x",), ("a", "b"), make)
    assert make.calls == 1 + len(damages)


def test_nothing_is_kept_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "place").write_text("a file in the folder's place")
    make = Maker()
    for _ in range(2):
        kept("place", ("x",), ("a", "b"), make)
    assert make.calls == 2


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    for number in range(4):
        path = tmp_path / f"{number}.npz"
        path.write_bytes(bytes(100))
        os.utime(path, (number, number))
    make_room(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.npz", "3.npz"]
