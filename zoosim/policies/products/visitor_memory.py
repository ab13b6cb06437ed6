"""Memory of each visitor's last rewarded visits, and how far they shift a shared linear model for that visitor.

A visitor's rewards are r = x'(theta + delta) + noise: x = [1, product], theta what the shared model says of the
visitor's features, and delta ~ N(0, tau^2 I) the visitor's own deviation, shrunk towards the model of all (Lindley &
Smith 1972, "Bayes estimates for the linear model"). With X `(n, w)` the visits held, e their residuals r - X theta and
rho = tau^2 / sigma^2, the posterior mean of delta is computed in its dual form (Rasmussen & Williams 2006, equation
2.25):

    X' (X X' + I / rho)^-1 e

That is A^-1 b of A = X'X + I / rho and b = X'e, and with n < w it takes less memory and time.

How much visitors differ, rho, is learned: each reward is first predicted from the visitor's earlier ones by each of
`RATIOS`, and that with the smallest squared errors lately is used (the prequential choice, Dawid 1984). The prediction
is made before its reward, so it does not matter by whom, or how, the product was chosen; and errors are of the mean
alone, so that the variances of clicks, which differ, do not look like visitors who differ.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.id_table import IN_USE, UNKNOWN, IdTable, capacity_after, claim_slot, find_slot, grown, new_id_table
from zoosim.core.jit import jit
from zoosim.core.limits import COUNTS, NOT_NEGATIVE
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import copy_vector, dot
from zoosim.linear.ridge import invert

RATIOS = np.array([0.0, *(4.0**power for power in range(-8, 2))])
"""Values of rho that are compared; features of about 1 and clicks have a rho below 1."""

MEMORY = 10_000
"""Predictions over which errors are summed, those of the last count most."""

EVIDENCE = 9.0
"""Squared errors, in units of the noise's variance, that a rho must save: by chance one saves so much at 3 sigma."""

LARGEST_ERROR = 1e30
"""Largest squared error that is summed: with features of 1e9 some values of rho predict by rounding errors alone."""

OVERHEAD = 64
"""Bytes per visitor beside visits and rewards: a count, and in the id table the id, two links and at most 4 places."""


class VisitorMemory(NamedTuple):
    """The last m rewarded visits of each of up to C - 1 visitors, by the slots of `table`.

    `visits (C, m, d_u + d_p)` [user, product] of each, `rewards (C, m)`; `counts (C,)` visits learned from, of which
    the next takes the place `counts` modulo m. `errors (len(RATIOS),)` faded sums of squared errors of predictions by
    each rho, and `predictions (1,)` how many there were, faded likewise.
    """

    table: IdTable
    visits: np.ndarray
    rewards: np.ndarray
    counts: IntArray
    errors: Annotated[FloatArray, NOT_NEGATIVE]
    predictions: Annotated[FloatArray, COUNTS]

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        in_use = self.table.counts[IN_USE]
        if not (self.counts[1:in_use] > 0).all() or self.counts[in_use:].any() or self.counts[0]:
            yield "counts does not fit the visitors in its table"


def bytes_per_visitor(visits: int, dim: int) -> int:
    """Return the bytes that a visitor takes with so many visits of `dim` features."""
    return OVERHEAD + 4 * visits * (dim + 1)


def new_memory(capacity: int, visits: int, dim: int) -> VisitorMemory:
    """Return room for visitors, each with so many visits of `dim` features, and none known."""
    return VisitorMemory(
        table=new_id_table(capacity),
        visits=np.zeros((capacity, visits, dim), np.float32),
        rewards=np.zeros((capacity, visits), np.float32),
        counts=np.zeros(capacity, np.int64),
        errors=np.zeros(len(RATIOS)),
        predictions=np.zeros(1),
    )


def with_room(memory: VisitorMemory, newcomers: int, most: int) -> VisitorMemory:
    """Return the memory with room for so many visitors more, as far as `most` slots allow."""
    capacity = capacity_after(memory.table, newcomers, most)
    held = len(memory.counts)
    if capacity == held:
        return memory
    _, visits, dim = memory.visits.shape
    larger = new_memory(capacity, visits, dim)
    larger.visits[:held] = memory.visits
    larger.rewards[:held] = memory.rewards
    larger.counts[:held] = memory.counts
    return larger._replace(table=grown(memory.table, capacity), errors=memory.errors, predictions=memory.predictions)


@jit
def ratio_of(memory: VisitorMemory) -> float:
    """Return rho, by which visitors differ as far as is known: 0 until another value has clearly predicted better."""
    errors = memory.errors
    best = 0
    for n in range(1, errors.shape[0]):
        if errors[n] < errors[best]:
            best = n
    saved = errors[0] - errors[best]
    # errors[0] / predictions is about the variance of the noise.
    return RATIOS[best] if saved * memory.predictions[0] > EVIDENCE * errors[0] else 0.0


@jit
def _read_visits(memory: VisitorMemory, slot: int, theta: FloatArray, rows: FloatArray) -> FloatArray:
    """Write the visits of a slot to `rows (n, w)`, each as [1, product]; return their residuals `(n,)`.

    The shared model is that of now, `theta (m w,)` over [1, user] (x) [1, product]: as it learns, the residuals of old
    visits become those of what it has not explained.
    """
    count, width = rows.shape
    user_dim = memory.visits.shape[2] - width + 1
    residuals = np.empty(count)
    for n in range(count):
        visit = memory.visits[slot, n]
        rows[n, 0] = 1.0
        for j in range(1, width):
            rows[n, j] = visit[user_dim + j - 1]
        expected = dot(theta[:width], rows[n])
        for a in range(user_dim):
            if visit[a] != 0.0:
                expected += visit[a] * dot(theta[(a + 1) * width : (a + 2) * width], rows[n])
        residuals[n] = memory.rewards[slot, n] - expected
    return residuals


@jit
def _gram_of(rows: FloatArray) -> FloatArray:
    """Return X X' `(n, n)` of `rows (n, w)`."""
    gram = np.empty((rows.shape[0], rows.shape[0]))
    for n in range(rows.shape[0]):
        for m in range(n + 1):
            gram[n, m] = gram[m, n] = dot(rows[n], rows[m])
    return gram


@jit
def _dual_inverse(gram: FloatArray, ratio: float) -> FloatArray:
    """Return (X X' + I / rho)^-1 `(n, n)`."""
    raised = gram.copy()
    inverse = np.empty(gram.shape)
    for n in range(gram.shape[0]):
        raised[n, n] += 1.0 / ratio
    invert(raised, inverse, 1.0 / ratio)
    return inverse


@jit
def add_deviation(memory: VisitorMemory, user_id: int, theta: FloatArray, mean: FloatArray) -> None:
    """Add the posterior mean of a visitor's deviation to that of the weights of [1, product].

    Args:
        memory: The visitors.
        user_id: The visitor's id, below 0 for nobody in particular.
        theta: The shared model's weights of [1, user] (x) [1, product].
        mean: Mean of the shared model for the visitor `(w,)`; added to.
    """
    ratio = ratio_of(memory)
    slot = find_slot(memory.table, user_id) if user_id >= 0 else UNKNOWN
    count = min(memory.counts[slot], memory.rewards.shape[1])  # 0 for UNKNOWN
    if ratio == 0.0 or count == 0:
        return
    rows = np.empty((count, mean.shape[0]))
    residuals = _read_visits(memory, slot, theta, rows)
    inverse = _dual_inverse(_gram_of(rows), ratio)
    for n in range(count):
        weight = dot(inverse[n], residuals)
        for i in range(mean.shape[0]):
            mean[i] += weight * rows[n, i]


@jit
def remember(
    memory: VisitorMemory, user_id: int, user: FloatArray, row: FloatArray, reward: float, theta: FloatArray
) -> None:
    """Learn from a rewarded visit how much visitors differ, and keep it as the visitor's newest.

    Args:
        memory: The visitors.
        user_id: The visitor's id, below 0 for nobody in particular, of whom nothing is kept.
        user: The visitor's features `(d_u,)`.
        row: [1, product] `(w,)` of the product that was shown.
        reward: What it earned.
        theta: The shared model's weights before it learns of the reward.
    """
    if user_id < 0:
        return
    slot, is_new = claim_slot(memory.table, user_id)
    if is_new:
        memory.counts[slot] = 0
    place = memory.counts[slot] % memory.rewards.shape[1]
    visit = memory.visits[slot, place]
    # A last visit that is about to be overwritten still predicts this one.
    if memory.counts[slot] > 0:
        _note_errors(memory, slot, user, row, reward, theta)
    for i in range(user.shape[0]):
        visit[i] = user[i]
    copy_vector(row[1:], visit[user.shape[0] :])
    memory.rewards[slot, place] = reward
    memory.counts[slot] += 1


@jit
def _note_errors(
    memory: VisitorMemory, slot: int, user: FloatArray, row: FloatArray, reward: float, theta: FloatArray
) -> None:
    """Add how far each rho predicts a reward wrong from the visitor's earlier ones."""
    width = row.shape[0]
    rows = np.empty((min(memory.counts[slot], memory.rewards.shape[1]), width))
    residuals = _read_visits(memory, slot, theta, rows)
    gram = _gram_of(rows)
    residual = reward - dot(theta[:width], row)
    for a in range(user.shape[0]):
        residual -= user[a] * dot(theta[(a + 1) * width : (a + 2) * width], row)
    alike = np.empty(rows.shape[0])
    for n in range(rows.shape[0]):
        alike[n] = dot(row, rows[n])
    keep = 1.0 - 1.0 / MEMORY
    memory.predictions[0] = keep * memory.predictions[0] + 1.0
    for g in range(RATIOS.shape[0]):
        error = residual
        if RATIOS[g] > 0.0:
            inverse = _dual_inverse(gram, RATIOS[g])
            for n in range(rows.shape[0]):
                error -= alike[n] * dot(inverse[n], residuals)
        squared = error * error
        if not squared < LARGEST_ERROR:  # NaN, too
            squared = LARGEST_ERROR
        memory.errors[g] = keep * memory.errors[g] + squared
