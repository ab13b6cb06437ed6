"""Draw a shop: what kind it is, what is for sale, who comes, and what people respond to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, IntArray, frozen
from zoosim.worlds.shops.config import Effect, Effects, PositiveRange, Renewal, ShopsConfig

OFFERS_PER_DAY = 4
"""Times a day that candidates are picked anew, and new products come."""

TURN = np.pi
"""Angle by which gradual drift turns tastes in a run: half of this makes them others, all of it their opposite."""

SEASONS = 3
"""Times that seasonal tastes come back in a run."""

MOST_CHANGES = 4
"""Sudden changes of a run, at most."""

VISITS_EXPONENT = 0.8
"""The visitor of rank r comes in proportion to 1 / r to this power."""


@dataclass(frozen=True)
class ShopParameters:
    """A kind of shop, in figures that its visitors and engineers could tell.

    Args:
        click_rate: Mean click rate of products shown at random at the first visits.
        purchase_rate: The same of purchases, as clicks are bought alike; 0 where they do not count.
        n_products: Products for sale at a time.
        n_offered: Products that are candidates at a time.
        n_visitors: Different visitors.
        visits_per_day: Visits of a day.
        n_categories, n_brands, n_product_numbers: What tells products apart.
        levels: How many words each column of words has.
        n_numbers: How many numbers describe visitors.
        sizes: The size of each effect, 0 where the shop does not have it.
        is_popular: Whether popularity follows a power law.
        drift: How tastes move.
        turnover: Share of the products that is new each day.
        delay: Visits by which rewards come late.
        pays: What a visit earns.
    """

    click_rate: float
    purchase_rate: float
    n_products: int
    n_offered: int
    n_visitors: int
    visits_per_day: int
    n_categories: int
    n_brands: int
    n_product_numbers: int
    levels: tuple[int, ...]
    n_numbers: int
    sizes: dict[str, float]
    is_popular: bool
    drift: str
    turnover: float
    delay: int
    pays: str

    @property
    def n_told(self) -> int:
        """Number of things that are told of a visitor: a word of each column, and each number."""
        return len(self.levels) + self.n_numbers

    @property
    def n_described(self) -> int:
        """Number of features that these are."""
        return sum(self.levels) + self.n_numbers


def draw_kind(config: ShopsConfig, seed: int) -> ShopParameters:
    """Draw the kind of a seed's shop.

    Args:
        config: What shops are drawn from.
        seed: Seed of the draws.
    """
    rng = stream(seed, "kind of shop")

    def whole(ends: PositiveRange) -> int:
        return round(_log_uniform(rng, ends))

    def count(ends: list[int]) -> int:
        return int(rng.integers(ends[0], ends[1] + 1))

    def size(effect: Effect | Renewal) -> float:
        # Both are drawn in any case: an effect that is left out moves no later draw.
        has_it, share = rng.random(2)
        return float(effect.size[0] + share * (effect.size[1] - effect.size[0])) if has_it < effect.share else 0.0

    n_products = whole(config.products)
    turnover = size(config.turnover)
    is_late = rng.random() < config.delay.share
    most = max(1, n_products // 2)
    pays = _one_of(rng, config.pays)
    # Drawn also where purchases do not count, so that what a shop pays moves no later draw.
    purchase_rate = _log_uniform(rng, config.purchase_rate) * (pays != "click")
    return ShopParameters(
        # A purchase takes a click, and at most half of the clicks are bought.
        click_rate=min(max(_log_uniform(rng, config.click_rate), 2.0 * purchase_rate), 0.9),
        purchase_rate=purchase_rate,
        n_products=n_products,
        n_offered=min(n_products, whole(config.offered)),
        n_visitors=whole(config.visitors),
        visits_per_day=whole(config.visits_per_day),
        n_categories=min(most, whole(config.categories)),
        n_brands=min(most, count(config.brands)),
        n_product_numbers=count(config.product_numbers),
        levels=tuple(int(n) for n in rng.integers(2, config.levels + 1, count(config.words))),
        n_numbers=count(config.numbers),
        sizes={name: size(getattr(config.effects, name)) for name in Effects.model_fields},
        is_popular=bool(rng.random() < config.popular),
        drift=_one_of(rng, config.drift),
        turnover=turnover,
        # The last draw: whether it is made moves no other.
        delay=whole(config.delay.visits) if is_late else 0,
        pays=pays,
    )


class ShopCatalogue(NamedTuple):
    """All products there ever are, and which of them are candidates when.

    `categories (P,)`, `brands (P,)`, `numbers (P, m)`, of which the first is the price, standardised; `prices (P,)`;
    `born (P,)` the visit from which each is for sale, below 0 for those of old; `offers`, by first visit, the rows
    `(K,)` that are candidates.
    """

    categories: IntArray
    brands: IntArray
    numbers: FloatArray
    prices: FloatArray
    born: IntArray
    offers: dict[int, IntArray]

    def features(self, kind: ShopParameters) -> FloatArray:
        """Return what a shop tells of its products: category and brand, one column each, and numbers."""
        columns = [np.eye(kind.n_categories)[self.categories]]
        if kind.n_brands:
            columns.append(np.eye(kind.n_brands)[self.brands])
        return frozen(np.hstack([*columns, self.numbers]))


def draw_catalogue(kind: ShopParameters, steps: int, seed: int) -> ShopCatalogue:
    """Draw the products, and what is for sale and a candidate when.

    Args:
        kind: The kind of shop.
        steps: Length of the run, in visits.
        seed: Seed of the draws.
    """
    rng = stream(seed, "catalogue")
    period = max(1, kind.visits_per_day // OFFERS_PER_DAY)
    per_period = kind.turnover * kind.n_products / OFFERS_PER_DAY
    on_sale = np.arange(kind.n_products)
    born = [np.full(kind.n_products, -(10**9))]
    offers = {}
    for number, step in enumerate(range(0, steps, period)):
        # Whole newcomers, whose sum is the exact one rounded down.
        n_new = int(per_period * number) - int(per_period * max(0, number - 1))
        if n_new:
            newcomers = np.arange(n_new) + sum(map(len, born))
            on_sale = on_sale.copy()
            on_sale[rng.choice(kind.n_products, n_new, replace=False)] = newcomers
            born.append(np.full(n_new, step))
        # Where all products are candidates and none is new, nothing changes, and no new period begins.
        if step == 0 or n_new or kind.n_offered < kind.n_products:
            offers[step] = frozen(np.sort(rng.choice(on_sale, kind.n_offered, replace=False)))
    count = sum(map(len, born))
    # After the offers: only now is it known how many products there ever are.
    numbers = rng.normal(size=(count, kind.n_product_numbers)).clip(-3.0, 3.0)
    # Log-normal around 1, which is the typical price: the first number is the standardised log price.
    prices = np.exp(0.6 * numbers[:, 0]) if kind.n_product_numbers else np.ones(count)
    shares = rng.dirichlet(np.full(kind.n_categories, 3.0))
    return ShopCatalogue(
        categories=rng.choice(kind.n_categories, count, p=shares),
        brands=rng.integers(0, max(kind.n_brands, 1), count),
        numbers=numbers,
        prices=prices,
        born=np.concatenate(born),
        offers=offers,
    )


class Arrivals(NamedTuple):
    """The visitors of visits `steps (n,)`: `visitors (n,)` by number, `words (n, columns)` and `numbers (n, q)`."""

    steps: IntArray
    visitors: IntArray
    words: IntArray
    numbers: FloatArray

    def rows(self, rows: IntArray) -> "Arrivals":
        """Return some of the visits."""
        return Arrivals(self.steps[rows], self.visitors[rows], self.words[rows], self.numbers[rows])

    def hours(self, kind: ShopParameters) -> FloatArray:
        """Return the hours of the day `(n,)`."""
        return np.asarray(self.steps * 24.0 / kind.visits_per_day % 24.0)

    def features(self, kind: ShopParameters) -> FloatArray:
        """Return what a shop knows of visits: words, one column each, numbers, and the hour as a point on a circle."""
        circle = 2.0 * np.pi / 24.0 * self.hours(kind)
        return frozen(np.hstack([self.described(kind), np.sin(circle)[:, None], np.cos(circle)[:, None]]))

    def described(self, kind: ShopParameters) -> FloatArray:
        """Return words and numbers as features `(n, p)`."""
        words = [np.eye(count)[self.words[:, column]] for column, count in enumerate(kind.levels)]
        return np.hstack([*words, self.numbers])


def draw_arrivals(kind: ShopParameters, steps: int, seed: int, purpose: str) -> Arrivals:
    """Draw who comes, by a power law; half of the numbers are a visitor's own, the others are drawn at each visit.

    Args:
        kind: The kind of shop.
        steps: Number of visits.
        seed: Seed of the draws.
        purpose: Name of the draws of visits; visitors are the same for all purposes.
    """
    # A stream of their own: the same visitors come for every purpose.
    people = stream(seed, "visitors")
    words = np.array([people.integers(0, count, kind.n_visitors) for count in kind.levels], np.int64)
    own = people.normal(size=(kind.n_visitors, kind.n_numbers))
    rng = stream(seed, purpose)
    shares = 1.0 / np.arange(1, kind.n_visitors + 1) ** VISITS_EXPONENT
    visitors = rng.choice(kind.n_visitors, steps, p=shares / shares.sum())
    numbers = own[visitors]
    changing = kind.n_numbers // 2
    numbers[:, :changing] = rng.normal(size=(steps, changing))
    words = words.reshape(len(kind.levels), kind.n_visitors).T
    return Arrivals(np.arange(steps), visitors, words[visitors], numbers.clip(-3.0, 3.0))


class VisitorTastes(NamedTuple):
    """The tastes of visitors' features `(p,)` for each of C categories: `sets (M, p, C)`, of which each counts by time.

    `drift` says how: sets follow one another from the visits `starts (M,)` on, or two are mixed over `length` visits.
    """

    sets: FloatArray
    drift: str
    starts: FloatArray
    length: int

    def logits(self, described: FloatArray, steps: IntArray) -> FloatArray:
        """Return what features `(n, p)` add to the logits of each category `(n, C)` at the visits `steps (n,)`."""
        weights = self._weights(steps)
        counting = np.flatnonzero(weights.any(axis=0))
        return np.asarray(sum(weights[:, [number]] * (described @ self.sets[number]) for number in counting))

    def standing(self) -> "VisitorTastes":
        """Return tastes that stay as they are at first."""
        return VisitorTastes(self.sets[:1], "none", self.starts[:1], self.length)

    def _weights(self, steps: IntArray) -> FloatArray:
        """Return what each set counts `(n, M)`."""
        progress = steps / self.length
        if self.drift == "gradual":
            # cos^2 + sin^2 = 1, so that tastes turn but grow neither stronger nor weaker.
            return np.column_stack([np.cos(TURN * progress), np.sin(TURN * progress)])
        if self.drift == "seasonal":
            return np.column_stack([np.ones_like(progress), np.sin(2.0 * np.pi * SEASONS * progress)])
        phase = np.searchsorted(self.starts, steps, side="right") - 1
        return np.eye(len(self.sets))[phase]


def draw_tastes(kind: ShopParameters, steps: int, seed: int) -> VisitorTastes:
    """Draw tastes, and how they move in a run.

    Args:
        kind: The kind of shop.
        steps: Length of the run, in visits.
        seed: Seed of the draws.
    """
    rng = stream(seed, "tastes")
    # A visitor has one word of each column, and each number: so many terms add up to an effect of that size.
    spread = kind.sizes["tastes"] / np.sqrt(max(1, kind.n_told))

    def fresh() -> FloatArray:
        return rng.normal(0.0, spread, (kind.n_described, kind.n_categories))

    sets = [fresh()]
    starts = np.zeros(1)
    if kind.drift in ("gradual", "seasonal"):
        sets.append(fresh())
    if kind.drift in ("sudden", "swapped"):
        changes = rng.uniform(0.15, 0.85, rng.integers(1, MOST_CHANGES + 1))
        starts = np.concatenate([starts, np.sort(changes) * steps])
        for _ in changes:
            sets.append(_swapped(sets[-1], kind, rng) if kind.drift == "swapped" else _changed(sets[-1], fresh(), rng))
    return VisitorTastes(np.array(sets), kind.drift, np.ceil(starts), steps)


def _changed(before: FloatArray, fresh: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return tastes of which half of the categories have fresh ones."""
    return np.where(rng.random(before.shape[1]) < 0.5, fresh, before)


def _swapped(before: FloatArray, kind: ShopParameters, rng: np.random.Generator) -> FloatArray:
    """Return tastes in which the words of each column have changed places: nothing else tells of it."""
    order = np.arange(len(before))
    start = 0
    for count in kind.levels:
        order[start : start + count] = start + rng.permutation(count)
        start += count
    return before[order]


def _log_uniform(rng: np.random.Generator, ends: PositiveRange) -> float:
    return float(np.exp(rng.uniform(*np.log(ends))))


def _one_of(rng: np.random.Generator, shares: Mapping[Any, float]) -> str:
    return str(rng.choice(list(shares), p=np.array(list(shares.values())) / sum(shares.values())))
