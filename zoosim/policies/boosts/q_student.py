"""A student of searches: an actor that learns which boosts they end at, and takes their place at most visits."""

from typing import Annotated

import numpy as np

from zoosim.core.limits import Limits
from zoosim.core.state import Stateful
from zoosim.core.types import FloatArray
from zoosim.models.actor import Actor
from zoosim.models.ensemble_net import Ensemble
from zoosim.policies.boosts.base import BOX

CAPACITY = 400
"""Lessons that are remembered: older ones are of a critic that knew less."""

FIRST = 40
"""Lessons before the student acts."""

STEPS, BATCH = 20, 32
"""Steps of training after each lesson, and lessons per step."""


class Student(Stateful):
    """Learn from lessons, pairs of a state and the boosts that a search found there."""

    learned = ("_actor", "_states", "_boosts", "_count")
    _boosts: Annotated[FloatArray, Limits(-BOX[1], BOX[1])]

    def __init__(self, critic: Ensemble, a_max: float, seed: int) -> None:
        """Make a student that has had no lesson.

        Args:
            critic: Whose searches it learns from: it says how many numbers a state and boosts have.
            a_max: Half the width of the box of boosts.
            seed: Seed of its weights and of its training.
        """
        self._actor = Actor(critic, a_max, hidden_sizes=(32, 32), seed=seed)
        self._states = np.zeros((CAPACITY, critic.states))
        self._boosts = np.zeros((CAPACITY, len(critic.centre) - critic.states))
        self._count = np.zeros(1, np.int64)

    @property
    def is_ready(self) -> bool:
        """Return whether it has had lessons enough to act."""
        return bool(self._count[0] >= FIRST)

    def teach(self, state: FloatArray, boosts: FloatArray) -> None:
        """Take in a lesson, and train on all that are remembered.

        Args:
            state: What the search began from.
            boosts: Where it ended, `(product_dim,)`.
        """
        place = int(self._count[0]) % CAPACITY
        self._states[place] = state
        self._boosts[place] = boosts
        self._count += 1
        if self._count[0] < BATCH:
            return
        held = slice(min(int(self._count[0]), CAPACITY))
        # At first it catches up.
        steps = 10 * STEPS if self._count[0] == BATCH else STEPS
        self._actor.imitate(self._states[held], self._boosts[held], steps, BATCH)

    def act(self, state: FloatArray) -> FloatArray:
        """Return the boosts `(product_dim,)` that a search from a `state` might end at."""
        boosts: FloatArray = self._actor.act(state)
        return boosts
