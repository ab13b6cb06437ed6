"""Compilation: what is cached on disk and what is not, and loops bound to kernels."""

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zoosim.core import jit as jit_module
from zoosim.core import kernel_cache, kernel_parts
from zoosim.core.files import cache_folder
from zoosim.core.jit import bind, inlined, jit, watch_compilation
from zoosim.core.private_folder import read_sealed, write_sealed
from zoosim.core.rng import mix, uniform
from zoosim.core.sources import source_digest
from zoosim.policies.products.random import Random


def on_disk(compiled: Any) -> str | None:
    """Say where numba keeps a compiled function, None when it does not."""
    path: str | None = dispatcher_of(compiled).stats.cache_path
    return path


def dispatcher_of(compiled: Any) -> Any:
    """Return numba's own object behind a compiled function."""
    return getattr(compiled, "dispatcher", compiled)


def one(x: float) -> float:
    return x + 1.0


def two(x: float) -> float:
    return x + 2.0


def step(x: float) -> float:
    """Turn the sign."""
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


def test_kernels_of_a_package_that_says_so_are_cached_by_the_sources_of_their_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[__name__.partition(".")[0]], "KEEPS_KERNELS", True, raising=False)
    assert Path(str(on_disk(jit(two)))).name == source_digest(__name__)


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
        stats = dispatcher_of(compiled).stats
        found.append((stats.cache_hits.total(), stats.cache_misses.total()))
    assert found == [(0, 1), (1, 0)]


def test_a_second_caller_does_not_compile_a_part_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy's functions are compiled once for runs, requests and services, also by several processes."""
    monkeypatch.setattr(kernel_cache, "FOLDER", tmp_path)
    plain: Any = step
    loop: Any = _loop
    for function in (plain, loop):
        monkeypatch.setattr(function, "__module__", "zoosim.core.rng")
    found = []
    for name in ("first", "second"):
        part: Any = jit(plain)
        assert bind(loop, name, step=part)(3) == 0.0
        found.append(part._part.stats.cache_hits.total())
    assert found == [0, 1]


def test_parts_made_by_other_processes_keep_their_arrays_and_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kept part refers to, such as the messages of its errors, comes with it."""
    monkeypatch.setenv("ZOOSIM_CACHE", str(tmp_path))
    lines = """
import numpy as np
from zoosim.core import jit
def part(x, y):
    if x.shape[0] == 0:
        raise ValueError("nothing to add")
    return (x * y).sum() + np.linalg.norm(x)
def whole(x):
    return part(x, 2.0 * x) + part(x, 2.0)
for function in (part, whole):
    function.__module__ = "zoosim.core.rng"
compiled = jit.jit(part)
whole = jit.bind(whole, NAME, part=compiled)
print(whole(np.array([3.0, 4.0])))
try:
    whole(np.zeros(0))
except ValueError as error:
    print(error, compiled._part.stats.cache_hits.total())
"""
    printed = []
    for name in ("one", "two"):
        code = lines.replace("NAME", repr(name))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        printed.append(done.stdout)
    assert printed == ["74.0\nnothing to add 0\n", "74.0\nnothing to add 2\n"]


def test_a_function_that_another_process_compiles_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one claims it, and a while later has compiled it; then it is loaded. A broken file is no reason to."""
    monkeypatch.setattr(kernel_cache, "FOLDER", tmp_path)
    plain: Any = one
    monkeypatch.setattr(plain, "__module__", "zoosim.core.rng")
    assert jit(plain)(1.0) == 2.0
    (kept,) = tmp_path.rglob("*.nbc")
    content = kept.read_bytes()
    kept.unlink()
    lines = """
import sys, time
from pathlib import Path
from zoosim.core.kernel_cache import claim
path = Path(sys.argv[1])
assert not claim(path)
print("claimed", flush=True)
content = sys.stdin.buffer.read()
time.sleep(0.5)
path.write_bytes(content)
"""
    hits = []
    for sent in (content, b""):
        kept.unlink(missing_ok=True)
        command = [sys.executable, "-c", lines, str(kept)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdin is not None
            assert other.stdout is not None
            assert other.stdout.readline() == b"claimed\n"
            other.stdin.write(sent)
            other.stdin.close()
            compiled: Any = jit(plain)
            assert compiled(1.0) == 2.0
        hits.append(dispatcher_of(compiled).stats.cache_hits.total())
    assert hits == [1, 0]


def test_a_kept_kernel_that_cannot_be_read_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of another release may be gone."""
    monkeypatch.setattr(kernel_cache, "FOLDER", tmp_path)
    plain: Any = one
    monkeypatch.setattr(plain, "__module__", "zoosim.core.rng")
    assert jit(plain)(1.0) == 2.0
    missing_class = b"cno_such_module\nState\n."
    for file in tmp_path.rglob("*.nbc"):
        write_sealed(file, missing_class)
    misses = []
    for _ in range(2):
        compiled: Any = jit(plain)
        assert compiled(1.0) == 2.0
        misses.append(dispatcher_of(compiled).stats.cache_misses.total())
    assert misses == [1, 0]


def test_code_is_not_taken_for_that_of_other_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file under the right name that holds another signature's code is compiled anew."""
    monkeypatch.setattr(kernel_cache, "FOLDER", tmp_path)
    plain: Any = one
    monkeypatch.setattr(plain, "__module__", "zoosim.core.rng")
    jit(plain)(1.0)
    (whole,) = tmp_path.rglob("*.nbc")
    jit(plain)(1)
    (integer,) = set(tmp_path.rglob("*.nbc")) - {whole}
    write_sealed(integer, read_sealed(whole))
    compiled: Any = jit(plain)
    assert compiled(1) == 2.0
    assert dispatcher_of(compiled).stats.cache_misses.total() == 1


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


def test_a_function_is_a_part_of_its_callers_and_can_be_called_from_python() -> None:
    part: Any = jit(step)
    loop = bind(_loop, "loop", step=part)
    assert loop(3) == 0.0
    assert not part.dispatcher.overloads  # nothing but a part of the loop so far
    assert part(2.0) == -2.0
    assert len(part.dispatcher.overloads) == 1
    assert (part.__name__, part.__doc__, part.__wrapped__) == ("step", step.__doc__, step)


def test_parts_know_the_arrays_and_the_functions_that_they_are_given() -> None:
    """One part calls another, for two types each, and arrays made in a part outlive it."""

    @jit
    def scaled(x: np.ndarray, factor: float) -> np.ndarray:
        return x * factor

    @jit
    def twice(x: np.ndarray) -> np.ndarray:
        return scaled(scaled(x, 2.0), 2.0)

    @jit
    def total(x: np.ndarray, y: np.ndarray) -> float:
        sums = 0.0
        for _ in range(1_000):
            sums += twice(x).sum() + twice(y).sum()
        return sums

    assert total(np.ones(3), np.ones((2, 2), np.float32)) == 28_000.0


def test_without_numbas_inner_parts_functions_are_compiled_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_module, "PartCompiler", None)
    part: Any = jit(one)
    loop = bind(_loop, "apart", step=part)
    assert loop(3) == 3.0
    assert len(part.overloads) == 1


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


@pytest.mark.parametrize("thresholds", [(700, 10, 10), (0, 10, 10), (90_000, 5, 5)])
def test_garbage_is_looked_for_seldom_while_functions_compile_and_then_as_before(
    thresholds: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int, int]] = []
    lower = kernel_parts._PartLowering.run_pass

    def run_pass(step: Any, state: Any) -> bool:
        seen.append(gc.get_threshold())
        return lower(step, state)

    monkeypatch.setattr(kernel_parts._PartLowering, "run_pass", run_pass)
    loop = bind(_loop, "loop_of_other_sign", step=jit(step))
    before = gc.get_threshold()
    gc.set_threshold(*thresholds)
    try:
        assert loop(3) == 0.0
        assert gc.get_threshold() == thresholds
    finally:
        gc.set_threshold(*before)
    expected = max(thresholds[0], kernel_parts.FEWEST_NEW) if thresholds[0] else 0
    assert seen == [(expected, *thresholds[1:])]
