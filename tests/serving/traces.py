"""Traces of values in the files of a store: as text of several codings, whole or within compressed members."""

import base64
import contextlib
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

ZLIB_HEADS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
GZIP_HEAD = b"\x1f\x8b\x08"
FIRST, MOST = 64, 2**20
"""Bytes of a compressed stream that are read at a time, and at most."""

DEEPEST = 3
"""How many members within members are looked into."""


def traces(folder: Path, values: Iterable[str]) -> dict[str, list[str]]:
    """Return in which files below a folder values are left, by value; values without a trace are left out."""
    patterns = {pattern: value for value in values for pattern in codings(value)}
    left: dict[str, list[str]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        for name, content in contents(path.relative_to(folder).as_posix(), path.read_bytes()):
            for value in sorted({patterns[pattern] for pattern in within(content, patterns)}):
                left.setdefault(value, []).append(name)
    return left


def within(content: bytes, patterns: Iterable[bytes]) -> set[bytes]:
    """Return which of many patterns, of 8 bytes or more, are in a content: first their heads are looked for at once."""
    by_head: dict[int, list[bytes]] = {}
    for pattern in patterns:
        by_head.setdefault(int.from_bytes(pattern[:8], "little"), []).append(pattern)
    heads = np.array(sorted(by_head), np.uint64)
    seen = set()
    for start in range(8):
        words = (
            np.frombuffer(content, "<u8", max(0, len(content) - start) // 8, start)
            if len(content) > start
            else heads[:0]
        )
        for word in np.flatnonzero(np.isin(words, heads)):
            place = start + 8 * int(word)
            seen |= {pattern for pattern in by_head[int(words[word])] if content.startswith(pattern, place)}
    return seen


def codings(value: str) -> Iterator[bytes]:
    """Yield a value as UTF-8, as UTF-16 of both orders, and what base64 makes of it wherever it stands."""
    text = value.encode()
    yield text
    yield value.encode("utf-16-le")
    yield value.encode("utf-16-be")
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + text)
        # The characters at both ends depend on what stands beside the value.
        inner = coded[4 * before // 3 + bool(before) : len(text) * 4 // 3 - 2 + 4 * before // 3]
        yield inner
        yield inner.translate(bytes.maketrans(b"+/", b"-_"))


def contents(name: str, content: bytes, depth: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield a file's content, and that of each archive member and compressed stream in it."""
    yield name, content
    if depth == DEEPEST:
        return
    start = content.find(b"PK\x03\x04")
    if start >= 0 and zipfile.is_zipfile(io.BytesIO(content[start:])):
        with zipfile.ZipFile(io.BytesIO(content[start:])) as archive:
            for member in archive.namelist():
                yield from contents(f"{name}:{member}", archive.read(member), depth + 1)
    for place, stream in streams(content):
        yield from contents(f"{name}@{place}", stream, depth + 1)


def streams(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield where compressed streams stand, and what they hold."""
    for head in (*ZLIB_HEADS, GZIP_HEAD):
        place = content.find(head)
        while place >= 0:
            window = 31 if head == GZIP_HEAD else 15
            stream = decompressed(content[place : place + FIRST], window)
            if stream:
                yield place, decompressed(content[place:], window) or stream
            place = content.find(head, place + 1)


def decompressed(content: bytes, window: int) -> bytes:
    """Return what a compressed stream holds, as far as it can be read; nothing for what is none."""
    stream = b""
    with contextlib.suppress(zlib.error):
        reader = zlib.decompressobj(window)
        for start in range(0, min(len(content), MOST), FIRST):
            stream += reader.decompress(content[start : start + FIRST])
    return stream


def check_traces(folder: Path) -> None:
    """Check that each coding is seen, at any place."""
    secret = "anna@example.com"
    for number, text in enumerate((secret.encode(), secret.encode("utf-16-le"), secret.encode("utf-16-be"))):
        (folder / f"{number}").write_bytes(b"before" + text + b"after")
        (folder / f"zlib {number}").write_bytes(b"head" + zlib.compress(b"before" * 9 + text) + b"tail")
    for before in range(3):
        (folder / f"base64 {before}").write_bytes(base64.b64encode(b"x" * before + secret.encode() + b"rest"))
    (folder / "gzip").write_bytes(gzip.compress(secret.encode()))
    with zipfile.ZipFile(folder / "zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("member", base64.b64encode(secret.encode()))
    files = [path.name for path in folder.iterdir()]
    seen = {name.split(":")[0].split("@")[0] for name in traces(folder, [secret])[secret]}
    assert seen == set(files)
    assert traces(folder, ["berta@example.com"]) == {}
