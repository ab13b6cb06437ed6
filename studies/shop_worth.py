"""What it is worth to show what a policy takes for best, where it sees what a shop does: exact.

What a shop sees of a visitor follows from more than the state by which laws go: from the kind of the last click, and
from what the shop has counted. With both the visitor's life is a Markov chain under any policy, whose worth is found by
value iteration.
"""

from collections.abc import Callable

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.sessions.truth import SessionTruth
from zoosim.worlds.sessions.visitors import LARGEST_SUM

SUMS = 2 * LARGEST_SUM + 1
"""Sums of sound less teaser clicks that a shop tells apart."""

SETTLED = 1e-6
"""Change of values, in clicks, at which they are settled."""

MOST_SWEEPS = 100_000


def shop_observations(truth: SessionTruth) -> FloatArray:
    """Return all that is observed under `observe: shop`, `(P, 2 C + 1, SUMS, M + 1, features)`.

    By persona, kind clicked last or none, the shop's sum, and the clicks of the visit: all are one-hot.
    """
    sizes = (truth.n_personas, truth.laws.kinds + 1, SUMS, truth.laws.shape[2])
    parts = np.indices(sizes).reshape(len(sizes), -1)
    rows = np.hstack([np.eye(size)[part] for size, part in zip(sizes, parts, strict=True)])
    return rows.reshape(*sizes, -1)


def shop_worth(truth: SessionTruth, choose: Callable[[FloatArray], IntArray]) -> float:
    """Return the clicks of a new visitor under a policy that sees what a shop does.

    Args:
        truth: Of the visitors. All products are there, and all clicks count 1.
        choose: Takes observations `(n, features)`, those of all that a shop may see, and returns kinds or products
            `(n,)`.
    """
    observed = shop_observations(truth)
    *sizes, width = observed.shape
    shown = (np.asarray(choose(observed.reshape(-1, width))) % truth.laws.kinds).reshape(sizes)
    none = truth.laws.shape[0] - 1
    last, _, count = np.indices(truth.laws.shape).reshape(3, -1)
    # Of a state, a kind of the last click and a sum: what was clicked last, none where the state says so.
    is_teaser = np.arange(2)
    kind = np.where(last[:, np.newaxis] < none, 2 * last[:, np.newaxis] + is_teaser, truth.laws.kinds)
    total = np.arange(SUMS)
    states = np.arange(len(last))[:, np.newaxis, np.newaxis]
    worth = 0.0
    for persona, share in enumerate(truth.laws.shares):
        kinds = shown[persona, kind[:, :, np.newaxis], total, count[:, np.newaxis, np.newaxis]]
        chance = truth.clicks[persona][states, kinds]
        after = truth.after_click[states, kinds]
        teaser = kinds % 2
        counted = np.clip(total + 1 - 2 * teaser, 0, SUMS - 1)
        values = np.zeros(kinds.shape)
        for _ in range(MOST_SWEEPS):
            onward = (truth.onward @ values.reshape(len(states), -1)).reshape(values.shape)
            risen = chance * (1.0 + onward[after, teaser, counted]) + (1.0 - chance) * onward
            change = np.abs(risen - values).max()
            values = risen
            if change < SETTLED:
                break
        worth += float(share * values[truth.start, 0, LARGEST_SUM])
    return worth
