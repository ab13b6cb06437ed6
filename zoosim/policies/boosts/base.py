"""The contract of a policy that boosts products of a search shop."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from zoosim.core.checks import check_array, check_number, check_whole
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.parameters import shown
from zoosim.core.search_config import RewardWeights
from zoosim.core.types import Context, FloatArray, IntArray, PolicySpec, Progress
from zoosim.policies.base import Policy, policy_name
from zoosim.ranking.product_table import ProductTable

BOX = (1e-9, 1e9)
"""Range of `a_max`."""
ROUNDING = 1e-9
"""Boosts may be outside the box by this share of a_max."""

TASTES = 2
"""Tastes among the context features, where there are any: for price, and for private label."""

MOST_CATEGORIES = 10_000
REPORTED = 500
"""Visits of a log that are learned from between two lines about progress."""


@dataclass(frozen=True, kw_only=True)
class BoostSpec(PolicySpec):
    """The task of a boost policy: `user_dim` features, `product_dim` boosts in [-`a_max`, `a_max`].

    `reward` is what a visit's parts count; `k` products are shown, fewer where a request has fewer; products are of
    `n_categories`, by number from 0. The context features begin with `n_segments` and then `n_kinds` one-hot columns,
    of the segment and the query type, and then `n_tastes` tastes, two, for price and for private label; 0 where the
    shop does not tell. What the shop knows of its products comes with each request: `context.product_table`.
    """

    a_max: float
    reward: RewardWeights = field(default_factory=RewardWeights)
    k: int = 20
    n_categories: int = 1
    n_segments: int = 0
    n_kinds: int = 0
    n_tastes: int = 0

    def __post_init__(self) -> None:
        """Refuse a box without room, and columns that are not there."""
        super().__post_init__()
        check_number("BoostSpec.a_max", self.a_max, *BOX)
        for name in ("n_segments", "n_kinds", "n_tastes"):
            check_whole(f"BoostSpec.{name}", getattr(self, name), 0, MOST_CATEGORIES)
        n_columns = self.n_segments + self.n_kinds + self.n_tastes
        if n_columns > self.user_dim:
            raise ConfigError(f"BoostSpec: got {n_columns} named columns, expected at most user_dim = {self.user_dim}")
        if self.n_tastes not in (0, TASTES):
            raise ConfigError(f"BoostSpec.n_tastes: got {self.n_tastes}, expected {TASTES} (price, private label) or 0")
        check_whole("BoostSpec.k", self.k, 1, 1_000_000)
        check_whole("BoostSpec.n_categories", self.n_categories, 1, MOST_CATEGORIES)


class BoostPolicy(Policy):
    """Choose boosts for each visit of a search shop, and learn from what the visit shows.

    A context has `features (user_dim,)`, and of the K products of this request `product_ids (K,)`, `base_scores (K,)`,
    `boost_features (K, product_dim)` and `product_table`, a `ProductTable`; products are shown by
    base_scores + boost_features @ action. Boosts lie in [-a_max, a_max].
    """

    chooses: ClassVar[tuple[str, ...]] = ("boosts",)
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

    def update(
        self,
        context: Context,
        action: Any,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn that boosts earned `reward`; called in any order, and any time after the decision.

        Args:
            context: The request as it was when the boosts were chosen.
            action: The boosts that were taken, by this policy or another.
            reward: What the visit earned.
            feedback: What `info["feedback"]` of the environment holds; by position `shown (k,)` ids, their `products`
                (one column per property), `boost_features (k, d)`, `base_scores (k,)`, `clicks (k,)`,
                `purchases (k,)`; and `reward_parts`.
            next_context: The visitor's next request, where visitors come back, None for one who has gone; a search
                shop's do not come back.

        Raises:
            DataError: a number is NaN or infinite, or a shape is wrong; nothing was learned.
            PolicyError: boosts lie outside the box.
        """
        self.check(context)
        boosts = check_array(f"{policy_name(type(self))}: action", action, (self.spec.product_dim,))
        self._check_box(boosts)
        earned = check_array(f"{policy_name(type(self))}: reward", [reward], (1,))
        if next_context is not None:
            self.check(next_context)
        self.follow(context, boosts, float(earned[0]), feedback, next_context)

    def follow(
        self,
        context: Context,
        action: FloatArray,
        reward: float,
        feedback: Mapping[str, Any] | None,
        next_context: Context | None,
    ) -> None:
        """Learn from a visit and from what followed it, all checked; by default from the visit alone."""
        self.learn(context, action, reward, feedback)

    def _check_box(self, boosts: FloatArray) -> None:
        a_max = self.spec.a_max
        largest = int(np.abs(boosts).argmax())
        if abs(boosts[largest]) > (1.0 + ROUNDING) * a_max:
            came = f"got {boosts[largest]:g} as boost {largest}"
            raise PolicyError(
                f"{policy_name(type(self))}: action: {came}, expected boosts from {-a_max:g} to {a_max:g}"
            )

    def check(self, context: Context) -> None:
        """Refuse a context that does not fit the spec with `DataError`; to be called before one is read."""
        name = policy_name(type(self))
        spec = self.spec
        check_array(f"{name}: features", context.features, (spec.user_dim,))
        base_scores = check_array(f"{name}: base_scores", context.base_scores, (None,))
        count = len(base_scores)
        check_array(f"{name}: boost_features", context.boost_features, (count, spec.product_dim))
        ids = np.asarray(context.product_ids)
        if ids.shape != (count,) or ids.dtype.kind not in "iu":
            raise DataError(f"{name}: product_ids: got {shown(context.product_ids)}, expected {count} whole numbers")

    def propensities(self, context: Context) -> FloatArray:
        """Refuse: boosts are continuous and have a `density`."""
        raise PolicyError(f"{policy_name(type(self))}: chooses boosts, which have a density and no propensities")

    def fit(self, log: Any, progress: Progress = lambda line: None) -> dict[str, float]:
        """Learn from a log of searches, visit by visit in order of time, as if it had been asked at each.

        Args:
            log: A `Log` whose `searches` say what was shown.
            progress: Called with a line now and then.

        Returns:
            `visits`, how many there were.

        Raises:
            PolicyError: the policy learns nothing, or the log does not say what was shown.
        """
        name = policy_name(type(self))
        if not self.learns:
            raise PolicyError(f"{name}: learns nothing, so there is nothing to train")
        searches = getattr(log, "searches", None)
        if searches is None:
            raise PolicyError(
                f"{name}: learns from what visitors were shown, which the log does not say; q-offline needs no more"
            )
        for row, reward in enumerate(log.visit_rewards.tolist()):
            if row % REPORTED == 0:
                progress(f"learned from {row:,} of {len(log):,} searches")
            visit = searches.visit(row)
            self.update(visit.context, log.actions[row], reward, visit.feedback)
        return {"visits": float(len(log))}


def checked_table(name: str, spec: BoostSpec, context: Context) -> ProductTable:
    """Return the products of a request as numbers.

    Args:
        name: Name of the policy, for messages.
        spec: Its task.
        context: A request of K products; each column of its table is `(K,)`.

    Raises:
        DataError: a column is missing, of another shape or not finite, or a category is unknown.
    """
    count = len(context.product_ids)
    columns: dict[str, Any] = {
        column: check_array(f"{name}: product_table {column}", getattr(context.product_table, column, None), (count,))
        for column in ProductTable._fields
    }
    category = checked_categories(f"{name}: product_table category", columns["category"], spec)
    strategic = columns["strategic"] > 0.0
    return ProductTable(**{**columns, "category": category, "strategic": strategic})


def checked_categories(label: str, numbers: FloatArray, spec: BoostSpec) -> IntArray:
    """Return numbers of categories as whole numbers.

    Args:
        label: Name of what is checked, for messages.
        numbers: Numbers of categories, `(n,)`.
        spec: The task, which says how many categories there are.

    Raises:
        DataError: one is no whole number from 0 to `spec.n_categories - 1`.
    """
    highest = spec.n_categories - 1
    wrong = (numbers < 0.0) | (numbers > highest) | (numbers != np.floor(numbers))
    if wrong.any():
        position = int(np.argmax(wrong))
        raise DataError(
            f"{label}: got {numbers[position]:g} at position {position}, expected whole numbers, 0 to {highest}"
        )
    return numbers.astype(np.int64)


def is_same_table(one: ProductTable, other: Any) -> bool:
    """Return whether two tables are the same arrays, none of which can change.

    Args:
        one: The table that was read.
        other: What may be that table, of any type.
    """
    if not isinstance(other, ProductTable):
        return False
    columns = zip(one, other, strict=True)
    return all(a is b and isinstance(b, np.ndarray) and not b.flags.writeable for a, b in columns)
