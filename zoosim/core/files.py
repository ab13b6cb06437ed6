"""Read ordinary files within bounds, write files whole or not at all, and find the cache folder."""

import errno
import io
import mmap
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from glob import escape as glob_escape
from pathlib import Path

import platformdirs

from zoosim.core.errors import ConfigError

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

MOST_BYTES = 256_000_000
"""The largest file that is read in one piece, such as the keys of a run or the code of a policy."""

PART = ".part"
"""Ending of the names of temporary files and folders, which begin with a dot."""


def cache_folder() -> Path:
    """Return the folder for trained models and compiled kernels: `ZOOSIM_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("ZOOSIM_CACHE")
    return Path(chosen).absolute() if chosen else Path(platformdirs.user_cache_dir("zoosim"))


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return a whole path without links; one that links to itself stays as it is, and cannot be opened."""
    return Path(os.path.realpath(path))


_sent: ContextVar[Mapping[str, Path] | None] = ContextVar("_sent", default=None)


@contextmanager
def sent_files(places: Mapping[str, Path]) -> Iterator[None]:
    """Let `place_of` find meanwhile the files that another machine sent: where each lies here, by its path there."""
    before = _sent.set(places)
    try:
        yield
    finally:
        _sent.reset(before)


def place_of(path: str | os.PathLike[str]) -> Path:
    """Return where a file lies on this machine, which is elsewhere where another one sent it along with a task."""
    return (_sent.get() or {}).get(os.fspath(path), Path(path))


def open_file(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open an ordinary file for reading.

    A pipe would wait for a writer that may never come, and a device may never end.

    Raises:
        OSError: there is none, it cannot be read, or it is something else, such as a pipe, a device or a folder.
    """
    # Without the flag, to open a pipe would wait.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "expected a file, got a pipe, a device or a folder", str(path))
    return os.fdopen(handle, "rb")


def release_pages(content: mmap.mmap) -> None:
    """Release what was read of a mapped file: it would count as memory of this process, of however large a file."""
    if hasattr(mmap, "MADV_DONTNEED"):
        content.madvise(mmap.MADV_DONTNEED)


def read_content(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Return what an ordinary file holds, of at most so many bytes; raises `OSError`, as `open_file` does."""
    # One byte more than is allowed tells a file that is too large, also one that grows meanwhile, without reading all
    # of it.
    with open_file(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"expected at most {most:,} bytes", str(path))
    return content


def read_text(path: str | os.PathLike[str], most: int = MOST_BYTES) -> str:
    """Return the text of an ordinary file in UTF-8, as `read_content` does; raises `ValueError` for another code."""
    return read_content(path, most).decode("utf-8-sig")


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that replaces it when the block ends well, and goes when it does not.

    Raises `OSError` that names `path` where the temporary file cannot be written.
    """
    prefix = f".{path.name}."
    remove_leftovers(path.parent, prefix)
    try:
        with _temporary(path, prefix) as temporary:
            yield temporary
    except OSError as error:
        if error.filename is None or Path(str(error.filename)).name.startswith(prefix):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        raise


@contextmanager
def _temporary(path: Path, prefix: str) -> Iterator[Path]:
    handle, temporary = _new_temporary(path.parent, prefix)
    try:
        yield temporary
        # Content, then name, then the folder's list of names: a crash leaves the old file or the new one, whole.
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        os.close(handle)
        temporary.unlink(missing_ok=True)


def _new_temporary(parent: Path, prefix: str, is_folder: bool = False) -> tuple[int, Path]:
    """Create a temporary file or folder; return it and its handle, whose lock says that its owner lives."""
    while True:
        # Beside its target: a rename replaces a file at once within one file system alone. Not by `mkstemp`, which
        # lets the owner alone read: the mask that says who else may is read by changing it, for all threads.
        temporary = parent / f"{prefix}{secrets.token_hex(8)}{PART}"
        if is_folder:
            temporary.mkdir(0o700)
        else:
            temporary.touch(exist_ok=False)
        # Before it is locked, another process may take it for a leftover.
        with suppress(FileNotFoundError):
            handle = os.open(temporary, os.O_RDONLY)
            _lock(handle, waits=True)
            if temporary.exists():
                return handle, temporary
            os.close(handle)


@contextmanager
def temporary_folder(parent: Path, name: str) -> Iterator[Path]:
    """Yield a new hidden folder in `parent`, which goes when the block ends; that of a killed process goes first."""
    prefix = f".{name}."
    remove_leftovers(parent, prefix)
    handle, folder = _new_temporary(parent, prefix, is_folder=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_leftovers(folder: Path, prefix: str = ".") -> None:
    """Remove what killed processes left in a folder: temporary files and folders whose writer is gone."""
    for path in folder.glob(f"{glob_escape(prefix)}*{PART}"):
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                # Removed while it is locked, so that a writer who waits for the lock finds it gone.
                if _lock(handle):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                os.close(handle)


def _lock(handle: int, waits: bool = False) -> bool:
    """Lock a file, or a folder, and say whether that could be: now, or once nobody else has the lock."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written to, with `ConfigError`."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"--out: {folder} cannot be written ({error.strerror}); name another folder") from None


def make_folder(folder: Path) -> None:
    """Make a folder that is not there yet, and refuse one that cannot be written to, with `ConfigError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out: {folder} cannot be written ({error.strerror}); name another folder") from None
    check_writable(folder)


def checked_file(what: str, path: str | os.PathLike[str], suffix: str) -> Path:
    """Return where to write `what`; raises `ConfigError` for another ending or a folder that is not there."""
    where = Path(path)
    if where.suffix != suffix or where.is_dir() or not where.parent.is_dir():
        raise ConfigError(f"{what}: got {str(path)!r}, expected a file in a folder that is there, ending in {suffix}")
    if not os.access(where.parent, os.W_OK):
        raise ConfigError(f"{what}: got {str(path)!r}, in a folder that cannot be written to")
    return where


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically, in UTF-8."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _flush(path: Path) -> None:
    """Ask the system to put a file, or a folder's list of names, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
