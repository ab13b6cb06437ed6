"""Digests keep their values: files, folders and rows of logs are named and checked by them."""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim.arena.recording import catalogue_hash
from zoosim.core.digests import content_digest, file_digest, part_digest, short_digest, short_hash, value_digest
from zoosim.core.private_folder import read_sealed
from zoosim.logs.searches import catalogue_digest
from zoosim.schema.values import level_hash
from zoosim.serving.events import Kind, Row, row_checksum
from zoosim.serving.join import order_of
from zoosim.serving.ranker import Units
from zoosim.worlds.base import ProductList

PRODUCTS = ProductList(np.arange(2), np.ones((2, 3)), ("a", "b"), ("x", "y"))
TABLE = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
ROW = Row(3, 17, next(iter(Kind)), b"k", b"body")

KEPT: dict[str, tuple[Any, Any]] = {
    "level of a schema": (level_hash("ä"), 8657851361613172764),
    "configuration": (value_digest({"b": 1, "a": [2.5, None]}), "c912a251d940de43"),
    "row of a service's log": (row_checksum(ROW).hex(), "72f50d6ad1bc7823"),
    "order of feedback": (order_of(ROW).hex(), "61f5dc14830084d8dc2d1ebc02ef3dec"),
    "draw of a decision": (Units(b"s" * 32, "dec-1")(3), 0.3617817361298564),
    "products of a log": (catalogue_hash(PRODUCTS), "4d914a23475e0fa8"),
    "products of a search log": (catalogue_digest(TABLE), "15920f3fb7c051cc"),
}
"""Values of today, and those that the release before `zoosim.core.digests` gave."""


@pytest.mark.parametrize("name", KEPT)
def test_what_digests_name_is_found_again(name: str) -> None:
    value, expected = KEPT[name]
    assert value == expected


def test_there_is_one_algorithm_and_one_form(tmp_path: Path) -> None:
    content = os.urandom(2_500_000)
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    expected = hashlib.sha256(content).hexdigest()
    with path.open("rb") as file:
        assert part_digest(file, 0, len(content)) == expected
        assert part_digest(file, 10, 2_000_010) == content_digest(content[10:2_000_010])
    assert file_digest(path) == expected == content_digest(content[:7], memoryview(content)[7:])
    assert short_digest("ä", b"b") == content_digest("äb")[:16]
    assert value_digest({"b": 1, "a": "x"}) == value_digest({"a": "x", "b": 1}) == short_digest('{"a": "x", "b": 1}')
    assert short_hash(b"x", 16, b"key") == hashlib.blake2b(b"x", digest_size=16, key=b"key").digest()


def test_all_hashes_are_made_in_one_place() -> None:
    """But for the one that a Redis server computes, too, whose scripts have no other."""
    package = Path(zoosim.__file__).parent
    files = {str(path.relative_to(package)) for path in package.rglob("*.py") if "hashlib" in path.read_text("utf-8")}
    assert files == {"core/digests.py", "serving/store/redis.py"}


def test_what_is_no_file_has_no_digest(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path):
        with pytest.raises(OSError, match="expected a file, got a pipe, a device or a folder"):
            file_digest(path)


def test_a_file_of_the_cache_that_an_earlier_release_kept_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kernels" / "file"
    path.parent.mkdir()
    path.write_bytes(hashlib.sha256(b"kernels/file\ncode").digest() + b"code")
    assert read_sealed(path) == b"code"
