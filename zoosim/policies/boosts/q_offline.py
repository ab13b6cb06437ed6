"""Boosts learned from a log alone, by a Q-ensemble that is pessimistic where the log has no data.

Who maximises over estimates goes where they err upwards, and a log that covers few boosts leaves room for errors
everywhere else. Online the next visits correct them; here nothing does. Three kinds of pessimism: the lowest member
(Fujimoto, van Hoof & Meger 2018), the mean less some standard deviations, conservative training (Kumar et al. 2020).
"""

from collections.abc import Mapping
from math import ceil
from typing import Any, ClassVar

import numpy as np

from zoosim.core.checks import check_array
from zoosim.core.claims import claim
from zoosim.core.errors import DataError
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.types import Context, FloatArray, Progress
from zoosim.models.conservative import fit_conservative
from zoosim.models.ensemble_net import Ensemble, ensemble_layers
from zoosim.models.ensemble_objective import EnsembleObjective
from zoosim.models.ensemble_training import new_weights, visit_weights
from zoosim.models.moments import Moments
from zoosim.optimizers.cem import CEMConfig, cem_optimize
from zoosim.policies.boosts.base import BoostPolicy, BoostSpec
from zoosim.policies.boosts.q_replay import Replay

PESSIMISM = ("conservative", "std", "minimum", "mean")


class QOffline(BoostPolicy):
    """Choose the boosts that a log supports; learn by `fit`, and nothing from visits."""

    name = "q-offline"
    learned: ClassVar = {
        "trained": "_net.trained",
        "centre": "_net.centre",
        "scale": "_net.scale",
        "fitted": "_fitted",
        "key": "_key",
    }
    pessimism: str = parameter("conservative", choices=PESSIMISM, help="how the critic doubts; mean: not at all")
    alpha: float = parameter(1.0, low=0, high=1e3, help="of conservative: the weight of what pushes values down")
    kappa: float = parameter(2.0, low=0, high=1e3, help="of std: how many standard deviations are taken off")
    n_ensembles: int = parameter(5, low=1, high=100, help="members of the ensemble")
    hidden: int = parameter(32, low=1, high=4_096, help="units of the one hidden layer")
    learning_rate: float = parameter(3e-3, low=1e-6, high=1, help="Adam's learning rate, falling to 0")
    batch_size: int = parameter(64, low=1, high=100_000, help="visits per step of training")
    epochs: int = parameter(20, low=1, high=100_000, help="times that training goes through the log")

    def __init__(self, spec: BoostSpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has seen no log: it boosts nothing.

        Args:
            spec: The dimensions of its task.
            rng: A key and the first weights are drawn from it.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(spec, rng, **params)
        self._key = np.array([draw_key(rng)])
        inputs = spec.user_dim + spec.product_dim
        claim(self.n_ensembles * self.hidden * inputs)
        layers = ensemble_layers([inputs, self.hidden, 1])
        self._net = Ensemble(
            new_weights(layers, self.n_ensembles, rng=rng),
            layers,
            spec.user_dim,
            np.zeros(inputs),
            np.ones(inputs),
            np.array([0.0, 1.0]),
        )
        self._fitted = np.zeros(1, np.int64)

    def fit(self, log: Any, progress: Progress = lambda line: None) -> dict[str, float]:
        """Learn from a log of n visits, in place of what was learned from another.

        Args:
            log: A `Log` of boosts, or `features (n, user_dim)`, `action (n, product_dim)` and `reward (n,)` by name.
            progress: Not called: training is one compiled step.

        Returns:
            `visits`, how many there were.

        Raises:
            DataError: something is missing, of another shape, NaN or infinite; nothing was learned.
        """
        if not isinstance(log, Mapping):
            log = {"features": log.features, "action": log.actions, "reward": log.visit_rewards}
        missing = [name for name in ("features", "action", "reward") if name not in log]
        if missing:
            raise DataError(f"q-offline: the log has no {missing[0]}, expected features, action and reward")
        states = check_array("q-offline: features", log["features"], (None, self.spec.user_dim))
        actions = check_array("q-offline: action", log["action"], (len(states), self.spec.product_dim))
        rewards = check_array("q-offline: reward", log["reward"], (len(states),))
        rows = np.column_stack([states, actions])
        moments = Moments.none(rows.shape[1]).joined(rows)
        # A copy of the weights, so that training which diverges can be thrown away.
        net = self._net._replace(
            trained=self._net.trained.copy(), centre=moments.mean.copy(), scale=1.0 / moments.deviation()
        )
        # A Bayesian bootstrap (Rubin 1981): members weigh visits in ways of their own, and differ where few visits
        # tell.
        weights = visit_weights(self._key[0], np.arange(len(rows)), self.n_ensembles)
        steps = ceil(self.epochs * len(rows) / self.batch_size)
        alpha = self.alpha if self.pessimism == "conservative" else 0.0
        settings = (steps, self.batch_size, self.learning_rate, alpha, self.spec.a_max)
        fit_conservative(net, rows, self._targets(states, rewards), weights, self._key[0], *settings)
        if not np.isfinite(net.trained).all():
            raise DataError("q-offline: training diverged and is undone; take a smaller learning_rate")
        self._net = net
        self._fitted = np.array([len(rows)])
        return {"visits": float(len(rows))}

    def _targets(self, states: FloatArray, rewards: FloatArray) -> FloatArray:
        """Bring rewards to one scale within each segment."""
        segments = states[:, : max(1, self.spec.n_segments)].argmax(axis=1)
        # For its moments alone, so that targets are those of `q-ensemble`; it has room for one visit.
        replay = Replay(1, 1, 1, max(1, self.spec.n_segments))
        for reward, segment in zip(rewards, segments, strict=True):
            replay.add(np.zeros(1), np.zeros(1), float(reward), int(segment))
        mean, unit = replay.scales()
        targets: FloatArray = (rewards - mean[segments]) / unit[segments]
        return targets

    def select_action(self, context: Context) -> FloatArray:
        """Return the boosts that the log supports."""
        return self.recommend(context)

    def recommend(self, context: Context) -> FloatArray:
        """Return the boosts that the log supports; none before `fit`."""
        if not self._fitted[0]:
            return np.zeros(self.spec.product_dim)
        state = check_array("q-offline: features", context.features, (self.spec.user_dim,))
        search = CEMConfig.fast(self.spec.a_max)
        beta = -self.kappa if self.pessimism == "std" else 0.0
        members = [self._net]
        if self.pessimism == "minimum":
            members = [self._net._replace(trained=member[np.newaxis].copy()) for member in self._net.trained]
        critics = [EnsembleObjective(net, state, beta) for net in members]

        def objective(actions: FloatArray) -> FloatArray:
            values: FloatArray = np.min([critic(actions) for critic in critics], axis=0)
            return values

        # The same draws each time: a recommendation must move no generator, and repeat.
        return cem_optimize(objective, self.spec.product_dim, search, rng=np.random.default_rng(0)).action

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        """Learn nothing: what is known comes from the log."""
