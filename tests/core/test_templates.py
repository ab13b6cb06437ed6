"""Libraries of templates: what they add to scores, and what is refused."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import FEATURES, LIBRARY_NAMES, TEMPLATES
from zoosim.core.templates import LIBRARIES, arrays_of
from zoosim.worlds.search.tables import read_search_config

PRICE, DISCOUNT = FEATURES.index("price"), FEATURES.index("discount")


def library(templates: Any) -> SearchConfig:
    return read_search_config({"templates": templates})


def test_libraries_that_come_with_zoosim() -> None:
    assert tuple(LIBRARIES) == LIBRARY_NAMES
    assert [len(library(name).templates) for name in LIBRARY_NAMES] == [8, 50, 8, 50]
    assert SearchConfig().templates == library("rules").templates
    rules = arrays_of(LIBRARIES["rules"])
    np.testing.assert_array_equal(rules.rules, np.eye(8))
    np.testing.assert_array_equal(rules.boosts, np.zeros((8, 10)))
    vectors = arrays_of(LIBRARIES["vectors"])
    assert not vectors.rules.any()
    assert vectors.boosts[TEMPLATES.index("budget"), [DISCOUNT, PRICE]].tolist() == [0.5, -0.3]
    assert vectors.boosts[TEMPLATES.index("premium"), [DISCOUNT, PRICE]].tolist() == [0.0, 0.5]
    assert not vectors.boosts[TEMPLATES.index("neutral")].any()


def test_the_fifty_are_the_eight_and_two_mixtures_of_each_pair() -> None:
    mixed = arrays_of(LIBRARIES["vectors-50"]).boosts
    names = list(LIBRARIES["vectors-50"])
    np.testing.assert_array_equal(mixed[:8], arrays_of(LIBRARIES["vectors"]).boosts)
    assert len({tuple(row) for row in mixed.tolist()}) == 50
    assert arrays_of(LIBRARIES["rules-50"]).rules[8:10].tolist() == [
        [0.0, 0.7, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.3, 0.7, 0.0, 0.0, 0.0, 0.0, 0.0],
    ]
    blend = mixed[names.index("premium-budget")]
    np.testing.assert_allclose(blend[[PRICE, DISCOUNT]], [0.7 * 0.5 - 0.3 * 0.3, 0.3 * 0.5])


def test_a_mixture_of_mixtures_and_rules_adds_up() -> None:
    config = library(
        {
            "half": {"mix": {"blend": 0.5, "plain": 0.5}},  # before the template that it mixes
            "blend": {"mix": {"dear": 0.7, "rule": 0.3}},
            "dear": {"boosts": {"price": 1.0}},
            "rule": {"rule": "budget"},
            "plain": {},
        }
    )
    arrays = arrays_of(config.templates)
    assert arrays.boosts[0, PRICE] == pytest.approx(0.35)
    assert arrays.rules[0, TEMPLATES.index("budget")] == pytest.approx(0.15)
    assert arrays.boosts[1, PRICE] == pytest.approx(0.7)


def test_many_templates_that_mix_many_others_take_no_time() -> None:
    """Each mixes the two before it: some 2^128 ways lead from the last to the first."""
    chain: dict[str, Any] = {"0": {"boosts": {"price": 1.0}}, "1": {}}
    for n in range(2, 256):
        chain[str(n)] = {"mix": {str(n - 1): 0.5, str(n - 2): 0.5}}
    assert arrays_of(library(chain).templates).boosts[255, PRICE] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        ("vektors", "got 'vektors', expected rules, rules-50, vectors, vectors-50, or a mapping of names to templates"),
        ({"a": {}}, "expected at least 2 items, not 1"),
        ({str(n): {} for n in range(257)}, "expected at most 256 items, not 257"),
        (
            {"a": {}, "b": {"boosts": {"prise": 1.0}}},
            r"templates.b: boosts: unknown feature 'prise' \(did you mean",
        ),
        ({"a": {"mix": {"b": 1.0}}, "b": {"mix": {"a": 1.0}}}, "templates: a mixes b mixes a, expected no circle"),
        ({"a": {"mix": {"a": 1.0}}, "b": {}}, "templates: a mixes a, expected no circle"),
        ({"a": {"mix": {"c": 1.0}}, "b": {}}, "templates.a.mix: unknown template 'c'; known: a, b"),
        ({"a": {"mix": {"b": 0.5}}, "b": {}}, "templates.a: mix: shares add up to 0.5, expected 1"),
        ({"a": {"boosts": {"price": 9.0}}, "b": {}}, "templates.a.boosts.price is 9, expected -5 to 5: raise a_max"),
        ({"a\nb": {}, "b": {}}, r"templates: got the name 'a\\nb', expected characters that can be printed"),
        (
            {"a": {"boosts": {"price": 1.0}, "rule": "cm2"}, "b": {}},
            "templates.a: got boosts and rule, expected one",
        ),
        ({"a": {"boosts": {"price": float("nan")}}, "b": {}}, "templates.a.boosts.price"),
        ({"a": {"boosts": [1.0]}, "b": {}}, r"templates.a.boosts: got \[1.0\], expected names with values, such as"),
        ({True: {}, "b": {}}, "templates: got the name True, expected text; put it in quotes"),
        ({"": {}, "b": {}}, "templates: got the name '', expected at least 1 character"),
        ({"a" * 101: {}, "b": {}}, "templates: got the name 'a.*, expected at most 100 characters"),
        ({"\ud800": {}, "b": {}}, r"templates: got the name '\\ud800', expected text that UTF-8 can write"),
    ],
)
def test_what_is_no_library_is_refused_in_one_line(templates: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        library(templates)
    assert "\n" not in str(refusal.value)


def test_a_library_outside_of_the_box_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"templates.cm2.boosts.cm2 is 0.5, expected -0.4 to 0.4"):
        read_search_config({"a_max": 0.4, "templates": "vectors"})
