"""A file of arrays and plain values: checksummed, written whole, and read without executing anything.

The content is an archive of arrays as `numpy.savez` writes it, one of which is the header. A SHA-256 of all else stands
in front of it, behind the magic of the file's kind, or, so that `numpy.load` reads the file as well, at its end. It is
compared before anything else is read. Arrays stand there as they are, never compressed, so that no array is larger than
the file.
"""

import io
import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from zoosim.core.digests import CHUNK, DIGEST_LENGTH, part_digest
from zoosim.core.errors import DataError
from zoosim.core.files import atomic, open_file

MOST_BYTES = 4 * 2**30
"""The largest file that is read."""

MOST_IN_MEMORY = 2**24
"""Bytes of a content that are put together in memory: what a policy learned may be hundreds of megabytes."""

HEADER = "header"
"""The array that holds the plain values, as JSON."""

ENDING = ".npy"

ARRAY_START = re.compile(
    rb"\x93NUMPY\x01\x00.."
    rb"\{'descr': '([<>|][biufU]\d+)', 'fortran_order': (True|False), 'shape': \(((?:\d+,? ?)*)\), \} *\n",
    re.DOTALL,
)
"""The header that numpy writes in front of the numbers of an array: their type, their order and the array's shape."""


class Packing(NamedTuple):
    """A kind of file: what it begins with, what messages call it, how to mend a broken one, and who writes them.

    Without a magic, the checksum stands at the end, as the comment of the archive.
    """

    magic: bytes
    what: str
    again: str
    origin: str

    @property
    def head(self) -> int:
        """Bytes before the content: the magic and a hash."""
        return len(self.magic) + DIGEST_LENGTH if self.magic else 0

    def broken(self, path: Path, reason: str = "") -> DataError:
        """Return the error of a file that is not as it was written."""
        because = f" ({reason})" if reason else ""
        return DataError(f"{path}: is no {self.what}, or broken; {self.again}{because}")


def write_packed(path: Path, packing: Packing, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a header of plain values and arrays by name to a file, whole or not at all."""
    text = json.dumps(header, allow_nan=False)
    packed_header = np.frombuffer(text.encode(), np.uint8) if packing.magic else np.array(text)
    with (
        atomic(path) as temporary,
        tempfile.SpooledTemporaryFile(MOST_IN_MEMORY, dir=str(path.parent)) as content,
        temporary.open("wb") as file,
    ):
        # The digest stands in front of the content that it is of, so all of this is made, and hashed, before the file
        # is written.
        np.savez(content, **dict(arrays), header=packed_header)
        if not packing.magic:
            # The archive announces a comment of this length at its end; the checksum then takes its place.
            with zipfile.ZipFile(content, "a") as archive:
                archive.comment = bytes(DIGEST_LENGTH)
            content.seek(-DIGEST_LENGTH, os.SEEK_END)
            content.truncate()
        digest = part_digest(content, 0, content.seek(0, os.SEEK_END)).encode()
        if packing.magic:
            file.write(packing.magic + digest)
        content.seek(0)
        shutil.copyfileobj(content, file, CHUNK)
        if not packing.magic:
            file.write(digest)


def read_packed(
    path: Path, packing: Packing, content: bytes | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a file's header and arrays, of its `content` where that is read; raises `DataError` for a wrong checksum."""
    with _opened(path, packing) if content is None else io.BytesIO(content) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if file.read(len(packing.magic)) != packing.magic:
            raise packing.broken(path)
        if not _has_its_digest(file, packing, size):
            raise packing.broken(path, "its checksum does not match")
        try:
            return _unpacked(file, size)
        except Exception as error:  # a file that somebody made on purpose
            raise packing.broken(path, " ".join(str(error).split())) from None


def packed_content(path: Path, packing: Packing) -> bytes:
    """Return what a file of a size that can be read holds, unchecked; raises `DataError` where it cannot be."""
    with _opened(path, packing) as file:
        return file.read()


def packed_digest(path: Path, packing: Packing) -> str:
    """Return the SHA-256 of a file's content in hexadecimal, as its head says; raises `DataError`."""
    with _opened(path, packing) as file:
        head = file.read(packing.head)
    if not head.startswith(packing.magic):
        raise packing.broken(path)
    return head[len(packing.magic) :].decode("ascii", "replace")


def _opened(path: Path, packing: Packing) -> BinaryIO:
    """Open a file of a size that can be read."""
    try:
        file = open_file(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; {packing.origin}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {packing.origin}") from None
    except ValueError as error:  # a path that no system takes
        raise DataError(f"{str(path)!r}: cannot be read ({error})") from None
    size = os.fstat(file.fileno()).st_size
    if size > MOST_BYTES:
        file.close()
        raise DataError(f"{path}: has {size:,} bytes, expected at most {MOST_BYTES:,}")
    return file


def _has_its_digest(file: BinaryIO, packing: Packing, size: int) -> bool:
    """Return whether a file that is read up to behind its magic holds the checksum of its content."""
    start, stop = (packing.head, size) if packing.magic else (0, size - DIGEST_LENGTH)
    file.seek(start - DIGEST_LENGTH if packing.magic else max(stop, 0))
    return file.read(DIGEST_LENGTH) == part_digest(file, start, stop).encode()


def _unpacked(file: BinaryIO, size: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of an archive of a `size`."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it holds compressed arrays, which may grow without bound")
        if sum(member.file_size for member in members) > size:
            raise ValueError("its arrays overlap")
        names = [member.filename.removesuffix(ENDING) for member in members]
        if len(set(names)) < len(names):
            raise ValueError("it holds arrays of one name")
        arrays = {name: _array_in(archive.read(member)) for name, member in zip(names, members, strict=True)}
    packed_header = arrays.pop(HEADER)
    text = str(packed_header) if packed_header.dtype.kind == "U" else packed_header.tobytes().decode()
    return dict(json.loads(text, parse_constant=_refuse_constant)), arrays


def _array_in(content: bytes) -> np.ndarray:
    """Return the array that numpy wrote; raises `ValueError` for anything else."""
    start = ARRAY_START.match(content)
    if start is None:
        raise ValueError("it holds something else than arrays of numbers")
    kind, by_column, sides = start.groups()
    shape = tuple(int(side) for side in sides.replace(b",", b" ").split())
    # Neither this nor `reshape` allocates by what the header claims: a shape that the bytes do not fill is refused.
    array = np.frombuffer(content, np.dtype(kind.decode()), offset=start.end())
    if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError("it holds truth values that are neither 0 nor 1")
    # A copy can be written to, and compiled code finds it where it expects numbers to begin.
    return array.reshape(shape, order="F" if by_column == b"True" else "C").copy(order="K")


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"got {text}, expected a finite number")
