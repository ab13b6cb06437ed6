"""Rules of a shop as settings: what they may be, and one line where they cannot be."""

from typing import Any

import pytest

from zoosim.core.errors import ConfigError
from zoosim.serving.settings import read_settings
from zoosim.serving.shop_rules.settings import ShopRules


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"most_shown": -1}, "shop_rules.most_shown: got -1, expected greater than or equal to 0"),
        ({"shown_days": 0}, "shop_rules.shown_days: got 0, expected greater than 0"),
        ({"per_page": {"brand": 0}}, "shop_rules.per_page.brand: got 0"),
        ({"pinned": {0: "a"}}, "shop_rules.pinned: got the name 0"),
        ({"pinned": {1: "a", "01": "b"}}, "pinned: got .*, expected each place once"),
        ({"pinned": {1: "a", 2: "a"}}, "pinned: got 'a' at two places, expected each product at one"),
        ({"pinned": {"1": 7}, "forbidden": [7]}, "pinned: got '7', which is forbidden; leave it out of one of both"),
        ({"forbiden": []}, "unknown key 'forbiden'"),
        ("most_shown: [", "got 'most_shown: .*expected rules by name, such as {most_shown: 3}"),
        ("false", "got False, expected keys with values: most_shown"),
        ("[]", r"got \[\], expected keys with values: most_shown"),
        ({"most_shown": 101}, "most_shown: got 101, expected less than or equal to 100"),
        (7, "got 7, expected keys with values: most_shown"),
    ],
)
def test_rules_that_cannot_be_are_refused_in_one_line(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        read_settings(None, {}, {"shop_rules": value})
    assert "\n" not in str(refusal.value)


def test_a_variable_sets_rules_as_yaml() -> None:
    text = "{most_shown: 3, per_page: {brand: 2}, pinned: {1: 7}, forbidden: [x, 8]}"
    settings = read_settings(None, {"ZOOSIM_SERVE_SHOP_RULES": text}, {})
    expected = ShopRules(most_shown=3, per_page={"brand": 2}, pinned={1: "7"}, forbidden=["x", "8"])
    assert settings.shop_rules == expected == settings.rules.shop_rules
    assert expected.are_set
    assert expected.needs_history
    assert not ShopRules().are_set
