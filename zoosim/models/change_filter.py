"""A Bayes filter for a click probability that may jump: a few hypotheses about when it last did.

Each of H hypotheses is a Beta posterior (a, b) of the clicks since some visit, with a weight. Between two showings the
probability may have jumped, each visit with hazard h; then the weight that is lost goes to a fresh hypothesis, which
takes the place of the weakest. This is Bayesian online change-point detection (Adams & MacKay 2007) cut to H run
lengths, clocked by the visits of those who could have been shown the product.
"""

from collections.abc import Iterator

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import beta, uniform
from zoosim.core.types import FloatArray

A = 0
B = 1
WEIGHT = 2

ROUNDING = 1e-6
"""Largest distance from 1 of the sum of a cell's weights that rounding may cause."""

LARGEST = 1e15
"""No posterior has seen more clicks."""


def new_cells(count: int, hypotheses: int) -> FloatArray:
    """Return cells that have seen nothing, `(count, H, 3)`: a, b and weight of each hypothesis."""
    cells = np.ones((count, hypotheses, 3))
    cells[:, 1:, WEIGHT] = 0.0
    return cells


def flaws(cells: FloatArray) -> Iterator[str]:
    """Yield what is wrong with cells `(..., H, 3)`, none of which is below 0."""
    posteriors = cells[..., :WEIGHT]
    if posteriors.min() <= 0.0 or posteriors.max() > LARGEST:
        yield f"holds clicks of {posteriors.min():g} to {posteriors.max():g}, expected above 0, up to {LARGEST:g}"
    off = np.abs(cells[..., WEIGHT].sum(axis=-1) - 1.0).max()
    if off > ROUNDING:
        yield f"holds weights that add up to 1 only within {off:g}"


@jit
def clear(cell: FloatArray) -> None:
    """Make a cell `(H, 3)` forget all it has seen."""
    cell[:] = 1.0
    for k in range(1, cell.shape[0]):
        cell[k, WEIGHT] = 0.0


@jit
def mean(cell: FloatArray) -> float:
    """Return the expected click probability of a cell `(H, 3)`, as of its last showing."""
    total = 0.0
    for k in range(cell.shape[0]):
        total += cell[k, WEIGHT] * cell[k, A] / (cell[k, A] + cell[k, B])
    return total


@jit
def loosen(cell: FloatArray, a: float, b: float, kept: float) -> None:
    """Allow for a jump with chance 1 - `kept`: a fresh hypothesis, Beta(a, b), replaces the weakest."""
    weakest = 0
    for k in range(cell.shape[0]):
        cell[k, WEIGHT] *= kept
        if cell[k, WEIGHT] < cell[weakest, WEIGHT]:
            weakest = k
    cell[weakest, A] = a
    cell[weakest, B] = b
    # The weight of the hypothesis that is dropped passes to the fresh one, so that weights still add up to 1.
    cell[weakest, WEIGHT] += 1.0 - kept


@jit
def observe(cell: FloatArray, reward: float) -> bool:
    """Take in a `reward` in [0, 1]; return whether a younger hypothesis is now the likeliest: the chance has jumped."""
    total = 0.0
    before = likeliest(cell)
    for k in range(cell.shape[0]):
        chance = cell[k, A] / (cell[k, A] + cell[k, B])
        # Bayes' rule, by the chance before this reward: a / (a + b) is the predictive probability of Beta(a, b).
        cell[k, WEIGHT] *= chance * reward + (1.0 - chance) * (1.0 - reward)
        total += cell[k, WEIGHT]
        cell[k, A] += reward
        cell[k, B] += 1.0 - reward
    for k in range(cell.shape[0]):
        cell[k, WEIGHT] /= total
    now = likeliest(cell)
    # The younger a hypothesis, the fewer showings it has seen.
    return bool(cell[now, A] + cell[now, B] < cell[before, A] + cell[before, B])


@jit
def likeliest(cell: FloatArray) -> int:
    """Return the hypothesis of the largest weight."""
    best = 0
    for k in range(cell.shape[0]):
        if cell[k, WEIGHT] > cell[best, WEIGHT]:
            best = k
    return best


@jit
def sample(cell: FloatArray, sharpness: float, key: np.uint64, i: int, j: int) -> tuple[float, int]:
    """Draw a click probability and return the next free j.

    A hypothesis by weight^1.5, which trusts the likely ones more, then Beta(sharpness a, sharpness b).
    """
    total = 0.0
    for k in range(cell.shape[0]):
        total += cell[k, WEIGHT] * np.sqrt(cell[k, WEIGHT])
    remaining = uniform(key, i, j) * total
    # Also where rounding leaves something behind the last one.
    chosen = 0
    for k in range(cell.shape[0]):
        remaining -= cell[k, WEIGHT] * np.sqrt(cell[k, WEIGHT])
        if remaining < 0.0:
            chosen = k
            break
    return beta(key, i, j + 1, sharpness * cell[chosen, A], sharpness * cell[chosen, B])
