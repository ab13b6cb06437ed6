"""What a visit showed, as it is read from a search shop's feedback, and what is refused."""

import re
from typing import Any

import numpy as np
import pytest

from studies.held_out import open_shop, spec_of
from zoosim.core.errors import ZoosimError
from zoosim.policies.boosts.shown_items import read_shown
from zoosim.worlds.search.boosts import feedback_of

SHOP = open_shop({"n_products": 100}, 0)
SPEC = spec_of(SHOP, 10)


def feedback(step: int = 0) -> dict[str, Any]:
    """Return what a visit to a shop told, to be changed at will."""
    visit = SHOP.arrive(step)
    told = feedback_of(SHOP, visit, SHOP.serve(visit, SHOP.rank(visit, np.zeros(10))))
    return {**told, "products": dict(told["products"])}


def test_the_first_positions_are_read() -> None:
    told = feedback()
    found = read_shown("x", SPEC, told, 12)
    assert found.columns.shape == (12, 6)
    assert found.features.shape == (12, 10)
    np.testing.assert_allclose(found.columns[:, 0], np.log1p(told["products"]["price"][:12]))
    np.testing.assert_array_equal(found.columns[:, 2], told["products"]["cm2"][:12])
    np.testing.assert_array_equal(found.category, told["products"]["category"][:12])
    np.testing.assert_array_equal(found.base, told["base_scores"][:12])
    np.testing.assert_array_equal(found.clicks, told["clicks"][:12])
    assert found.clicks.dtype == found.purchases.dtype == np.bool_


def test_fewer_positions_than_asked_are_all_read() -> None:
    told = feedback()
    assert len(read_shown("x", SPEC, told, 10_000).base) == len(told["clicks"]) == SPEC.k


def test_no_feedback_is_refused() -> None:
    with pytest.raises(ZoosimError, match="x: got no feedback, expected what the visit showed, as in info"):
        read_shown("x", SPEC, None, 12)


@pytest.mark.parametrize("key", ["products", "boost_features", "base_scores", "clicks", "purchases"])
def test_a_missing_part_is_named(key: str) -> None:
    told = feedback()
    del told[key]
    with pytest.raises(ZoosimError, match=f"x: got feedback without {key}, expected products, boost_features"):
        read_shown("x", SPEC, told, 12)


@pytest.mark.parametrize("key", ["price", "label", "cm2", "discount", "bestseller", "strategic", "category"])
def test_a_missing_column_of_products_is_named(key: str) -> None:
    told = feedback()
    del told["products"][key]
    with pytest.raises(ZoosimError, match=f"x: got feedback without {key}"):
        read_shown("x", SPEC, told, 12)


def changed(key: str, place: int, value: float) -> dict[str, Any]:
    """Return feedback with a number changed, in a column of products or a part of its own."""
    told = feedback()
    home = told if key in told else told["products"]
    home[key] = np.array(home[key], float)
    home[key][place] = value
    return told


@pytest.mark.parametrize("key", ["price", "cm2", "discount", "base_scores", "boost_features", "clicks", "purchases"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -1e12])
def test_what_is_no_number_is_refused_with_its_place(key: str, value: float) -> None:
    with pytest.raises(ZoosimError, match=rf"x: (products )?{key}: got .* at \(3.*expected finite numbers"):
        read_shown("x", SPEC, changed(key, 3, value), 12)


def test_a_number_below_what_is_read_is_refused_too() -> None:
    with pytest.raises(ZoosimError, match=r"x: products price: got .* at \(12,\), expected finite numbers"):
        read_shown("x", SPEC, changed("price", 12, np.nan), 12)


@pytest.mark.parametrize("value", [-1, 99, 1.5])
def test_a_category_that_the_shop_has_not_is_refused(value: float) -> None:
    expected = f"x: products category: got {value} at position 2, expected whole numbers, 0 to "
    with pytest.raises(ZoosimError, match=f"{expected}{SPEC.n_categories - 1}"):
        read_shown("x", SPEC, changed("category", 2, value), 12)


@pytest.mark.parametrize("key", ["clicks", "purchases"])
@pytest.mark.parametrize("value", [-1, 0.5])
def test_what_is_no_count_is_refused(key: str, value: float) -> None:
    with pytest.raises(ZoosimError, match=f"x: {key}: got {value} at position 4, expected whole numbers from 0"):
        read_shown("x", SPEC, changed(key, 4, value), 12)


def test_a_purchase_without_a_click_is_refused() -> None:
    told = {**feedback(), "clicks": np.zeros(SPEC.k), "purchases": np.eye(SPEC.k)[7]}
    with pytest.raises(ZoosimError, match="x: purchases: got one at position 7 without a click"):
        read_shown("x", SPEC, told, 12)


def test_words_for_categories_and_one_number_for_clicks_are_refused() -> None:
    told = feedback()
    told["products"]["category"] = ["toys"] * SPEC.k
    with pytest.raises(ZoosimError, match=r"category: got .*toys.*, expected an array of numbers"):
        read_shown("x", SPEC, told, 12)
    with pytest.raises(ZoosimError, match=r"clicks: got an array of shape .*, expected "):
        read_shown("x", SPEC, {**feedback(), "clicks": 3}, 12)


@pytest.mark.parametrize("key", ["price", "strategic", "category", "base_scores", "purchases", "boost_features"])
def test_columns_of_other_lengths_are_refused(key: str) -> None:
    told = feedback()
    home = told if key in told else told["products"]
    home[key] = home[key][:5]
    with pytest.raises(ZoosimError, match=rf"{key}: got an array of shape \(5,.*expected \(20,"):
        read_shown("x", SPEC, told, 12)


def test_boost_features_of_another_width_are_refused() -> None:
    told = feedback()
    told["boost_features"] = told["boost_features"][:, :9]
    with pytest.raises(
        ZoosimError, match=re.escape("boost_features: got an array of shape (20, 9), expected (20, 10)")
    ):
        read_shown("x", SPEC, told, 12)


@pytest.mark.parametrize("told", [[1], "abc", 5, {"products": None}])
def test_feedback_that_is_no_table_is_refused(told: Any) -> None:
    wrong = {**feedback(), **told} if isinstance(told, dict) else told
    with pytest.raises(ZoosimError, match=r"x: got feedback with .*, expected columns by name"):
        read_shown("x", SPEC, wrong, 12)
