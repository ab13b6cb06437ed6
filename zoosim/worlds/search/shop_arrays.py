"""The arrays of a shop that compiled code reads, and one visit simulated from them: served, or valued in replicates."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.behaviour import (
    BehaviourParameters,
    Keys,
    RankingOutcome,
    Slate,
    behave,
    keys_of_replicate,
    replicate_value,
)
from zoosim.worlds.search.catalogue import SearchCatalogue
from zoosim.worlds.search.catalogue_index import CatalogueIndex
from zoosim.worlds.search.users import Users

GMV, CM2, STRATEGIC, CLICKS = range(4)
"""Places of the parts of a visit's reward."""


class ShopArrays(NamedTuple):
    """Catalogue and users of a shop, `log_price (K,)` = log(1 + price), and how people behave."""

    catalogue_index: CatalogueIndex
    catalogue: SearchCatalogue
    log_price: FloatArray
    users: Users
    behaviour: BehaviourParameters
    keys: Keys


@jit
def slate_of(
    arrays: ShopArrays, user: int, query_type: int, query: FloatArray, base: FloatArray, shown: IntArray
) -> Slate:
    """Return the products shown, as a visitor sees them.

    Args:
        arrays: The shop.
        user: Index of the user.
        query_type: Number of the query type.
        query: Embedding of the query, `(d,)`.
        base: Base scores, `(K,)`.
        shown: Indices of the products from the top, `(k,)`.
    """
    index = arrays.catalogue_index
    length = np.sqrt(np.sum(query * query))
    cosine = np.zeros(shown.shape[0])
    taste = np.empty(shown.shape[0])
    for n, p in enumerate(shown):
        # Embeddings are all 0 where a shop has base scores of its own; its cosines stay 0.
        if length > 0.0:
            for i in range(query.shape[0]):
                cosine[n] += query[i] * index.embeddings[i, p]
            cosine[n] *= index.inverse_lengths[p] / length
        taste[n] = arrays.users.category_tastes[user, index.category[p]]
    catalogue = arrays.catalogue
    behaviour = arrays.behaviour
    segment = arrays.users.segment[user]
    log_price = arrays.log_price[shown]
    appeal = catalogue.appeal[shown] + behaviour.type_intercept[query_type]
    purchase = np.empty(shown.shape[0])
    for n, p in enumerate(shown):
        appeal[n] += behaviour.segment_utility[segment, index.category[p]]
        appeal[n] += behaviour.segment_discount[segment] * catalogue.discount[p]
        purchase[n] = behaviour.segment_purchase[segment, 0] + behaviour.segment_purchase[segment, 1] * log_price[n]
    return Slate(
        shown,
        cosine,
        base[shown],
        log_price,
        catalogue.label[shown],
        taste,
        catalogue.discount[shown],
        catalogue.bestseller[shown],
        appeal,
        purchase,
        behaviour.segment_examination[segment],
    )


@jit
def serve(
    arrays: ShopArrays,
    step: int,
    user: int,
    query_type: int,
    query: FloatArray,
    base: FloatArray,
    shown: IntArray,
    out: RankingOutcome,
) -> FloatArray:
    """Simulate a visit to a ranking.

    Args:
        arrays: The shop.
        step: Number of the visit.
        user: Index of the user.
        query_type: Number of the query type.
        query: Embedding of the query, `(d,)`.
        base: Base scores, `(K,)`.
        shown: Indices of the products from the top, `(k,)`.
        out: An empty outcome of k positions, which is filled.

    Returns:
        GMV and CM2 of what was bought in EUR, strategic purchases, clicks, `(4,)`.
    """
    tastes = (arrays.users.price_taste[user], arrays.users.label_taste[user])
    slate = slate_of(arrays, user, query_type, query, base, shown)
    behave(arrays.behaviour, slate, query_type, tastes, arrays.keys, step, out)
    total = np.zeros(4)
    for n, p in enumerate(shown):
        total[CLICKS] += out.clicks[n]
        if out.purchases[n]:
            total[GMV] += arrays.catalogue.price[p]
            total[CM2] += arrays.catalogue.cm2[p]
            total[STRATEGIC] += arrays.catalogue.strategic[p]
    return total


@jit
def value_replicates(
    arrays: ShopArrays,
    step: int,
    user: int,
    query_type: int,
    query: FloatArray,
    base: FloatArray,
    shown: IntArray,
    weights: FloatArray,
    out: FloatArray,
) -> None:
    """Write what a ranking earns in replicates 1 to n of a visit, in EUR; see `replicate_value`.

    Args:
        arrays: The shop.
        step: Number of the visit.
        user: Index of the user.
        query_type: Number of the query type.
        query: Embedding of the query, `(d,)`.
        base: Base scores, `(K,)`.
        shown: Indices of the products from the top, `(k,)`.
        weights: Worth of a EUR of GMV, a EUR of CM2, a strategic purchase and a click, `(4,)`.
        out: Overwritten, `(n,)`.
    """
    slate = slate_of(arrays, user, query_type, query, base, shown)
    values = np.empty(shown.shape[0] + 1)
    for n, p in enumerate(shown):
        values[n] = weights[GMV] * arrays.catalogue.price[p] + weights[CM2] * arrays.catalogue.cm2[p]
        values[n] += weights[STRATEGIC] * arrays.catalogue.strategic[p]
    values[-1] = weights[CLICKS]
    tastes = (arrays.users.price_taste[user], arrays.users.label_taste[user])
    for replicate in range(out.shape[0]):
        # From 1 on: 0 would be the visit as it happens, which a policy may have learned from.
        keys = keys_of_replicate(arrays.keys, 1 + replicate)
        out[replicate] = replicate_value(arrays.behaviour, slate, query_type, tastes, keys, step, values)
