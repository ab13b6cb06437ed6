"""Compile numeric kernels, cached on disk by the sources that they are made from.

Numba checks only the file that a kernel stands in, by its path, not the kernels it calls from other files. Here a
kernel's cache is keyed by the code of its module and of all that this module imports, so an edited ridge update can
never run inside an old policy kernel, other edits recompile nothing, and copies of the package share what was compiled.
Kernels of the user's own are compiled anew in each process, since nobody knows which files they depend on; a package
whose kernels depend on its own files and on zoosim alone says `KEEPS_KERNELS = True` in its `__init__.py`.
"""

import functools
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, ParamSpec, TypeVar, cast

import numba
from numba.core.event import Listener, install_listener

from zoosim.core.sources import PACKAGE

KernelCache: Any
PartCache: Any
EntryCompiler: Any
PartCompiler: Any
try:
    from zoosim.core.kernel_parts import EntryCompiler, PartCompiler
except (
    ImportError,
    AttributeError,
    TypeError,
):  # a numba whose inner parts have moved: compilation takes three times as long
    EntryCompiler = PartCompiler = None
with suppress(ImportError, AttributeError):  # likewise: types are looked up anew for each operator
    from zoosim.core import kernel_typing

    kernel_typing.install()
try:
    from zoosim.core.kernel_cache import KernelCache, PartCache
except (ImportError, AttributeError, TypeError):  # likewise: kernels are compiled in each process
    KernelCache = PartCache = None

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
"""No fast-math, so that results repeat bit for bit; division by zero as numpy has it."""

P = ParamSpec("P")
R = TypeVar("R")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` without the interpreter, when it is first called."""
    return _compile(function, [function], inline="never")


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` into its callers: passing a state of many arrays costs more than a short function does."""
    return _compile(function, [function], inline="always")


@contextmanager
def watch_compilation(started: Callable[[], None]) -> Iterator[None]:
    """Call `started` whenever a kernel of the package begins to compile, because the disk does not hold it."""
    # Numba sends this event only after a look into the kernel's cache on disk has failed.
    with install_listener("numba:compile", _Compilations(started)):
        yield


class _Compilations(Listener):
    def __init__(self, started: Callable[[], None]) -> None:
        self._started = started

    def on_start(self, event: Any) -> None:
        is_kept_on_disk = event.data["dispatcher"].stats.cache_path is not None
        if is_kept_on_disk:
            self._started()

    def on_end(self, event: Any) -> None:
        pass


def bind(template: Callable[P, R], name: str, **functions: Callable[..., Any]) -> Callable[P, R]:
    """Compile `template` with some of its global names bound to other kernels.

    A compiled loop that takes kernels as arguments cannot be cached on disk; one that finds them as globals can.
    `name` tells the copies apart in the cache.
    """
    scope = {**template.__globals__, **functions}
    copy = types.FunctionType(template.__code__, scope, name)
    # The cache names files by it, and by the functions that are bound in.
    copy.__qualname__ = name
    copy.__module__ = template.__module__
    return _compile(cast(Callable[P, R], copy), [copy, *functions.values()], inline="never")


def _compile(
    function: Callable[P, R], parts: list[Callable[..., Any]], inline: Literal["never", "always"]
) -> Callable[P, R]:
    """Compile a function that is made from the functions `parts`; on disk if all of these are ours."""
    # A bound function is made from others in turn: their sources count, too.
    sources = [source for part in parts for source in getattr(part, "_made_from", [_plain(part)])]
    dispatcher: Any = numba.njit(inline=inline, **_options(EntryCompiler))(function)
    dispatcher._made_from = sources
    is_kept = KernelCache is not None and all(map(_is_ours, sources))
    if is_kept:
        dispatcher._cache = KernelCache(function, sources)
    # An inlined function becomes a part of its callers before any LLVM code is made, so there is nothing to link in.
    if inline == "always" or PartCompiler is None:
        return cast(Callable[P, R], dispatcher)
    compiled = Compiled(dispatcher)
    if is_kept:
        compiled._part._cache = PartCache(function, sources)
    return cast(Callable[P, R], compiled)


def _options(compiler: Any) -> dict[str, Any]:
    """Return numba's options for a compiler of ours, or for its own where ours is None."""
    if compiler is None:
        return OPTIONS
    # Functions are not handed to C code. The options are the same for entries and parts: for others, numba compiles its
    # own functions that they call once more.
    return {**OPTIONS, "pipeline_class": compiler, "no_cfunc_wrapper": True}


class Compiled:
    """A compiled function: Python calls its `dispatcher`, and compiled code has it linked in as a part."""

    def __init__(self, dispatcher: Any) -> None:
        self.dispatcher = dispatcher
        self.py_func = dispatcher.py_func
        self._made_from = dispatcher._made_from
        self._part: Any = numba.njit(**_options(PartCompiler))(self.py_func)
        functools.update_wrapper(self, self.py_func)
        self._numba_type_ = self._part._numba_type_  # numba asks for it when compiled code names this object

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled function."""
        return self.dispatcher(*arguments)


def _is_ours(function: Any) -> bool:
    """Return whether a Python function stands in this package, or in one that says `KEEPS_KERNELS = True`."""
    package = str(function.__module__).partition(".")[0]
    return package == PACKAGE or getattr(sys.modules.get(package), "KEEPS_KERNELS", False) is True


def _plain(function: Any) -> Any:
    """Return the Python function of a compiled one, and any other as it is."""
    return getattr(function, "py_func", function)
