"""Small shops of segments and categories, drawn at random: rewards that are amounts, products' own effects, drift."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from zoosim.core.rng import stream, stream_key
from zoosim.core.types import BoolArray, FloatArray, IntArray, frozen
from zoosim.worlds.table import Period, TableWorld

N_USERS = 1_000


@dataclass(frozen=True)
class Payment:
    """What a visit earns: nothing, a size that is log-normal, or a loss of a fixed size.

    Chances and sizes differ by segment and category, each by a normal effect of standard deviation `difference` on the
    logit or logarithm.

    Args:
        chance: Typical chance that a visit pays.
        size: Typical size; each is log-normal around its cell's typical one, with `spread` on the log scale.
        spread: 0 for rewards that are all of one size, as clicks.
        loss_chance: Typical chance of losing `loss` where nothing is paid.
        loss: What is lost then, 0 or more.
        scale, shift: Every reward is multiplied by `scale`, then `shift` is added.
    """

    chance: float
    size: float = 1.0
    spread: float = 1.0
    difference: float = 0.7
    loss_chance: float = 0.0
    loss: float = 1.0
    scale: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True)
class Effects:
    """Clicks by logits: a base, a taste of each segment in each category, and what is a product's own.

    Features tell the segment and the category, never the product. `taste` and `own` are standard deviations.
    """

    products: int = 60
    categories: int = 6
    segments: int = 4
    base: float = -1.5
    taste: float = 0.6
    own: float = 0.8


class EffectsShop(NamedTuple):
    """What P products are clicked for: `categories (P,)`, `tastes (S, P)` of segments in these, `own (P,)`."""

    base: float
    categories: IntArray
    tastes: FloatArray
    own: FloatArray

    @property
    def rates(self) -> FloatArray:
        """Return the click rates `(S, P)`."""
        return np.asarray(special.expit(self.base + self.tastes + self.own))

    @property
    def features(self) -> FloatArray:
        """Return what is told of products `(P, C)`: their category."""
        return frozen(np.eye(self.categories.max() + 1)[self.categories])


def draw_effects(effects: Effects, seed: int) -> EffectsShop:
    """Draw the shop of a seed."""
    rng = stream(seed, "effects of products")
    categories = np.arange(effects.products) % effects.categories
    tastes = rng.normal(0.0, effects.taste, (effects.segments, effects.categories))[:, categories]
    return EffectsShop(effects.base, categories, tastes, rng.normal(0.0, effects.own, effects.products))


def effects_world(effects: Effects, seed: int, steps: int) -> TableWorld:
    """Return a shop whose products differ by what no feature tells."""
    shop = draw_effects(effects, seed)
    return clicks_world(seed, shop.features, [(0, shop.rates)])


def swapped_world(seed: int, steps: int, *, personas: int = 5, categories: int = 7, drifts: bool = True) -> TableWorld:
    """Return a shop whose click rates move half of the way to another table, while personas change places twice.

    Rates are Beta(.7, 2), cut to [.01, .9], as in `robustness`. After a third and two thirds of the visits two
    personas, drawn at random, swap their tastes; nothing tells of it.
    """
    rng = stream(seed, "swapped personas")
    first, last = rng.beta(0.7, 2.0, (2, personas, categories)).clip(0.01, 0.9)
    category = np.arange(50) % categories
    order = np.arange(personas)
    tables = []
    swaps = {steps // 3, 2 * (steps // 3)} if drifts else set[int]()
    for start in sorted({*range(0, steps, max(1, steps // 200)), *swaps}) if drifts else [0]:
        if start in swaps:
            a, b = rng.choice(personas, 2, replace=False)
            order[[a, b]] = order[[b, a]]
        share = start / steps / 2.0
        rates = (1.0 - share) * first + share * last
        tables.append((start, rates[order][:, category]))
    return clicks_world(seed, frozen(np.eye(categories)[category]), tables)


def clicks_world(
    seed: int,
    products: FloatArray,
    tables: Sequence[tuple[int, FloatArray]],
    available: Sequence[BoolArray] | None = None,
) -> TableWorld:
    """Return a shop of clicks: `tables` hold from which visit on products are clicked at which rates `(S, P)`.

    Features of visitors tell their segment; `products (P, d_p)` are those of products. `available (P,)`, one per table,
    says what may be shown; all by default.
    """
    n_segments, n_products = tables[0][1].shape
    segments = stream(seed, "segments of users").integers(0, n_segments, N_USERS)
    masks = [np.ones(n_products, bool)] * len(tables) if available is None else available
    periods = [Period(start, frozen(table), frozen(mask)) for (start, table), mask in zip(tables, masks, strict=True)]
    return _world(seed, segments, products, n_segments, tuple(periods))


def payment_world(payment: Payment, seed: int, steps: int, *, segments: int = 4, categories: int = 5) -> TableWorld:
    """Return a shop whose products of a category are alike, and whose visits earn as a `payment` says."""
    rng = stream(seed, "payment")
    shape = (segments, categories)
    category = np.arange(50) % categories

    def of_cells(typical: float) -> FloatArray:
        effects = rng.normal(0.0, payment.difference, shape)[:, category]
        return np.asarray(special.expit(special.logit(typical) + effects))

    chances = of_cells(payment.chance)
    loss_chances = (1.0 - chances) * of_cells(payment.loss_chance)
    sizes = payment.size * np.exp(rng.normal(0.0, payment.difference * (payment.spread > 0.0), shape))[:, category]
    expected = chances * sizes * np.exp(payment.spread**2 / 2.0) - loss_chances * payment.loss

    who = rng.integers(0, segments, steps)
    draws = rng.random((steps, len(category)))
    drawn_sizes = sizes[who] * np.exp(payment.spread * rng.normal(size=draws.shape))
    losses = np.where(draws > 1.0 - loss_chances[who], -payment.loss, 0.0)
    rewards = np.where(draws < chances[who], drawn_sizes, losses)
    period = Period(0, frozen(payment.scale * expected + payment.shift), frozen(np.ones(len(category), bool)))
    products = frozen(np.eye(categories)[category])
    earned = frozen(payment.scale * rewards + payment.shift)
    return _world(seed, who, products, segments, (period,), rewards=earned)


def _world(
    seed: int,
    segments: IntArray,
    products: FloatArray,
    n_segments: int,
    periods: tuple[Period, ...],
    rewards: FloatArray | None = None,
) -> TableWorld:
    """Return a world in which every product is a group of its own; `rewards` settle visit by visit what is earned."""
    settled: dict[str, Any] = {}
    if rewards is not None:
        settled = {"rewards": rewards, "schedule": frozen(np.arange(len(rewards)))}
    return TableWorld(
        seed=seed,
        users=frozen(np.eye(n_segments)[segments]),
        segments=frozen(segments),
        products=products,
        groups=frozen(np.arange(len(products))),
        periods=periods,
        segment_names=tuple(f"segment {number}" for number in range(1, n_segments + 1)),
        group_names=tuple(f"product {number}" for number in range(1, len(products) + 1)),
        visit_key=stream_key(seed, "visits"),
        click_key=stream_key(seed, "clicks"),
        reward_range=(0.0, 1.0) if rewards is None else (-np.inf, np.inf),
        anonymous=rewards is not None,
        **settled,
    )
