"""Where compiled kernels lie on disk: in a folder for each digest of the sources that they are made from.

Numba has no public way to choose this, so its inner classes are used; those named here are in numba 0.61 to 0.68.
"""

import hashlib
import types
from functools import partial
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _Cache, _CacheLocator

from zoosim.core.files import cache_folder
from zoosim.core.sources import source_digest

FOLDER = cache_folder() / "kernels" / numba.__version__
"""Settled when the process starts, as a kernel is compiled once per process."""


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
        """Return numba's cache; None where the folder cannot be written: the kernel is then compiled each time."""
        if self._opened is None and self._enabled:
            locator: Any = _Locator(self.cache_path, _fingerprint(self._parts))
            try:
                locator.ensure_cache_path()
            except OSError:
                self._enabled = False
                return None
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
        """Forget what was kept."""
        opened = self._open()
        if opened is not None:
            opened.flush()


class _FunctionCache(FunctionCache):
    def __init__(self, function: Any, locator: "_Locator") -> None:
        self._impl_class: Any = partial(_CompiledFunction, locator)
        super().__init__(function)  # type: ignore[no-untyped-call]


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
