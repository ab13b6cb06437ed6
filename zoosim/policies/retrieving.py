"""The contract of policies that find their candidates themselves, in an index of products."""

from abc import abstractmethod
from typing import Any

import numpy as np

from zoosim.core.arrays import as_floats, places_in
from zoosim.core.errors import PolicyError
from zoosim.core.parameters import shown
from zoosim.core.types import CATALOGUE, POOL, REQUEST, Context, FloatArray, IntArray, Retrieval, RetrievedDecision
from zoosim.policies.base import Policy
from zoosim.policies.requests import SUM_TOLERANCE
from zoosim.retrieval import Index


class RetrievingPolicy(Policy):
    """A policy that retrieves its candidates and ranks them, in a cost that does not grow with each product.

    A request without products is about those of the index that `use_index` gave it. It may name ids that must not be
    shown, `barred (m,)`, and the `count` of products that its page has: none of the former is retrieved, and so many
    are, where there are. A request that brings products is answered among these alone, and leaves that index as it is.
    An index is no part of what was learned: it is given again to a policy that was loaded.
    """

    @property
    @abstractmethod
    def index(self) -> Index | None:
        """The index that requests without products are about; None where none was given."""

    @abstractmethod
    def use_index(self, index: Index) -> None:
        """Retrieve from an index of products' features from now on; to be called again where it changed.

        Raises:
            PolicyError: its vectors have another width than products' features.
        """

    @abstractmethod
    def retrieve(self, context: Context) -> Retrieval:
        """Return the candidates of a request and their probabilities, before anything is drawn; moves no state.

        Raises:
            PolicyError: the request is none, or there are no products.
        """

    @abstractmethod
    def decide(self, context: Context, draw: float | None = None) -> RetrievedDecision:
        """Draw a product with all that a log has to say of it.

        Args:
            context: The request: `user`, and `product_ids`, `products` and `available` where it brings them.
            draw: A number in [0, 1) that settles the draw. Default: the policy's next.

        Raises:
            PolicyError: the request or the draw is none, or there are no products.
        """


def checked_retrieval(answer: Any, ids: IntArray, barred: IntArray) -> Retrieval:
    """Return what a policy retrieved for a request without products.

    Args:
        answer: What its `retrieve` returned.
        ids: Ids of the products of its index, ascending `(n,)`.
        barred: Those that the request bars `(m,)`.

    Raises:
        PolicyError: it is no retrieval, holds an id that it must not hold, or no probabilities.
    """
    if not isinstance(answer, Retrieval):
        raise PolicyError(f"retrieve: got {shown(answer)}, expected a Retrieval (zoosim.core.types)")
    candidates = _checked_candidates(answer.candidates, ids, barred)
    chances = _checked_chances(answer.propensities, len(candidates))
    spread = answer.spread
    is_number = isinstance(spread, int | float | np.integer | np.floating) and not isinstance(spread, bool)
    if not is_number or not 0.0 <= spread <= 1.0:
        raise PolicyError(f"retrieve: got spread {shown(spread)}, expected the share of decisions, from 0 to 1")
    if not isinstance(answer.name, str) or not answer.name or not isinstance(answer.version, str):
        got = f"got name {shown(answer.name)} and version {shown(answer.version)}"
        raise PolicyError(f"retrieve: {got}, expected texts that name the retrieval in the log")
    if answer.name in (CATALOGUE, POOL, REQUEST):  # by which logs say that there was nothing else, or no retrieval
        raise PolicyError(f"retrieve: got name {shown(answer.name)}, which logs keep for other sources; give another")
    return answer._replace(candidates=candidates, propensities=chances, spread=float(spread))


def _checked_candidates(value: Any, ids: IntArray, barred: IntArray) -> IntArray:
    try:
        given = np.asarray(value)
    except ValueError:  # of lists of different lengths
        given = np.zeros(0)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
        raise PolicyError(f"retrieve: got candidates {shown(value)}, expected ids of products (c,), at least one")
    candidates = given.astype(np.int64)  # as ids are: beside unsigned numbers numpy would compare them as floats
    is_unknown = places_in(ids, candidates) < 0
    if is_unknown.any():
        unknown = f"got the id {candidates[is_unknown][0]}, expected ids of the {len(ids):,} products of the index"
        raise PolicyError(f"retrieve: {unknown}; search the one that use_index gave")
    is_barred = np.isin(candidates, barred)
    if is_barred.any():
        raise PolicyError(f"retrieve: got the id {candidates[is_barred][0]}, which the request bars; leave it out")
    ascending = np.sort(candidates)
    repeated = ascending[1:][ascending[1:] == ascending[:-1]]
    if len(repeated):
        raise PolicyError(f"retrieve: got the id {repeated[0]} twice, expected each candidate once")
    return candidates


def _checked_chances(value: Any, count: int) -> FloatArray:
    try:
        chances = as_floats(value)
    except (TypeError, ValueError):
        chances = np.zeros(0)
    # Not `chances < 0`, which is false of NaN.
    if chances.shape != (count,) or not (chances >= 0.0).all() or not abs(chances.sum() - 1.0) <= SUM_TOLERANCE:
        expected = f"expected a probability for each of the {count:,} candidates, which add up to 1"
        raise PolicyError(f"retrieve: got propensities {shown(value)}, {expected}")
    return chances
