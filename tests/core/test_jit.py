"""Compilation: what is cached on disk and what is not, and loops bound to kernels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zoosim.core import jit as jit_module
from zoosim.core import kernel_cache
from zoosim.core.files import cache_folder
from zoosim.core.jit import bind, inlined, jit, watch_compilation
from zoosim.core.rng import mix, uniform
from zoosim.core.sources import source_digest
from zoosim.policies.products.random import Random


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


def test_kernels_of_the_package_are_cached_by_the_sources_of_their_module() -> None:
    assert uniform(np.uint64(1), 2, 3) == uniform(np.uint64(1), 2, 3)
    for kernel, module in (
        (mix, "core.rng"),
        (uniform, "core.rng"),
        (Random.kernel.choose, "policies.products.random"),
    ):
        folder = Path(str(on_disk(kernel)))
        assert folder.name == source_digest(f"zoosim.{module}")
        assert folder.parents[1] == cache_folder() / "kernels"
    assert list(Path(str(on_disk(uniform))).glob("rng.uniform-*.nbc"))


def test_a_kept_kernel_is_loaded_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "FOLDER", tmp_path)
    plain: Any = one
    monkeypatch.setattr(plain, "__module__", "zoosim.core.rng")
    found = []
    for _ in range(2):
        compiled: Any = jit(plain)
        assert compiled(1.0) == 2.0
        found.append((compiled.stats.cache_hits.total(), compiled.stats.cache_misses.total()))
    assert found == [(0, 1), (1, 0)]


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_kept_kernel_that_cannot_be_read_is_compiled_anew(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class of another release may be gone, and a file may be cut short."""
    monkeypatch.setattr(kernel_cache, "FOLDER", tmp_path)
    plain: Any = one
    monkeypatch.setattr(plain, "__module__", "zoosim.core.rng")
    assert jit(plain)(1.0) == 2.0
    missing_class = b"cno_such_module\nState\n."
    for file in tmp_path.rglob(f"*.{kind}"):
        version, _, _ = file.read_bytes().partition(b"\x80") if kind == "nbi" else (b"", b"", b"")
        file.write_bytes(version + missing_class)
    misses = []
    for _ in range(2):
        compiled: Any = jit(plain)
        assert compiled(1.0) == 2.0
        misses.append(compiled.stats.cache_misses.total())
    assert misses == [1, 0]


def test_functions_of_one_name_are_not_taken_for_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that differ in a constant alone have the same bytecode, which is what numba looks at."""
    monkeypatch.setattr(kernel_cache, "FOLDER", tmp_path)
    plain: list[Any] = [one, two]
    for function in plain:
        monkeypatch.setattr(function, "__module__", "zoosim.core.rng")
        monkeypatch.setattr(function, "__qualname__", "same")
    assert [jit(function)(1.0) for function in plain] == [2.0, 3.0]


def test_without_numbas_inner_parts_or_a_folder_kernels_are_compiled_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain: Any = one
    monkeypatch.setattr(plain, "__module__", "zoosim.core.rng")
    (tmp_path / "file").touch()
    monkeypatch.setenv("ZOOSIM_CACHE", str(tmp_path / "file"))
    assert jit(plain)(1.0) == 2.0
    monkeypatch.setattr(jit_module, "KernelCache", None)
    compiled = jit(plain)
    assert compiled(1.0) == 2.0
    assert on_disk(compiled) is None


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
    monkeypatch.setattr(kernel_cache, "FOLDER", tmp_path)
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


def test_a_bound_function_is_keyed_by_all_that_it_is_made_from() -> None:
    """Also by what was bound into a function that is bound in turn, as a policy's kernel is for logs."""
    inner = bind(_loop, "inner", step=Random.kernel.choose)
    outer: Any = bind(_loop, "outer", step=inner)
    modules = {source.__module__ for source in outer._made_from}
    assert modules == {__name__, "zoosim.policies.products.random"}
    assert on_disk(outer) is None  # one part is not the package's own
