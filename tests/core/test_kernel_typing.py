"""Operators are typed as numba types them: for all kinds of operands, options, and ways to type that come later."""

import operator
from itertools import product
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import types
from numba.core.compiler import Flags
from numba.core.errors import NumbaError, TypingError
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.extending import overload

from zoosim.core import kernel_typing

OPERANDS = (
    types.boolean,
    types.int64,
    types.uint8,
    types.float32,
    types.float64,
    types.literal(3),  # type: ignore[no-untyped-call]
    types.slice2_type,
    types.Array(types.float64, 2, "C"),
    types.Array(types.int32, 1, "A", readonly=True),
)
OPERATORS = (operator.add, operator.truediv, operator.lt, operator.mul, operator.getitem, operator.neg, operator.pow)


def typed(find: Any, function: Any, operands: tuple[Any, ...]) -> Any:
    try:
        return find(cpu_target.typing_context.resolve_value_type(function), cpu_target.typing_context, operands, {})
    except NumbaError:
        return None


@pytest.mark.parametrize("function", OPERATORS, ids=lambda function: function.__name__)
def test_what_is_kept_is_what_numba_finds(function: Any) -> None:
    cases = [(a,) for a in OPERANDS] if function is operator.neg else product(OPERANDS, OPERANDS)
    found = 0
    cpu_target.typing_context.refresh()
    with ConfigStack().enter(Flags()):  # type: ignore[no-untyped-call]
        for case in cases:
            expected = typed(kernel_typing._find, function, case)
            for _ in range(2):
                assert typed(kernel_typing._get_call_type, function, case) == expected, case
            found += expected is not None
    assert found >= 5


def test_options_are_those_that_are_set_over_the_defaults() -> None:
    options: Any = Flags()  # type: ignore[no-untyped-call]
    options.error_model = "numpy"
    options.nrt = True
    assert kernel_typing._values(options) == {name: getattr(options, name) for name in options.options}


def divide(x: int, y: int) -> float:
    return x / y


def test_kernels_of_other_options_are_typed_for_theirs() -> None:
    assert np.isinf(numba.njit(error_model="numpy")(divide)(1, 0))
    with pytest.raises(ZeroDivisionError):
        numba.njit(error_model="python")(divide)(1, 0)


def multiply(x: int, y: int) -> Any:
    return x @ y  # type: ignore[operator]


def test_a_way_to_type_that_comes_later_is_found() -> None:
    with pytest.raises(TypingError, match="No implementation of function"):
        numba.njit(multiply)(2, 3)

    @overload(operator.matmul)
    def integers(x, y):  # type: ignore[no-untyped-def]
        return (lambda x, y: 10 * x + y) if isinstance(x, types.Integer) and isinstance(y, types.Integer) else None

    assert numba.njit(lambda x, y: x @ y)(2, 3) == 23


def test_an_overload_of_other_options_is_not_taken() -> None:
    """What `in` of two numbers means is compiled for each set of options, and noted by numba for the last one."""

    @overload(operator.contains)
    def exceeds(a, b):  # type: ignore[no-untyped-def]
        return (lambda a, b: 1.0 / a > b) if isinstance(a, types.Float) and isinstance(b, types.Float) else None

    def compiled(**options: Any) -> Any:
        return numba.njit(**options)(lambda a, b: b in a)

    with pytest.raises(ZeroDivisionError):
        compiled()(0.0, 2.0)
    assert compiled(error_model="numpy")(0.0, 2.0)
    with pytest.raises(ZeroDivisionError):
        compiled()(0.0, 2.0)
