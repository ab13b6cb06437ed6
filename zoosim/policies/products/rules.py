"""Rules of click rates, by which shops choose without a model: what is clicked most, and that by kind and visitor."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.parameters import parameter
from zoosim.core.rng import uniform
from zoosim.core.types import BoolArray, Context, Distribution, FloatArray, IntArray, PolicySpec
from zoosim.policies.base import Policy
from zoosim.policies.candidates import lasting
from zoosim.policies.choice import pick
from zoosim.policies.kernel import new_draws
from zoosim.policies.requests import CheckedRequest, checked_action, checked_request, checked_reward, places_among


class Popularity(Policy):
    """Show the product with the highest mean reward, shrunk towards that of all; a share of decisions goes to any.

    What was never shown counts as the mean of all: of products that are no better than that, another is tried.
    """

    name = "popularity"
    explore: float = parameter(0.05, low=0, high=1, help="share of decisions that is spread evenly over all products")
    shrinkage: float = parameter(20.0, low=1e-6, high=1e9, help="visits that the mean of its kind counts for a product")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has seen nothing.

        Args:
            spec: The dimensions of its task.
            rng: The key of its draws is taken from it.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(spec, rng, **params)
        self.draws = new_draws(rng)
        self._counts: dict[int, FloatArray] = {}
        """Visits and rewards of each product that was shown."""
        self._kinds: dict[tuple[int, int], FloatArray] = {}
        """Visits and rewards by segment of visitors and category of products."""
        self._totals = np.zeros(2)
        self._grouped: tuple[Any, Any, dict[int, BoolArray]] = (None, None, {})

    def _segment_of(self, user: FloatArray) -> int:
        """Return the segment of a visitor."""
        return 0

    def _categories_of(self, context: Context) -> IntArray:
        """Return the category of each candidate `(K,)`."""
        return np.zeros(len(context.product_ids), np.int64)

    def select_action(self, context: Context) -> int:
        """Draw a candidate."""
        request = checked_request(context, self.spec)
        draw = uniform(self.draws.key[0], int(self.draws.decisions[0]) + 1, 0)
        self.draws.decisions[0] += 1
        if draw < self.explore:
            return pick(request.available, draw / self.explore)
        return self._best(context, request)

    def propensities(self, context: Context) -> Distribution:
        """Return the probabilities that `select_action` draws from; moves no state."""
        best = self._best(context, checked_request(context, self.spec))
        return Distribution(np.asarray(context.product_ids)[[best]], np.array([1.0 - self.explore]), self.explore)

    def recommend(self, context: Context) -> int:
        """Return the candidate with the highest mean reward."""
        return self._best(context, checked_request(context, self.spec))

    def _best(self, context: Context, request: CheckedRequest) -> int:
        """Return the best candidate of the best category by shrunk mean rewards, the first on ties."""
        segment = self._segment_of(request.user)
        by_category = self._members(context)
        means = [self._mean_of(segment, category) for category in by_category]
        category = list(by_category)[int(np.argmax(means))]
        mean = means[list(by_category).index(category)]
        known = np.array(sorted(self._counts), np.int64)
        where = places_among(np.asarray(context.product_ids), known)
        never_shown = by_category[category].copy()
        is_member = (where >= 0) & never_shown[where]
        never_shown[where[is_member]] = False
        visits, rewards = np.array([self._counts[each] for each in known[is_member].tolist()]).reshape(-1, 2).T
        shrunk = (rewards + self.shrinkage * mean) / (visits + self.shrinkage)
        if len(shrunk) and (shrunk.max() >= mean or not never_shown.any()):
            return int(where[is_member][shrunk.argmax()])
        return int(never_shown.argmax())

    def _members(self, context: Context) -> dict[int, BoolArray]:
        """Return which candidates are of a category and available, by category; kept while arrays stay the same."""
        ids, available, kept = self._grouped
        if ids is context.product_ids and available is context.available:
            return kept
        available = np.asarray(context.available, bool)
        categories = self._categories_of(context)
        kept = {int(category): available & (categories == category) for category in np.unique(categories[available])}
        if lasting(context.product_ids) is not None and lasting(context.available) is not None:
            self._grouped = (context.product_ids, context.available, kept)
        return kept

    def _mean_of(self, segment: int, category: int) -> float:
        """Return the mean reward of a category with a segment, shrunk towards that of all visits."""
        visits, rewards = self._totals
        mean = rewards / visits if visits else 0.0
        visits, rewards = self._kinds.get((segment, category), np.zeros(2))
        return float((rewards + self.shrinkage * mean) / (visits + self.shrinkage))

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Count a reward for its product, and for its category with its visitor's segment."""
        request = checked_request(context, self.spec)
        place = checked_action(action, len(request.available))
        counted = np.array([1.0, checked_reward(reward, -1e9, 1e9)])
        product = int(context.product_ids[place])
        kind = (self._segment_of(request.user), int(self._categories_of(context)[place]))
        self._counts[product] = self._counts.get(product, 0.0) + counted
        self._kinds[kind] = self._kinds.get(kind, 0.0) + counted
        self._totals += counted

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on; what was learned stays."""
        super().reseed(rng)
        self.draws = new_draws(rng)

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted, as arrays by name."""
        products = np.array(sorted(self._counts), np.int64)
        kinds = np.array(sorted(self._kinds), np.int64).reshape(-1, 2)
        return {
            "products": products,
            "counts": np.array([self._counts[int(each)] for each in products]).reshape(-1, 2),
            "kinds": kinds,
            "kind_counts": np.array([self._kinds[int(s), int(c)] for s, c in kinds]).reshape(-1, 2),
            "totals": self._totals.copy(),
            "key": self.draws.key.copy(),
            "decisions": self.draws.decisions.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned.

        Raises:
            ConfigError: something in it does not fit; nothing has changed then.
        """
        try:
            products = np.array(state["products"], np.int64).reshape(-1)
            counts = np.array(state["counts"], np.float64).reshape(len(products), 2)
            kinds = np.array(state["kinds"], np.int64).reshape(-1, 2)
            kind_counts = np.array(state["kind_counts"], np.float64).reshape(len(kinds), 2)
            totals = np.array(state["totals"], np.float64).reshape(2)
            key = np.array(state["key"], np.uint64).reshape(1)
            decisions = np.array(state["decisions"], np.int64).reshape(1)
            if not (np.isfinite(counts).all() and np.isfinite(kind_counts).all() and np.isfinite(totals).all()):
                raise ValueError("a count is no finite number")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{self.name}: the saved state is of another policy, or broken ({error})") from None
        self._counts = dict(zip(products.tolist(), counts, strict=True))
        self._kinds = {(s, c): count for (s, c), count in zip(kinds.tolist(), kind_counts, strict=True)}
        self._totals = totals
        self.draws.key[:] = key
        self.draws.decisions[:] = decisions


class CategoryRule(Popularity):
    """Show the best product of the category with the highest mean reward in the visitor's segment.

    Segments go by which of a visitor's features is largest. Categories are those that requests name (`categories`);
    without, there is one.
    """

    name = "category-rule"

    def _segment_of(self, user: FloatArray) -> int:
        return int(np.argmax(user)) if len(user) else 0

    def _categories_of(self, context: Context) -> IntArray:
        return np.asarray(context["categories"]) if "categories" in context else super()._categories_of(context)
