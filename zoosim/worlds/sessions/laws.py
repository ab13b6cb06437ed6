"""The laws of visits as arrays over a visitor's states: what is clicked, and who goes on, comes back or has gone."""

from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.sessions.config import SessionConfig

SOUND, TEASER = 0, 1


class Laws(NamedTuple):
    """What follows in each state of a visitor, by what is shown.

    With P personas, C categories, `levels` of satisfaction and M + 1 counts of clicks. A kind of product is number
    2 c + teaser. `clicks (P, C + 1, 2 C)` are chances of a click by the category clicked last, C for none;
    `returns (S, M + 1)` chances of a return at the end of a visit by satisfaction: by the level; where that is felt a
    visit later, S = levels^2, by the level at the end of the visit before times `levels`, plus that of now. `goes_on`
    is the chance that a visit goes on, `paid` that a click is worth anything, `missing` that a kind is sold out at a
    decision; `first` the satisfaction of a visitor who is new; `shares (P,)` those of personas among them.
    """

    clicks: FloatArray
    returns: FloatArray
    goes_on: float
    paid: float
    missing: float
    first: int
    shares: FloatArray
    levels: int

    @property
    def is_felt_later(self) -> bool:
        """True where a return depends on the satisfaction at the end of the visit before."""
        return len(self.returns) > self.levels

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return how many states there are of a persona: by the last category, satisfaction, and the clicks."""
        return self.clicks.shape[1], *self.returns.shape

    @property
    def kinds(self) -> int:
        """Return the number of kinds of products, 2 C."""
        return int(self.clicks.shape[2])


def laws_of(config: SessionConfig, table: FloatArray) -> Laws:
    """Return the laws of a shop.

    Args:
        config: The shop.
        table: Click probabilities `(personas, categories)` of sound products.
    """
    categories = config.categories
    count = len(categories)
    logits = np.repeat(np.log(table / (1.0 - table)), 2, axis=1) + config.teaser * (np.arange(2 * count) % 2)
    by_last = np.repeat(logits[:, np.newaxis], count + 1, axis=1)
    for last, category in enumerate(categories):
        by_last[:, last, 2 * last : 2 * last + 2] -= config.boredom
        if category in config.companions:
            led_to = 2 * categories.index(config.companions[category])
            by_last[:, last, led_to : led_to + 2] += config.intent
    levels = config.level * np.arange(-config.levels, config.levels + 1)
    counts = np.arange(config.most_clicks + 1)
    logit = np.log(config.comes_back / (1.0 - config.comes_back))
    first = config.levels
    felt = levels
    if config.felt_after:
        first = first * len(levels) + first
        felt = np.repeat(levels, len(levels))
    logit = logit + config.return_by_satisfaction * felt[:, np.newaxis] + config.return_by_click * counts
    return Laws(
        clicks=special.expit(by_last),
        returns=special.expit(logit),
        goes_on=config.go_on,
        paid=config.paid,
        missing=config.sold_out**config.per_kind,
        first=first,
        shares=np.array(config.shares),
        levels=len(levels),
    )


def shares_by_rank(laws: Laws) -> FloatArray:
    """Return how likely each place of an order of kinds is shown, `(kinds,)`: the first that is not sold out.

    Each kind is missing with the same chance, by itself, and if all were, all are there.
    """
    places = np.arange(laws.kinds)
    shares = np.asarray((1.0 - laws.missing) * laws.missing**places, dtype=float)
    shares[0] += laws.missing**laws.kinds
    return shares


def first_there(laws: Laws, orders: IntArray) -> FloatArray:
    """Return the policy that shows the first kind that is not sold out.

    Args:
        laws: The laws of the shop.
        orders: Kinds in the order in which they are to be shown, `(..., kinds)`.

    Returns:
        Probability of each kind, `(..., kinds)`.
    """
    policy = np.empty(orders.shape)
    np.put_along_axis(policy, orders, np.broadcast_to(shares_by_rank(laws), orders.shape), axis=-1)
    return policy


def states_after_click(laws: Laws) -> IntArray:
    """Return the number of the state of a persona after a click on each kind at each state, `(states, kinds)`.

    States are numbered as an array `(C + 1, S, M + 1)` stands in memory.
    """
    lasts, satisfactions, counts = laws.shape
    kinds = np.arange(laws.kinds)
    step = np.where(kinds % 2 == TEASER, -1, 1)
    satisfaction = np.arange(satisfactions)[:, np.newaxis]
    level = satisfaction % laws.levels
    after_click = satisfaction - level + np.clip(level + step, 0, laws.levels - 1)
    count = np.minimum(np.arange(counts) + 1, counts - 1)
    after = np.ravel_multi_index(
        np.broadcast_arrays(
            (kinds // 2)[np.newaxis, np.newaxis, np.newaxis, :],
            after_click[np.newaxis, :, np.newaxis, :],
            count[np.newaxis, np.newaxis, :, np.newaxis],
            np.zeros((lasts, 1, 1, 1), int),
        )[:3],
        laws.shape,
    )
    return np.asarray(after).reshape(-1, laws.kinds)
