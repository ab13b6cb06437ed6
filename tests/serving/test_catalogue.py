import weakref
from typing import Any

import numpy as np
import pytest

from zoosim.policies.model import Catalogue
from zoosim.serving.catalogue import ALL_AVAILABLE, ServedCatalogue
from zoosim.serving.described import Contents
from zoosim.serving.events import Product, pack_floats

NAMES = ("a", "b", "c")


@pytest.fixture
def catalogue() -> ServedCatalogue:
    return ServedCatalogue(Catalogue(NAMES, np.eye(3)))


def test_names_of_what_may_be_shown_have_their_current_versions(catalogue: ServedCatalogue) -> None:
    assert catalogue.versions_to_show(Contents(["c", "a"])) == [-3, -1]
    catalogue.change(17, Product("a", pack_floats(np.zeros(3)), True, "model"))
    assert catalogue.versions_to_show(Contents(["c", "a"])) == [-3, 17]


@pytest.mark.parametrize("candidates", [[], ["a", "a"], ["a", "unknown"], ["a", 7], ["a", {"id": "b"}]])
def test_what_needs_a_look_has_no_versions(catalogue: ServedCatalogue, candidates: list[Any]) -> None:
    assert catalogue.versions_to_show(Contents(candidates)) is None


def test_what_is_hidden_has_no_version(catalogue: ServedCatalogue) -> None:
    catalogue.change(17, Product("a", pack_floats(np.zeros(3)), False, "model"))
    assert catalogue.versions_to_show(Contents(["a", "b"])) is None


def test_what_is_described_as_before_has_its_version_until_the_product_changes(catalogue: ServedCatalogue) -> None:
    described = Contents(["c", {"id": "a", "price": 1}])
    assert catalogue.versions_to_show(described) is None
    catalogue.note_described(described, {"c": -3, "a": -1})
    assert catalogue.versions_to_show(Contents(["c", {"id": "a", "price": 1}])) == [-3, -1]
    assert catalogue.versions_to_show(Contents([{"id": "a", "price": 1}, "a"])) is None
    # Equal in Python, and not the same in a column of words.
    assert catalogue.versions_to_show(Contents([{"id": "a", "price": True}])) is None
    assert catalogue.versions_to_show(Contents([{"id": "a", "price": 1.0}])) is None
    catalogue.change(17, Product("a", pack_floats(np.zeros(3)), True, "model"))
    assert catalogue.versions_to_show(described) is None


def test_what_is_available_is_shared_by_few_candidates_and_kept_of_many_no_longer_than_these(
    catalogue: ServedCatalogue,
) -> None:
    few = catalogue.passing([-3, -1]).available
    assert few.tolist() == [True, True]
    assert np.shares_memory(few, ALL_AVAILABLE)
    assert not few.flags.writeable
    count = len(ALL_AVAILABLE) + 1
    large = ServedCatalogue(Catalogue(tuple(map(str, range(count))), np.zeros((count, 1))))
    candidates = large.passing(large.everything().versions.tolist())
    assert candidates.available.sum() == count
    assert not candidates.available.flags.writeable
    mask = weakref.ref(candidates.available)
    del candidates
    assert mask() is None
