from typing import Any

import numpy as np
import pytest

from zoosim.policies.model import Catalogue
from zoosim.serving.catalogue import ServedCatalogue
from zoosim.serving.events import Product, pack_floats

NAMES = ("a", "b", "c")


@pytest.fixture
def catalogue() -> ServedCatalogue:
    return ServedCatalogue(Catalogue(NAMES, np.eye(3)))


def test_names_of_what_may_be_shown_have_their_current_versions(catalogue: ServedCatalogue) -> None:
    assert catalogue.versions_to_show(["c", "a"]) == [-3, -1]
    catalogue.change(17, Product("a", pack_floats(np.zeros(3)), True, "model"))
    assert catalogue.versions_to_show(["c", "a"]) == [-3, 17]


@pytest.mark.parametrize("candidates", [[], ["a", "a"], ["a", "unknown"], ["a", 7], ["a", {"id": "b"}]])
def test_what_needs_a_look_has_no_versions(catalogue: ServedCatalogue, candidates: list[Any]) -> None:
    assert catalogue.versions_to_show(candidates) is None


def test_what_is_hidden_has_no_version(catalogue: ServedCatalogue) -> None:
    catalogue.change(17, Product("a", pack_floats(np.zeros(3)), False, "model"))
    assert catalogue.versions_to_show(["a", "b"]) is None
