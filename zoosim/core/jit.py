"""Compile numeric kernels, cached on disk by a hash of the whole package.

Numba checks only the file that a kernel stands in, not the kernels it calls from other files. Keying the cache by
the package's sources means that an edited ridge update can never run inside an old policy kernel. Kernels of the user's
own are compiled anew in each process, since nobody knows which files they depend on.
"""

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast

import numba
from numba.core.event import Listener, install_listener

from zoosim.core.files import cache_folder, source_digest

P = ParamSpec("P")
R = TypeVar("R")

PACKAGE = Path(__file__).parents[1]


def _kernel_cache() -> str:
    """Name the folder of compiled kernels for exactly these sources."""
    return str(cache_folder() / "kernels" / f"{source_digest()}-{numba.__version__}")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` without the interpreter: releases the lock, no fast-math, so results repeat bit for bit."""
    return _compile(function, cached=_is_ours(function), inline="never")


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` into its callers: passing a state of many arrays costs more than a short function does."""
    return _compile(function, cached=_is_ours(function), inline="always")


def _compile(function: Callable[P, R], cached: bool, inline: Literal["never", "always"]) -> Callable[P, R]:
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = _kernel_cache()
    try:
        compiled = numba.njit(cache=cached, nogil=True, error_model="numpy", inline=inline)(function)
        return cast(Callable[P, R], compiled)
    finally:
        config.CACHE_DIR = before


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


def _is_ours(function: Any) -> bool:
    """Tell whether a function, compiled or not, stands in this package."""
    code = getattr(function, "py_func", function).__code__
    return Path(code.co_filename).is_relative_to(PACKAGE)


def bind(template: Callable[P, R], name: str, **functions: Callable[..., Any]) -> Callable[P, R]:
    """Compile `template` with some of its global names bound to other kernels.

    A compiled loop that takes kernels as arguments cannot be cached on disk; one that finds them as globals can.
    `name` tells the copies apart in the cache.
    """
    scope = {**template.__globals__, **functions}
    copy = types.FunctionType(template.__code__, scope, name)
    copy.__qualname__ = name
    copy.__module__ = template.__module__
    cached = all(map(_is_ours, [template, *functions.values()]))
    return _compile(cast(Callable[P, R], copy), cached, inline="never")
