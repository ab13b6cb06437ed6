"""The cache of compiled kernels on disk: a folder for each digest of the sources that they are made from.

One file holds one function compiled for one signature: machine code of what Python calls (`KernelCache`), or LLVM code
of what only compiled code calls (`PartCache`), so that a second loop around these functions need not compile them.

One process compiles a function, and others that need it meanwhile wait for it.

What is read is executed. So each file begins with a digest of its place and its content, a damaged one counts as none,
and a folder that others may write to is not used.

Numba has no public way to choose this, so its inner classes are used; those named here are in numba 0.61 to 0.68.
"""

import errno
import itertools
import os
import pickle
import secrets
import time
import types
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numba
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from zoosim.core.digests import short_digest
from zoosim.core.files import cache_folder
from zoosim.core.kernel_parts import rebuild_part, reduce_part
from zoosim.core.private_folder import make_private, read_sealed, write_sealed
from zoosim.core.sources import source_digest

try:
    import fcntl
except ImportError:  # Windows, where each process compiles for itself
    fcntl = None  # type: ignore[assignment]

FOLDER = cache_folder() / "kernels" / numba.__version__
"""Settled when the process starts, as a kernel is compiled once per process."""

MOST_SECONDS = 300.0
"""Longest wait for another process's compilation of one function."""

# Numba tells functions of one name apart by a number that counts from 1 in each process, as a part of their names in
# LLVM. Functions that were compiled by several processes are linked together here, where equal names mean equal code.
FunctionIdentity._unique_ids = itertools.count(secrets.randbits(48) << 15)


class KernelCache(_Cache):
    """Keeps the code of one kernel on disk, in a folder named by a digest of the kernel's sources.

    It is looked for when the kernel is first called, since finding the sources takes time.

    Args:
        function: The function that numba compiles.
        parts: The functions that it is made from: itself, and what was bound into it.
    """

    suffix = ".nbc"

    def __init__(self, function: Any, parts: list[Any]) -> None:
        module = function.__module__.rpartition(".")[2]
        self._name = f"{module}.{function.__qualname__}-{_fingerprint(parts)}"
        self._parts = parts
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """The folder of the compiled code."""
        modules = sorted({part.__module__ for part in self._parts})
        return str(FOLDER / source_digest(*modules))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for a signature, None where there is none that can be read."""
        target_context.refresh()
        key = _key(sig, target_context.codegen())
        path = self._path(key)
        if path is None:
            return None
        found = self._load(path, key, target_context)
        # Where nothing is found, the claim is kept until `save_overload`.
        if found is None and claim(path):  # another process has compiled it meanwhile
            found = self._load(path, key, target_context)
            if found is not None:
                release(path)
        return found

    def _load(self, path: Path, key: Any, target_context: Any) -> Any:
        # What is kept names the classes of the arguments. Those of another release may be gone or broken, and a file
        # may be cut short: whatever reading it raises, the code is compiled anew.
        try:
            kept_key, code = pickle.loads(read_sealed(path))
            return self._rebuild(target_context, code) if kept_key == key else None
        except Exception:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled code for a signature."""
        # The key is in the file, too: its name holds only a short hash of it.
        key = _key(sig, data.codegen)
        path = self._path(key)
        if path is None:
            return
        # The addresses in dynamic globals, such as those of C functions, are of this process.
        if not data.library.has_dynamic_globals:
            with suppress(Exception):  # a full disk, a signature that cannot be pickled: the code is compiled next time
                write_sealed(path, dumps((key, self._reduce(data))))  # type: ignore[no-untyped-call]
        release(path)

    def enable(self) -> None:
        """Use the disk."""
        self._enabled = True

    def disable(self) -> None:
        """Leave the disk alone."""
        self._enabled = False

    def flush(self) -> None:
        """Forget what was kept."""
        for path in Path(self.cache_path).glob(f"{self._name}.*{self.suffix}"):
            path.unlink(missing_ok=True)

    @cached_property
    def _folder(self) -> Path | None:
        """The folder of the compiled code, looked at once; None where it cannot be used: each process compiles then."""
        folder = Path(self.cache_path)
        return folder if make_private(folder) else None

    def _path(self, key: Any) -> Path | None:
        """Return the file of the code for a key, None where none is kept."""
        if not self._enabled or self._folder is None:
            return None
        return self._folder / f"{self._name}.{short_digest(repr(key))}{self.suffix}"

    def _reduce(self, compiled: Any) -> Any:
        return compiled._reduce()

    def _rebuild(self, target_context: Any, code: Any) -> Any:
        return CompileResult._rebuild(target_context, *code)  # type: ignore[no-untyped-call]


class PartCache(KernelCache):
    """Keeps the LLVM code of one function that compiled code calls."""

    suffix = ".bc"

    def _reduce(self, compiled: Any) -> Any:
        return reduce_part(compiled)

    def _rebuild(self, target_context: Any, code: Any) -> Any:
        return rebuild_part(target_context, code)


# Why a lock of a byte per function. Workers of a run start together and need the same kernels, each of which compiles
# for seconds; without a claim all of them would compile all. A lock file per function could be left behind, or removed
# while it is waited for. The system keeps locks of bytes that need not exist in one file, and drops those of a process
# that dies. They are of a process and not of a file handle, so threads of one process do not exclude each other.
def claim(path: Path) -> bool:
    """Keep other processes from compiling what a file is to hold; return whether one that did was waited for.

    A process claims a function before the functions that it calls, so no two wait for one another. Where a function
    cannot be compiled, the claim ends with the process, and others wait for `MOST_SECONDS` at most.
    """
    deadline = time.monotonic() + MOST_SECONDS
    has_waited = False
    while fcntl is not None and (lock := _lock(path.parent.parent)) is not None:
        try:
            # Asked again and again, as a call that waits for a lock cannot be told for how long.
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(path))
            break
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN) or time.monotonic() > deadline:
                break
        has_waited = True
        time.sleep(0.02)
    return has_waited


def release(path: Path) -> None:
    """Release the lock, so that others may compile what a file is to hold."""
    if fcntl is not None and (lock := _lock(path.parent.parent)) is not None:
        with suppress(OSError):
            fcntl.lockf(lock, fcntl.LOCK_UN, 1, _place(path))


@cache
def _lock(folder: Path) -> int | None:
    """Return a file of which each byte stands for a function. It stays open, since to close it ends all claims."""
    try:
        return os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _place(path: Path) -> int:
    """Return the number of a function's byte."""
    return int(short_digest(f"{path.parent.name}/{path.name}")[:14], 16)


def _key(sig: Any, codegen: Any) -> Any:
    """Return what compiled code depends on besides its sources: the types of the arguments, and the processor."""
    return sig, codegen.magic_tuple()


def _fingerprint(parts: list[Any]) -> str:
    """Return what tells functions of one name apart, where numba does not look: constants, and bound kernels."""
    names = [(part.__module__, part.__qualname__, _constants(part.__code__)) for part in parts]
    return short_digest(repr(names))[:8]


def _constants(code: types.CodeType) -> list[Any]:
    return [value for value in code.co_consts if not isinstance(value, str | types.CodeType)]
