"""A shop whose visitors have tastes of their own, beside those of their segment."""

import numpy as np
from scipy import special

from zoosim.core.rng import stream, stream_key
from zoosim.core.types import frozen
from zoosim.worlds.table import Period, TableWorld

PRODUCTS = 50
FEATURES = 64
BASE = -1.5
"""The logit of a click on a product that a visitor neither likes nor dislikes."""

SEGMENTS = ("even", "odd")
SHARED = 0.5
"""By how much the tastes of segments scatter, in units of the tastes of all."""


def own_tastes(seed: int, *, visitors: int, own: float) -> TableWorld:
    """Return a shop of 50 products of 64 features, to whose visitors nobody can say what they like but by their clicks.

    A click on a product x has the logit `BASE` + x'(tastes of all + tastes of the segment + `own` x tastes of one's
    own), whose parts scatter over products by 1, `SHARED` and `own`. Visitors come at random. As a table it is one of
    chances by visitor and product, so each visitor is a segment of the `TableWorld`.

    Args:
        seed: Seed of products, tastes and visits.
        visitors: Number of visitors, of whom every other one is of the second segment.
        own: How much visitors differ beyond their segment.
    """
    # Rows of length 1 on average, so that tastes of independent features scatter by 1 over products.
    products = stream(seed, "products").normal(size=(PRODUCTS, FEATURES)) / np.sqrt(FEATURES)
    segments = np.arange(visitors) % len(SEGMENTS)
    tastes = stream(seed, "tastes of all").normal(size=FEATURES)
    of_segments = SHARED * stream(seed, "tastes of segments").normal(size=(len(SEGMENTS), FEATURES))
    of_visitors = own * stream(seed, "own tastes").normal(size=(visitors, FEATURES))
    chances = special.expit(BASE + (tastes + of_segments[segments] + of_visitors) @ products.T)
    return TableWorld(
        seed=seed,
        users=frozen(np.eye(len(SEGMENTS))[segments]),
        segments=frozen(np.arange(visitors)),
        products=frozen(products),
        groups=frozen(np.arange(PRODUCTS)),
        # The best is given, so that it is not looked for among all visitors at each block of visits.
        periods=(Period(0, frozen(chances), frozen(np.ones(PRODUCTS, bool)), best=frozen(chances.max(axis=1))),),
        segment_names=tuple(f"visitor {number}" for number in range(visitors)),
        group_names=tuple(f"product {number}" for number in range(PRODUCTS)),
        visit_key=stream_key(seed, "visits"),
        click_key=stream_key(seed, "clicks"),
    )
