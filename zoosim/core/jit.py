"""Compile numeric kernels, cached on disk by a hash of the whole package.

Numba checks only the file that a kernel stands in, not the kernels it calls from other files. Keying the cache by
the package's sources means that an edited ridge update can never run inside an old policy kernel.
"""

import hashlib
import types
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

from zoosim.core.files import cache_folder

P = ParamSpec("P")
R = TypeVar("R")


@cache
def _kernel_cache() -> str:
    """Name the folder of compiled kernels for exactly these sources."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(package.rglob("*.py")):
        digest.update(source.read_bytes())
    return str(cache_folder() / "kernels" / digest.hexdigest()[:16])


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` without the interpreter: releases the lock, no fast-math, so results repeat bit for bit."""
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = _kernel_cache()
    try:
        return cast(Callable[P, R], numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    finally:
        config.CACHE_DIR = before


def bind(template: Callable[P, R], name: str, **functions: Callable[..., Any]) -> Callable[P, R]:
    """Compile `template` with some of its global names bound to other kernels.

    A compiled loop that takes kernels as arguments cannot be cached on disk; one that finds them as globals can.
    `name` tells the copies apart in the cache.
    """
    scope = {**template.__globals__, **functions}
    copy = types.FunctionType(template.__code__, scope, name)
    copy.__qualname__ = name
    copy.__module__ = template.__module__
    return jit(cast(Callable[P, R], copy))
