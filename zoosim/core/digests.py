"""Digests: SHA-256 in hexadecimal names content and shows damage; short hashes stand for ids and order draws.

All of zoosim's are made here, so that what a digest covers is said where it is used, and how it is written only once.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from typing import IO, Any

from zoosim.core.files import open_file

DIGEST_LENGTH = 64
"""Characters of a digest."""

SHORT_LENGTH = 16
"""Characters of a short digest, by which code and settings are compared and files are named."""

CHUNK = 2**20
"""Bytes of a file that are read at once."""


def content_digest(*parts: str | bytes | memoryview) -> str:
    """Return the digest of what parts hold one after the other: texts as UTF-8."""
    return joint_digest(parts)


def joint_digest(parts: Iterable[str | bytes | memoryview]) -> str:
    """Return the digest of what parts hold one after the other, each needed no longer than it is read."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()


def short_digest(*parts: str | bytes | memoryview) -> str:
    """Return the first characters of `content_digest`."""
    return content_digest(*parts)[:SHORT_LENGTH]


def value_digest(value: Any) -> str:
    """Return the short digest of a plain value: of its JSON with sorted keys."""
    return short_digest(json.dumps(value, sort_keys=True))


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return the digest of an ordinary file of any size; raises `OSError`, as `open_file` does."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def part_digest(file: IO[bytes], start: int, stop: int) -> str:
    """Return the digest of a part of a file that can be sought in."""
    file.seek(start)
    digest = hashlib.sha256()
    for place in range(start, stop, CHUNK):
        digest.update(file.read(min(CHUNK, stop - place)))
    return digest.hexdigest()


def short_hash(content: bytes, size: int = 8, key: bytes = b"") -> bytes:
    """Return a hash of a few bytes (BLAKE2b), which nobody can foretell who lacks the `key`."""
    return hashlib.blake2b(content, digest_size=size, key=key).digest()


def hashed_share(content: bytes, key: bytes) -> float:
    """Return a number in [0, 1) that stands for content, as if drawn evenly: by it visitors get their arms."""
    return (int.from_bytes(short_hash(content, key=key), "big") >> 11) * 2.0**-53
