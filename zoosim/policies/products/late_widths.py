"""Confidence widths that count what was shown at once, while means wait for the rewards.

A bound mean + alpha width that learns only from rewards picks the same few products again and again until the first
rewards come in. So a second posterior runs ahead: it observes each decision when it is made, and only its covariance is
read (the batch form of GP-UCB, Desautels, Krause & Burdick 2014, section 3). It is kept only while rewards are late:
when each reward comes before the next decision, both posteriors are the same.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import COUNTS, FLAGS, PRODUCTS
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import nonzeros
from zoosim.linear.ridge import Ridge, copy_models, fade_by_turns, grown_ridge, observe
from zoosim.policies.open_decisions import (
    OpenDecisions,
    give_up_decisions,
    hash_decision,
    no_open_decisions,
    open_decision,
    settle_decision,
)


class LateWidths(NamedTuple):
    """The posterior that runs ahead of the rewards.

    `ahead` holds a ridge model for each of the policy's; `decisions` those that wait for their reward; `first_x (d,)`
    and `first_model (1,)` of the only one that waits while `late (1,)` is 0. Where groups of models fade together,
    `clock (groups,)` counts what each of them was shown.
    """

    ahead: Ridge
    decisions: OpenDecisions
    first_x: Annotated[FloatArray, PRODUCTS]
    first_model: IntArray
    late: Annotated[IntArray, FLAGS]
    clock: Annotated[FloatArray, COUNTS]

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        models = len(self.ahead.age)
        if self.first_model[0] >= models:
            yield f"first_model holds {self.first_model[0]}, expected a model below {models:,}"


def new_late_widths(ahead: Ridge, groups: int = 1) -> LateWidths:
    """Return widths of ridge models that have seen nothing, with nothing open."""
    return LateWidths(
        ahead=ahead,
        decisions=no_open_decisions(),
        first_x=np.zeros(ahead.b.shape[1]),
        first_model=np.zeros(1, np.int64),
        late=np.zeros(1, np.int64),
        clock=np.zeros(groups),
    )


@jit
def widths_of(widths: LateWidths, ridge: Ridge) -> Ridge:
    """Return the models whose covariance gives the widths: those that run ahead while rewards are late."""
    return widths.ahead if widths.late[0] else ridge


@jit
def count_decision(widths: LateWidths, ridge: Ridge, model: int, x: FloatArray) -> None:
    """Count a decision in the widths: x `(d,)` was shown by `model`."""
    if _falls_behind(widths, ridge, ridge.age.shape[0]):
        # The first decision that waits was not counted when it was made, as its reward might have come at once. Rewards
        # are not known yet, and 0 stands for them: of this posterior only the covariance is read.
        observe(widths.ahead, widths.first_model[0], widths.first_x, nonzeros(widths.first_x), 0.0)
    if widths.late[0]:
        observe(widths.ahead, model, x, nonzeros(x), 0.0)
    _open(widths, model, x, hash_decision(model, x))


@jit
def settle(widths: LateWidths, model: int, x: FloatArray) -> None:
    """Take note that the reward of x `(d,)`, shown by `model`, has come; what was not counted before is counted now."""
    if _comes_uncounted(widths, hash_decision(model, x)):
        observe(widths.ahead, model, x, nonzeros(x), 0.0)


@jit
def count_decision_in_group(
    widths: LateWidths,
    ridge: Ridge,
    used: int,
    clock: FloatArray,
    turns: IntArray,
    model: int,
    x: FloatArray,
    key: int,
) -> None:
    """Count a decision in the widths where groups of models fade together, see `fade_by_turns`.

    `used` is how many of the models are in use, the first ones; `clock (groups,)` what each group has learned from;
    `turns (group size,)` those of each group; `key` the hash of the decision.
    """
    if _falls_behind(widths, ridge, used):
        for group in range(clock.shape[0]):
            widths.clock[group] = clock[group]
        _observe_in_group(widths, turns, widths.first_model[0], widths.first_x)
    if widths.late[0]:
        _observe_in_group(widths, turns, model, x)
    _open(widths, model, x, key)


@jit
def settle_in_group(widths: LateWidths, turns: IntArray, model: int, x: FloatArray, key: int) -> None:
    """Take note of a reward where groups of models fade together."""
    if _comes_uncounted(widths, key):
        _observe_in_group(widths, turns, model, x)


@jit
def _observe_in_group(widths: LateWidths, turns: IntArray, model: int, x: FloatArray) -> None:
    ahead = widths.ahead
    group = model // turns.shape[0]
    first = group * turns.shape[0]
    widths.clock[group] += 1.0
    if ahead.discount < 1.0:
        fade_by_turns(ahead, first, model - first, turns, int(widths.clock[group]))
    observe(ahead, model, x, nonzeros(x), 0.0)


@jit
def _falls_behind(widths: LateWidths, ridge: Ridge, used: int) -> bool:
    """Start the widths that run ahead if a reward is late; return whether its decision is to be counted now."""
    begins = widths.late[0] == 0 and widths.decisions.total[0] > 0
    if begins:
        widths.late[0] = 1
        copy_models(ridge, widths.ahead, used)
    return bool(begins)


@jit
def _open(widths: LateWidths, model: int, x: FloatArray, key: int) -> None:
    if widths.late[0] == 0:
        widths.first_model[0] = model
        for i in range(x.shape[0]):
            widths.first_x[i] = x[i]
    open_decision(widths.decisions, key)


@jit
def _comes_uncounted(widths: LateWidths, key: int) -> bool:
    """Close a decision; True when the widths that run ahead did not count it: another policy made it."""
    uncounted = not settle_decision(widths.decisions, key) and widths.late[0] > 0
    if widths.decisions.total[0] == 0:
        # Nothing waits any more: when a reward is late again, the posterior is copied afresh.
        widths.late[0] = 0
    return uncounted


@jit
def forget_decisions(widths: LateWidths) -> None:
    """Give up all open decisions: where models were cleared, what was decided before says nothing about them."""
    give_up_decisions(widths.decisions)
    widths.late[0] = 0


def grown_widths(widths: LateWidths, models: int) -> LateWidths:
    """Return widths with room for more models."""
    return widths._replace(ahead=grown_ridge(widths.ahead, models))
