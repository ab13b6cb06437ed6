"""Describe the market shifts of a search world, measured from its opening."""

from collections.abc import Iterator
from typing import NamedTuple

from zoosim.core.market_shift import MarketShift, Tastes, in_force
from zoosim.core.search_config import SearchConfig


class ShiftedFact(NamedTuple):
    """A difference: `what` differs, `of` which segment or category, `how` in words; is it `observable` to the shop?"""

    what: str
    of: str
    how: str
    observable: bool


class ShiftFacts(NamedTuple):
    """A market shift from visit `step` on, and all in which the market then differs from the opening one."""

    step: int
    name: str
    differs: tuple[ShiftedFact, ...]


def shift_facts(config: SearchConfig) -> tuple[ShiftFacts, ...]:
    """Return the shifts of a world in the order of their steps, each with what still holds of those before."""
    first, *later = config.mixes
    pairs = zip(in_force(config.shifts), later, strict=True)
    return tuple(ShiftFacts(s.step, s.name, (*_mix(first, mix), *_tastes(s), *_goods(s))) for s, mix in pairs)


def _mix(first: dict[str, float], now: dict[str, float]) -> Iterator[ShiftedFact]:
    for name, share in now.items():
        if abs(share - first[name]) > 1e-9:
            yield ShiftedFact("share of visits", name, f"{100 * first[name]:.3g}% to {100 * share:.3g}%", False)


def _tastes(shift: MarketShift) -> Iterator[ShiftedFact]:
    for segment, tastes in shift.tastes.items():
        for what, how in _taste(tastes):
            yield ShiftedFact(what, segment, how, False)


def _taste(tastes: Tastes) -> Iterator[tuple[str, str]]:
    for what, change in (("price taste", tastes.price), ("private-label taste", tastes.label)):
        if change:
            yield what, f"{change:+.3g}"
    for category, factor in tastes.categories.items():
        if factor != 1.0:
            yield f"taste for {category}", f"x {factor:.3g}, then all tastes brought to 100%"


def _goods(shift: MarketShift) -> Iterator[ShiftedFact]:
    for category, factor in shift.prices.items():
        if factor != 1.0:
            yield ShiftedFact("price", category, f"x {factor:.3g}", True)
    for category, promotion in shift.promotions.items():
        if promotion.share and promotion.discount:
            how = f"{100 * promotion.share:.3g}% of the products at least {100 * promotion.discount:.3g}% off"
            yield ShiftedFact("promotion", category, how, True)
