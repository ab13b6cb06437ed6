"""The contract of a policy that boosts products of a search shop."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.checks import check_array, check_number, check_whole
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.search_config import RewardWeights
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.policies.base import Policy, policy_name


class ProductTable(NamedTuple):
    """What a shop knows of its K products, each `(K,)`: `ids`, `category` by number, `price` and `cm2` in EUR.

    `discount` in [0, 1]; `label` is 1 for a private label; `bestseller` a score of at least 0; `strategic` goods.
    """

    ids: IntArray
    category: IntArray
    price: FloatArray
    cm2: FloatArray
    discount: FloatArray
    label: FloatArray
    bestseller: FloatArray
    strategic: BoolArray


BOX = (1e-9, 1e9)
"""What `a_max` may be."""
ROUNDING = 1e-9
"""Boosts may be outside the box by this share of a_max."""

TASTES = 2
"""Where a shop tells of tastes, it tells of these: for price, and for private label."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BoostSpec(PolicySpec):
    """What a boost policy is told: `user_dim` context features, `product_dim` boosts in [-`a_max`, `a_max`].

    `products` is the shop's own table, in the order of the contexts' `product_ids`; `reward` what a visit's parts
    count; `k` products are shown. The context features begin with `n_segments` and then `n_kinds` one-hot columns, of
    the segment and the query type, and then `n_tastes` tastes, two, for price and for private label;
    0 where the shop does not tell.
    """

    a_max: float
    products: ProductTable
    reward: RewardWeights = field(default_factory=RewardWeights)
    k: int = 20
    n_segments: int = 0
    n_kinds: int = 0
    n_tastes: int = 0

    def __post_init__(self) -> None:
        """Refuse a box without room, and columns that are not there."""
        super().__post_init__()
        check_number("BoostSpec.a_max", self.a_max, *BOX)
        told = self.n_segments + self.n_kinds + self.n_tastes
        if min(self.n_segments, self.n_kinds, self.n_tastes) < 0 or told > self.user_dim:
            raise ConfigError(f"BoostSpec: got {told} columns told of, expected at most user_dim = {self.user_dim}")
        if len(self.products.ids) != self.n_products:
            came = len(self.products.ids)
            raise ConfigError(f"BoostSpec.products: got {came} products, expected n_products = {self.n_products}")
        if self.n_tastes not in (0, TASTES):
            raise ConfigError(f"BoostSpec.n_tastes: got {self.n_tastes}, expected {TASTES} (price, private label) or 0")
        check_whole("BoostSpec.k", self.k, 1, 1_000_000)
        for name, column in self.products._asdict().items():
            numbers = check_array(f"BoostSpec.products.{name}", column, (self.n_products,))
            if name == "category" and (numbers.min() < 0.0 or (numbers != np.floor(numbers)).any()):
                raise ConfigError("BoostSpec.products.category: got a number of no category, expected 0, 1, ...")


class BoostPolicy(Policy):
    """Choose boosts for each visit of a search shop, and learn from what the visit shows.

    A context has `features (user_dim,)`, `product_ids (K,)`, `base_scores (K,)` and `boost_features (K, product_dim)`;
    products are shown by base_scores + boost_features @ action. Boosts lie in [-a_max, a_max].
    """

    chooses = ("boosts",)
    spec: BoostSpec

    @abstractmethod
    def select_action(self, context: Context) -> FloatArray:
        """Return boosts `(product_dim,)` to learn and to earn from."""

    @abstractmethod
    def recommend(self, context: Context) -> FloatArray:
        """Return the boosts `(product_dim,)` that seem best, without exploring; moves no state and no generator."""

    @abstractmethod
    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        """Learn from a visit whose `action` and `reward` have been checked; see `update`."""

    def update(self, context: Context, action: Any, reward: float, feedback: Mapping[str, Any] | None = None) -> None:
        """Learn that boosts earned `reward`; `feedback` is what `info["feedback"]` of the environment holds.

        That is, by position: `shown (k,)` ids, their `products` (a column a property), `boost_features (k, d)`,
        `base_scores (k,)`, `clicks (k,)`, `purchases (k,)`; and `reward_parts`. NaN, infinity and other shapes are
        refused with `DataError` before anything is learned, boosts outside the box with `PolicyError`.
        """
        self.check(context)
        boosts = check_array(f"{policy_name(type(self))}: action", action, (self.spec.product_dim,))
        self._check_box(boosts)
        earned = check_array(f"{policy_name(type(self))}: reward", [reward], (1,))
        self.learn(context, boosts, float(earned[0]), feedback)

    def _check_box(self, boosts: FloatArray) -> None:
        a_max, largest = self.spec.a_max, int(np.abs(boosts).argmax())
        if abs(boosts[largest]) > (1.0 + ROUNDING) * a_max:
            came = f"got {boosts[largest]:g} as boost {largest}"
            raise PolicyError(
                f"{policy_name(type(self))}: action: {came}, expected boosts from {-a_max:g} to {a_max:g}"
            )

    def check(self, context: Context) -> None:
        """Refuse a context that does not fit the spec with `DataError`; to be called before one is read."""
        name, spec = policy_name(type(self)), self.spec
        check_array(f"{name}: features", context.features, (spec.user_dim,))
        check_array(f"{name}: base_scores", context.base_scores, (spec.n_products,))
        check_array(f"{name}: boost_features", context.boost_features, (spec.n_products, spec.product_dim))
        if not np.array_equal(context.product_ids, spec.products.ids):
            raise DataError(f"{name}: product_ids: got others than those of the spec, expected these in their order")

    def propensity(self, context: Context, action: Any) -> float:
        """Return the density of choosing boosts now; refused by policies that have none."""
        name = policy_name(type(self))
        raise PolicyError(
            f"{name}: has no density over boosts; log random-boosts or normal-boosts where propensities are needed"
        )
