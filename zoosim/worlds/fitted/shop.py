"""A shop as estimated from a log: its visits, its products, and draws of what visitors respond to.

The logit of a response of visit i to product k is x_i' b_k, of the visit's features and the product's coefficients, and
the effects of the visitor, of the visitor's taste for the product's category, of hour and day, and of changes. What a
response is worth, where it is not 1, follows from coefficients of its own and a residual of the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy import special

from zoosim.core.arrays import evenly_spread, with_ones
from zoosim.core.rng import stream
from zoosim.core.tables import Table, table_of_rows
from zoosim.core.tabular import TabularResult
from zoosim.core.types import FloatArray, IntArray
from zoosim.schema.schema import FittedSchema

MOST_NAMES = 5
"""Products that are named where a world is shown."""

PRIOR_SPREAD = 0.1
"""Mean of the exponential prior of visitors' effects' variances: few effects are larger than a third or two."""


class VisitorEffects(NamedTuple):
    """The posterior of some visitors' effects, by `keys (G,)`, which number visitors, or visitors x categories, sorted.

    The data tell of each effect `information (G,)`, a precision, and `target (G,)`, that times the effect; of the
    variance of all effects an `estimate`, which may be below 0, with its standard `error`. The responses' model took it
    to be `spread`.
    """

    keys: IntArray
    information: FloatArray
    target: FloatArray
    spread: float
    estimate: float
    error: float

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Draw the effects of keys 0 to `count - 1`, their variance being uncertain, too; others may be known."""
        # Both are drawn in any case, so that an effect left out moves no later draw.
        spread = self._draw_spread(float(rng.random()))
        noise = rng.normal(size=count)
        if spread <= 0.0:
            return np.zeros(count)
        drawn = np.sqrt(spread) * noise
        mean, variance = self._posterior(spread)
        is_drawn = self.keys < count
        keys = self.keys[is_drawn]
        drawn[keys] = mean[is_drawn] + np.sqrt(variance[is_drawn]) * noise[keys]
        # Rows that vary more would respond more often, so that their level is lowered to what the model found.
        return np.asarray(drawn - (self._level(spread) - self._level(self.spread)))

    def _posterior(self, spread: float) -> tuple[FloatArray, FloatArray]:
        variance = 1.0 / (1.0 / spread + self.information)
        return variance * self.target, variance

    def _level(self, spread: float) -> float:
        """Return by how much rows' expected responses grow through effects of some variance, as a logarithm."""
        total = float(self.information.sum())
        if spread <= 0.0 or total <= 0.0:
            return 0.0
        mean, variance = self._posterior(spread)
        # Of an effect from N(mean, variance), log E exp(effect) is mean + variance / 2.
        return float(self.information @ (mean + variance / 2.0)) / total

    def _draw_spread(self, share: float) -> float:
        """Return a quantile of the effects' variance: a normal estimate of it, and `PRIOR_SPREAD` a priori."""
        if self.error <= 0.0:
            return max(self.estimate, 0.0)
        centre = self.estimate - self.error**2 / PRIOR_SPREAD  # normal times exponential
        below = special.log_ndtr(centre / self.error)
        # log(1 - share) + log P(above 0) is the logarithm of the upper tail.
        drawn = centre - self.error * float(special.ndtri_exp(np.log1p(-share) + below))
        return max(drawn, 0.0)

    def kept(self, users: IntArray, n_parts: int) -> "VisitorEffects":
        """Return the effects of some `users`, sorted, who are numbered anew; a user's effects are `n_parts`."""
        user, part = np.divmod(self.keys, n_parts)
        place = np.searchsorted(users, user)
        is_kept = users[place.clip(max=len(users) - 1)] == user
        keys = place[is_kept] * n_parts + part[is_kept]
        return self._replace(keys=keys, information=self.information[is_kept], target=self.target[is_kept])


class ResponseChange(NamedTuple):
    """A change of responses from row `row` on: what is added to logits, `(segments, categories)`."""

    row: int
    effects: FloatArray


class ResponseWorth(NamedTuple):
    """The worth of responses: draws of coefficients `(D, K, q)` and residuals `(m,)`, of logarithms or of amounts."""

    coefficients: FloatArray
    residuals: FloatArray
    are_logs: bool


class ShopDraw(NamedTuple):
    """One shop that the log allows: coefficients `(K, q)`, and visitors' effects by category `(U, C)`.

    `sizes (K, q)` are the coefficients of what responses are worth; None where a response is worth 1.
    """

    coefficients: FloatArray
    tastes: FloatArray
    sizes: FloatArray | None


@dataclass(frozen=True, eq=False, repr=False)
class FittedShop(TabularResult):
    """A shop as a log tells of it.

    Args:
        features: What was known of each visit `(R, d)`, in order of time.
        users: Who came `(R,)`, numbered from 0.
        levels: What hour and day add to each visit's logits `(R,)`.
        segments: The segment of each visit `(R,)`.
        centre: What to take from features `(d,)`, before `mixing (d, q - 1)` makes the model's features of them.
        coefficients: Draws of the products' coefficients `(D, K, q)`.
        visitors: The visitors' effects; `tastes`, those of each visitor for each category.
        sizes: What responses are worth; None where all are worth 1.
        changes: Changes of responses, in order of time.
        products: The products' features `(K, p)`, their `names`, ids and categories, `categories (K,)` being indices.
        fitted: How features were made of the shop's tables.
        facts: What the world rests on, as plain values.
    """

    features: FloatArray
    users: IntArray
    levels: FloatArray
    segments: IntArray
    centre: FloatArray
    mixing: FloatArray
    coefficients: FloatArray
    visitors: VisitorEffects
    tastes: VisitorEffects
    sizes: ResponseWorth | None
    changes: tuple[ResponseChange, ...]
    products: FloatArray
    product_ids: IntArray
    categories: IntArray
    category_names: tuple[str, ...]
    names: tuple[str, ...]
    fitted: FittedSchema | None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_polars(self) -> pl.DataFrame:
        """Return one row of what the world holds: `reward`, its mean per visit, and how many there are of the rest."""
        facts = self.facts
        counted = {name: [int(facts[name])] for name in ("rows", "visitors", "responses")}
        holds = {"products": self.n_products, "categories": len(self.category_names), "draws": self.n_draws}
        holds |= {"segments": len(facts["segments"]), "changes": len(self.changes)}
        means = {"reward": [str(facts["reward"])], "mean_reward": [float(facts["mean_reward"])]}
        return pl.DataFrame(means | counted | {name: [number] for name, number in holds.items()})

    def _headline(self) -> str:
        return f"World fitted to {self.facts['rows']:,} rows of {self.facts['log']}"

    def _tables(self) -> list[Table]:
        facts = self.facts
        names = ", ".join(self.names[:MOST_NAMES])
        rows = [
            ("reward", str(facts["reward"])),
            ("responses", f"{facts['responses']:,} at {facts['rows']:,} visits, each worth {self._worth()}"),
            ("visitors", f"{facts['visitors']:,}"),
            ("products", f"{self.n_products:,}{': ' * bool(names)}{names}{', ...' * (len(self.names) > MOST_NAMES)}"),
            ("categories", f"{len(self.category_names):,}"),
            ("segments", f"{facts['segments_how']}: {', '.join(map(str, facts['segments']))}"),
            ("changes over time", f"{len(self.changes):,}"),
            ("draws", f"{self.n_draws:,} shops that the log allows, one per seed"),
        ]
        return [table_of_rows("", ("", "what it holds"), rows, n_text=2)]

    def _worth(self) -> str:
        return "1" if self.sizes is None else "an amount"

    @property
    def n_rows(self) -> int:
        """Count the visits."""
        return len(self.features)

    @property
    def n_products(self) -> int:
        """Count the products."""
        return len(self.products)

    @property
    def n_draws(self) -> int:
        """Count the draws of the products' coefficients."""
        return len(self.coefficients)

    @cached_property
    def n_users(self) -> int:
        """Count the visitors."""
        return int(self.users.max()) + 1

    def represent(self, rows: IntArray) -> FloatArray:
        """Return the model's features of visits `(n, q)`."""
        return with_ones((self.features[rows] - self.centre) @ self.mixing)

    def draw(self, number: int) -> ShopDraw:
        """Return draw `number`, 0 or more; beyond `n_draws` coefficients come again, with other visitors' effects."""
        rng = stream(number, "visitors of a fitted world")
        n_categories = len(self.category_names)
        of_visitors = self.visitors.draw(self.n_users, rng)
        of_categories = self.tastes.draw(self.n_users * n_categories, rng).reshape(self.n_users, n_categories)
        place = number % self.n_draws
        sizes = None if self.sizes is None else self.sizes.coefficients[place].astype(float)
        return ShopDraw(self.coefficients[place].astype(float), of_visitors[:, None] + of_categories, sizes)

    def chances(self, draw: ShopDraw, rows: IntArray) -> FloatArray:
        """Return the probability of a response of visits to each product `(n, K)`."""
        logits = self.represent(rows) @ draw.coefficients.T
        logits += self._by_category(draw, rows)[:, self.categories]
        return np.asarray(special.expit(logits))

    def _by_category(self, draw: ShopDraw, rows: IntArray) -> FloatArray:
        """Return what visitors, hours, days and changes add to the logits of each category at visits `(n, C)`."""
        by_category = self.levels[rows][:, None] + draw.tastes[self.users[rows]]
        for change in self.changes:
            is_later = rows >= change.row
            by_category[is_later] += change.effects[self.segments[rows[is_later]]]
        return np.asarray(by_category)

    def chances_of(self, draw: ShopDraw, rows: IntArray, actions: IntArray) -> FloatArray:
        """Return the probability of a response of each visit to a product of its own `(n,)`."""
        # Row by row: a table of all products would be K times as large, and one entry per row is asked for.
        logits = (self.represent(rows) * draw.coefficients[actions]).sum(axis=1)
        logits += self._by_category(draw, rows)[np.arange(len(rows)), self.categories[actions]]
        return np.asarray(special.expit(logits))

    def expected_rewards_of(self, draw: ShopDraw, rows: IntArray, actions: IntArray) -> FloatArray:
        """Return what a product of each visit's own is expected to earn there `(n,)`."""
        chances = self.chances_of(draw, rows, actions)
        if draw.sizes is None:
            return chances
        return chances * self._mean_size((self.represent(rows) * draw.sizes[actions]).sum(axis=1))

    def _mean_size(self, typical: FloatArray) -> FloatArray:
        """Return what responses are worth on average, residuals included."""
        assert self.sizes is not None
        if self.sizes.are_logs:
            # The smearing estimate (Duan 1983): the residuals' own mean of exp, without a normal law for them.
            return np.asarray(np.exp(typical) * np.exp(self.sizes.residuals).mean())
        return np.asarray(typical + self.sizes.residuals.mean())

    def typical_sizes(self, draw: ShopDraw, rows: IntArray) -> FloatArray:
        """Return what a response of visits to each product is worth but for residuals: amounts or logarithms."""
        assert draw.sizes is not None
        return np.asarray(self.represent(rows) @ draw.sizes.T)

    def expected_sizes(self, draw: ShopDraw, rows: IntArray) -> FloatArray | None:
        """Return what a response of visits to each product is worth on average `(n, K)`; None where that is 1."""
        if self.sizes is None:
            return None
        return self._mean_size(self.typical_sizes(draw, rows))

    def expected_rewards(self, draw: ShopDraw, rows: IntArray) -> FloatArray:
        """Return what each product is expected to earn at visits `(n, K)`."""
        chances = self.chances(draw, rows)
        sizes = self.expected_sizes(draw, rows)
        return chances if sizes is None else chances * sizes

    def thinned(self, most: int) -> "FittedShop":
        """Return the shop with `most` of its visits, evenly over time, and their visitors alone."""
        if self.n_rows <= most:
            return self
        kept = evenly_spread(self.n_rows, most)
        users, numbers = np.unique(self.users[kept], return_inverse=True)
        of_rows = {name: getattr(self, name)[kept] for name in ("features", "levels", "segments")}
        return replace(
            self,
            **of_rows,
            users=numbers.reshape(-1),
            visitors=self.visitors.kept(users, 1),
            tastes=self.tastes.kept(users, len(self.category_names)),
            # From the first kept visit that is not before the change.
            changes=tuple(change._replace(row=int(np.searchsorted(kept, change.row))) for change in self.changes),
        )
