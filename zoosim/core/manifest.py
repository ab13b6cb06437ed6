"""The manifest of a folder: the digest of each file that was written there, a line of JSON per file.

Lines are only added, so that one of thousands of files is listed as fast as the first. A line holds a check of itself;
what a killed process left of the last one counts as none. All digests of a file hold: one that replaces another is
listed before it is moved there, and a kill between the two leaves the old one.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from zoosim.core.digests import file_digest, value_digest
from zoosim.core.errors import ConfigError
from zoosim.core.files import read_content

NAME = "manifest.jsonl"
LONGEST_LINE = 4096
"""Bytes of a line at most."""


class Manifest(dict[str, set[str]]):
    """The digests of a folder's files, by their paths from the folder on. One process adds to it.

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
        """Take over what the file lists; return whether there is one."""
        try:
            content = read_content(self.path)
            for line in content[: content.rfind(b"\n") + 1].splitlines():
                name, digest = _entry(line)
                self.setdefault(name, set()).add(digest)
        except FileNotFoundError:
            return False
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise ConfigError(f"{self.path} is damaged or was changed; delete the folder or name another") from None
        return True

    def lists(self, name: str, digest: str) -> bool:
        """Return whether a file was listed with a digest, by another run in the folder meanwhile, too."""
        if digest not in self.get(name, ()):
            self._load()
        return digest in self.get(name, ())

    def holds(self, name: str) -> bool:
        """Return whether a file is as it was listed; raises `OSError` where it cannot be read."""
        return self.lists(name, file_digest(self.path.parent / name))

    def add(self, name: str, digest: str) -> None:
        """List a file; its line is on the disk when this returns. Raises `OSError`."""
        self.setdefault(name, set()).add(digest)
        with self.path.open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            start = file.seek(max(end - LONGEST_LINE, 0))
            file.truncate(start + file.read().rfind(b"\n") + 1)  # what a killed process left of a line
            file.write((self._unwritten + _line(name, digest)).encode())
            file.flush()
            os.fsync(file.fileno())
        self._unwritten = ""


def _line(name: str, digest: str) -> str:
    entry = {"file": name, "digest": digest}
    return json.dumps({**entry, "check": value_digest(entry)}) + "\n"


def _entry(line: bytes) -> tuple[str, str]:
    """Return the file and the digest of a line; raises `ValueError`, or what a line of another form raises."""
    entry = json.loads(line)
    if entry.pop("check") != value_digest(entry):
        raise ValueError("the line differs from what was written")
    return entry["file"], entry["digest"]
