"""Apply the rules of a shop to candidates of a request: what is left, what is pinned, and what a page may hold."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray
from zoosim.ranking.caps import CapCounts, GroupCap
from zoosim.schema.encoder import Encoder
from zoosim.serving.bodies import DecideBody
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.events import AppliedRules
from zoosim.serving.ids import product_id
from zoosim.serving.shop_rules.settings import ShopRules

FORBIDDEN, SHOWN, BOUGHT, PER_PAGE = "forbidden", "shown", "bought", "per_page"
"""Names of rules in the log and in answers."""


class VisitorPast(NamedTuple):
    """What caps keep from a visitor: products `shown` as often as they may be, and those that were `bought`."""

    shown: Collection[str] = ()
    bought: Collection[str] = ()


class RuledCandidates(NamedTuple):
    """Candidates of a request as rules leave them.

    Attributes:
        candidates: The candidates, of which those are available that may be shown.
        pins: Places among the candidates that are pinned, by the place on the page, from 0.
        caps: Caps on the page.
        applied: What the rules did.
    """

    candidates: RequestCandidates
    pins: Mapping[int, int]
    caps: Sequence[GroupCap]
    applied: AppliedRules

    @property
    def most(self) -> int:
        """How many products a page may show at most."""
        return int(self.candidates.available.sum())


def with_request(rules: ShopRules, pinned: Mapping[int, str], forbidden: Collection[str]) -> ShopRules:
    """Return rules with those of a request, whose pins take the place of others; nothing else of them is checked.

    Args:
        rules: The rules of the shop.
        pinned: Products that the request pins, by place, 1 being the top.
        forbidden: Products that it forbids.
    """
    if not pinned and not forbidden:
        return rules
    products = set(pinned.values())
    others = {place: product for place, product in rules.pinned.items() if product not in products}
    update = {
        "pinned": {**others, **pinned},
        "forbidden": [*rules.forbidden, *forbidden],
        # Since a copy has what was computed before.
        "forbidden_products": rules.forbidden_products.union(forbidden),
        "are_set": True,
    }
    return rules.model_copy(update=update)


def check_pins(body: DecideBody) -> None:
    """Refuse products that a request pins, and that its page cannot hold: `PolicyError`."""
    names = None if body.candidates is None else {product_id(candidate) for candidate in body.candidates}
    products = list(body.pinned.values())
    for place, product in body.pins.items():
        if place > body.count:
            raise PolicyError(f"pinned: got place {place}, expected 1 to {body.count} (count)")
        if products.count(product) > 1:
            raise PolicyError(f"pinned: got {shown(product)} at two places, expected each product at one")
        if product in body.forbidden:
            raise PolicyError(f"pinned: got {shown(product)}, which is forbidden; leave it out of one of both")
        if names is not None and product not in names:
            raise PolicyError(f"pinned: got {shown(product)}, expected one of the candidates")


def apply_rules(
    rules: ShopRules,
    candidates: RequestCandidates,
    encoder: Encoder,
    count: int,
    past: VisitorPast,
    can_fill: Callable[[BoolArray], bool] = lambda available: bool(available.any()),
    n_places: int = 0,
) -> RuledCandidates:
    """Return what rules leave of candidates.

    What is forbidden never comes back. A pinned product stands at its place whatever the visitor saw or bought. Where
    caps leave nothing for the top of the page, they are lifted: first those on showings, then on what was bought; and
    where those on the page would let nothing stand at its top, these.

    Args:
        rules: The rules.
        candidates: K products.
        encoder: What made their features.
        count: How many are to be shown.
        past: What the visitor saw and bought.
        can_fill: Returns whether what is available, beside what is pinned, is enough; by default one product is.
        n_places: How many places the page was to have, where candidates fill fewer; 0 for as many as are shown.

    Raises:
        PolicyError: all of them are forbidden.
    """
    place_of = {name: place for place, name in enumerate(candidates.names)}
    available = np.ones(len(place_of), bool)
    applied = AppliedRules()
    forbidden = [place for name, place in place_of.items() if name in rules.forbidden_products]
    if forbidden:
        available[forbidden] = False
        applied.barred[FORBIDDEN] = forbidden
    if not available.any():
        raise PolicyError("candidates: got forbidden products alone, expected at least one that may be shown")
    pins = {}
    for place, product in sorted(rules.pinned.items()):
        if place <= max(count, n_places) and product in place_of and available[place_of[product]]:
            pins[place - 1] = place_of[product]
    pinned_places = list(pins.values())
    left = available.copy()
    left[pinned_places] = False
    left = _without_past(past, place_of, left, applied, lambda mask: 0 in pins or can_fill(mask))
    # The page is as long as there are products for it: where those that are left are fewer, so is what is shown.
    available = left.copy()
    available[pinned_places] = True
    pins = _pins_within(pins, min(count, int(available.sum())))
    caps = _page_caps(rules, candidates, encoder, pins, left, applied)
    return RuledCandidates(candidates.among(available), pins, caps, applied)


def barred_products(rules: ShopRules, past: VisitorPast) -> Iterator[frozenset[str]]:
    """Yield the products that may not be shown, whatever the candidates; each time with fewer caps, as they are lifted.

    Args:
        rules: The rules.
        past: What the visitor saw and bought.
    """
    for kept_back in ({*past.shown, *past.bought}, past.bought, ()):
        yield rules.forbidden_products.union(kept_back)


def _pins_within(pins: Mapping[int, int], length: int) -> dict[int, int]:
    """Return pins for a page of a length, which holds all of them: those below its end move up, in their order."""
    moved = {}
    lowest = length
    for number, place in sorted(pins.items(), reverse=True):
        lowest = min(number, lowest - 1)
        moved[lowest] = place
    return moved


def _without_past(
    past: VisitorPast,
    place_of: Mapping[str, int],
    left: BoolArray,
    applied: AppliedRules,
    is_enough: Callable[[BoolArray], bool],
) -> BoolArray:
    """Return what a visitor's caps leave: of as many of them as leave enough."""
    kept_back = {SHOWN: _places(past.shown, place_of, left), BOUGHT: _places(past.bought, place_of, left)}
    in_force = {rule: places for rule, places in kept_back.items() if places}
    for rule in (*in_force, ""):
        remaining = left.copy()
        remaining[[place for places in in_force.values() for place in places]] = False
        if not rule or is_enough(remaining):
            break
        del in_force[rule]  # the next in the order in which they are lifted
        applied.lifted.append(rule)
    applied.barred.update(in_force)
    return remaining


def _places(products: Collection[str], place_of: Mapping[str, int], available: BoolArray) -> list[int]:
    """Return the places of those products among the candidates that are available."""
    places = (place_of[product] for product in products if product in place_of)
    return sorted(place for place in places if available[place])


def _page_caps(
    rules: ShopRules,
    candidates: RequestCandidates,
    encoder: Encoder,
    pins: Mapping[int, int],
    left: BoolArray,
    applied: AppliedRules,
) -> list[GroupCap]:
    """Return the caps on a page; none where pinned products alone leave nothing for its top."""
    caps = []
    columns = []
    for column, place in encoder.placed if rules.per_page else ():
        if column.name in rules.per_page:
            missing = np.array(column.encode_one(None)).tobytes()
            caps.append(GroupCap(candidates.groups(place, missing), rules.per_page[column.name]))
            columns.append(column.name)
    if not caps:
        return caps
    counts = CapCounts(caps, len(left))
    for pin in pins.values():
        counts.add(pin)
    if 0 not in pins and not (left & ~counts.closed).any():
        applied.lifted.append(PER_PAGE)
        return []
    applied.per_page.extend(columns)
    return caps
