"""Seals: the digest of a whole file, kept inside it, for files that may go anywhere: logs, tables, evaluations.

A file of any kind has a place for it, `BLANK`: a value of its metadata, or of a key. The digest is that of the file
with the place blank, so that the file stays one file, which is there whole or not at all.
"""

import mmap
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from zoosim.core.digests import DIGEST_LENGTH, joint_digest
from zoosim.core.files import open_file, release_pages

KEY = "digest"
"""Name of the place where places have names."""

AT_ONCE = 2**24
"""Bytes that are hashed at once."""

_BLANK = b"0" * DIGEST_LENGTH
_SEAL = re.compile(rb"sha256:[0-9a-f]{64}")
BLANK = "sha256:" + _BLANK.decode()


def seal_holds(content: bytes | mmap.mmap, since: int = 0) -> bool | None:
    """Return whether a content is what was sealed; None where it has no seal, as in files of other programs.

    Args:
        content: The whole content.
        since: Where the part begins that a seal would stand in.
    """
    place = _place(content, since)
    return None if place is None else content[place : place + DIGEST_LENGTH] == _digest(content, place)


def seal_file(path: Path) -> None:
    """Put the digest of a file into its last blank place."""
    with path.open("r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            place = content.rfind(BLANK.encode()) + len(BLANK) - DIGEST_LENGTH
            digest = _digest(content, place)
        # Not through the map, where a full disk would be a signal that ends the process.
        file.seek(place)
        file.write(digest)


def file_seal_holds(path: Path) -> bool | None:
    """Return `seal_holds` of a file; False where it cannot be read, or is empty."""
    with suppress(OSError, ValueError), open_file(path) as file:
        return seal_holds(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return False


def _place(content: bytes | mmap.mmap, since: int) -> int | None:
    """Return where the digits of the last seal begin; None where there is none."""
    # From the end, where the seal is written: what stands before it may hold texts of this form, too.
    start = content.rfind(b"sha256:", since)
    while start >= 0:
        if _SEAL.match(content, start):
            return start + len(b"sha256:")
        start = content.rfind(b"sha256:", since, start)
    return None


def _digest(content: bytes | mmap.mmap, place: int) -> bytes:
    """Return the digest of a content whose digits from `place` on are blank, in hexadecimal."""
    return joint_digest(_chunks(content, place)).encode()


def _chunks(content: bytes | mmap.mmap, place: int) -> Iterator[bytes]:
    """Yield a content whose digits from `place` on are blank, a part after the other."""
    for start in range(0, len(content), AT_ONCE):
        chunk = bytearray(content[start : start + AT_ONCE])
        first, last = max(place - start, 0), min(place + DIGEST_LENGTH - start, len(chunk))
        if first < last:
            chunk[first:last] = _BLANK[: last - first]
        yield bytes(chunk)
        if isinstance(content, mmap.mmap):
            release_pages(content)
