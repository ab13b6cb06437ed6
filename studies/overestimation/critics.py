"""Critics of boosts, how they pick an action by gradient ascent, and what they say that it will earn."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from zoosim.core.rng import stream
from zoosim.core.types import FloatArray
from zoosim.models.ensemble_gradient import gradient
from zoosim.models.ensemble_objective import EnsembleObjective
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor

D = 10
STARTS, STEPS = 8, 20
SINGLE, MEAN, MINIMUM, DOUBT, HALVES = "single network", "ensemble mean", "ensemble minimum", "mean - std", "two halves"
CRITICS = (SINGLE, MEAN, MINIMUM, DOUBT, HALVES)

Slope = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Returns values `(m, n)` of actions `(m, n, d)`, with their gradients `(m, n, d)`."""


class Minimum(NamedTuple):
    """The lowest member at each action: TD3's pessimism (Fujimoto, van Hoof & Meger 2018)."""

    members: tuple[EnsembleObjective, ...]

    def gradient(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the lowest value and the gradient of the member that has it."""
        value, slope = gradient(self.members[0], actions)
        for member in self.members[1:]:
            other, other_slope = gradient(member, actions)
            lower = other < value
            value, slope = np.where(lower, other, value), np.where(lower[..., None], other_slope, slope)
        return value, slope


class Learner(NamedTuple):
    """A critic: its `ensembles`, and how they `pick` actions `(m, d_a)` for states `(m, d_s)` and `value` them `(m,)`.

    Of two ensembles each learns from every second visit.
    """

    ensembles: tuple[QEnsembleRegressor, ...]
    pick: Callable[[FloatArray], tuple[FloatArray, FloatArray]]

    def learn(self, states: FloatArray, actions: FloatArray, rewards: FloatArray, n_epochs: int) -> None:
        """Go on training with all visits so far."""
        for n, q in enumerate(self.ensembles):
            own = slice(n, None, len(self.ensembles))
            q.update_batch(states[own], actions[own], rewards[own], n_epochs=n_epochs)


def critics(state_dim: int, seed: int, a_max: float) -> dict[str, Learner]:
    """Make the critics of a seed, which have learned nothing yet: all ensembles but one start from the same weights.

    Boosts lie in [-a_max, a_max]. In `two halves` one ensemble picks that sees one half of the visits, and one that
    sees the other says what that is worth.
    """

    def made(seed: int, n: int = 5) -> QEnsembleRegressor:
        return QEnsembleRegressor(state_dim, D, QEnsembleConfig(n_ensembles=n, bootstrap=n > 1, seed=seed))

    one, mean, low, safe, first, second = made(seed, 1), *(made(seed) for _ in range(4)), made(seed + 1)
    return {
        SINGLE: Learner((one,), lambda states: ascend(partial(gradient, one.objective(states)), states, a_max)),
        MEAN: Learner((mean,), lambda states: ascend(partial(gradient, mean.objective(states)), states, a_max)),
        MINIMUM: Learner((low,), lambda states: ascend(minimum(low, states).gradient, states, a_max)),
        DOUBT: Learner((safe,), lambda states: ascend(partial(gradient, safe.objective(states, -1.0)), states, a_max)),
        HALVES: Learner((first, second), lambda states: _by_another(first, second, states, a_max)),
    }


def minimum(q: QEnsembleRegressor, states: FloatArray) -> Minimum:
    """Make the minimum over members for `states (m, d_s)`."""
    net = q.network()
    alone = [net._replace(trained=member[None].copy()) for member in net.trained]
    return Minimum(tuple(EnsembleObjective(member, states, 0.0) for member in alone))


def _by_another(
    first: QEnsembleRegressor, second: QEnsembleRegressor, states: FloatArray, a_max: float
) -> tuple[FloatArray, FloatArray]:
    """Pick by one ensemble and value by another (double estimation, van Hasselt 2010)."""
    actions, _ = ascend(partial(gradient, first.objective(states)), states, a_max)
    return actions, second.predict(states, actions)[0]


def ascend(slope_of: Slope, states: FloatArray, a_max: float) -> tuple[FloatArray, FloatArray]:
    """Return the best actions `(m, d_a)` of projected gradient ascent from several starts, and their values."""
    rng, m = stream(0, "starts"), len(states)
    points = np.broadcast_to(rng.uniform(-a_max, a_max, (STARTS, D)), (m, STARTS, D)).copy()
    best, actions = np.full(m, -np.inf), points[:, 0].copy()
    for step in range(STEPS):
        value, slope = slope_of(points)
        top = value.argmax(axis=1)
        better = value[np.arange(m), top] > best
        best = np.where(better, value[np.arange(m), top], best)
        actions = np.where(better[:, None], points[np.arange(m), top], actions)
        steepest = np.maximum(np.abs(slope).max(axis=2, keepdims=True), 1e-12)
        points = np.clip(points + 0.4 * a_max * 0.85**step * slope / steepest, -a_max, a_max)
    return actions, best
