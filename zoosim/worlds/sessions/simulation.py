"""Compiled visits of many visitors, one after another, under a policy that is a table of probabilities."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import stream_key, uniform
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.sessions.decisions import draw_keys, draw_persona, has_gone, is_clicked, is_over
from zoosim.worlds.sessions.laws import Laws

MOST_STEPS = 100_000
"""Decisions after which a visitor is cut off."""


class Lives(NamedTuple):
    """The `clicks`, `visits` and `steps` of visitors, each `(n,)`."""

    clicks: IntArray
    visits: IntArray
    steps: IntArray


def simulate(laws: Laws, policy: FloatArray, visitors: int, *, seed: int) -> Lives:
    """Return the lives of new visitors.

    Draws follow from the seed, the visitor, the decision and the kind that is shown, so that two policies meet the same
    visitors.

    Args:
        laws: The laws of the shop.
        policy: Probability of each kind in each state, `(P, states, kinds)`.
        visitors: How many.
        seed: Seed of all draws.
    """
    lives = Lives(*(np.zeros(visitors, np.int64) for _ in range(3)))
    # Down to rounding 1 at the last kind: a draw below 1 then always finds one.
    up_to = np.cumsum(policy, axis=2)
    up_to[:, :, -1] = 1.0
    shares = np.cumsum(laws.shares)
    _live(
        laws.clicks,
        laws.returns,
        laws.goes_on,
        laws.first,
        shares,
        up_to,
        stream_key(seed, "shown"),
        draw_keys(seed),
        *lives,
    )
    return lives


@jit
def _live(
    clicks: FloatArray,
    returns: FloatArray,
    goes_on: float,
    first: int,
    shares: FloatArray,
    up_to: FloatArray,
    shown: np.uint64,
    keys: np.ndarray,
    n_clicks: IntArray,
    n_visits: IntArray,
    n_steps: IntArray,
) -> None:
    none = clicks.shape[1] - 1
    kinds = clicks.shape[2]
    levels, counts = returns.shape
    for visitor in range(n_clicks.shape[0]):
        persona = draw_persona(shares, keys, visitor)
        last = none
        level = first
        count = 0
        for step in range(MOST_STEPS):
            draw = uniform(shown, visitor, step)
            row = up_to[persona, (last * levels + level) * counts + count]
            kind = 0
            while draw >= row[kind]:
                kind += 1
            n_steps[visitor] += 1
            if is_clicked(clicks[persona, last, kind], keys, visitor, step, kind, kinds):
                n_clicks[visitor] += 1
                last = kind // 2
                level = max(level - 1, 0) if kind % 2 else min(level + 1, levels - 1)
                count = min(count + 1, counts - 1)
            if is_over(goes_on, keys, visitor, step):
                if has_gone(returns[level, count], keys, visitor, n_visits[visitor]):
                    break
                n_visits[visitor] += 1
                last = none
                count = 0
        n_visits[visitor] += 1
