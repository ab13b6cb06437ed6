"""The network of a neural bandit: outputs, factors of gradients, training."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np

from zoosim.core.limits import NOT_NEGATIVE, trained_flaws
from zoosim.core.rng import draw_key, uniforms
from zoosim.core.state import Stateful
from zoosim.core.types import FloatArray
from zoosim.nets.adam import adam_step
from zoosim.nets.heads import fit_heads, heads_gradient
from zoosim.nets.network import fresh_weights, with_moments
from zoosim.neural import mlp
from zoosim.neural.history import RowHistory
from zoosim.neural.kernel import means_and_norms, outputs_and_norms

SHORTEST = 1e-30
"""The least length of gradients but 0, which stands for none; and the inverse of the largest."""


class Network(Stateful):
    """A network: weights `trained (3, p)` with their moments; `version` changes whenever they do, and at each training.

    Gradients are those in the layers `first` and up, `slopes` numbers, divided by `length`: the root of their mean
    squared length over the rows first seen, and then over those observed at each training; or 1.
    """

    learned = ("trained", "key", "steps", "length")
    trained: Annotated[FloatArray, trained_flaws]
    length: Annotated[float, NOT_NEGATIVE]

    def __init__(
        self, sizes: tuple[int, ...], first: int, rate: float, penalty: float, normalise: bool, rng: np.random.Generator
    ) -> None:
        """`sizes` are those of all layers; `rate` is Adam's; `penalty` times the squared weights is added to losses."""
        self.sizes = np.array(sizes)
        self.first = first
        self.rate = rate
        self.penalty = penalty
        self.normalise = normalise
        self.layers = mlp.perceptron(self.sizes)
        self.trained = with_moments(fresh_weights(self.layers, rng=rng))
        self.key = draw_key(rng)
        self.slopes = mlp.count_weights(self.sizes[first:])
        self.steps = self.version = 0
        self.length = 0.0 if normalise else 1.0

    def meet(self, xs: FloatArray) -> None:
        """Measure gradients by the rows of `xs (n, d)` if they are the first ones seen."""
        if self.length == 0.0:
            self._measure(xs)

    def look(self, xs: FloatArray, outputs: FloatArray, norms: FloatArray) -> None:
        """Write the outputs `(n,)` at the rows of `xs (n, d)` and the squared lengths of their gradients."""
        outputs_and_norms(self.trained[0], self.layers, self.sizes, self.first, 1.0 / self.length, xs, outputs, norms)

    def factors(self, xs: FloatArray) -> FloatArray:
        """Return the factors `(n, f)` of the gradients at the rows of `xs (n, d)`."""
        out = np.empty((len(xs), mlp.count_factors(self.sizes)))
        mlp.factorise_rows(self.trained[0], self.layers, xs, 1.0 / self.length, out, np.empty(len(xs)))
        return out

    def look_along(self, theta: FloatArray, xs: FloatArray, means: FloatArray, norms: FloatArray) -> None:
        """Write g'theta `(n,)` at the rows of `xs (n, d)`, g their gradients, and the squared lengths of these."""
        means_and_norms(
            self.trained[0], self.layers, self.sizes, self.first, 1.0 / self.length, xs, theta, means, norms
        )

    def train(self, history: RowHistory, steps: int, batch_size: int) -> None:
        """Take Adam steps on the distinct rows of `history`, or on observations drawn where they exceed a batch."""
        seen = history.observed()
        for _ in range(steps if len(seen) else 0):
            chosen = seen
            # The mean of a row's rewards weighted by their number has the gradient of all its single observations.
            weights = history.counts[seen]
            if len(seen) > batch_size:
                shares = np.cumsum(weights)
                draws = uniforms(self.key, np.full(batch_size, self.steps), np.arange(batch_size)) * shares[-1]
                # Rounding may bring a draw up to the whole sum, behind the last row.
                chosen = seen[np.minimum(np.searchsorted(shares, draws, side="right"), len(seen) - 1)]
                weights = np.ones(batch_size)
            self.step(history.xs[chosen], history.sums[chosen] / history.counts[chosen], weights)
        self.version += 1
        if self.normalise and len(seen):
            self._measure(history.xs[seen])

    def step(self, xs: FloatArray, targets: FloatArray, weights: FloatArray) -> None:
        """Take one Adam step on the weighted mean squared error, and the penalty on the weights."""
        self.steps += 1
        self.version += 1
        first = np.zeros(len(xs), np.int64)
        none = np.empty((0, 0))  # neither traits of heads nor masks
        data = xs, np.arange(len(xs)), first, none, none, targets, weights / weights.sum()
        if self.penalty == 0.0:
            fit_heads(self.trained, self.layers[:-1], *data, self.rate, self.steps)
            return
        gradient = 2.0 * self.penalty * self.trained[0]
        heads_gradient(self.trained[0], self.layers[:-1], *data, gradient)
        adam_step(self.trained, gradient, self.rate, self.steps)

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        length = values["length"]
        if length and not SHORTEST <= length <= 1.0 / SHORTEST:
            yield f"length is {length:g}, which no gradient has"

    def _state_loaded(self) -> None:
        self.version += 1

    def _measure(self, xs: FloatArray) -> None:
        outputs, norms = np.empty((2, len(xs)))
        outputs_and_norms(self.trained[0], self.layers, self.sizes, self.first, 1.0, xs, outputs, norms)
        self.length = float(np.sqrt(norms.mean()))
