"""Rules of click rates, by which shops choose without a model: what is clicked most, and that by kind and visitor."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from zoosim.core.limits import IDS, NUMBERS
from zoosim.core.parameters import parameter
from zoosim.core.state import blank, saved_length
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.policies.best_or_any import BestOrAny
from zoosim.policies.candidates import lasting
from zoosim.policies.requests import CheckedRequest, checked_action, checked_request, checked_reward, places_among


class Popularity(BestOrAny):
    """Show the product with the highest mean reward, shrunk towards that of all; a share of decisions goes to any.

    What was never shown counts as the mean of all: of products that are no better than that, another is tried.
    """

    name = "popularity"
    learned: ClassVar[Mapping[str, str]] = {
        "products": "products",
        "counts": "counts",
        "kinds": "kinds",
        "kind_counts": "kind_counts",
        "totals": "totals",
        "key": "draws.key",
        "decisions": "draws.decisions",
    }
    products: Annotated[IntArray, IDS]
    """The products that were shown `(n,)`, and the visits and rewards of each, `counts (n, 2)`."""
    counts: Annotated[FloatArray, NUMBERS]
    kinds: Annotated[IntArray, IDS]
    """Segments of visitors with categories of products `(m, 2)`, and their visits and rewards, `kind_counts (m, 2)`."""
    kind_counts: Annotated[FloatArray, NUMBERS]
    totals: Annotated[FloatArray, NUMBERS]
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
        self.products = np.zeros(0, np.int64)
        self.counts = np.zeros((0, 2))
        self.kinds = np.zeros((0, 2), np.int64)
        self.kind_counts = np.zeros((0, 2))
        self.totals = np.zeros(2)
        self._grouped: tuple[Any, Any, Any, dict[int, BoolArray]] = (None, None, None, {})

    def _segment_of(self, user: FloatArray) -> int:
        """Return the segment of a visitor."""
        return 0

    def _categories_of(self, context: Context) -> IntArray:
        """Return the category of each candidate `(K,)`."""
        return np.zeros(len(context.product_ids), np.int64)

    def _best(self, context: Context, request: CheckedRequest, explores: bool) -> int:
        """Return the best candidate of the best category by shrunk mean rewards, the first on ties."""
        segment = self._segment_of(request.user)
        by_category = self._members(context)
        categories = np.array(list(by_category))
        means = self._means_of(segment, categories)
        category, mean = int(categories[means.argmax()]), means.max()
        where = places_among(np.asarray(context.product_ids), self.products)
        never_shown = by_category[category].copy()
        is_member = (where >= 0) & never_shown[where]
        never_shown[where[is_member]] = False
        visits, rewards = self.counts[is_member].T
        shrunk = (rewards + self.shrinkage * mean) / (visits + self.shrinkage)
        if len(shrunk) and (shrunk.max() >= mean or not never_shown.any()):
            return int(where[is_member][shrunk == shrunk.max()].min())
        return int(never_shown.argmax())

    def _members(self, context: Context) -> dict[int, BoolArray]:
        """Return which candidates are of a category and available, by category; kept while arrays stay the same."""
        arrays = (context.product_ids, context.available, context.get("categories"))
        *seen, kept = self._grouped
        if all(one is other for one, other in zip(seen, arrays, strict=True)):
            return kept
        available = np.asarray(context.available, bool)
        categories = self._categories_of(context)
        kept = {int(category): available & (categories == category) for category in np.unique(categories[available])}
        if all(array is None or lasting(array) is not None for array in arrays):
            self._grouped = (*arrays, kept)
        return kept

    def _means_of(self, segment: int, categories: IntArray) -> FloatArray:
        """Return the mean reward of each category with a segment `(m,)`, shrunk towards that of all visits."""
        visits, rewards = self.totals
        mean = rewards / visits if visits else 0.0
        of_segment = self.kinds[:, 0] == segment
        where = places_among(categories, self.kinds[of_segment, 1])
        counts = np.zeros((len(categories), 2))
        counts[where[where >= 0]] = self.kind_counts[of_segment][where >= 0]
        shrunk: FloatArray = (counts[:, 1] + self.shrinkage * mean) / (counts[:, 0] + self.shrinkage)
        return shrunk

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
        self.products, self.counts = _counted(self.products, self.counts, product, counted)
        self.kinds, self.kind_counts = _counted(self.kinds, self.kind_counts, kind, counted)
        self.totals += counted

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return blanks for as many products and kinds as a state has."""
        products, kinds = (saved_length(saved, name) for name in ("products", "kinds"))
        return {
            "products": blank(np.int64, products),
            "counts": blank(np.float64, products, 2),
            "kinds": blank(np.int64, kinds, 2),
            "kind_counts": blank(np.float64, kinds, 2),
        }

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        counts = np.concatenate([values["counts"], values["kind_counts"], [values["totals"]]])
        if (counts[:, 0] < 0.0).any():
            yield "a number of visits is negative"


def _counted(keys: IntArray, counts: FloatArray, key: Any, counted: FloatArray) -> tuple[IntArray, FloatArray]:
    """Add to the counts `(n, 2)` of a key, one of `keys (n, ...)` or a new one; return keys and counts."""
    rows = np.flatnonzero((keys == key).all(axis=tuple(range(1, keys.ndim))))
    if not len(rows):
        return np.append(keys, [key], axis=0), np.append(counts, [counted], axis=0)
    counts[rows[0]] += counted
    return keys, counts


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
