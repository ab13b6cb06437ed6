"""Checks of the contexts of each action space."""

from typing import Any

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.core.types import Context, PolicySpec


def context_fault(context: Any, action_space: str, spec: PolicySpec) -> str:
    """Return what is wrong with the context of a visit; empty for one that keeps the contract.

    Args:
        context: What the world returned.
        action_space: Name of the action space, which says which fields there are.
        spec: The world's task, which says how many features there are.
    """
    if not isinstance(context, Context):
        return f"context returned {type(context).__name__}, expected zoosim.Context"
    fields = find_action_space(action_space).context_fields
    missing = [name for name in fields if name not in context]
    if missing:
        return f"the context lacks {', '.join(missing)}"
    count = len(np.atleast_1d(context.product_ids))
    shapes = {
        "product_ids": (count,),
        "user": (spec.user_dim,),
        "products": (count, spec.product_dim),
        "available": (count,),
        "features": (spec.user_dim,),
        "base_scores": (count,),
        "boost_features": (count, spec.product_dim),
    }
    for name in fields:
        fault = _array_fault(name, context[name], shapes[name]) if name in shapes else ""
        if fault:
            return fault
    if len(np.unique(context.product_ids)) < count:
        return "a product is a candidate twice"
    if "available" in fields:
        if context.available.dtype != np.bool_:
            return f"available holds {context.available.dtype}, expected bool"
        if not context.available.any():
            return "no candidate is available"
    return ""


def _array_fault(name: str, array: Any, shape: tuple[int, ...]) -> str:
    """Say what is wrong with an array of a context."""
    if not isinstance(array, np.ndarray):
        return f"{name} is a {type(array).__name__}, expected an array"
    if array.dtype.kind not in "biuf":
        return f"{name} holds {array.dtype}, expected numbers"
    if array.shape != shape:
        return f"{name} has the shape {array.shape}, expected {shape}"
    if array.flags.writeable:
        return f"{name} can be written to; use array.setflags(write=False)"
    if not np.isfinite(array).all():
        return f"{name} holds NaN or infinity"
    return ""
