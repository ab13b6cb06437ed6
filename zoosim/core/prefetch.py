"""Ask a processor for memory before it is needed, from compiled code."""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

SECOND_CACHE = 2
"""LLVM's number for where the memory is kept: not the smallest cache, which the work at hand fills."""

WORD = ir.IntType(32)


def _prefetch(typing_context: Any, array: Any) -> Any:
    """Ask for the memory at the beginning of a contiguous `array`, one cache line, without waiting for it.

    Where a loop knows what it will read next, at places that are not in a row, the processor does not.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(data, ir.IntType(8).as_pointer())
        kinds = ir.FunctionType(ir.VoidType(), [pointer.type, WORD, WORD, WORD])
        function = builder.module.declare_intrinsic("llvm.prefetch", (pointer.type,), kinds)
        # To be read, not written; and it is data, not code.
        builder.call(function, [pointer, WORD(0), WORD(SECOND_CACHE), WORD(1)])
        return context.get_dummy_value()

    return types.void(array), generate


prefetch: Any = intrinsic(_prefetch)  # it has no types
