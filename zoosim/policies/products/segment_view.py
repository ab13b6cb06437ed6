"""View of a segment's models for one visitor: small means and spreads over what is on the right of x = left (x) right.

Part of `zoosim.policies.products.segment_linear`.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import nonzeros
from zoosim.linear.joint import contract, with_lead
from zoosim.linear.posterior import bounds, draws, root
from zoosim.linear.ridge import Ridge, variance


class VisitorModels(NamedTuple):
    """Models for one visitor: `means (V, w)`, `spreads (V, w, w)` (or roots); `arms (V, R)` tells what can be shown."""

    means: FloatArray
    spreads: FloatArray
    arms: BoolArray


@jit
def arms_of(arm_of: IntArray, available: BoolArray, models: int, rows: int) -> BoolArray:
    """Return which arms `(V, R)` there are products for."""
    arms = np.zeros((models, rows), np.bool_)
    for k in range(available.shape[0]):
        if available[k]:
            arms[arm_of[k] // rows, arm_of[k] % rows] = True
    return arms


@jit
def _shows(arms: BoolArray) -> bool:
    r = 0
    while r < arms.shape[0] and not arms[r]:
        r += 1
    return bool(r < arms.shape[0])


@jit
def look(
    ridge: Ridge,
    widths: Ridge,
    arms: BoolArray,
    leads: FloatArray,
    models: IntArray,
    user: FloatArray,
    first: int,
    rooted: bool,
) -> VisitorModels:
    """Look at the models `first` + `models (V,)` from one user; roots in place of spreads if `rooted`.

    Means are those of `ridge`, spreads those of `widths`.
    """
    left = with_lead(1.0, user)
    nonzero = nonzeros(left)
    width = ridge.b.shape[1] // left.shape[0]
    means = np.zeros((models.shape[0], width))
    spreads = np.zeros((models.shape[0], width, width))
    for v in range(models.shape[0]):
        if _shows(arms[v]):
            # Only the lead differs between products' own models; it is 1 in the one model of all products.
            left[0] = leads[v]
            _see(ridge, widths, first + models[v], left, nonzero, means[v], spreads[v])
            if rooted:
                root(spreads[v])
    return VisitorModels(means, spreads, arms)


@jit
def _see(
    ridge: Ridge,
    widths: Ridge,
    model: int,
    left: FloatArray,
    nonzero: IntArray,
    mean: FloatArray,
    spread: FloatArray,
) -> None:
    """Write what a left-hand side sees of a ridge model: `mean (w,)` and `spread (w, w)`."""
    width = mean.shape[0]
    if width > 1:
        contract(ridge, widths, model, left, nonzero, mean, spread)
    else:
        for a in nonzero:
            mean[0] += left[a] * ridge.theta[model, a]
        spread[0, 0] = variance(widths, model, left, nonzero)


@jit
def scores_of(
    view: VisitorModels, rows: FloatArray, dense: bool, alpha: float, sampling: bool, key: np.uint64, i: int
) -> FloatArray:
    """Return the score `(V R,)` of each arm: its bound, or one draw numbered (key, i)."""
    models, count = view.arms.shape
    scores = np.zeros(models * count)
    # Goes on from model to model, so that no draw is used twice.
    j = 0
    for v in range(models):
        if _shows(view.arms[v]):
            out = scores[v * count : (v + 1) * count]
            if sampling:
                j = draws(view.means[v], view.spreads[v], rows, alpha, key, i, j, out)
            else:
                bounds(view.means[v], view.spreads[v], rows, dense, alpha, out)
    return scores
