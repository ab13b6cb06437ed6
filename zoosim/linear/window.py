"""Sliding windows: the models of a segment hold no more than the segment's last W visits.

What leaves the window is subtracted: A <- A - x x', by Sherman & Morrison's formula with the sign turned. Sums that are
added to and subtracted from for ever keep the rounding errors of all that passed, so once in W visits they are made
anew of what the window holds.
"""

from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import INPUTS
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import copy_vector, nonzeros
from zoosim.linear.joint import joint
from zoosim.linear.ridge import Ridge, add, change, clear, rebuild


class Window(NamedTuple):
    """The last W observations of each of S segments, in rings, x = left (x) right.

    `left (S, W, m)`, `right (S, W, w)`, `model (S, W)` the model that learned it, `reward (S, W)`.
    """

    left: Annotated[FloatArray, INPUTS]
    right: Annotated[FloatArray, INPUTS]
    model: IntArray
    reward: Annotated[FloatArray, INPUTS]


def new_window(segments: int, visits: int, left: int, right: int) -> Window:
    """Return empty windows of `visits` observations of joint features, left (x) right."""
    shape = (segments, visits)
    return Window(np.zeros((*shape, left)), np.zeros((*shape, right)), np.zeros(shape, np.int64), np.zeros(shape))


@jit
def slide(
    ridge: Ridge,
    window: Window,
    s: int,
    visit: int,
    left: FloatArray,
    right: FloatArray,
    model: int,
    reward: float,
) -> None:
    """Take an observation into the window of segment `s` at its `visit`, from 1; subtract the one that leaves."""
    size = window.reward.shape[1]
    place = (visit - 1) % size
    if visit > size:
        x = joint(window.left[s, place], window.right[s, place])
        change(ridge, window.model[s, place], x, nonzeros(x), window.reward[s, place], -1.0)
    copy_vector(left, window.left[s, place])
    copy_vector(right, window.right[s, place])
    window.model[s, place] = model
    window.reward[s, place] = reward


@jit
def empty(window: Window, s: int, model: int) -> None:
    """Let the window of segment `s` hold nothing of a model: zeros take the place of its observations."""
    for place in range(window.reward.shape[1]):
        if window.model[s, place] == model:
            for i in range(window.left.shape[2]):
                window.left[s, place, i] = 0.0


@jit
def renew(ridge: Ridge, window: Window, s: int, first: int, models: int) -> None:
    """Make the sums of a segment's models anew from its window, which is full."""
    for model in range(first, first + models):
        clear(ridge, model)
    for place in range(window.reward.shape[1]):
        x = joint(window.left[s, place], window.right[s, place])
        add(ridge, window.model[s, place], x, nonzeros(x), window.reward[s, place])
        ridge.age[window.model[s, place]] += 1
    for model in range(first, first + models):
        if ridge.age[model]:
            rebuild(ridge, model)
