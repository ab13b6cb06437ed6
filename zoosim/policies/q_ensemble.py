"""Q(x, a) = E[R | X = x, A = a] by an ensemble of networks: a mean, and a spread that tells what is not known.

    config = QEnsembleConfig(n_ensembles=5, hidden_sizes=(64, 64), learning_rate=3e-3, device="cpu", seed=42)
    q = QEnsembleRegressor(state_dim=5, action_dim=10, config=config)
    q.update_batch(states, actions, rewards, n_epochs=50, batch_size=64)
    mean, std = q.predict(states, actions)

Members start from their own weights, see the data in their own order, and weigh it by their own Bayesian bootstrap, so
that they differ where data is thin or noisy (Lakshminarayanan, Pritzel & Blundell 2017; Osband et al. 2016). The spread
is the population standard deviation, divided by M. It is about the mean reward: what one visit earns scatters around
that by far more (`python -m studies calibration`).
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from zoosim.core.checks import check_array, check_number, check_whole, check_widths
from zoosim.core.devices import check_device
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.limits import ANY_SINGLES, trained_flaws
from zoosim.core.parameters import shown
from zoosim.core.rng import stream, stream_key
from zoosim.core.state import Stateful
from zoosim.core.types import Float32Array, FloatArray
from zoosim.models.ensemble_net import Ensemble, ensemble_layers, predict_rows
from zoosim.models.ensemble_objective import EnsembleObjective
from zoosim.models.ensemble_training import bootstrap_weights, fit, new_weights
from zoosim.models.moments import Moments


@dataclass(frozen=True)
class QEnsembleConfig:
    """Settings of an ensemble of networks.

    `n_ensembles` members, the widths of their hidden layers, Adam's learning rate, and the seed of all draws. With
    `bootstrap` each member weighs the data in its own way; without, members differ by their first weights and the order
    of their batches alone. `device` is "cpu", compiled code without torch; or "cuda" or "mps", a graphics card through
    torch (the extra `torch`), which pays where many requests are decided at once (`python -m studies devices`). What is
    learned has the same form on each.
    """

    n_ensembles: int = 5
    hidden_sizes: tuple[int, ...] = (64, 64)
    learning_rate: float = 3e-3
    device: str = "cpu"
    seed: int = 0
    bootstrap: bool = True

    def __post_init__(self) -> None:
        """Raise `ConfigError` at the first value that is out of range."""
        check_whole("n_ensembles", self.n_ensembles, 1, 1_000)
        object.__setattr__(self, "hidden_sizes", check_widths("hidden_sizes", self.hidden_sizes))
        check_number("learning_rate", self.learning_rate, 1e-9, 1.0)
        check_device("device", self.device)
        check_whole("seed", self.seed, 0, 2**63)
        if not isinstance(self.bootstrap, bool):
            raise ConfigError(f"bootstrap: got {shown(self.bootstrap)}, expected true or false")


class QEnsembleRegressor(Stateful):
    """Learn rewards of states and actions, and predict their mean with how far the members differ.

    Inputs and rewards are brought to mean 0 and standard deviation 1 by all that was seen; what comes out is in the
    units of the rewards. All draws are private: on the processor the same calls give the same bits, and a graphics card
    trains on the same batches and differs by rounding.
    """

    learned: ClassVar = {"trained": "_trained", "steps": "_steps", "": "_moments"}
    _trained: Annotated[Float32Array, ANY_SINGLES, trained_flaws]

    def __init__(self, state_dim: int, action_dim: int, config: QEnsembleConfig | None = None) -> None:
        """Make an ensemble that has seen nothing.

        Args:
            state_dim, action_dim: Lengths of states and of actions, 1 to 100,000.
            config: How to learn; None for `QEnsembleConfig()`.

        Raises:
            ConfigError: an argument is invalid.
        """
        self.config = QEnsembleConfig() if config is None else config
        if not isinstance(self.config, QEnsembleConfig):
            raise ConfigError(f"config: got {shown(config)}, expected a QEnsembleConfig")
        self.state_dim = check_whole("state_dim", state_dim, 1, 100_000)
        self.action_dim = check_whole("action_dim", action_dim, 1, 100_000)
        self._layers = ensemble_layers([state_dim + action_dim, *self.config.hidden_sizes, 1])
        rng = stream(self.config.seed, "q-ensemble", "weights")
        self._trained = new_weights(self._layers, self.config.n_ensembles, rng=rng)
        self._moments = Moments.none(state_dim + action_dim + 1)
        self._steps = np.zeros(2, np.int64)

    def update_batch(
        self,
        states: FloatArray,
        actions: FloatArray,
        rewards: FloatArray,
        n_epochs: int = 1,
        batch_size: int = 64,
        *,
        weights: Any = None,
    ) -> None:
        """Train on n visits, going on from before; nothing is learned where it raises.

        Args:
            states: `(n, state_dim)`.
            actions: `(n, action_dim)`.
            rewards: `(n,)`.
            n_epochs: Passes over the rows, at least 1.
            batch_size: Rows per step of training, at least 1.
            weights: Of the rows for each member, `(n_ensembles, n)`, in place of the bootstrap's.

        Raises:
            ConfigError: `n_epochs` or `batch_size` is out of range.
            DataError: an array is empty, of another shape, or holds what is NaN, infinite or beyond 1e9; or training
                diverged.
        """
        rows = self._rows(states, actions)
        targets = check_array("rewards", rewards, (len(rows),))
        epochs = check_whole("n_epochs", n_epochs, 1, 1_000_000)
        size = check_whole("batch_size", batch_size, 1, 1_000_000)
        examples = np.column_stack([rows, targets])
        if weights is None:
            shares = self._weights(examples)
        else:
            shares = check_array("weights", weights, (self.config.n_ensembles, len(rows))).astype(np.float32)
        moments = self._moments.joined(examples)
        # Trained on a copy, which is kept only if it is finite.
        net = self._net(self._trained.copy(), moments)
        shift, unit = net.reward
        key = stream_key(self.config.seed, "q-ensemble", "order")
        steps = self._steps.copy()
        task = (net, rows, (targets - shift) / unit, shares, key, steps, epochs, size, self.config.learning_rate)
        if self.config.device == "cpu":
            fit(*task)
        else:
            from zoosim.models import ensemble_torch

            ensemble_torch.fit(self.config.device, *task)
        if not np.isfinite(net.trained).all():
            raise DataError("update_batch: training diverged and is undone; take a smaller learning_rate")
        self._trained = net.trained
        self._moments = moments
        self._steps = steps

    def predict(self, states: FloatArray, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean reward and the population standard deviation over members, `(n,)` each, at n rows."""
        rows = self._rows(states, actions)
        mean = np.empty(len(rows))
        std = np.empty(len(rows))
        self._predict(self.network(), rows, mean, std)
        return mean, std

    def objective(self, states: FloatArray, beta: float = 0.0) -> EnsembleObjective:
        """Return mean + beta std as a function of actions.

        Args:
            states: One state `(state_dim,)`, or m of them, a row each.
            beta: Weight of the standard deviation over members, up to 1e6 in size.

        Raises:
            ConfigError: `beta` is out of range.
            DataError: `states` is of another shape, or not finite.
        """
        lead = () if np.ndim(states) == 1 else (None,)
        checked = check_array("states", states, (*lead, self.state_dim))
        weight = check_number("beta", beta, -1e6, 1e6)
        if self.config.device == "cpu":
            return EnsembleObjective(self.network(), checked, weight)
        from zoosim.models import ensemble_torch

        return ensemble_torch.TorchObjective(self.config.device, self.network(), checked, weight)

    def members(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return what each member predicts, `(n_ensembles, n)`."""
        rows = self._rows(states, actions)
        net = self.network()
        out = np.empty((self.config.n_ensembles, len(rows)))
        for member, values in zip(net.trained, out, strict=True):
            self._predict(net._replace(trained=member[None]), rows, values, np.empty(len(rows)))
        return out

    def network(self) -> Ensemble:
        """Return the networks as they are now, for compiled code such as an `Actor`; later training leaves it alone."""
        return self._net(self._trained, self._moments)

    def distance(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return how far rows lie from the data `(n,)`: the root mean square of their standardised inputs."""
        net = self.network()
        standardised = (self._rows(states, actions) - net.centre) * net.scale
        far: FloatArray = np.sqrt(np.mean(standardised**2, axis=1))
        return far

    def _predict(self, net: Ensemble, rows: FloatArray, mean: FloatArray, std: FloatArray) -> None:
        if self.config.device == "cpu":
            predict_rows(net, rows, mean, std)
        else:
            from zoosim.models import ensemble_torch

            ensemble_torch.predict_rows(self.config.device, net, rows, mean, std)

    def _rows(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        checked_states = check_array("states", states, (None, self.state_dim))
        checked_actions = check_array("actions", actions, (len(checked_states), self.action_dim))
        return np.column_stack([checked_states, checked_actions])

    def _weights(self, rows: FloatArray) -> Any:
        if not self.config.bootstrap:
            return np.ones((self.config.n_ensembles, len(rows)), np.float32)
        key = stream_key(self.config.seed, "q-ensemble", "bootstrap")
        return bootstrap_weights(key, rows + 0.0, self.config.n_ensembles)  # + 0.0: -0.0 is 0.0

    def _net(self, trained: Any, moments: Moments) -> Ensemble:
        deviation = moments.deviation()
        reward = np.array([moments.mean[-1], deviation[-1]])
        return Ensemble(trained, self._layers, self.state_dim, moments.mean[:-1], 1.0 / deviation[:-1], reward)
