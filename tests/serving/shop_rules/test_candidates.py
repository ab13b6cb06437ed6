"""What rules leave of candidates, in which order they are lifted, and what of it is marked."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import PolicyError
from zoosim.schema.columns import CategoryColumn
from zoosim.schema.encoder import Encoder
from zoosim.serving.bodies import DecideBody
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.events import AppliedRules
from zoosim.serving.shop_rules.candidates import VisitorPast, apply_rules, check_pins, with_request
from zoosim.serving.shop_rules.settings import ShopRules

BRANDS = Encoder(columns=(CategoryColumn(name="brand", levels=("x", "y"), missing=True),))
NAMES = ("a", "b", "c", "d")


def offered(*brands: str | None) -> RequestCandidates:
    """Return candidates a to d, of these brands."""
    features = np.array([BRANDS.encode_one({"brand": brand}) for brand in brands])
    return RequestCandidates(np.arange(4), NAMES, np.arange(4), features)


CANDIDATES = offered("x", "x", "y", None)


def applied(rules: ShopRules, past: VisitorPast | None = None, count: int = 2) -> tuple[list[str], AppliedRules]:
    """Return which candidates rules leave for a page, and what they did."""
    ruled = apply_rules(rules, CANDIDATES, BRANDS, count, past or VisitorPast())
    return [name for name, is_left in zip(NAMES, ruled.candidates.available, strict=True) if is_left], ruled.applied


@pytest.mark.parametrize(
    ("past", "left", "barred", "lifted"),
    [
        (VisitorPast(), "bcd", {"forbidden": [0]}, []),
        (VisitorPast(shown=["b", "a", "other"]), "cd", {"forbidden": [0], "shown": [1]}, []),
        (VisitorPast(["b"], ["c"]), "d", {"forbidden": [0], "shown": [1], "bought": [2]}, []),
        (VisitorPast(["b", "d"], ["c"]), "bd", {"forbidden": [0], "bought": [2]}, ["shown"]),
        (VisitorPast(["b"], ["b", "c", "d"]), "bcd", {"forbidden": [0]}, ["shown", "bought"]),
    ],
)
def test_caps_of_a_visitor_are_lifted_in_order_and_what_is_forbidden_never_is(
    past: VisitorPast, left: str, barred: dict[str, list[int]], lifted: list[str]
) -> None:
    names, what = applied(ShopRules(forbidden=["a"]), past)
    assert names == list(left)
    assert (what.barred, what.lifted) == (barred, lifted)


def test_candidates_that_are_all_forbidden_are_refused() -> None:
    with pytest.raises(PolicyError, match="candidates: got forbidden products alone"):
        applied(ShopRules(forbidden=list(NAMES)))


def test_pins_stand_where_they_can_whatever_the_visitor_saw() -> None:
    rules = ShopRules(pinned={1: "b", 2: "gone", 3: "c"})
    ruled = apply_rules(rules, CANDIDATES, BRANDS, 2, VisitorPast(shown=["b"], bought=["a"]))
    assert ruled.pins == {0: 1}, "c is beyond the page, and gone is no candidate"
    assert ruled.candidates.available.tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("pinned", "shown", "pins"),
    [
        ({3: "c"}, "bd", {1: 2}),
        ({2: "b", 4: "c"}, "d", {1: 1, 2: 2}),
        ({1: "a", 3: "c", 4: "b"}, "d", {0: 0, 1: 2, 2: 1}),
    ],
)
def test_pins_of_a_page_that_caps_make_shorter_stand_at_its_end(
    pinned: dict[int, str], shown: str, pins: dict[int, int]
) -> None:
    """Else they could stand anywhere, by a policy's draw, though the visitor saw them as often as they may be."""
    past = VisitorPast(shown=[*shown, "c"])
    ruled = apply_rules(ShopRules(pinned=pinned), CANDIDATES, BRANDS, 4, past)
    assert ruled.pins == pins
    assert set(pins.values()) <= set(np.flatnonzero(ruled.candidates.available))


def test_a_page_of_pinned_products_alone_begins_with_them() -> None:
    ruled = apply_rules(ShopRules(pinned={2: "c"}, forbidden=["a", "b", "d"]), CANDIDATES, BRANDS, 2, VisitorPast())
    assert ruled.pins == {0: 2}


def test_a_request_adds_to_the_rules_and_its_pins_come_first() -> None:
    rules = with_request(ShopRules(pinned={1: "a", 2: "b"}, forbidden=["c"]), {1: "b"}, ["d"])
    assert rules.pinned == {1: "b"}
    assert rules.forbidden == ["c", "d"]
    assert rules.forbidden_products == {"c", "d"}
    shop = ShopRules(most_shown=1)
    assert with_request(shop, {}, []) is shop
    none = ShopRules()
    assert not none.are_set
    assert with_request(none, {}, ["d"]).are_set


def test_caps_on_a_page_count_brands_and_leave_out_products_without_one() -> None:
    ruled = apply_rules(ShopRules(per_page={"brand": 1}), CANDIDATES, BRANDS, 4, VisitorPast())
    (cap,) = ruled.caps
    assert cap.groups.tolist() == [0, 0, 1, -1]
    assert ruled.applied.per_page == ["brand"]


def test_caps_on_a_page_are_lifted_where_pins_alone_would_leave_its_top_empty() -> None:
    same = offered("x", "x", "x", "x")
    ruled = apply_rules(ShopRules(per_page={"brand": 1}, pinned={2: "b"}), same, BRANDS, 3, VisitorPast())
    assert (list(ruled.caps), ruled.applied.lifted) == ([], ["per_page"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pinned": {"3": "a"}}, "pinned: got place 3, expected 1 to 2"),
        ({"pinned": {"1": "a", "2": "a"}}, "pinned: got 'a' at two places"),
        ({"pinned": {"1": "a"}, "forbidden": ["a"]}, "pinned: got 'a', which is forbidden"),
        ({"pinned": {"1": "z"}}, "pinned: got 'z', expected one of the candidates"),
    ],
)
def test_pins_of_a_request_that_its_page_cannot_hold_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        check_pins(DecideBody(candidates=["a", {"id": "b"}], count=2, **fields))
