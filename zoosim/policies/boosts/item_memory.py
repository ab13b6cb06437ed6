"""The visits that `ItemCritic` remembers, and how its models are fitted to them."""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import INPUTS, NOT_NEGATIVE, Limits
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import copy_vector, dot
from zoosim.linear.logistic import Logistic, absorb, chance, new_logistic, newton_step
from zoosim.models.examination import count_looks, look_table, looked_at
from zoosim.policies.boosts.base import BoostSpec
from zoosim.policies.boosts.item_features import COLUMNS, Crossed, join, prior_of, sizes_of
from zoosim.policies.boosts.item_scales import ItemScales, scale_row

DEPTH = 12
"""Positions from the top that are remembered."""

FAINT = 0.01
"""Positions that were looked at with less probability are left out."""

REACHED = 4.0
LOOKED = 2.4
"""Positions reached, and looked at, that the rate of all positions begins with."""

SMOOTH = 15.0
POOLED = 10.0
"""Positions reached that the rate of all positions counts as for each one, and that of all types for each type."""

BUYS = (1.0, 0.3)
"""Mean and deviation, before anything is known, of the log odds of a purchase for one of the log odds of a click."""

BUYS_WIDTH = 0.5
"""Prior width of what sets purchases apart from clicks, in units of the prior deviations of clicks."""


SHARES = Limits(0.0, 1.0)


class ItemMemory(NamedTuple):
    """The last visits, at most N, of at most m positions each, and the models that were learned from all visits.

    `visitors (N, u)`, `kinds (N,)`, `shown (N,)` how many positions there were, `columns (N, m, 6)` of products, not
    scaled, `pairs (N, m, r)`, `clicks (N, m)`, `purchases (N, m)`; `held (1,)` visits are held. `scales` are those that
    the models see products in. `click` and `purchase` are the models, the latter over one column more in front: the
    log odds of a click. `looks (T, m, 2)` counts the positions reached and looked at in visits that were dropped;
    `look (T, m)` is the table.
    """

    visitors: Annotated[FloatArray, INPUTS]
    kinds: IntArray
    shown: IntArray
    columns: Annotated[FloatArray, INPUTS]
    pairs: Annotated[FloatArray, INPUTS]
    clicks: BoolArray
    purchases: BoolArray
    held: IntArray
    scales: ItemScales
    click: Logistic
    purchase: Logistic
    looks: Annotated[FloatArray, NOT_NEGATIVE]
    look: Annotated[FloatArray, SHARES]

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        visits, depth = self.clicks.shape
        bounds = {"held": visits, "shown": depth, "kinds": len(self.look) - 1}
        for name, highest in bounds.items():
            largest = getattr(self, name).max()
            if largest > highest:
                yield f"{name} holds {largest}, expected at most {highest:,}"


class Examples(NamedTuple):
    """Examples for both models: rows of what was looked at, whether it was clicked, with what weight; and of clicks."""

    rows: FloatArray
    clicked: FloatArray
    weights: FloatArray
    purchase_rows: FloatArray
    purchased: FloatArray


def new_memory(spec: BoostSpec, capacity: int) -> ItemMemory:
    """Return an empty memory, with models that have seen nothing.

    Args:
        spec: The task.
        capacity: Most visits that it holds.
    """
    sizes = sizes_of(spec)
    means, deviations = prior_of(spec)
    depth = min(DEPTH, spec.k)
    kinds = max(1, spec.n_kinds)
    # The first weight is that of the log odds of a click, around 1: what is likely clicked is likely bought.
    purchase = np.append(BUYS[0], np.zeros(sizes.row)), np.append(BUYS[1], BUYS_WIDTH * deviations)
    return ItemMemory(
        visitors=np.zeros((capacity, sizes.visitor)),
        kinds=np.zeros(capacity, np.int64),
        shown=np.zeros(capacity, np.int64),
        columns=np.zeros((capacity, depth, len(COLUMNS))),
        pairs=np.zeros((capacity, depth, sizes.pair)),
        clicks=np.zeros((capacity, depth), np.bool_),
        purchases=np.zeros((capacity, depth), np.bool_),
        held=np.zeros(1, np.int64),
        scales=ItemScales(np.zeros(len(COLUMNS)), np.zeros(len(COLUMNS))),
        click=new_logistic(means, deviations),
        purchase=new_logistic(*purchase),
        looks=np.zeros((kinds, depth, 2)),
        look=np.full((kinds, depth), LOOKED / REACHED),
    )


@jit
def look_through(memory: ItemMemory, crossed: Crossed, v: int, rows: FloatArray, seen: FloatArray) -> int:
    """Write the rows of a visit, and how probably each of its m positions was looked at.

    Args:
        memory: The visits and the models.
        crossed: How many segments and categories are crossed.
        v: Number of the visit among those held.
        rows: Filled up to m, `(depth, d)`.
        seen: Filled up to m, `(depth,)`.

    Returns:
        m.
    """
    m: int = memory.shown[v]
    chances = np.empty(m)
    product = np.empty(memory.columns.shape[2] + 1)
    for n in range(m):
        scale_row(memory.scales, memory.columns[v, n], product)
        join(memory.visitors[v], product, memory.pairs[v, n], crossed, rows[n])
        chances[n] = chance(dot(rows[n], memory.click.mean))
    looked_at(memory.clicks[v, :m], chances, memory.look[memory.kinds[v], :m], seen[:m])
    return m


@jit
def examples_of(memory: ItemMemory, crossed: Crossed, visits: int, looks: FloatArray) -> Examples:
    """Return the examples of the first visits held.

    Args:
        memory: The visits and the models.
        crossed: How many segments and categories are crossed.
        visits: Number of visits.
        looks: `(T, m, 2)`; positions reached and looked at are added to it, by query type.
    """
    depth = memory.clicks.shape[1]
    d = memory.click.mean.shape[0]
    rows = np.empty((depth, d))
    seen = np.empty(depth)
    most = int(np.sum(memory.shown[:visits]))
    clicks = int(np.sum(memory.clicks[:visits]))
    out = Examples(np.empty((most, d)), np.empty(most), np.empty(most), np.empty((clicks, d + 1)), np.empty(clicks))
    i = j = 0
    for v in range(visits):
        m = look_through(memory, crossed, v, rows, seen)
        count_looks(seen[:m], looks[memory.kinds[v]])
        for n in range(m):
            # Expectation: a position counts as an example with the probability that it was looked at.
            if seen[n] >= FAINT:
                copy_vector(rows[n], out.rows[i])
                out.clicked[i] = memory.clicks[v, n]
                out.weights[i] = seen[n]
                i += 1
            # Purchases need no such weight: what was clicked was looked at.
            if memory.clicks[v, n]:
                out.purchase_rows[j, 0] = dot(rows[n], memory.click.mean)
                copy_vector(rows[n], out.purchase_rows[j, 1:])
                out.purchased[j] = memory.purchases[v, n]
                j += 1
    return Examples(out.rows[:i], out.clicked[:i], out.weights[:i], out.purchase_rows[:j], out.purchased[:j])


@jit
def refit(memory: ItemMemory, crossed: Crossed, rounds: int) -> None:
    """Fit both models and the table of looks to all that is held.

    Args:
        memory: The visits and the models; changed in place.
        crossed: How many segments and categories are crossed.
        rounds: Rounds of expectation and maximisation.
    """
    for _ in range(rounds):
        looks = memory.looks.copy()
        # By the click model and the table of the round before; these and the purchase model are then made anew.
        examples = examples_of(memory, crossed, memory.held[0], looks)
        look_table(looks, np.array((REACHED, LOOKED)), SMOOTH, POOLED, memory.look)
        newton_step(memory.click, examples.rows, examples.clicked, examples.weights)
        newton_step(memory.purchase, examples.purchase_rows, examples.purchased, np.ones(examples.purchased.shape[0]))


@jit
def drop_oldest(memory: ItemMemory, crossed: Crossed, visits: int) -> None:
    """Drop the oldest visits: their curvature goes into the models' priors, their looks into the counts.

    Args:
        memory: The visits and the models; changed in place.
        crossed: How many segments and categories are crossed.
        visits: Number of visits to drop, at most those held.
    """
    # Looks of these visits are counted for good, by the models as they are now.
    examples = examples_of(memory, crossed, visits, memory.looks)
    absorb(memory.click, examples.rows, examples.clicked, examples.weights)
    absorb(memory.purchase, examples.purchase_rows, examples.purchased, np.ones(examples.purchased.shape[0]))
    # Moved up in order, so that the oldest always stand first.
    remaining = memory.held[0] - visits
    for v in range(remaining):
        memory.visitors[v] = memory.visitors[v + visits]
        memory.kinds[v] = memory.kinds[v + visits]
        memory.shown[v] = memory.shown[v + visits]
        memory.columns[v] = memory.columns[v + visits]
        memory.pairs[v] = memory.pairs[v + visits]
        memory.clicks[v] = memory.clicks[v + visits]
        memory.purchases[v] = memory.purchases[v + visits]
    memory.held[0] = remaining
