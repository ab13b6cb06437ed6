"""All that a visit needs in one place for compiled code: shop, people and laws."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.behaviour import Keys, Laws, Outcome, Slate, behave, expectation, in_mood
from zoosim.worlds.search.catalogue import Catalogue
from zoosim.worlds.search.catalogue_index import Shelf
from zoosim.worlds.search.users import Users

GMV, CM2, STRATEGIC, CLICKS = range(4)
"""Places of what a visit came to."""


class Stage(NamedTuple):
    """Catalogue and users of a shop, `log_price (K,)` = log(1 + price), and how people behave."""

    shelf: Shelf
    catalogue: Catalogue
    log_price: FloatArray
    users: Users
    laws: Laws
    keys: Keys


@jit
def slate_of(stage: Stage, user: int, query: FloatArray, shown: IntArray) -> Slate:
    """Return the products `shown (k,)` as `user` with a query `(d,)` sees them."""
    shelf, length = stage.shelf, np.sqrt(np.sum(query * query))
    cosine, taste = np.zeros(shown.shape[0]), np.empty(shown.shape[0])
    for n, p in enumerate(shown):
        if length > 0.0:
            for i in range(query.shape[0]):
                cosine[n] += query[i] * shelf.embeddings[i, p]
            cosine[n] *= shelf.lengths[p] / length
        taste[n] = stage.users.category_tastes[user, shelf.category[p]]
    return Slate(shown, cosine, stage.log_price[shown], stage.catalogue.label[shown], taste)


@jit
def serve(
    stage: Stage, step: int, user: int, kind: int, query: FloatArray, shown: IntArray, out: Outcome
) -> FloatArray:
    """Let visitor number `step` go through the products `shown (k,)`; `out` is new.

    Returns `(4,)` GMV and CM2 of what was bought in EUR, strategic purchases, clicks.
    """
    tastes = (stage.users.price_taste[user], stage.users.label_taste[user])
    behave(stage.laws, slate_of(stage, user, query, shown), kind, tastes, stage.keys, step, out)
    total = np.zeros(4)
    for n, p in enumerate(shown):
        total[CLICKS] += out.clicks[n]
        if out.purchases[n]:
            total[GMV] += stage.catalogue.price[p]
            total[CM2] += stage.catalogue.cm2[p]
            total[STRATEGIC] += stage.catalogue.strategic[p]
    return total


@jit
def expect(
    stage: Stage,
    step: int,
    user: int,
    kind: int,
    query: FloatArray,
    shown: IntArray,
    worth: FloatArray,
    first: int,
    out: FloatArray,
) -> None:
    """Write to `out (moods,)` what the products `shown (k,)` come to in moods `first` on, weighed by `worth (4,)`.

    See `expectation`; mood 0 is that of the visit as it happens.
    """
    slate, values = slate_of(stage, user, query, shown), np.empty(shown.shape[0] + 1)
    for n, p in enumerate(shown):
        values[n] = worth[GMV] * stage.catalogue.price[p] + worth[CM2] * stage.catalogue.cm2[p]
        values[n] += worth[STRATEGIC] * stage.catalogue.strategic[p]
    values[-1] = worth[CLICKS]
    tastes = (stage.users.price_taste[user], stage.users.label_taste[user])
    for mood in range(out.shape[0]):
        keys = in_mood(stage.keys, first + mood)
        out[mood] = expectation(stage.laws, slate, kind, tastes, keys, step, values)
