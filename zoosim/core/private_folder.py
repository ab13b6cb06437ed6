"""Folders of the cache, from which code is loaded, and the files in them.

A folder is used where nobody else may write to it. A file begins with a digest of its place and its content.
"""

import multiprocessing
import os
import sys
from functools import cache
from pathlib import Path

from zoosim.core.digests import content_digest
from zoosim.core.files import PART, cache_folder

DIGEST_BYTES = 32

OTHERS_WRITE = 0o022
"""The bits of a folder's mode that let its group, and everybody, write."""


def make_private(folder: Path) -> bool:
    """Make a folder of the cache, and say whether to use it: where it cannot be made, or is not ours alone, it is not.

    The folders that it lies in are looked at too, up to the cache's own. What is wrong with one is said once.
    """
    if not folder.is_absolute():
        _say("there is no home folder to keep compiled code in; set ZOOSIM_CACHE, or it is compiled each time")
        return False
    root = cache_folder()
    inner = [path for path in (*reversed(folder.parents), folder) if path == root or root in path.parents]
    try:
        for path in inner or [folder]:
            # Made first and then looked at: somebody else may make it in between, and `mkdir` takes an existing one
            # without a word.
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_open_to_others(path):
                return False
    except OSError:
        return False
    return True


def _is_open_to_others(path: Path) -> bool:
    """Return whether others may write to a folder, or replace what is in it; if so, this is said."""
    if not hasattr(os, "geteuid"):
        return False
    status = path.stat()
    if status.st_uid != os.geteuid():
        _say(f"the cache {path} belongs to another user, so it is not used; set ZOOSIM_CACHE to a folder of yours")
        return True
    if status.st_mode & OTHERS_WRITE:
        _say(f"others may write to the cache {path}, so it is not used; delete it, or set ZOOSIM_CACHE")
        return True
    return False


@cache
def _say(line: str) -> None:
    """Print a note once, and not again in each worker."""
    if multiprocessing.parent_process() is None:
        print(f"note: {line}", file=sys.stderr)


def read_sealed(path: Path) -> bytes:
    """Return the content of a file that `write_sealed` wrote.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged, or was another file.
    """
    sealed = path.read_bytes()
    content = sealed[DIGEST_BYTES:]
    if sealed[:DIGEST_BYTES] != _seal(path, content):
        raise ValueError(f"{path} is damaged")
    return content


def write_sealed(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; raises `OSError` where it cannot be written.

    It is not flushed to the disk, which takes long for hundreds of files: the digest tells what was cut short.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        temporary.write_bytes(_seal(path, content) + content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _seal(path: Path, content: bytes) -> bytes:
    return bytes.fromhex(content_digest(f"{path.parent.name}/{path.name}\n", content))
