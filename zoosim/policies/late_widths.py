"""Confidence widths that count what was shown at once, while means wait for the rewards.

A bound mean + alpha width that learns only from rewards picks the same few products again and again until the first
rewards come in. So a second posterior runs ahead: it observes each decision when it is made, and only its covariance is
read (the batch form of GP-UCB, Desautels, Krause & Burdick 2014, section 3). It is kept only while rewards are late:
when each reward comes before the next decision, both posteriors are the same.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import nonzeros
from zoosim.linear.ridge import Ridge, copy_ridge, grown_ridge, new_ridge, observe
from zoosim.policies.open_decisions import (
    OpenDecisions,
    hash_decision,
    no_open_decisions,
    open_decision,
    settle_decision,
)


class LateWidths(NamedTuple):
    """The posterior that runs ahead of the rewards.

    `ahead` holds a ridge model for each of the policy's; `decisions` those that wait for their reward; `first_x (d,)`
    and `first_model (1,)` of the only one that waits while `late (1,)` is 0.
    """

    ahead: Ridge
    decisions: OpenDecisions
    first_x: FloatArray
    first_model: IntArray
    late: IntArray


def new_late_widths(models: int, dim: int, regularization: float, discount: float) -> LateWidths:
    """Return widths of `models` ridge models with `dim` features, with nothing open."""
    ahead = new_ridge(models, dim, regularization, discount)
    return LateWidths(ahead, no_open_decisions(), np.zeros(dim), np.zeros(1, np.int64), np.zeros(1, np.int64))


@jit
def widths_of(widths: LateWidths, ridge: Ridge) -> Ridge:
    """Return the models whose covariance gives the widths: those that run ahead while rewards are late."""
    return widths.ahead if widths.late[0] else ridge


@jit
def count_decision(widths: LateWidths, ridge: Ridge, model: int, x: FloatArray) -> None:
    """Let the widths count a decision: x `(d,)` was shown by `model`."""
    if widths.late[0] == 0 and widths.decisions.total[0] > 0:
        widths.late[0] = 1
        copy_ridge(ridge, widths.ahead)
        observe(widths.ahead, widths.first_model[0], widths.first_x, nonzeros(widths.first_x), 0.0)
    if widths.late[0]:
        observe(widths.ahead, model, x, nonzeros(x), 0.0)
    else:
        widths.first_model[0] = model
        widths.first_x[:] = x
    open_decision(widths.decisions, hash_decision(model, x))


@jit
def settle(widths: LateWidths, model: int, x: FloatArray) -> None:
    """Take note that the reward of x `(d,)`, shown by `model`, has come; what was not counted before is counted now."""
    was_open = settle_decision(widths.decisions, hash_decision(model, x))
    if widths.late[0]:
        if not was_open:
            observe(widths.ahead, model, x, nonzeros(x), 0.0)
        if widths.decisions.total[0] == 0:
            widths.late[0] = 0


def grown_widths(widths: LateWidths, models: int) -> LateWidths:
    """Return widths with room for more models."""
    return widths._replace(ahead=grown_ridge(widths.ahead, models))
