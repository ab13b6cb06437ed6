"""Both towers, and vectors of products of their own, by stochastic gradients on all rows that were shown.

The log odds of a click are <u, e> + b: u is what the visitors' tower makes of the visitor's features, and (e, b) what
the products' tower makes of the product's, plus numbers of the product's own (Covington, Adams & Sargin 2016; the loss
is pointwise, since a log holds what was not clicked). Where a position has an effect, it is added.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.nets.adam import adam_step
from zoosim.nets.network import add_gradient, descend, new_workspace, rows_up, with_moments
from zoosim.retrieval.towers.rows import ShownRows
from zoosim.retrieval.towers.tower import Tower, new_tower

BATCH = 256
"""Rows to a step of the towers."""

CHUNK = 200 * BATCH
"""Rows between two reports of progress."""

RATE = 0.002
"""Step size of the towers at the start; it falls to a tenth of it in the end, in a straight line."""

OWN_RATE = 0.1
"""Step size of products' own numbers and of positions at the start, divided by the root of their squared slopes."""

OWN_PENALTY = 2.0
"""Half of it times the squares of a product's own numbers is added to the loss of its rows."""

START_SQUARES = 0.01


class Learning(NamedTuple):
    """What changes while the towers are trained.

    Attributes:
        visitors, products: Weights of the towers and moments of Adam `(3, p)`.
        own: Numbers of each product's own `(K, k + 1)`: k of the vector, and the bias.
        own_squares: Squared slopes of these, the mean over the numbers `(K,)`.
        positions: Effect of each position `(P,)`.
        position_squares: Squared slopes of these `(P,)`.
    """

    visitors: Float32Array
    products: Float32Array
    own: Float32Array
    own_squares: Float32Array
    positions: FloatArray
    position_squares: FloatArray


class TrainedTowers(NamedTuple):
    """The towers of visitors and products, and the effect of each position `(P,)`, that of the first being 0."""

    visitors: Tower
    products: Tower
    positions: FloatArray


def train_towers(
    rows: ShownRows,
    width: int,
    hidden: int,
    passes: int,
    *,
    rng: np.random.Generator,
    report: Callable[[int], None] = lambda done: None,
) -> TrainedTowers:
    """Train both towers on all rows; the same rows and draws give the same bits, whatever runs beside.

    Args:
        rows: What was shown.
        width: Numbers of a vector, k.
        hidden: Units of the hidden layer of each tower.
        passes: How often each row is taken.
        rng: Draws the first weights, and the order of the rows.
        report: Called with how many rows were taken.
    """
    visitors = new_tower(rows.visitors, hidden, width, rng=rng)
    products = new_tower(rows.products, hidden, width + 1, rng=rng)
    mean = rows.clicked.mean()
    products.weights[-1] = np.log(mean / (1.0 - mean))  # the bias of what is a product's bias, so that steps are small
    n_positions = int(rows.position.max()) + 1
    learning = Learning(
        with_moments(visitors.weights),
        with_moments(products.weights),
        np.zeros((rows.n_products, width + 1), np.float32),
        np.full(rows.n_products, START_SQUARES, np.float32),
        np.zeros(n_positions),
        np.full(n_positions, START_SQUARES),
    )
    inputs = (visitors.inputs(rows.visitors), products.inputs(rows.products))
    counts = np.bincount(rows.product, minlength=rows.n_products)
    penalties = (OWN_PENALTY / (passes * np.maximum(counts, 1))).astype(np.float32)
    total = passes * len(rows.clicked)
    done = 0
    for _ in range(passes):
        order = rng.permutation(len(rows.clicked))
        for start in range(0, len(order), CHUNK):
            chosen = order[start : start + CHUNK]
            left = 1.0 - 0.9 * done / total
            first_step = -(-done // BATCH) + 1
            _take_rows(
                learning,
                visitors.layers,
                products.layers,
                *inputs,
                rows.visit,
                rows.product,
                rows.position,
                rows.clicked,
                chosen,
                penalties,
                left,
                first_step,
            )
            done += len(chosen)
            report(done)
    return TrainedTowers(
        visitors._replace(weights=learning.visitors[0].copy()),
        products._replace(weights=learning.products[0].copy()),
        learning.positions,
    )


@jit
def _take_rows(
    learning: Learning,
    visitor_layers: IntArray,
    product_layers: IntArray,
    visitors: Float32Array,
    products: Float32Array,
    visit: IntArray,
    product: IntArray,
    position: IntArray,
    clicked: FloatArray,
    chosen: IntArray,
    penalties: Float32Array,
    share: float,
    first_step: int,
) -> None:
    """Take `chosen` rows, a batch at a time, with a `share` of the step sizes at the start."""
    visitor_work = new_workspace(visitor_layers, BATCH, learning.visitors[0])
    product_work = new_workspace(product_layers, BATCH, learning.products[0])
    visitor_gradient = np.zeros(learning.visitors.shape[1], np.float32)
    product_gradient = np.zeros(learning.products.shape[1], np.float32)
    k = learning.own.shape[1] - 1
    step = first_step
    for start in range(0, chosen.shape[0], BATCH):
        batch = chosen[start : start + BATCH]
        inputs, units, slopes = rows_up(learning.visitors[0], visitor_layers, visitors, visit[batch], visitor_work)
        product_inputs, product_units, product_slopes = rows_up(
            learning.products[0], product_layers, products, product[batch], product_work
        )
        top = units.shape[0] - k
        product_top = product_units.shape[0] - k - 1
        _top_slopes(
            learning,
            product[batch],
            position[batch],
            clicked[batch],
            penalties,
            share * OWN_RATE,
            units[top:],
            product_units[product_top:],
            slopes[top:],
            product_slopes[product_top:],
        )
        descend(learning.visitors[0], visitor_layers, slopes, visitor_work.scratch)
        add_gradient(visitor_layers, inputs, units, slopes, visitor_work, visitor_gradient)
        descend(learning.products[0], product_layers, product_slopes, product_work.scratch)
        add_gradient(product_layers, product_inputs, product_units, product_slopes, product_work, product_gradient)
        adam_step(learning.visitors, visitor_gradient, share * RATE, step)
        adam_step(learning.products, product_gradient, share * RATE, step)
        step += 1


@jit
def _top_slopes(
    learning: Learning,
    product: IntArray,
    position: IntArray,
    clicked: FloatArray,
    penalties: Float32Array,
    rate: float,
    visitors: Float32Array,
    towers: Float32Array,
    visitor_slopes: Float32Array,
    tower_slopes: Float32Array,
) -> None:
    """Write the slopes of the mean loss of w rows at the top of both towers; move what is products' own.

    Vectors stand in columns: `visitors (k, w)`, and `towers (k + 1, w)`, of which the last row is the bias.
    """
    k, width = visitors.shape
    vector = np.empty(k, np.float32)
    for n in range(width):
        p = product[n]
        own = learning.own[p]
        log_odds = learning.positions[position[n]] + towers[k, n] + own[k]
        for j in range(k):
            vector[j] = towers[j, n] + own[j]
            log_odds += vector[j] * visitors[j, n]
        error = np.float32(1.0 / (1.0 + np.exp(-log_odds)) - clicked[n])
        squares = np.float32(1.0)
        for j in range(k):
            squares += visitors[j, n] * visitors[j, n]
        learning.own_squares[p] += error * error * squares / np.float32(k + 1)
        # One step size per product (Adagrad by rows), times the slope of each number of its own.
        size = np.float32(rate) / np.sqrt(learning.own_squares[p])
        for j in range(k):
            own[j] -= size * (error * visitors[j, n] + penalties[p] * own[j])
        own[k] -= size * (error + penalties[p] * own[k])
        if position[n] > 0:  # that of the first is 0, or it could not be told from the bias
            learning.position_squares[position[n]] += error * error
            learning.positions[position[n]] -= rate * error / np.sqrt(learning.position_squares[position[n]])
        mean_error = error / np.float32(width)
        for j in range(k):
            tower_slopes[j, n] = mean_error * visitors[j, n]
            visitor_slopes[j, n] = mean_error * vector[j]
        tower_slopes[k, n] = mean_error
