"""Choose the form of the posterior over a network's parameters that is cheapest to keep.

All exact forms give the same numbers to rounding, which the condition number of A scales: bonuses agree to 8 digits up
to one of 1e7, and beyond it the policies warn. Up to there this is about cost alone.
"""

from collections.abc import Callable
from typing import ClassVar, Protocol

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.neural.dual import Dual
from zoosim.neural.mlp import count_weights
from zoosim.neural.primal import Primal
from zoosim.neural.rows import RowPosterior

FORMS = ("auto", "rows", "dual", "primal", "last-layer")
MAX_ROWS = 512
"""Most distinct rows, candidates included, whose covariance is kept."""

DUAL_UP_TO = 0.8
"""Observations in the history, as a share of the parameters, up to which the dual form is cheaper."""


class Form(Protocol):
    """A posterior that takes rows of factors; the rows form is apart, since it knows rows by their number.

    `theta (p,)` is the posterior mean of the weights, counted from today's: a candidate's mean is g'theta.
    """

    name: ClassVar[str]

    @property
    def theta(self) -> FloatArray:
        """The posterior mean of the weights."""

    def fit(self, factors: FloatArray, weights: FloatArray, sums: FloatArray) -> None:
        """Begin anew with weighted observations."""

    def observe(self, factors: FloatArray, reward: float) -> None:
        """Add one observation."""

    def posterior(self, candidates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and variances."""


def cheapest(requested: str, parameters: int, distinct: int, observations: int, mergeable: bool) -> str:
    """Return the form to run: `requested`, or the cheapest exact one where that is `auto` or `last-layer`.

    `distinct` counts the rows U that have come up, candidates included, and `mergeable` says whether equal rows have
    equal gradients and U is worth counting: not as published, nor when there were too many already. `observations` n
    are those of the history, equal ones merged where they can be. For K candidates a decision costs U^2 in rows,
    K (n^2 / 2 + f n) with f factors a row in the dual and K p^2 / 2 in the primal form; `DUAL_UP_TO` is where the times
    of both were measured to cross, with 50 candidates and learning included.
    """
    if requested not in ("auto", "last-layer"):
        return requested
    if mergeable and distinct <= min(MAX_ROWS, parameters):
        return "rows"
    return "dual" if observations <= DUAL_UP_TO * parameters else "primal"


def possible(requested: str, fresh: bool) -> tuple[str, ...]:
    """Return the forms that `requested` may come to."""
    if requested not in ("auto", "last-layer"):
        return (requested,)
    return ("rows", "dual", "primal") if fresh else ("dual", "primal")


def matrix_bytes(requested: str, sizes: tuple[int, ...]) -> int:
    """Return the bytes of what the form `requested` keeps whatever it observes: matrices over all p weights, or none.

    `sizes` are those of all layers. The forms that `auto` turns to grow with the history.
    """
    p = count_weights(np.array(sizes))
    return 8 * p * (p + 1) if requested == "primal" else 0


def new_form(name: str, sizes: IntArray, first: int, noise: float) -> Form | RowPosterior:
    """Return an empty posterior over the parameters of layers `first` and up."""
    makers: dict[str, Callable[[IntArray, int, float], Form | RowPosterior]] = {
        "rows": RowPosterior,
        "dual": Dual,
        "primal": Primal,
    }
    return makers[name](sizes, first, noise)
