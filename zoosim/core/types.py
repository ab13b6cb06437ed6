"""The types that packages exchange: contexts, policy specs, logs of the past."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown

FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Array = TypeVar("Array", bound=np.ndarray)
Parts = TypeVar("Parts", bound=tuple[Any, ...])

REWARD = "reward"
"""Name of the one reward of a log that names no other."""

CLICK = "click"
"""Name of rewards of 0 and 1 in the logs of simulated shops."""

Progress = Callable[[str], None]
"""Called by a long-running step with a line about how far it is."""


def frozen(array: Array) -> Array:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


def frozen_view(array: np.ndarray) -> np.ndarray:
    """Return a contiguous, read-only view of an array, or the array itself where it is so already."""
    is_frozen = array.flags.c_contiguous and not array.flags.writeable
    return array if is_frozen else frozen(np.asarray(array, order="C").view())


def frozen_parts(parts: Parts) -> Parts:
    """Return a named tuple with contiguous, read-only views of its arrays, so that one compiled function takes all.

    Code is compiled for each way in which arrays lie in memory, and for those that can be written to once more.

    Args:
        parts: A named tuple of arrays, of other such tuples, and of values that stay as they are.
    """

    def frozen_part(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return frozen_view(part)
        return frozen_parts(part) if hasattr(part, "_fields") else part

    return type(parts)(*map(frozen_part, parts))


def _read(context: dict[str, Any], name: str) -> Any:
    """Return an entry of a context as its attribute."""
    try:
        return context[name]
    except KeyError as error:
        raise AttributeError(*error.args) from None


def _field(name: str) -> Any:
    """Return an attribute of contexts, found in their class: what only `__getattr__` knows takes four times as long."""
    return property(lambda context: _read(context, name))


class Context(dict[str, Any]):
    """The shop's knowledge when it must choose: a frozen record, and at once a value of the environment's `Dict` space.

    Fields, as keys and as attributes: `user_id` (int; `NOBODY` where nobody says who comes), `user (d_u,)`,
    `product_ids (K,)`, `products (K, d_p)`, `available (K,)`, a mask of the products that may be shown. The arrays are
    read-only. An action is an index into `product_ids`.
    """

    user_id: int = _field("user_id")
    user: FloatArray = _field("user")
    product_ids: IntArray = _field("product_ids")
    products: FloatArray = _field("products")
    available: BoolArray = _field("available")

    def __getattr__(self, name: str) -> Any:
        return _read(self, name)

    def __missing__(self, name: str) -> NoReturn:
        raise KeyError(f"a context has no field {name}; it has {', '.join(self)}")

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a context is read-only")

    __setitem__ = __delitem__ = __setattr__ = __delattr__ = _refuse
    update = setdefault = pop = popitem = clear = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        return Context, (dict(self),)


NOBODY = -1
"""The id of a visitor of whom nobody says who it is: one such visitor need not be another."""


class Distribution(NamedTuple):
    """A distribution over candidates, which a policy may answer instead of a number for each.

    Args:
        ids: Ids of candidates, some of the context's `product_ids`, each once `(m,)`.
        probabilities: With which each is chosen, beside its part of `spread` `(m,)`; they add up to 1 - `spread`.
        spread: The probability that is spread evenly over all available candidates, these included.
    """

    ids: IntArray
    probabilities: FloatArray
    spread: float = 0.0


class CandidateSource(NamedTuple):
    """Source of the candidates of a request, where one stands beside the policy: a context's `source`.

    Args:
        name: What the source is called, such as a retrieval, or a pool that is drawn from for exploration.
        version: Which one, of a model or an index.
        propensity: The probability with which this request took these candidates from it, above 0 and at most 1.
        products: How many products could be shown, these candidates included; 0 where it does not say.
    """

    name: str
    version: str
    propensity: float
    products: int = 0


POOL = "all-products"
"""Name of the source whose one candidate is drawn evenly from all products: in its logs each product has a chance."""

REQUEST = "request"
"""Name of the source of candidates that a request brought: nothing else could have been shown."""

CATALOGUE = "catalogue"
"""Name of the source of candidates that are all products which may be shown."""


class Retrieval(NamedTuple):
    """The candidates that a policy finds for a request, and what it makes of them, before anything is drawn.

    Attributes:
        candidates: Ids of the candidates `(c,)`; they follow from the request and what was learned, without chance.
        propensities: With which each of them is chosen, given that they are the candidates `(c,)`.
        name: What the retrieval is called, such as `posterior-mean`.
        version: Names what was searched, and what the policy had learned.
        spread: The share of decisions that is spread evenly over all products instead, from 0 to 1.
    """

    candidates: IntArray
    propensities: FloatArray
    name: str
    version: str
    spread: float


class RetrievedDecision(NamedTuple):
    """A decision of a policy that finds its candidates itself.

    Args:
        product_id: The product that is shown.
        candidates: Ids of the candidates that it was chosen from `(c,)`.
        propensities: With which each of them is chosen, given that they are the candidates `(c,)`.
        source: Where the candidates came from.
        marginal_propensity: The probability of the product, wherever its candidates may have come from.
    """

    product_id: int
    candidates: IntArray
    propensities: FloatArray
    source: CandidateSource
    marginal_propensity: float

    @property
    def propensity(self) -> float:
        """The probability of the product given the candidates."""
        return float(self.propensities[self.candidates == self.product_id][0])


class Later:
    """A value of a `LazyDict` that is made when it is asked for."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


class LazyDict(dict[str, Any]):
    """A dictionary whose values of type `Later` are made when they are first asked for, and then kept."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, Later):
            value = value.make()
            dict.__setitem__(self, key, value)
        return value

    def __iter__(self) -> Iterator[str]:  # of its own, so that `**context` asks for the values, too
        return super().__iter__()

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, `default` where there is none."""
        return self[key] if key in self else default  # noqa: SIM401

    def values(self) -> Any:
        """Return all values, made."""
        return [self[key] for key in self]

    def items(self) -> Any:
        """Return all keys and values, made."""
        return [(key, self[key]) for key in self]

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        return type(self), (dict(self.items()),)


class LazyContext(LazyDict, Context):
    """A context whose large arrays are made when they are first asked for."""


MOST_FEATURES = 1_000_000
"""The most features that a visitor or a product may have."""

MOST_COUNT = 2**53
"""The largest number of visitors or of decisions."""


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """The task of a policy, known when it is made: dimensions and length, never a list of products.

    Args:
        user_dim: Number of features of a visitor, 0 to 1,000,000.
        product_dim: Number of features of a product, 0 to 1,000,000; of boosts, how many there are.
        n_users: Number of known visitors, whose ids are 0 to n_users - 1; 0 when visitors are never recognised.
        steps: Planned number of decisions; 0 when unknown.
        templates: Names of the ranking templates of a search shop, by number, where policies choose among them.

    Raises:
        ConfigError: a number is out of its range, neither visitors nor products have a feature, or `templates` are no
            different names.
    """

    user_dim: int
    product_dim: int
    n_users: int = 0
    steps: int = 0
    templates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbers and names; a task needs at least one feature."""
        for name in ("user_dim", "product_dim", "n_users", "steps"):
            value = getattr(self, name)
            most = MOST_FEATURES if name in ("user_dim", "product_dim") else MOST_COUNT
            is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not is_whole or not 0 <= value <= most:
                expected = f"expected a whole number from 0 to {most:,}"
                raise ConfigError(f"PolicySpec.{name}: got {shown(value)}, {expected}")
        if self.user_dim + self.product_dim < 1:
            raise ConfigError("PolicySpec: got user_dim 0 and product_dim 0, expected at least 1 of one of them")
        names = self.templates
        are_names = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
        if not are_names or len(set(names)) < len(names):
            raise ConfigError(f"PolicySpec.templates: got {shown(names)}, expected different names")
        object.__setattr__(self, "templates", tuple(names))  # a list where it was read from JSON


class PastLog(Protocol):
    """The part of a log that `Policy.fit` reads: n logged choices, each of one of K products.

    `actions (n,)` are indices of the chosen products, `rewards (n,)` what they earned, `propensities (n,)` the
    probabilities with which they were chosen; `features (n, d_u)` of the visitors and `user_ids (n,)`, None where the
    log does not say; `products (K, d_p)` and `product_ids (K,)`. `available` returns what could be shown in rows
    `start` to `stop - 1`, `(stop - start, K)`.
    """

    @property
    def actions(self) -> IntArray: ...
    @property
    def rewards(self) -> FloatArray: ...
    @property
    def propensities(self) -> FloatArray: ...
    @property
    def features(self) -> FloatArray: ...
    @property
    def products(self) -> FloatArray: ...
    @property
    def user_ids(self) -> IntArray | None: ...
    @property
    def product_ids(self) -> IntArray: ...
    def __len__(self) -> int: ...
    def available(self, start: int, stop: int) -> BoolArray: ...
