"""overestimation: by how much do critics overrate the actions that they pick themselves?

max E[Q] <= E[max Q]: who maximises over estimates with errors picks errors (Thrun & Schwartz 1993). Every critic learns
from visits of its own, random boosts first, then in rounds what it picks itself by gradient ascent, and says what its
picks will earn; the shop's own truth then says what they do earn.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, Progress
from zoosim.envs.search_shop import SearchShop, Visit
from zoosim.envs.search_truth import SearchTruth
from zoosim.experiments.search_visits import A_MAX, open_shop
from zoosim.models.ensemble_objective import EnsembleObjective
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor

QUESTION = "By how much do critics overrate the actions that they pick themselves?"
PRINTED = {"single network": (2.8, 3.1), "ensemble mean": (0.4, 1.2), "ensemble minimum": (-0.3, 1.5)}
"""Mean error and mean size of the error, as published."""

ROUNDS, RANDOM_ROUNDS, ROUND, EPOCHS = 10, 4, 500, 3
JUDGED, MOODS = 300, 100
STARTS, STEPS = 8, 20


class Critic(Protocol):
    """Values of actions `(m, n, d)` with their gradients."""

    def gradient(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values `(m, n)` and gradients `(m, n, d)`."""
        ...


class Minimum(NamedTuple):
    """The lowest member at each action: TD3's pessimism (Fujimoto, van Hoof & Meger 2018)."""

    members: tuple[EnsembleObjective, ...]

    def gradient(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the lowest value and the gradient of the member that has it."""
        value, slope = self.members[0].gradient(actions)
        for member in self.members[1:]:
            other, other_slope = member.gradient(actions)
            lower = other < value
            value, slope = np.where(lower, other, value), np.where(lower[..., None], other_slope, slope)
        return value, slope


class Learner(NamedTuple):
    """A critic: its `ensembles`, and how they `pick` actions `(m, d_a)` for states `(m, d_s)` and `value` them `(m,)`.

    Of two ensembles each learns from every second visit.
    """

    ensembles: tuple[QEnsembleRegressor, ...]
    pick: Callable[[FloatArray], tuple[FloatArray, FloatArray]]

    def learn(self, states: FloatArray, actions: FloatArray, rewards: FloatArray) -> None:
        """Go on training with all visits so far."""
        for n, q in enumerate(self.ensembles):
            own = slice(n, None, len(self.ensembles))
            q.update_batch(states[own], actions[own], rewards[own], n_epochs=EPOCHS)


class Scene(NamedTuple):
    """A shop with its visits and what it observed of them, the same for all critics."""

    shop: SearchShop
    visits: list[Visit]
    states: FloatArray

    def rewards(self, start: int, actions: FloatArray) -> FloatArray:
        """Return what visits `start`, ... bring with `actions (m, 10)`."""
        pairs = zip(self.visits[start : start + len(actions)], actions, strict=True)
        return np.array([self.shop.serve(visit, self.shop.rank(visit, action)).reward for visit, action in pairs])

    def expected(self, start: int, actions: FloatArray) -> FloatArray:
        """Return what they bring in expectation."""
        truth, pairs = SearchTruth(self.shop), zip(self.visits[start : start + len(actions)], actions, strict=True)
        ranked = [(visit, self.shop.rank(visit, action)) for visit, action in pairs]
        return np.array([truth.rewards(visit, shown, MOODS).mean() for visit, shown in ranked])


def measure_overestimation(seeds: Iterable[int], progress: Progress = lambda line: None) -> pl.DataFrame:
    """Return a row a seed and critic: how its own picks do, by itself and by the truth, for visitors it has not seen.

    Critics: `single network`, `ensemble mean`, `ensemble minimum`, `mean - std`, and `two halves`, where an ensemble
    picks that has seen one half of the visits, and one that has seen the other says what that is worth. Columns, in EUR
    a visit: `promised`, `earned` in expectation, their mean difference `error`, `size`, its mean size, `largest`, the
    `spread`, which is the standard deviation of expected reward over visitors under random boosts, and `share`, error /
    spread.
    """
    rows = []
    for seed in seeds:
        scene = _scene(seed)
        for name, learner in _critics(scene, seed).items():
            progress(f"seed {seed}: {name}")
            _teach(scene, learner, seed)
            rows.append({"seed": seed, "critic": name, **_judged(scene, learner, seed)})
    return pl.DataFrame(rows)


def _scene(seed: int) -> Scene:
    shop = open_shop(seed)
    visits = [shop.arrive(step) for step in range(ROUNDS * ROUND + JUDGED)]
    return Scene(shop, visits, np.array([shop.features(visit) for visit in visits]))


def _critics(scene: Scene, seed: int) -> dict[str, Learner]:
    def made(seed: int, n: int = 5) -> QEnsembleRegressor:
        config = QEnsembleConfig(n_ensembles=n, bootstrap=n > 1, seed=seed)
        return QEnsembleRegressor(scene.states.shape[1], 10, config)

    one, mean, low, safe, first, second = made(seed, 1), *(made(seed) for _ in range(4)), made(seed + 1)
    return {
        "single network": Learner((one,), lambda states: ascend(one.objective(states), states)),
        "ensemble mean": Learner((mean,), lambda states: ascend(mean.objective(states), states)),
        "ensemble minimum": Learner((low,), lambda states: ascend(_minimum(low, states), states)),
        "mean - std": Learner((safe,), lambda states: ascend(safe.objective(states, -1.0), states)),
        "two halves": Learner((first, second), lambda states: _by_another(first, second, states)),
    }


def _minimum(q: QEnsembleRegressor, states: FloatArray) -> Minimum:
    net = q.network()
    alone = [net._replace(trained=member[None].copy()) for member in net.trained]
    return Minimum(tuple(EnsembleObjective(member, states, 0.0) for member in alone))


def _by_another(
    first: QEnsembleRegressor, second: QEnsembleRegressor, states: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Pick by one ensemble and value by another (double estimation, van Hasselt 2010)."""
    actions, _ = ascend(first.objective(states), states)
    return actions, second.predict(states, actions)[0]


def _teach(scene: Scene, learner: Learner, seed: int) -> None:
    """Let a critic learn in rounds: from random boosts, then from its own picks."""
    n, rng = ROUNDS * ROUND, stream(seed, "boosts")
    actions, rewards = rng.uniform(-A_MAX, A_MAX, (n, 10)), np.zeros(n)
    for number in range(ROUNDS):
        start, end = number * ROUND, (number + 1) * ROUND
        if number >= RANDOM_ROUNDS:
            actions[start:end] = learner.pick(scene.states[start:end])[0]
        rewards[start:end] = scene.rewards(start, actions[start:end])
        learner.learn(scene.states[:end], actions[:end], rewards[:end])


def ascend(critic: Critic, states: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the best actions `(m, d_a)` of projected gradient ascent from several starts, and their values."""
    rng, m = stream(0, "starts"), len(states)
    points = np.broadcast_to(rng.uniform(-A_MAX, A_MAX, (STARTS, 10)), (m, STARTS, 10)).copy()
    best, actions = np.full(m, -np.inf), points[:, 0].copy()
    for step in range(STEPS):
        value, slope = critic.gradient(points)
        top = value.argmax(axis=1)
        better = value[np.arange(m), top] > best
        best = np.where(better, value[np.arange(m), top], best)
        actions = np.where(better[:, None], points[np.arange(m), top], actions)
        steepest = np.maximum(np.abs(slope).max(axis=2, keepdims=True), 1e-12)
        points = np.clip(points + 0.4 * A_MAX * 0.85**step * slope / steepest, -A_MAX, A_MAX)
    return actions, best


def _judged(scene: Scene, learner: Learner, seed: int) -> dict[str, Any]:
    """Return the figures of a critic over visitors whom it has not seen."""
    start = ROUNDS * ROUND
    random = stream(seed, "judged").uniform(-A_MAX, A_MAX, (JUDGED, 10))
    actions, promised = learner.pick(scene.states[start:])
    earned = scene.expected(start, actions)
    error, spread = promised - earned, float(scene.expected(start, random).std())
    return {
        "promised": float(promised.mean()),
        "earned": float(earned.mean()),
        "error": float(error.mean()),
        "size": float(np.abs(error).mean()),
        "largest": float(error.max()),
        "spread": spread,
        "share": float(error.mean()) / spread,
    }
