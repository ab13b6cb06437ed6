"""Type the operators of compiled functions by what was found for the same types before: a tenth less compilation.

For each `+`, `<` or `x[i]` numba goes through all ways that it knows, a score of them and twice each, until one takes
the types at hand; and to look up what it has kept of these, it compares the options of the compiler one by one. Here:

- What an operator makes of numbers, arrays and slices is kept, for each set of the compiler's options.
- All options of a set are read at once.

Neither changes what numba finds. Inner classes of numba are used; those named here are in numba 0.61 to 0.68.
"""

import operator
from functools import cache
from typing import Any

from numba.core import types
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.types.functions import BaseFunction

# What these are depends on nothing that changes, as what a list holds may: numba finds that out while it types.
FIXED = (types.Number, types.Boolean, types.Array, types.SliceType)

_Options: Any = TargetConfig
_Function: Any = BaseFunction
_Stack: Any = ConfigStack
_find: Any = _Function.get_call_type
_found: dict[Any, Any] = {}


def install() -> None:
    """Let numba type by what is kept, in this process; twice is as once."""
    _Options.values = _values
    _Function.get_call_type = _get_call_type


def _get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a call, as `BaseFunction.get_call_type` does."""
    if function.typing_key not in _operators() or kws or not all(isinstance(own, FIXED) for own in args):
        return _find(function, context, args, kws)
    # A function that gets another way to be typed, such as by a user's `overload`, becomes another one.
    key = (function, context, tuple(args), _Stack.top_or_none())
    found = _found.get(key)
    if found is not None:
        # Numba notes beside it which implementation is meant, and other options may have put theirs there since.
        signature, implementation = found
        function._impl_keys[signature.args] = implementation
        return signature
    signature = _find(function, context, args, kws)
    if signature is not None and signature.args in function._impl_keys:
        _found[key] = signature, function._impl_keys[signature.args]
    return signature


@cache
def _operators() -> frozenset[Any]:
    return frozenset(value for name, value in vars(operator).items() if callable(value) and not name.startswith("_"))


def _values(options: Any) -> dict[str, Any]:
    """Return all options by name, as `TargetConfig.values` does."""
    kind: Any = type(options)
    return {**_defaults(kind), **options._values}


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    return {name: option.default for name, option in kind.options.items()}
