"""Facts about the market shifts of a search world: what differs from the opening market after each of them."""

from collections.abc import Iterator
from typing import NamedTuple

from zoosim.core.market_shift import MarketShift, Tastes, in_force
from zoosim.core.search_config import SearchConfig


class ShiftedFact(NamedTuple):
    """A difference to the opening market: `what` of which segment or category differs, and `how`, in words.

    `observable` where the shop can see it.
    """

    what: str
    of: str
    how: str
    observable: bool


class ShiftFacts(NamedTuple):
    """A market shift from visit `step` on, and all differences to the opening market from then on."""

    step: int
    name: str
    differs: tuple[ShiftedFact, ...]


def shift_facts(config: SearchConfig) -> tuple[ShiftFacts, ...]:
    """Return the shifts of a world in the order of their steps, each with what still holds of earlier ones."""
    opening_mix, *later_mixes = config.mixes
    facts = []
    for shift, mix in zip(in_force(config.shifts), later_mixes, strict=True):
        differs = (*_mix(opening_mix, mix), *_tastes(shift), *_products(shift))
        facts.append(ShiftFacts(shift.step, shift.name, differs))
    return tuple(facts)


def _mix(opening: dict[str, float], mix: dict[str, float]) -> Iterator[ShiftedFact]:
    for name, share in mix.items():
        # Mixes are brought to 1, which moves other shares by rounding.
        if abs(share - opening[name]) > 1e-9:
            yield ShiftedFact("share of visits", name, f"{100 * opening[name]:.3g}% to {100 * share:.3g}%", False)


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


def _products(shift: MarketShift) -> Iterator[ShiftedFact]:
    if shift.renewal:
        yield ShiftedFact("products", "all categories", f"{100 * shift.renewal:.3g}% replaced by others", True)
    for category, factor in shift.prices.items():
        if factor != 1.0:
            yield ShiftedFact("price", category, f"x {factor:.3g}", True)
    for category, promotion in shift.promotions.items():
        if promotion.share and promotion.discount:
            how = f"{100 * promotion.share:.3g}% of the products at least {100 * promotion.discount:.3g}% off"
            yield ShiftedFact("promotion", category, how, True)
