"""Effects of a launch after the fact: by reward and by segment, with intervals that hold at all times at once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.monitoring.difference import DifferenceTest, Estimate, Reward

LEVEL = 0.05
"""Chance that any interval of a reward, of all visitors or of a segment, ever misses."""


class Effect(NamedTuple):
    """The effect of a launch on a reward, in all visitors (`segment` is empty) or in some.

    Attributes:
        reward: The reward.
        segment: Which visitors.
        visitors: How many counted; `new` of them met the new model.
        new: Those.
        estimate: The difference per visitor, new model less champion.
    """

    reward: str
    segment: str
    visitors: int
    new: int
    estimate: Estimate

    @property
    def sign(self) -> int:
        """1 where the new model is shown to earn more, -1 where less, else 0."""
        return int(self.estimate.low > 0.0) - int(self.estimate.high < 0.0)


def effects_on(
    reward: Reward,
    earned: FloatArray,
    is_new: BoolArray,
    share: FloatArray,
    segments: IntArray,
    names: Sequence[str],
) -> list[Effect]:
    """Return the effect on a reward in all visitors, then in each segment; its intervals hold together with 95%.

    Args:
        reward: The reward; what visitors earn beyond its bounds is cut.
        earned: What each visitor earned, in the order in which they came `(n,)`.
        is_new: Whether each met the new model `(n,)`.
        share: The chance of that `(n,)`.
        segments: The segment of each `(n,)`, -1 for none.
        names: The names of the segments; with one alone all visitors say the same.
    """
    parts = [("", np.ones(len(earned), bool))]
    if len(names) > 1:
        parts += [(name, segments == number) for number, name in enumerate(names)]
    # Two ends of each interval, all at once (Bonferroni).
    level = LEVEL / (2 * len(parts))
    effects = []
    for name, rows in parts:
        test = DifferenceTest(reward)
        test.update(is_new[rows], share[rows], earned[rows].clip(reward.low, reward.high))
        n_new = int(is_new[rows].sum())
        effects.append(Effect(reward.name, name, int(rows.sum()), n_new, test.estimate(level)))
    return effects
