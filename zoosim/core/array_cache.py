"""A cache on disk for arrays that take long to compute; the oldest entries make room."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from zoosim.core.digests import content_digest
from zoosim.core.errors import DataError
from zoosim.core.files import cache_folder, remove_leftovers
from zoosim.core.packed import Packing, read_packed, write_packed
from zoosim.core.private_folder import make_private
from zoosim.core.sources import source_digest

ROOM = 4_000_000_000
"""The most bytes that a folder of cached arrays takes."""

PACKING = Packing(b"", "cache entry", "remove it: it is made anew", "zoosim makes it when it is needed")

Arrays = Mapping[str, Any]


def kept(
    folder: str, key: Sequence[object], names: Sequence[str], make: Callable[[], Arrays], modules: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the arrays `names` from the cache entry `key` in `folder`; make and keep them where there is none.

    They are made anew when the code has changed, of the module that `make` stands in, of one that it imports, or of the
    other `modules` that it needs but does not import; or when the file is damaged. Where the folder cannot be written,
    or is not ours alone, nothing is kept.
    """
    text = " ".join(map(str, (source_digest(module_of(make), *modules), *key)))
    path = cache_folder() / folder / f"{content_digest(text)[:24]}.npz"
    is_usable = make_private(path.parent)
    arrays = _read(path, names) if is_usable else None
    if arrays is None:
        arrays = dict(make())
        if is_usable:
            _keep(path, arrays)
    return arrays


def module_of(make: Callable[[], Any]) -> str:
    """Return the module that a function stands in, also where `make` is a `partial` of it."""
    while isinstance(make, partial):
        make = make.func
    return make.__module__


def _keep(path: Path, arrays: Arrays) -> None:
    try:
        # Of any name: an entry that a killed process was writing may never be asked for again.
        remove_leftovers(path.parent)
        write_packed(path, PACKING, {"name": path.name}, arrays)
        make_room(path.parent, ROOM)
    except OSError:
        return


def make_room(folder: Path, max_bytes: int) -> None:
    """Remove the files of a folder that were used longest ago, until it takes at most `max_bytes`."""
    files = sorted(((path.stat().st_mtime, path.stat().st_size, path) for path in folder.glob("*.npz")), reverse=True)
    total = 0
    # The newest come first: what does not fit beside them goes.
    for _, size, path in files:
        total += size
        if total > max_bytes:
            path.unlink(missing_ok=True)


def _read(path: Path, names: Sequence[str]) -> dict[str, Any] | None:
    """Return the arrays of a file; None where there is none, it is damaged, or was another file."""
    try:
        head, kept_arrays = read_packed(path, PACKING)
        if head.get("name") != path.name:
            return None
        arrays = {name: kept_arrays[name] for name in names}
    except (DataError, LookupError):
        return None
    # The time of the last use, by which `make_room` goes.
    with suppress(OSError):  # somebody else's cache
        path.touch()
    return arrays
