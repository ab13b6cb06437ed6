"""Limits of the arrays of a state: declared beside each field, and checked before a saved state is taken over.

A state is a named tuple of arrays, or of such tuples. A field declares its limits by its type, as in
`Annotated[IntArray, FLAGS]`; without, whole numbers are counts, and others are no larger than sums of what policies
learn from can become: beyond, products of a few of them would overflow. A limit may also be a function that yields what
is wrong with an array, such as `covariance_flaws`. What its arrays have to do with each other, a tuple tells by a
method `flaws`. Compiled code trusts all of them.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from inspect import get_annotations
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import numpy as np


class Limits(NamedTuple):
    """The least and the largest number that may stand in an array."""

    low: float
    high: float


MOST = 2**53
"""The largest count: up to it, every whole number is a float as well."""

COUNTS = Limits(0, MOST)
FLAGS = Limits(0, 1)
IDS = Limits(-np.inf, np.inf)
NUMBERS = Limits(-1e45, 1e45)
FINITE = Limits(float(np.finfo(np.float64).min), float(np.finfo(np.float64).max))
NOT_NEGATIVE = Limits(0.0, 1e45)
INPUTS = Limits(-1e10, 1e10)
"""Of features and rewards, which are 1e9 at most in size, and of a few of them."""

PRODUCTS = Limits(-1e20, 1e20)
"""Of products of two features."""

CONDITION = 1e7
"""The largest condition number of A = gram + lambda I up to which posteriors are promised to be right to 8 digits."""

SINGLES = Limits(-1e10, 1e10)
"""Of numbers of 32 bits, which overflow at 3e38."""

ANY_SINGLES = Limits(-1e38, 1e38)

INDEFINITE = 1e-6
"""Largest negative eigenvalue of a covariance that rounding may leave, as a share of its largest variance."""


LEAST_RAISED = 1e-9
"""Distance below 0 that is put down to rounding in any case."""

BLOCK = 2**20
"""Numbers of covariances that are looked at together: a check takes some copies of them."""


def first_flaw(name: str, value: Any, *limits: Any) -> str:
    """Return what is wrong with an array, or a named tuple of such; empty where nothing is.

    Args:
        name: What it is called.
        value: The array or the tuple.
        limits: Of an array: what `declared_limits` returns.
    """
    return next(_flaws(name, value, limits), "")


def _flaws(name: str, value: Any, limits: Iterable[Any]) -> Iterator[str]:
    if isinstance(value, np.ndarray):
        bounds = next((limit for limit in limits if isinstance(limit, Limits)), _default_limits(value))
        yield from _beyond(name, value, bounds)
        # Only where all numbers are within their limits does anybody ask for more, so these may rely on them.
        for limit in limits:
            if callable(limit):
                yield from limit(name, value)
    elif isinstance(value, tuple):
        for field, inner in zip(type(value).__annotations__, value, strict=True):
            yield from _flaws(f"{name}.{field}", inner, declared_limits(type(value), field))
        yield from (f"{name}.{flaw}" for flaw in getattr(value, "flaws", tuple)())


@cache
def declared_limits(kind: type, field: str) -> tuple[Any, ...]:
    """Return the limits that the annotation of a field declares, or that of the property of this name.

    Args:
        kind: The named tuple, or the class, that has the field.
        field: Name of the field.
    """
    for owner in kind.__mro__:
        declared = _annotations(owner).get(field)
        attribute = vars(owner).get(field)
        if isinstance(attribute, property):
            declared = attribute.fget.__annotations__.get("return")
        if declared is not None:
            is_annotated = get_origin(declared) is Annotated
            return get_args(declared)[1:] if is_annotated else ()
    return ()


def _annotations(owner: type) -> dict[str, Any]:
    """Return a class's annotations; as they stand where one of them names what is known to type checkers alone."""
    try:
        return get_annotations(owner, eval_str=True)
    except Exception:
        return get_annotations(owner)


def _default_limits(array: np.ndarray) -> Limits:
    if array.dtype.kind == "i":
        return COUNTS
    if array.dtype.kind != "f":
        return IDS
    return SINGLES if array.dtype.itemsize < np.dtype(np.float64).itemsize else NUMBERS


def _beyond(name: str, array: np.ndarray, limits: Limits) -> Iterator[str]:
    """Yield what numbers of an array are outside of limits, NaN among them."""
    if not array.size or limits == IDS or array.dtype.kind not in "biuf":
        return
    least = array.min()
    largest = array.max()
    if not limits.low <= least:  # NaN is the least of all
        yield f"{name} holds {least:g}, expected at least {limits.low:g}"
    if not largest <= limits.high:
        yield f"{name} holds {largest:g}, expected at most {limits.high:g}"


def trained_flaws(name: str, trained: np.ndarray) -> Iterator[str]:
    """Yield what is wrong with weights and their first and second moments `(..., 3, p)`, which Adam moves."""
    weights = trained[..., 0, :]
    second = trained[..., 2, :]
    if weights.size and np.abs(weights).max() > SINGLES.high:
        yield f"{name} holds weights of {np.abs(weights).max():g}, expected at most {SINGLES.high:g}"
    if second.size and second.min() < 0.0:
        yield f"{name} holds a second moment of {second.min():g}, expected at least 0"


def covariance_flaws(name: str, covariances: np.ndarray, largest: float = 0.0) -> Iterator[str]:
    """Yield what is wrong with covariances `(..., d, d)`: none may be negative in any direction, beyond rounding.

    `largest` is the variance that rounding was relative to, where that was more than what is left.
    """
    if not covariances.size:
        return
    d = covariances.shape[-1]
    matrices = covariances.reshape(-1, d, d)
    step = max(1, BLOCK // d**2)
    for start in range(0, len(matrices), step):
        flaw = _covariance_flaw(matrices[start : start + step], largest)
        if flaw:
            yield f"{name} is no covariance, expected one that is {flaw}"
            return


def _covariance_flaw(matrices: np.ndarray, largest: float) -> str:
    """Return what matrices `(n, d, d)` lack to be covariances; empty where they are."""
    if not np.allclose(matrices, np.swapaxes(matrices, 1, 2), rtol=1e-6, atol=1e-6 * (1.0 + largest)):
        return "symmetric"
    most = np.diagonal(matrices, axis1=1, axis2=2).max(axis=1).clip(min=largest)
    # Semidefinite up to rounding is definite once raised, which Cholesky tells sooner than eigenvalues do.
    raise_by = INDEFINITE * most[:, None, None] + LEAST_RAISED
    try:
        np.linalg.cholesky(matrices + raise_by * np.eye(matrices.shape[-1]))
    except np.linalg.LinAlgError:
        return "positive semidefinite"
    return ""
