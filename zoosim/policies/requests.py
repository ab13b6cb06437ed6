"""Checks of what comes in with a request or a reward, before compiled code reads it; each refusal is one line."""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.arrays import as_floats, places_in
from zoosim.core.blocks import RowArray, row_blocks
from zoosim.core.errors import PolicyError
from zoosim.core.jit import jit
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray, Context, Distribution, FloatArray, IntArray, PastLog, PolicySpec, frozen_view

LARGEST = 1e9
"""The largest feature or reward, in size, that policies take: larger ones overflow when they are squared and summed."""

FEW = 4_096
"""The most values of which numpy adds up the squares in one thread, without waking others."""

SUM_TOLERANCE = 1e-6
"""By how much probabilities may miss the sum of 1."""


class CheckedRequest(NamedTuple):
    """A checked request without its candidates: `user_id`, `user (d_u,)`, `available (K,)`."""

    user_id: int
    user: FloatArray
    available: BoolArray


def checked_request(context: Context, spec: PolicySpec) -> CheckedRequest:
    """Return read-only views of a request.

    Args:
        context: The request.
        spec: The task, which says how long `user` is.

    Raises:
        PolicyError: a shape is wrong, a feature is NaN, infinite or too large, or no product is available.
    """
    user = _numbers("user", context["user"])
    check_shape("user", user, (spec.user_dim,))
    check_finite("user", user)
    available = np.asarray(context["available"])
    if available.dtype.kind not in "biu":
        raise PolicyError(f"available: got {shown(available)}, expected a mask (K,) of True and False")
    available = np.ascontiguousarray(available, np.bool_)
    check_shape("available", available, (len(context["product_ids"]),))
    if not np.count_nonzero(available):
        raise PolicyError("available: got no product that may be shown, expected at least one")
    user_id = int(context["user_id"])
    if not -(2**63) <= user_id < 2**63:
        raise PolicyError(f"user_id: got {shown(user_id)}, expected a whole number of 64 bits")
    return CheckedRequest(user_id, frozen_view(user), frozen_view(available))


def checked_candidates(context: Context, spec: PolicySpec) -> tuple[IntArray, FloatArray]:
    """Return the ids `(K,)` and features `(K, d_p)` of a request's candidates.

    Args:
        context: The request.
        spec: The task, which says how many features products have.

    Raises:
        PolicyError: a shape is wrong, an id is no whole number, or a feature is NaN, infinite or too large.
    """
    ids = np.asarray(context.product_ids)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise PolicyError(f"product_ids: got {shown(context.product_ids)}, expected whole numbers (K,)")
    products = _numbers("products", context.products)
    check_shape("products", products, (len(ids), spec.product_dim))
    check_finite("products", products)
    return np.ascontiguousarray(ids, np.int64), products


def checked_past_features(log: PastLog, spec: PolicySpec) -> FloatArray:
    """Return the features `(n, d_u)` of a log's visitors; those of its products are checked as well.

    Where rows are read in blocks, those that are returned are, too.

    Args:
        log: The log.
        spec: The task, which says how many features there are.

    Raises:
        PolicyError: a shape is wrong, or a feature is NaN, infinite or too large.
    """
    is_streamed = isinstance(log.features, RowArray)
    users: Any = log.features if is_streamed else _numbers("features", log.features)
    check_shape("features", users, (len(log), spec.user_dim))
    for rows in row_blocks(len(log)):
        check_finite("features", np.ascontiguousarray(users[rows]))
    products = _numbers("products", log.products)
    check_shape("products", products, (len(log.product_ids), spec.product_dim))
    check_finite("products", products)
    return users  # type: ignore[no-any-return]


def _numbers(what: str, value: Any) -> FloatArray:
    """Return a value as an array of numbers, itself where it is one already, or raise `PolicyError`."""
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.c_contiguous:
        return value
    try:
        return np.ascontiguousarray(as_floats(value))
    except (TypeError, ValueError):
        raise PolicyError(f"{what}: got {shown(value)}, expected an array of numbers") from None


def check_shape(what: str, array: np.ndarray, wanted: tuple[int, ...]) -> None:
    """Refuse an array of another shape.

    Args:
        what: Name of the array, for the message.
        array: The array.
        wanted: The shape that the policy's spec, or the number of candidates, says.

    Raises:
        PolicyError: the shape is another one.
    """
    if array.shape != wanted:
        raise PolicyError(f"{what}: got shape {array.shape}, expected {wanted} by the policy's spec and product_ids")


def check_finite(what: str, array: FloatArray) -> None:
    """Refuse features that are not finite, or too large.

    Args:
        what: Name of the array, for the message.
        array: The features, contiguous.

    Raises:
        PolicyError: one is NaN, infinite, or larger than `LARGEST` in size.
    """
    values = array.reshape(-1)
    # Where squares add up to a small sum, no value is large, and one call says so for the few values of a request: of
    # `vdot`, as `dot` would warn where squares overflow.
    if len(values) <= FEW and np.vdot(values, values) <= LARGEST**2:
        return
    largest = _largest(values)
    if not largest < np.inf:
        raise PolicyError(f"{what}: got NaN or infinity, expected finite features")
    if largest > LARGEST:
        raise PolicyError(f"{what}: got a feature of {largest:g}, expected at most {LARGEST:g}; scale it")


@jit
def _largest(values: FloatArray) -> float:
    """Return the largest of |values|, infinity where one is not finite, in one pass."""
    largest = 0.0
    for i in range(values.shape[0]):
        size = abs(values[i])
        if not size <= largest:  # true for NaN, too
            if not size < np.inf:
                return np.inf
            largest = size
    return largest


def dense_propensities(policy: Any, context: Context) -> FloatArray:
    """Return a policy's propensities `(K,)`, unchecked, or those of a `Distribution`, with what it spreads.

    Args:
        policy: The policy.
        context: The request of K candidates.

    Raises:
        PolicyError: the answer names what is no candidate, or one twice.
    """
    answer = policy.propensities(context)
    if not isinstance(answer, Distribution):
        return answer  # type: ignore[no-any-return]
    places, probabilities = checked_distribution(answer, context.product_ids)
    dense = np.zeros(len(context.product_ids))
    if answer.spread:
        dense[context.available] = answer.spread / np.count_nonzero(context.available)
    dense[places] += probabilities
    return dense


def checked_distribution(answer: Distribution, product_ids: IntArray) -> tuple[IntArray, FloatArray]:
    """Return where a distribution's products stand among candidates `(m,)`, and their probabilities, unchecked `(m,)`.

    Args:
        answer: The distribution.
        product_ids: Ids of the candidates `(K,)`.

    Raises:
        PolicyError: it names what is no candidate, or one twice.
    """
    ids = np.asarray(answer.ids)
    probabilities = as_floats(answer.probabilities)
    if ids.ndim != 1 or ids.shape != probabilities.shape:
        shapes = f"{ids.shape} ids and {probabilities.shape} probabilities"
        raise PolicyError(f"propensities: got a distribution of {shapes}, expected as many of each")
    places = places_among(product_ids, ids)
    if (places < 0).any():
        raise PolicyError(f"propensities: got product {ids[places.argmin()]}, which is not among the candidates")
    if len(np.unique(places)) < len(places):
        raise PolicyError("propensities: got a product twice in a distribution, expected each once")
    return places, probabilities


def places_among(product_ids: IntArray, wanted: IntArray) -> IntArray:
    """Return where products stand among candidates, -1 for those that are none: `(K,)`, `(m,)` -> `(m,)`."""
    # Candidates in order of their ids, as large catalogues come, need not be sorted, nor copied.
    if _is_ascending(product_ids):
        return places_in(product_ids, wanted)
    order = np.argsort(product_ids, kind="stable")
    places = places_in(product_ids[order], wanted)
    return np.where(places < 0, -1, order[places])


@jit
def _is_ascending(values: IntArray) -> bool:
    i = 1
    while i < values.shape[0] and values[i - 1] < values[i]:
        i += 1
    return bool(i >= values.shape[0])


def checked_action(action: Any, candidates: int) -> int:
    """Return an action as an index of one of the candidates.

    Args:
        action: A whole number.
        candidates: Number of candidates.

    Raises:
        PolicyError: it is none from 0 to `candidates - 1`.
    """
    if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < candidates:
        raise PolicyError(f"action: got {shown(action)}, expected a whole number from 0 to {candidates - 1}")
    return int(action)


def checked_reward(reward: Any, low: float, high: float) -> float:
    """Return a reward as a float.

    Args:
        reward: A number.
        low, high: Its range, both ends included.

    Raises:
        PolicyError: it is none, or out of range.
    """
    number = isinstance(reward, int | float | np.integer | np.floating) and bool(low <= reward <= high)
    if not number:
        finite = "finite " if high == LARGEST else ""
        raise PolicyError(f"reward: got {shown(reward)}, expected a {finite}number from {low:g} to {high:g}; scale it")
    return float(reward)
