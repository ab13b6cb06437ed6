"""Compilation: what is cached on disk and what is not, and loops bound to kernels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zoosim.core import jit as jit_module
from zoosim.core.jit import bind, inlined, jit, watch_compilation
from zoosim.core.rng import mix, uniform
from zoosim.policies.random import Random


def on_disk(compiled: Any) -> str | None:
    """Say where numba keeps a compiled function, None when it does not."""
    path: str | None = compiled.stats.cache_path
    return path


def one(x: float) -> float:
    return x + 1.0


def two(x: float) -> float:
    return x + 2.0


def step(x: float) -> float:
    return -x


def _loop(n: int) -> float:
    total = 0.0
    for _ in range(n):
        total = step(total)
    return total


@pytest.mark.parametrize("compiler", [jit, inlined])
def test_kernels_outside_the_package_are_not_cached_on_disk(
    compiler: Callable[[Callable[[float], float]], Callable[[float], float]],
) -> None:
    compiled = compiler(one)
    assert compiled(1.0) == 2.0
    assert on_disk(compiled) is None


def test_kernels_of_the_package_are_cached_by_its_sources() -> None:
    for kernel in (mix, uniform, Random.kernel.choose):
        assert str(on_disk(kernel)).startswith(jit_module._kernel_cache())


def test_compiling_leaves_numbas_own_settings_alone() -> None:
    import numba

    config: Any = numba.config
    before = config.CACHE_DIR
    jit(two)
    assert before == config.CACHE_DIR


def test_bind_puts_each_kernel_in_its_place() -> None:
    """Copies of one template do not touch one another, nor the template's own module."""
    by_one, by_two = bind(_loop, "by_one", step=jit(one)), bind(_loop, "by_two", step=jit(two))
    assert (by_one(10), by_two(10)) == (10.0, 20.0)
    assert by_one(3) == 3.0
    assert (step(1.0), _loop(0)) == (-1.0, 0.0)


def test_a_bound_loop_is_cached_only_if_all_of_it_is_ours() -> None:
    assert on_disk(bind(_loop, "theirs", step=mix)) is None  # the template is not ours
    ours: Any = uniform
    assert on_disk(bind(ours.py_func, "ours", mix=mix)) is not None
    assert on_disk(bind(ours.py_func, "mixed", mix=jit(one))) is None


def test_compilation_is_told_unless_the_kernel_is_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels of the user's own are not kept on disk, so nothing is told of them."""
    monkeypatch.setenv("ZOOSIM_CACHE", str(tmp_path))
    compilations: list[str] = []
    own = jit(one)
    ours: Any = mix
    with watch_compilation(lambda: compilations.append("kernel")):
        bind(ours.py_func, "watched")(np.uint64(1))
        assert compilations == ["kernel"]
        bind(ours.py_func, "watched")(np.uint64(1))
        own(1.0)
        assert compilations == ["kernel"]
    bind(ours.py_func, "unwatched")(np.uint64(1))
    assert compilations == ["kernel"]


def test_division_by_zero_is_numpys() -> None:
    """No exception in the middle of a loop, as in numpy's own arrays."""

    @jit
    def divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out: np.ndarray = np.empty_like(x)
        for i in range(len(x)):
            out[i] = x[i] / y[i]
        return out

    found = divide(np.array([1.0, 0.0, -1.0]), np.zeros(3))
    assert found[0] == np.inf
    assert np.isnan(found[1])
    assert found[2] == -np.inf


def test_sums_keep_their_order() -> None:
    """Without fast-math, (1e16 + 1) - 1e16 is 0: a compiler that reorders finds 1."""

    @jit
    def total(x: np.ndarray) -> float:
        found = 0.0
        for value in x:
            found += value
        return found

    assert total(np.array([1e16, 1.0, -1e16])) == 0.0
