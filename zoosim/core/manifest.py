"""The manifest of a folder: the digest of each file that was written there, a line of JSON per file.

Lines are only added, so that one of thousands of files is listed as fast as the first. A line holds a check of itself;
what a killed process left of the last one counts as none. All digests of a file hold: one that replaces another is
listed before it is moved there, and a kill between the two leaves the old one.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from zoosim.core.digests import file_digest, value_digest
from zoosim.core.errors import ConfigError
from zoosim.core.files import atomic, read_content

try:
    import fcntl
except ImportError:  # Windows, where only one process may add lines
    fcntl = None  # type: ignore[assignment]

NAME = "manifest.jsonl"
LONGEST_LINE = 4096
"""Bytes of a line at most."""


class Manifest(dict[str, set[str]]):
    """The digests of a folder's files, by their paths from the folder on. Several processes may add to it.

    Args:
        folder: The folder.
        earlier: Returns digests of files in a folder that has no manifest; its first lines will be of these.

    Raises:
        ConfigError: the manifest is damaged.
    """

    def __init__(self, folder: Path, earlier: Callable[[], Mapping[str, str]] = dict) -> None:
        super().__init__()
        self.path = folder / NAME
        self._unwritten = ""
        if not self._load():
            for name, digest in earlier().items():
                self[name] = {digest}
                self._unwritten += _line(name, digest)

    def _load(self) -> bool:
        """Take over what the file lists; return whether it lists anything."""
        try:
            if self.path.is_symlink():
                raise ValueError("a link, which may lead out of the folder")
            content = read_content(self.path)
            for line in content[: content.rfind(b"\n") + 1].splitlines():
                name, digest = _entry(line)
                self.setdefault(name, set()).add(digest)
        except FileNotFoundError:
            return False
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise self._damaged() from None
        return bool(content)

    def _damaged(self) -> ConfigError:
        return ConfigError(f"{self.path} is damaged or was changed; delete the folder or name another")

    def lists(self, name: str, digest: str) -> bool:
        """Return whether a file was listed with a digest, by another run in the folder meanwhile, too."""
        # Read again only for what is not known: lines are never taken back, so what was listed once stays listed.
        if digest not in self.get(name, ()):
            self._load()
        return digest in self.get(name, ())

    def holds(self, name: str) -> bool:
        """Return whether a file is as it was listed; raises `OSError` where it cannot be read."""
        return self.lists(name, file_digest(self.path.parent / name))

    def add(self, name: str, digest: str) -> None:
        """List a file, unless it is; its line is on the disk when this returns. Raises `OSError`."""
        if digest in self.get(name, ()):
            return
        line = _line(name, digest).encode()
        with self._locked() as file:
            # Looked at under the lock, and each time: another process may have added lines, or been killed in the
            # middle of one.
            end = file.seek(0, os.SEEK_END)
            if not end and self._unwritten:  # all at once: a manifest with some of these lines would hide the others
                with atomic(self.path) as temporary, temporary.open("wb") as first:
                    _write(first, self._unwritten.encode() + line)
            else:
                # The tail is enough, so that a line takes as long in a file of thousands as in an empty one.
                start = file.seek(max(end - LONGEST_LINE, 0))
                tail = file.read()
                if start and b"\n" not in tail:
                    raise self._damaged()
                if not tail.endswith(b"\n"):
                    file.truncate(start + tail.rfind(b"\n") + 1)  # what a killed process left of a line
                _write(file, line)
        self._unwritten = ""
        self.setdefault(name, set()).add(digest)

    @contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        """Open the file, and keep other processes from adding lines meanwhile; raises `OSError` for a link."""
        is_newest = False
        while not is_newest:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o666)
            with os.fdopen(handle, "ab+") as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)
                # Another process may have put its first lines in the place of the file that this one waited for.
                is_newest = os.path.samestat(os.fstat(handle), os.stat(self.path))
                if is_newest:
                    yield file


def _write(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _line(name: str, digest: str) -> str:
    entry = {"file": name, "digest": digest}
    return json.dumps({**entry, "check": value_digest(entry)}) + "\n"


def _entry(line: bytes) -> tuple[str, str]:
    """Return the file and the digest of a line; raises `ValueError`, or what a line of another form raises."""
    entry = json.loads(line)
    if entry.pop("check") != value_digest(entry):
        raise ValueError("the line differs from what was written")
    return entry["file"], entry["digest"]
