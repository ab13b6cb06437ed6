"""What a policy that finds its candidates itself may return, and what is refused of it."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import PolicyError
from zoosim.core.types import Retrieval
from zoosim.policies.retrieving import checked_retrieval

IDS = np.array([2, 3, 5, 7])
SOUND = Retrieval(np.array([7, 3]), np.array([0.25, 0.75]), "mine", "1", 0.1)


def test_what_follows_the_contract_is_taken_as_it_is() -> None:
    lists: Any = {"candidates": [7, 3], "propensities": [0.25, 0.75]}
    checked = checked_retrieval(SOUND._replace(**lists), IDS, IDS[:1])
    assert checked.candidates.tolist() == [7, 3]
    assert checked.propensities.tolist() == [0.25, 0.75]
    assert checked[2:] == SOUND[2:]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": [7, 4]}, "got the id 4, expected ids of the 4 products of the index"),
        ({"candidates": [7, 99]}, "got the id 99, expected ids of the 4 products of the index"),
        ({"candidates": [7, 2]}, "got the id 2, which the request bars"),
        ({"candidates": [7, 7]}, "got the id 7 twice, expected each candidate once"),
        ({"candidates": []}, r"got candidates \[\], expected ids of products"),
        ({"candidates": [0.5, 1.5]}, "expected ids of products"),
        ({"candidates": [[7], [3, 5]]}, "expected ids of products"),
        ({"propensities": [np.nan, 0.5]}, r"got propensities .*, expected a probability for each of the 2 candidates"),
        ({"propensities": [1.5, -0.5]}, "expected a probability for each of the 2 candidates, which add up to 1"),
        ({"propensities": [0.5, 0.4]}, "which add up to 1"),
        ({"propensities": [1.0]}, "for each of the 2 candidates"),
        ({"propensities": "high"}, "got propensities 'high'"),
        ({"spread": np.nan}, "got spread nan, expected the share of decisions, from 0 to 1"),
        ({"spread": np.complex128(0.5)}, "expected the share of decisions, from 0 to 1"),
        ({"name": ""}, "got name '' and version '1', expected texts"),
        ({"name": "catalogue"}, "got name 'catalogue', which logs keep for other sources"),
        ({"version": 3}, "got name 'mine' and version 3, expected texts"),
    ],
)
def test_what_breaks_the_contract_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message) as error:
        checked_retrieval(SOUND._replace(**changes), IDS, IDS[:1])
    assert str(error.value).startswith("retrieve: ")
    assert "\n" not in str(error.value)


def test_what_is_no_retrieval_is_refused() -> None:
    with pytest.raises(PolicyError, match="retrieve: got None, expected a Retrieval"):
        checked_retrieval(None, IDS, IDS[:0])


def test_ids_of_any_whole_type_are_known() -> None:
    """Ids have up to 63 bits, which floats have not."""
    ids = 2**60 + np.arange(4)
    answer = SOUND._replace(candidates=ids[[3, 0]].astype(np.uint64))
    checked = checked_retrieval(answer, ids, IDS[:0]).candidates
    np.testing.assert_array_equal(checked, ids[[3, 0]], strict=True)
