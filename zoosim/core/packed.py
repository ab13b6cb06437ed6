"""A file of arrays and plain values: checksummed, written whole, and read without executing anything."""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.errors import DataError
from zoosim.core.files import atomic

MOST_BYTES = 4 * 2**30
"""The largest file that is read."""

DIGEST = 64
"""The length of a SHA-256 in hexadecimal."""


class Packing(NamedTuple):
    """A kind of file: what it begins with, what messages call it, how to mend a broken one, and who writes them."""

    magic: bytes
    what: str
    again: str
    origin: str

    @property
    def head(self) -> int:
        """How many bytes come before the content: the magic and a hash."""
        return len(self.magic) + DIGEST


def write_packed(path: Path, packing: Packing, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a header of plain values and arrays by name to a file, whole or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8), **dict(arrays))
    content = buffer.getvalue()
    with atomic(path) as temporary:
        temporary.write_bytes(packing.magic + hashlib.sha256(content).hexdigest().encode() + content)


def read_packed(path: Path, packing: Packing) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a file's header and arrays, once its checksum is right; raises `DataError`."""
    broken = DataError(f"{path}: is no {packing.what}, or broken; {packing.again}")
    content = _content(path, packing)
    payload = content[packing.head :]
    if content[: packing.head] != packing.magic + hashlib.sha256(payload).hexdigest().encode():
        raise broken
    try:
        with zipfile.ZipFile(io.BytesIO(payload)) as packed:
            if any(member.compress_type != zipfile.ZIP_STORED for member in packed.infolist()):
                raise broken  # such a member may grow without bound
        with np.load(io.BytesIO(payload), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes().decode(), parse_constant=_refuse_constant)
        return dict(header), arrays
    except (OSError, ValueError, LookupError, EOFError, TypeError, zipfile.BadZipFile, RuntimeError, MemoryError):
        raise broken from None


def packed_digest(path: Path, packing: Packing) -> str:
    """Return the SHA-256 of a file's content in hexadecimal, as its head says; raises `DataError`."""
    content = _content(path, packing, packing.head)
    if not content.startswith(packing.magic):
        raise DataError(f"{path}: is no {packing.what}, or broken; {packing.again}")
    return content[len(packing.magic) :].decode("ascii", "replace")


def _content(path: Path, packing: Packing, size: int = -1) -> bytes:
    """Return a file's first bytes, by default all."""
    try:
        if os.path.getsize(path) > MOST_BYTES:
            raise DataError(f"{path}: has {os.path.getsize(path):,} bytes, expected at most {MOST_BYTES:,}")
        with path.open("rb") as file:
            return file.read(size)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; {packing.origin}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"got {text}, expected a finite number")
