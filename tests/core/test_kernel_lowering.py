"""Arguments are lent to compiled functions: what comes back is right, is kept alive, and is freed."""

import gc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core import runtime

from zoosim.core.jit import jit

RUNTIME: Any = runtime  # it has no types


class Inner(NamedTuple):
    table: np.ndarray
    scale: float


class Outer(NamedTuple):
    x: np.ndarray
    inner: Inner
    pair: tuple[np.ndarray, np.ndarray]


def outer() -> Outer:
    x = np.arange(5.0)
    return Outer(x, Inner(np.arange(12.0).reshape(3, 4), 2.0), (x + 1.0, x + 2.0))


def an_element(state: Outer) -> Any:
    return state.inner.table


def an_argument(state: Outer) -> Any:
    return state


def a_view(state: Outer) -> Any:
    rows = state.inner.table[1:]
    return rows[1, ::2]


def a_tuple_of_views(state: Outer) -> Any:
    inner = Inner(state.inner.table[0], state.inner.scale)
    return (inner.table, state.pair[1]), inner


def one_or_the_other(state: Outer) -> Any:
    chosen = state.x
    if state.inner.scale > 1.0:
        chosen = state.pair[0]
    return chosen


def made_or_lent(state: Outer) -> Any:
    chosen = state.x
    for i in range(4):
        if i % 2:
            chosen = chosen + state.pair[0]
        else:
            chosen = chosen[: 5 - i]
            chosen = np.append(chosen, state.inner.table[0, : i + 1])[:5]
    return chosen


def swapped(state: Outer) -> Any:
    a, b = state.pair
    for _ in range(3):
        a, b = b, a
    return a, b


def rows(state: Outer) -> Any:
    total, last = 0.0, state.inner.table[0]
    for row in state.inner.table:
        total += row.sum()
        last = row
    return total, last


def an_argument_anew(state: Outer) -> Any:
    x = state.x
    while x.shape[0] > 2:
        x = x[1:]
    state = Outer(x, state.inner, state.pair)
    return state.x


def helped(state: Outer) -> Any:
    made = scaled(state.inner)
    both = Inner(made[1], 1.0)
    return scaled(both), both.table


def written(state: Outer) -> Any:
    view = state.inner.table[1]
    view[2] = 7.0
    state.pair[0][:] = view[:1]
    return state.inner.table.sum() + state.pair[0].sum()


def lists(state: Outer) -> Any:
    found = [state.x, state.pair[0]]
    found.append(state.inner.table[0])
    return found[2], found.pop(0)


def refused(state: Outer) -> Any:
    made = state.x * 2.0
    if made[1] > 1.0:
        raise ValueError("refused")
    return made


@jit
def scaled(inner: Inner) -> Any:
    return inner.table * inner.scale


FUNCTIONS = [
    an_element,
    an_argument,
    a_view,
    a_tuple_of_views,
    one_or_the_other,
    made_or_lent,
    swapped,
    rows,
    an_argument_anew,
    helped,
    written,
    lists,
]


@pytest.fixture(scope="module", autouse=True)
def counted_memory() -> None:
    """Let numba count what it allocates and frees."""
    RUNTIME._nrt_python.memsys_enable_stats()


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    """Yield the numbers of a result, as arrays."""
    if isinstance(value, tuple):
        for inner in value:
            yield from arrays_in(inner)
    else:
        yield np.asarray(value)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("is_part", [pytest.param(False, marks=pytest.mark.slow), True])
def test_results_are_pythons_and_memory_is_freed(function: Callable[[Outer], Any], is_part: bool) -> None:
    """By entries, which Python calls, and by parts, whose arguments another compiled function holds."""
    compiled = jit(function)
    if is_part:
        part = compiled

        @jit
        def compiled(state: Outer) -> Any:
            made = Outer(state.x + 0.0, Inner(state.inner.table + 0.0, state.inner.scale), state.pair)
            return part(made)

    compiled(outer())
    gc.collect()
    before = RUNTIME.rtsys.get_allocation_stats()
    for _ in range(20):
        state = outer()
        found = compiled(state)
        # Memory that was freed too early is most likely in use again by now.
        others = [np.full(12, -1.0) for _ in range(20)]
        del state
        for actual, expected in zip(arrays_in(found), arrays_in(function(outer())), strict=True):
            np.testing.assert_array_equal(actual, expected)
        del found, actual, expected, others
    gc.collect()
    after = RUNTIME.rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free


def test_what_is_lent_is_neither_counted_nor_copied() -> None:
    """LLVM code of a part: it reads what it is handed, and that is all."""

    @jit
    def part(state: Outer) -> float:
        row = state.inner.table[1]
        total = 0.0
        for i in range(row.shape[0]):
            total += row[i] * state.x[i]
        return total

    @jit
    def entry(state: Outer) -> float:
        return part(state) + part(state)

    assert entry(outer()) == 2.0 * (5.0 + 12.0 + 21.0)
    compiled: Any = part
    [code] = [overload.library.get_llvm_str() for overload in compiled._part.overloads.values()]
    assert "NRT_" not in code
    assert "insertvalue" not in code


def test_a_raised_error_is_the_callers() -> None:
    with pytest.raises(ValueError, match="refused"):
        jit(refused)(outer())


def test_generators_are_as_numba_makes_them() -> None:
    @jit
    def entries(state: Outer) -> Iterator[float]:
        for i in range(state.x.shape[0]):
            yield state.x[i] + state.pair[0][i]

    assert list(entries(outer())) == [1.0, 3.0, 5.0, 7.0, 9.0]
