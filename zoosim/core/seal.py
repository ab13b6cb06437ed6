"""Seals: the digest of a whole file, kept inside it, which shows damage and edits before anything of it is used.

A file of any kind has a place for it, `BLANK`: a value of its metadata, or of a key. The digest is that of the file
with the place blank, so that the file stays one file, which is there whole or not at all.
"""

import mmap
import os
import re
from enum import StrEnum
from pathlib import Path

from zoosim.core.digests import DIGEST_LENGTH, content_digest
from zoosim.core.files import open_file

KEY = "digest"
"""Name of the place where places have names."""

_BLANK = b"0" * DIGEST_LENGTH
_SEAL = re.compile(rb"sha256:[0-9a-f]{64}")
BLANK = "sha256:" + _BLANK.decode()


class SealState(StrEnum):
    """The state of a file's seal: `NONE` is in files of older releases, and of others."""

    WHOLE = "whole"
    BROKEN = "broken"
    NONE = "none"


def sealed(content: bytes) -> bytes:
    """Return a content with the digest in its last blank place."""
    place = content.rindex(BLANK.encode()) + len(BLANK) - DIGEST_LENGTH
    return content[:place] + _digest(content, place) + content[place + DIGEST_LENGTH :]


def seal_state(content: bytes | mmap.mmap) -> SealState:
    """Say whether a content is what was sealed."""
    place = _place(content)
    if place is None:
        return SealState.NONE
    return SealState.WHOLE if content[place : place + DIGEST_LENGTH] == _digest(content, place) else SealState.BROKEN


def seal_file(path: Path) -> None:
    """Put the digest of a file into its last blank place."""
    with path.open("r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            place = content.rfind(BLANK.encode()) + len(BLANK) - DIGEST_LENGTH
            digest = _digest(content, place)
        # Not through the map, where a full disk would be a signal that ends the process.
        file.seek(place)
        file.write(digest)


def file_seal_state(path: Path) -> SealState:
    """Say whether a file is what was sealed; raises `OSError` where it cannot be read."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size == 0:  # which cannot be mapped
            return SealState.NONE
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return seal_state(content)


def _place(content: bytes | mmap.mmap) -> int | None:
    """Return where the digits of the last seal begin; None where there is none."""
    start = content.rfind(b"sha256:")
    while start >= 0:
        if _SEAL.match(content, start):
            return start + len(b"sha256:")
        start = content.rfind(b"sha256:", 0, start)
    return None


def _digest(content: bytes | mmap.mmap, place: int) -> bytes:
    """Return the digest of a content whose digits from `place` on are blank, in hexadecimal."""
    with memoryview(content) as view:
        return content_digest(view[:place], _BLANK, view[place + DIGEST_LENGTH :]).encode()
