"""Clicks of visitors, as logits: effects of products, of visitors' features and habits, of time."""

from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.shops.draw import Arrivals, ShopCatalogue, ShopParameters, VisitorTastes, draw_tastes

BENDS, BEND = 6, 1.5
"""Cosines that make up a curve of visitors' numbers, and how fast they swing (Rahimi & Recht 2007)."""

PROBES = 2_000
"""Visits by which the mean click rate is set."""

NOVELTY_DAYS = 1.0
"""Days in which novelty falls to 1 / e."""


class ResponseEffects(NamedTuple):
    """Effects on the responses to P products in C categories; what a shop does not have is empty, or 0.

    `products (P,)`, all that is a product's own; `tastes`; `patterns (L, L', C)` of the first two columns of words;
    `frequencies (J, q)`, `phases (J,)` and `bends (J, C)`, curves of visitors' numbers; `matches (p, m)` of visitors'
    features and products' numbers; `habits (U, C)` of visitors; `hours (C,)`, when each category is liked best, and
    the `height` of that; `novelty` on the first day; `level`, which makes the mean click rate what it should be.
    """

    products: FloatArray
    tastes: VisitorTastes
    patterns: FloatArray
    frequencies: FloatArray
    phases: FloatArray
    bends: FloatArray
    matches: FloatArray
    habits: FloatArray
    hours: FloatArray
    height: float
    novelty: float
    level: float = 0.0

    def logits(
        self, kind: ShopParameters, catalogue: ShopCatalogue, arrivals: Arrivals, rows: IntArray, products: IntArray
    ) -> FloatArray:
        """Return the logits of clicks `(n, K)` at visits number `rows` of the arrivals, for `products`."""
        some = arrivals.rows(rows)
        described = some.described(kind)
        # By category first, then spread over the products: most of a logit is the same for all of a category.
        logits = self._of_categories(kind, some, described)[:, catalogue.categories[products]]
        logits += self.products[products] + self.level
        if self.matches.size:
            logits += described @ self.matches @ catalogue.numbers[products].T
        if self.novelty:
            # Products of old were born a billion visits ago, so that nothing of their novelty is left.
            days = (some.steps[:, None] - catalogue.born[products]) / kind.visits_per_day
            logits += self.novelty * np.exp(-days / NOVELTY_DAYS)
        return logits

    def _of_categories(self, kind: ShopParameters, arrivals: Arrivals, described: FloatArray) -> FloatArray:
        """Return what visits, `described` by features `(n, p)`, add to the logits of each category `(n, C)`."""
        logits = self.tastes.logits(described, arrivals.steps)
        if self.patterns.size:
            logits += self.patterns[arrivals.words[:, 0], arrivals.words[:, 1]]
        if self.bends.size:
            waves = np.cos(arrivals.numbers @ self.frequencies.T + self.phases)
            # A cosine at a random phase has a mean square of 1/2.
            logits += np.sqrt(2.0) * waves @ self.bends
        if self.habits.size:
            logits += self.habits[arrivals.visitors]
        if self.height:
            logits += self.height * np.cos(2.0 * np.pi / 24.0 * (arrivals.hours(kind)[:, None] - self.hours))
        return logits


def draw_behaviour(kind: ShopParameters, catalogue: ShopCatalogue, arrivals: Arrivals, seed: int) -> ResponseEffects:
    """Draw what people respond to, so that products shown at random are clicked as often as the kind says.

    Args:
        kind: The kind of shop.
        catalogue: Its products.
        arrivals: Its visits.
        seed: Seed of the draws.
    """
    rng = stream(seed, "behaviour")
    n_categories = kind.n_categories
    n_pairs = kind.n_told * kind.n_product_numbers

    def effects(name: str, *shape: int, terms: int = 1) -> FloatArray:
        """Draw effects of which `terms` add up to the size of that name."""
        # Drawn in any case, so that an effect which a shop does not have moves no later draw.
        drawn = rng.normal(0.0, kind.sizes[name] / np.sqrt(max(1, terms)), shape)
        return drawn if kind.sizes[name] else np.zeros((0,) * len(shape))

    # Arguments are evaluated in this order, and the draws of a seed depend on it.
    behaviour = ResponseEffects(
        products=_own_effects(kind, catalogue, rng),
        tastes=draw_tastes(kind, len(arrivals.steps), seed),
        patterns=effects("patterns", *(*kind.levels, 0, 0)[:2], n_categories),
        frequencies=rng.normal(0.0, BEND, (BENDS, kind.n_numbers)),
        phases=rng.uniform(0.0, 2.0 * np.pi, BENDS),
        bends=effects("curves", BENDS if kind.n_numbers else 0, n_categories, terms=BENDS),
        matches=effects("matches", kind.n_described, kind.n_product_numbers, terms=n_pairs),
        habits=effects("habits", kind.n_visitors, n_categories),
        hours=rng.uniform(0.0, 24.0, n_categories),
        height=kind.sizes["hours"],
        novelty=kind.sizes["novelty"],
    )
    return behaviour._replace(level=_level(behaviour, kind, catalogue, arrivals))


def _own_effects(kind: ShopParameters, catalogue: ShopCatalogue, rng: np.random.Generator) -> FloatArray:
    """Return what products, brands, categories and numbers are liked for by everybody `(P,)`."""
    sizes = kind.sizes
    count = len(catalogue.categories)
    # Either way of mean 0 and variance 1.
    own = rng.exponential(size=count) - 1.0 if kind.is_popular else rng.normal(size=count)
    of_brands = rng.normal(0.0, sizes["brands"], max(1, kind.n_brands))
    of_categories = rng.normal(0.0, sizes["categories"], kind.n_categories)
    of_numbers = rng.normal(0.0, sizes["numbers"] / np.sqrt(max(1, kind.n_product_numbers)), kind.n_product_numbers)
    features = of_brands[catalogue.brands] + of_categories[catalogue.categories] + catalogue.numbers @ of_numbers
    return np.asarray(sizes["products"] * own + features)


def _level(behaviour: ResponseEffects, kind: ShopParameters, catalogue: ShopCatalogue, arrivals: Arrivals) -> float:
    """Return what makes products of old that are shown at random be clicked as often as the kind says."""
    # The first visits alone: drift and newcomers may move the rate later, as they would in a real shop.
    rows = np.arange(min(PROBES, len(arrivals.steps)))
    products = catalogue.offers[0]
    logits = behaviour.logits(kind, catalogue, arrivals, rows, products)
    # The mean chance rises with the level from nearly 0 to nearly 1, so there is just one root.
    return float(optimize.brentq(lambda level: special.expit(logits + level).mean() - kind.click_rate, -30.0, 30.0))
