"""Files of arrays: what was written comes back, anything else is one line that names the file."""

import hashlib
import io
import json
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.fault.mutations import bit_flips, truncations
from zoosim.core.digests import DIGEST_LENGTH
from zoosim.core.errors import DataError
from zoosim.core.packed import Packing, read_packed, write_packed

FRONT = Packing(b"zoosim test 1\n", "test", "write it anew", "tests write them")
END = Packing(b"", "test", "write it anew", "tests write them")
HEADER = {"name": "ä", "list": [1, 2.5, None, True]}
ARRAYS = {
    "floats": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "flags": np.array([True, False]),
    "text": np.array(["a", "bcd"]),
    "one": np.array(3.0),
    "none": np.zeros((0, 4), np.float32),
}


@pytest.fixture(params=[FRONT, END], ids=["front", "end"])
def packing(request: pytest.FixtureRequest) -> Packing:
    """Each of both places where a checksum may stand."""
    assert isinstance(request.param, Packing)
    return request.param


def checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def sealed(path: Path, packing: Packing, archive: bytes) -> Path:
    """Write an archive that somebody made on purpose, with the right checksum."""
    if packing.magic:
        path.write_bytes(packing.magic + checksum(archive) + archive)
    else:
        # The last two bytes of an archive without a comment are the length of its comment.
        content = archive[:-2] + struct.pack("<H", DIGEST_LENGTH)
        path.write_bytes(content + checksum(content))
    return path


def refused(path: Path, packing: Packing) -> str:
    with pytest.raises(DataError, match=r"^[^\n]*file: is no test, or broken; write it anew[^\n]*$") as error:
        read_packed(path, packing)
    return str(error.value)


def test_what_was_written_comes_back(packing: Packing, tmp_path: Path) -> None:
    write_packed(tmp_path / "file", packing, HEADER, ARRAYS)
    header, arrays = read_packed(tmp_path / "file", packing)
    assert header == HEADER
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert np.array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
        assert arrays[name].flags.writeable
        assert arrays[name].flags.aligned


def test_numpy_reads_a_file_whose_checksum_stands_at_its_end(tmp_path: Path) -> None:
    write_packed(tmp_path / "file.npz", END, HEADER, ARRAYS)
    with np.load(tmp_path / "file.npz") as file:
        assert np.array_equal(file["floats"], ARRAYS["floats"])
        assert json.loads(str(file["header"])) == HEADER


def test_each_bit_and_each_length_counts(packing: Packing, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_packed(path, packing, HEADER, {"floats": ARRAYS["floats"]})
    content = path.read_bytes()
    for _, damaged in [*bit_flips(content, 1_500, 0), *truncations(content, 0, 0), ("more", content + b"\n")]:
        path.write_bytes(damaged)
        refused(path, packing)


def member(name: str, content: bytes, archive: zipfile.ZipFile, compression: int = zipfile.ZIP_STORED) -> None:
    info = zipfile.ZipInfo(f"{name}.npy")
    info.compress_type = compression
    archive.writestr(info, content)


def archive_of(contents: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in contents.items():
            member(name, content, archive, compression)
    return buffer.getvalue()


def array_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


SOUND = {"header": array_bytes(np.array(json.dumps(HEADER))), "floats": array_bytes(np.arange(3.0))}


def test_a_small_file_takes_little_memory_whatever_it_declares(packing: Packing, tmp_path: Path) -> None:
    bomb = archive_of({**SOUND, "bomb": array_bytes(np.zeros(30_000_000))}, zipfile.ZIP_DEFLATED)
    huge = array_bytes(np.zeros(3)).replace(b"(3,), }", b"(2305843009213693951,), }", 1)
    overlapping = archive_of(SOUND).replace(b"floats.npy", b"header.npy")
    for archive in (bomb, archive_of({**SOUND, "huge": huge}), overlapping):
        path = sealed(tmp_path / "file", packing, archive)
        tracemalloc.start()
        refused(path, packing)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
        tracemalloc.stop()


@pytest.mark.parametrize(
    "start",
    [
        b"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
        b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': " + b"(" * 200,
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-3,), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }",
        b"{'descr': '<f3', 'fortran_order': False, 'shape': (3,), }",
        b"__import__('os').abort()",
    ],
)
def test_what_is_no_array_of_numbers_is_refused(start: bytes, packing: Packing, tmp_path: Path) -> None:
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(start) + 1) + start + b"\n" + bytes(24)
    refused(sealed(tmp_path / "file", packing, archive_of({**SOUND, "array": array})), packing)


def test_headers_and_truth_values_that_are_none_are_refused(packing: Packing, tmp_path: Path) -> None:
    texts = ["[" * 100_000, "{", "[1]", "3", '{"a": NaN}', ""]
    headers = [archive_of({**SOUND, "header": array_bytes(np.array(text))}) for text in texts]
    odd = array_bytes(np.array([True, True])).replace(b"\x01\x01", b"\x01\x02")
    for archive in (*headers, archive_of({"floats": SOUND["floats"]}), archive_of({**SOUND, "odd": odd}), b"", b"PK"):
        refused(sealed(tmp_path / "file", packing, archive), packing)


def test_what_is_no_file_is_not_waited_for(packing: Packing, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path / "pipe", r"got a pipe, a device or a folder\); tests write them"),
        (tmp_path, r"got a pipe, a device or a folder\); tests write them"),
        (Path("/dev/zero"), r"got a pipe, a device or a folder\); tests write them"),
        (tmp_path / "none", "no such file; tests write them"),
        (tmp_path / ("x" * 300), "cannot be read"),
        (Path("a\0b"), "cannot be read"),
    ):
        with pytest.raises(DataError, match=message):
            read_packed(path, packing)


def test_a_large_file_of_nothing_is_refused_without_being_held(packing: Packing, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(packing.magic)
        file.truncate(200_000_000)
    tracemalloc.start()
    refused(tmp_path / "file", packing)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
