"""What a search world's configuration refuses, and in what words."""

from typing import Any

import pytest

from zoosim.core.config import build
from zoosim.core.errors import ConfigError
from zoosim.core.search_config import SearchConfig


def changed(field: str, name: str, **values: Any) -> dict[str, Any]:
    """Return the default table of `field` with some figures of one row changed."""
    table: dict[str, Any] = SearchConfig().model_dump()[field]
    return {field: {**table, name: {**table[name], **values}}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (changed("categories", "toys", share=0.25), "categories: shares add up to 1.1, expected 1"),
        (changed("segments", "premium", share=0.05), "segments: shares add up to 0.9, expected 1"),
        (changed("query_types", "brand", share=0.3), "query_types: shares add up to 1.1, expected 1"),
        (changed("categories", "toys", log_price_sd=-0.1), "categories.toys.log_price_sd: got -0.1"),
        (changed("segments", "premium", price_taste_sd=-1.0), "segments.premium.price_taste_sd: got -1.0"),
        ({"cm2_sd": -0.3}, "cm2_sd: got -0.3"),
        ({"behaviour": {"utility_sd": -1.0}}, "behaviour.utility_sd: got -1.0"),
        ({"a_max": 0.0}, "a_max: got 0.0"),
        ({"n_products": 0}, "n_products: got 0"),
        ({"context": "richest"}, "context: got 'richest'"),
        ({"discount": {"low": 0.4}}, "discount: low is 0.4 and high 0.3"),
        ({"reward": {"clicks": 0.2}}, "reward: clicks is 0.2, expected 0.01 to 0.1 (.01 to .10 of gmv)"),
        ({"reward": {"clicks": 0.0}}, "reward: clicks is 0, expected 0.01 to 0.1"),
        ({"reward": {"gmv": 20.0}}, "reward: clicks is 0.1, expected 0.2 to 2"),
        ({"colour": "red"}, "unknown key 'colour'"),
        (
            changed(
                "segments", "premium", category_tastes={"dog_food": 1.0, "cat_food": 1.0, "litter": 1.0, "toy": 1.0}
            ),
            "segments.premium.category_tastes: unknown category 'toy' (did you mean toys?)",
        ),
        (
            changed("segments", "premium", category_tastes={"dog_food": 1.0}),
            "segments.premium.category_tastes: no cat_food; give each category a number above 0",
        ),
    ],
)
def test_refused_with_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        build(SearchConfig, given, "search")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("clicks", [0.01, 0.1])
def test_the_bounds_of_clicks_are_allowed(clicks: float) -> None:
    build(SearchConfig, {"reward": {"clicks": clicks}}, "search")
    build(SearchConfig, {"reward": {"gmv": 3.0, "clicks": 3 * clicks}}, "search")


def test_it_goes_round_through_plain_data() -> None:
    config = SearchConfig(n_products=99, a_max=0.5)
    assert build(SearchConfig, config.model_dump(), "search") == config
