"""Policies as compiled kernels: the same code decides for one context and for a block of visits.

A kernel is three compiled functions over a state, a named tuple of arrays:
`choose(state, user_id, user, available) -> action`, `learn(state, user_id, user, action, reward)`, and
`probability(state, user_id, user, available, action) -> float`, which moves nothing.
"""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.jit import jit
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.linear.condition import CONDITION, NUMBER
from zoosim.policies.base import Policy, policy_name

LARGEST = 1e9
"""The largest feature or reward, in size, that policies take: larger ones overflow when they are squared and summed."""

DRAWS = 255
"""Posterior draws from which the propensity of a policy that samples is computed; one more is spread evenly."""


@dataclass(frozen=True)
class Kernel:
    """The compiled functions of a policy; `name` tells them apart in the cache."""

    name: str
    choose: Callable[..., int]
    learn: Callable[..., None]
    probability: Callable[..., float]


class KernelPolicy(Policy):
    """A policy whose decisions are made by a `Kernel` over `self.state`.

    A subclass sets `kernel`, `learned` (the fields of the state that hold what was learned) and the range of `rewards`
    that it can learn from, makes `self.state` in its constructor, and says in `_with_products` how the state takes in
    a product matrix.
    """

    kernel: ClassVar[Kernel]
    learned: ClassVar[tuple[str, ...]] = ()
    rewards: ClassVar[tuple[float, float]] = (-LARGEST, LARGEST)
    state: Any

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        super().__init__(spec, rng, **params)
        self._products: FloatArray | None = None
        self._warned = False
        self.state = self._new_state()

    @abstractmethod
    def _new_state(self) -> Any:
        """Make the state of a policy that has seen nothing, not even the products."""

    @abstractmethod
    def _with_products(self, products: FloatArray) -> Any:
        """Return the state with all that derives from `products (K, d_p)` made anew."""

    def attach(self, products: FloatArray) -> None:
        """Take in the candidates' features; free when they are the same read-only array as before."""
        if products is self._products:
            return
        check_shape("products", products, (self.spec.n_products, self.spec.product_dim))
        if not self._knows(products):
            check_finite("products", products)
            self.state = self._with_products(np.ascontiguousarray(products, np.float64))
        self._products = products if not products.flags.writeable else products.copy()

    def _knows(self, products: FloatArray) -> bool:
        return self._products is not None and (products is self._products or np.array_equal(products, self._products))

    def select_action(self, context: Context) -> int:
        """Choose by the kernel."""
        self.attach(context.products)
        return int(self.kernel.choose(self.state, *self._arguments(context)))

    def propensity(self, context: Context, action: int) -> float:
        """Return the probability of `action`, by the kernel."""
        asked = self if self._knows(context.products) else copy.deepcopy(self)
        asked.attach(context.products)
        chosen = checked_action(action, self.spec)
        return float(self.kernel.probability(asked.state, *self._arguments(context), chosen))

    def update(self, context: Context, action: int, reward: float, feedback: Mapping[str, Any] | None = None) -> None:
        """Learn by the kernel; a reward that is not finite is refused before it touches anything."""
        user_id, user, _ = self._arguments(context)
        chosen, earned = checked_action(action, self.spec), checked_reward(reward, *self.rewards)
        self.attach(context.products)
        self.kernel.learn(self.state, user_id, user, chosen, earned)
        self.heed()

    def heed(self) -> None:
        """Warn, once, when the features are so scaled that a linear model's matrix is ill-conditioned."""
        ridge = self._ridge()
        if ridge is not None and ridge.condition[-1, NUMBER] > CONDITION and not self._warned:
            self._warned = True
            size = f"{CONDITION:.0e}".replace("+", "")
            warnings.warn(
                f"{policy_name(type(self))}: the condition number of its features' matrix is above {size}, up to which "
                "estimates are right to 8 digits; scale the features to about 1, or raise the regularization",
                RuntimeWarning,
                stacklevel=3,
            )

    def _ridge(self) -> Any:
        """Return the linear models whose condition is watched, None where there are none."""
        return getattr(self.state, "ridge", None)

    def _arguments(self, context: Context) -> tuple[int, FloatArray, BoolArray]:
        user, available = checked_user(context, self.spec), checked_mask(context, self.spec)
        user.flags.writeable = available.flags.writeable = False
        return int(context.user_id), user, available

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the arrays that were learned, and in `policy` whose they are."""
        return {"policy": self._signed(), **{name: array.copy() for name, array in self._learned_arrays()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over saved arrays; raises `ConfigError`, and then changes nothing, if they are another's or broken."""
        own = {"policy": self._signed(), **dict(self._learned_arrays())}
        names = set(state) if isinstance(state, Mapping) else set()
        fitting = [(name, _as_saved(state[name], array)) for name, array in own.items()] if names == set(own) else []
        saved = {name: array for name, array in fitting if array is not None}
        if len(saved) < len(own) or not self._sound(saved):
            label = f"{type(self).__name__} ({self._signature()})"
            raise ConfigError(f"{label}: the saved state is of another policy, task or parameters, or broken")
        for name, array in own.items():
            np.copyto(array, saved[name])
        if self._products is not None:
            self.state = self._with_products(np.ascontiguousarray(self._products, np.float64))

    def _sound(self, saved: Mapping[str, Any]) -> bool:
        """Tell whether arrays of the right shapes and types can be a state of this policy: compiled code trusts them.

        What segments and categories were found has to fit into the room for them.
        """
        rooms = {name: name.removesuffix("found") + "patterns" for name in saved if name.endswith(".found")}
        fits = all(saved[found][0] <= len(saved[patterns]) for found, patterns in rooms.items())
        return fits and np.array_equal(saved["policy"], self._signed())

    def _signature(self) -> str:
        """Say whose a saved state is: its name, and what else decides how its arrays are to be read."""
        return policy_name(type(self))

    def _signed(self) -> np.ndarray:
        return np.frombuffer(self._signature().encode(), np.uint8).copy()

    def _learned_arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        for name in self.learned:
            yield from _arrays(name, getattr(self.state, name))


def _arrays(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Find the arrays in an array or a named tuple of such, each with its dotted name."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, tuple):
        for field, inner in zip(type(value).__annotations__, value, strict=True):
            yield from _arrays(f"{name}.{field}", inner)


def _as_saved(value: Any, own: np.ndarray) -> np.ndarray | None:
    """Return a saved value as an array that can stand in the place of `own`, or None.

    Whole numbers, which count or number something, are at least 0; others are finite where those of `own` are.
    """
    try:
        saved = np.asarray(value)
    except (TypeError, ValueError):
        return None
    if saved.shape != own.shape or not np.can_cast(saved.dtype, own.dtype, "safe"):
        return None
    numbers = np.isfinite(saved).all() or not np.isfinite(own).all()
    return saved if numbers and (own.dtype.kind != "i" or (saved >= 0).all()) else None


def checked_user(context: Context, spec: PolicySpec) -> FloatArray:
    """Return a view of the visitor's features `(d_u,)`, or raise `PolicyError` for a wrong shape, NaN or infinity."""
    user = np.ascontiguousarray(context.user, np.float64).view()
    check_shape("user", user, (spec.user_dim,))
    check_finite("user", user)
    return user


def check_shape(what: str, array: FloatArray, wanted: tuple[int, ...]) -> None:
    """Raise `PolicyError` unless `array` has the shape that the policy's spec says."""
    if array.shape != wanted:
        raise PolicyError(f"{what}: got shape {array.shape}, expected {wanted} as in the policy's spec")


def check_finite(what: str, array: FloatArray) -> None:
    """Raise `PolicyError` for NaN, infinity, or a number larger than `LARGEST`."""
    if not np.isfinite(array).all():
        raise PolicyError(f"{what}: got NaN or infinity, expected finite features")
    if array.size and np.abs(array).max() > LARGEST:
        raise PolicyError(f"{what}: got a feature of {np.abs(array).max():g}, expected at most {LARGEST:g}; scale it")


def checked_mask(context: Context, spec: PolicySpec) -> BoolArray:
    """Return a view of the mask `(K,)` of what may be shown, or raise `PolicyError` for a wrong shape or nothing."""
    available = np.ascontiguousarray(context.available, np.bool_).view()
    if available.shape != (spec.n_products,):
        raise PolicyError(f"available: got shape {available.shape}, expected {(spec.n_products,)} as in the spec")
    if not available.any():
        raise PolicyError("available: got no product that may be shown, expected at least one")
    return available


def checked_action(action: Any, spec: PolicySpec) -> int:
    """Return an action as an index of a product, or raise `PolicyError`."""
    if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < spec.n_products:
        raise PolicyError(f"action: got {shown(action)}, expected a whole number from 0 to {spec.n_products - 1}")
    return int(action)


def checked_reward(reward: Any, low: float, high: float) -> float:
    """Return a reward from `low` to `high`, or raise `PolicyError`."""
    number = isinstance(reward, int | float | np.integer | np.floating) and bool(low <= reward <= high)
    if not number:
        finite = "finite " if high == LARGEST else ""
        raise PolicyError(f"reward: got {shown(reward)}, expected a {finite}number from {low:g} to {high:g}; scale it")
    return float(reward)


def distinct_rows(products: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct rows `(R, d)` of a matrix and the row `(K,)` that each of its rows is."""
    rows, index = np.unique(products, axis=0, return_inverse=True)
    return np.ascontiguousarray(rows), index.reshape(-1).astype(np.int64)


@jit
def first_of_each(group_of: IntArray, available: BoolArray, groups: int) -> IntArray:
    """Return the first available product of each category `(groups,)`, -1 where there is none."""
    found = np.full(groups, -1)
    for k in range(available.shape[0] - 1, -1, -1):
        if available[k]:
            found[group_of[k]] = k
    return found


@jit
def best_of(scores: FloatArray, row_of: IntArray, available: BoolArray) -> int:
    """Return the available product with the highest score of its row, the lowest index on ties."""
    best, top = -1, -np.inf
    for k in range(row_of.shape[0]):
        if available[k] and (best < 0 or scores[row_of[k]] > top):
            best, top = k, scores[row_of[k]]
    return best


@jit
def pick(available: BoolArray, draw: float) -> int:
    """Pick an available product uniformly by `draw` in [0, 1)."""
    count = 0
    for k in range(available.shape[0]):
        count += available[k]
    left = int(draw * count)
    for k in range(available.shape[0]):
        if available[k]:
            if left == 0:
                return k
            left -= 1
    return -1


@jit
def share(available: BoolArray, action: int) -> float:
    """Return the probability of `action` under a uniform choice of what is available."""
    count = 0
    for k in range(available.shape[0]):
        count += available[k]
    return 1.0 / count if available[action] else 0.0


@jit
def with_one(x: FloatArray) -> FloatArray:
    """Return [1, x] `(d + 1,)`."""
    out = np.empty(x.shape[0] + 1)
    out[0] = 1.0
    out[1:] = x
    return out


@jit
def asked_key(key: np.ndarray, draws: IntArray) -> np.uint64:
    """Return the key of the draws for a propensity, told apart from those of decisions: `key (1,)`, `draws (1,)`."""
    return np.uint64(key[0] ^ np.uint64(draws[0] + 1))
