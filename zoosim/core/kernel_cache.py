"""Where compiled kernels lie on disk: in a folder for each digest of the sources that they are made from.

What is read is executed. So each file begins with a digest of its place and its content, a damaged one counts as none,
and a folder that others may write to is not used.

Numba has no public way to choose this, so its inner classes are used; those named here are in numba 0.61 to 0.68.
"""

import hashlib
import pickle
import types
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _Cache, _CacheLocator

from zoosim.core.files import cache_folder
from zoosim.core.private_folder import make_private
from zoosim.core.sources import source_digest

FOLDER = cache_folder() / "kernels" / numba.__version__
"""Settled when the process starts, as a kernel is compiled once per process."""

DIGEST_BYTES = 32


class KernelCache(_Cache):
    """What is kept on disk of one kernel: numba's own cache, in a folder named by a digest of the kernel's sources.

    It is opened when the kernel is first called, since finding the sources takes time.

    Args:
        function: The function that numba compiles.
        parts: The functions that it is made from: itself, and what was bound into it.
    """

    def __init__(self, function: Any, parts: list[Any]) -> None:
        self._function = function
        self._parts = parts
        self._enabled = True
        self._opened: Any = None

    @property
    def cache_path(self) -> str:
        """The folder of the compiled code."""
        modules = sorted({part.__module__ for part in self._parts})
        return str(FOLDER / source_digest(*modules))

    def _open(self) -> Any:
        """Return numba's cache; None where the folder cannot be used: the kernel is then compiled each time."""
        if self._opened is None and self._enabled:
            locator: Any = _Locator(self.cache_path, _fingerprint(self._parts))
            try:
                self._enabled = make_private(Path(self.cache_path))
                if self._enabled:
                    locator.ensure_cache_path()
            except OSError:
                self._enabled = False
            if self._enabled:
                self._opened = _FunctionCache(self._function, locator)
        return self._opened if self._enabled else None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for a signature, None where there is none that can be read."""
        opened = self._open()
        if opened is None:
            return None
        # What is kept names the classes of the arguments. Those of another release may be gone or broken, and a file
        # may be cut short: whatever reading it raises, the code is compiled anew.
        try:
            return opened.load_overload(sig, target_context)
        except Exception:
            self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled code for a signature."""
        opened = self._open()
        if opened is None:
            return
        try:
            opened.save_overload(sig, data)
        except Exception:
            self.flush()

    def enable(self) -> None:
        """Use the disk."""
        self._enabled = True

    def disable(self) -> None:
        """Leave the disk alone."""
        self._enabled = False

    def flush(self) -> None:
        """Forget what was kept; where that cannot be written either, because the disk is full, say, it stays."""
        opened = self._open()
        if opened is not None:
            with suppress(OSError):
                opened.flush()


class _FunctionCache(FunctionCache):
    def __init__(self, function: Any, locator: "_Locator") -> None:
        self._impl_class: Any = partial(_CompiledFunction, locator)
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._cache_file: Any = _SealedFiles(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )


class _SealedFiles(IndexDataCacheFile):
    """Numba's index of signatures and its files of compiled code, each behind a digest of where and what it is."""

    def __init__(self, cache_path: str, filename_base: str, source_stamp: str) -> None:
        super().__init__(cache_path, filename_base, source_stamp)  # type: ignore[no-untyped-call]
        self._path = Path(cache_path)

    def _load_index(self) -> dict[Any, str]:
        try:
            return dict(self._read(self._index_name))
        except (FileNotFoundError, ValueError):
            return {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_name, overloads)

    def _load_data(self, name: str) -> Any:
        return self._read(name)

    def _save_data(self, name: str, data: Any) -> None:
        self._write(name, data)

    def _read(self, name: str) -> Any:
        """Return what a file holds; raises `ValueError` where it is damaged, or was another file."""
        content = (self._path / name).read_bytes()
        payload = content[DIGEST_BYTES:]
        if content[:DIGEST_BYTES] != self._digest(name, payload):
            raise ValueError(f"{self._path / name} is damaged")
        return pickle.loads(payload)

    def _write(self, name: str, value: Any) -> None:
        payload = self._dump(value)  # type: ignore[no-untyped-call]
        with self._open_for_write(self._path / name) as file:
            file.write(self._digest(name, payload) + payload)

    def _digest(self, name: str, payload: bytes) -> bytes:
        return hashlib.sha256(f"{self._path.name}/{name}\n".encode() + payload).digest()


class _CompiledFunction(CompileResultCacheImpl):
    """How numba writes and names compiled code, without its search for a folder by the source file's path."""

    def __init__(self, locator: "_Locator", function: Any) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = locator
        module = function.__module__.rpartition(".")[2]
        self._filename_base = self.get_filename_base(f"{module}.{function.__qualname__}", "")  # type: ignore[no-untyped-call]


class _Locator(_CacheLocator):
    def __init__(self, folder: str, disambiguator: str) -> None:
        self._folder = folder
        self._disambiguator = disambiguator
        self._py_file = ""  # numba names it in warnings

    def get_cache_path(self) -> str:
        return self._folder

    def get_source_stamp(self) -> str:
        return ""  # the folder's name says it

    def get_disambiguator(self) -> str:
        return self._disambiguator


def _fingerprint(parts: list[Any]) -> str:
    """Tell functions of one name apart by what numba does not look at: constants, and which kernels are bound."""
    names = [(part.__module__, part.__qualname__, _constants(part.__code__)) for part in parts]
    return hashlib.sha256(repr(names).encode()).hexdigest()[:8]


def _constants(code: types.CodeType) -> list[Any]:
    return [value for value in code.co_consts if not isinstance(value, str | types.CodeType)]
