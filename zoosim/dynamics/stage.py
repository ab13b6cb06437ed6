"""All that a visit needs in one place for compiled code: shop, people and laws."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.dynamics.visit import Keys, Laws, Outcome, Slate, behave, empty_outcome, in_mood, purchase_chance, sigmoid
from zoosim.ranking.shelf import Shelf
from zoosim.world.catalogue import Catalogue
from zoosim.world.users import Users

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
    stage: Stage, step: int, user: int, kind: int, query: FloatArray, shown: IntArray, worth: FloatArray, mood: int
) -> float:
    """Return what the products `shown (k,)` come to in one mood of a visitor, weighed by `worth (4,)`.

    Utilities and satisfaction go as they are drawn; at each position that it comes to, clicks and purchases count by
    their chances, so that the mean over moods is the expectation, and varies less than what visits come to (Rao 1945,
    Blackwell 1947). Mood 0 is that of the visit as it happens.
    """
    slate, out = slate_of(stage, user, query, shown), empty_outcome(shown.shape[0])
    tastes = (stage.users.price_taste[user], stage.users.label_taste[user])
    behave(stage.laws, slate, kind, tastes, in_mood(stage.keys, mood), step, out)
    total = 0.0
    for n, p in enumerate(shown):
        if np.isnan(out.examine[n]):
            break
        bought = purchase_chance(stage.laws, out.utilities[n], stage.log_price[p])
        value = worth[GMV] * stage.catalogue.price[p] + worth[CM2] * stage.catalogue.cm2[p]
        value += worth[STRATEGIC] * stage.catalogue.strategic[p]
        total += out.examine[n] * sigmoid(out.utilities[n]) * (worth[CLICKS] + bought * value)
    return total
