"""One network for the rewards of all products, learned from a log."""

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.jit import jit
from zoosim.core.types import Float32Array, FloatArray, IntArray, PastLog, Progress
from zoosim.linear.dense import scale_vector
from zoosim.nets.heads import fit_heads, fresh_heads
from zoosim.nets.network import (
    RELU,
    count_weights,
    fresh_weights,
    make_layers,
    with_moments,
)
from zoosim.policies.from_log.base import FromLog, standardised
from zoosim.policies.from_log.traits import Traits, find_traits

HIDDEN, EPOCHS, BATCH, RATE, DECAY = 64, 20, 512, 0.003, 1e-4


class MLP(FromLog):
    """Show what one network favours: learned from a log alone, with an output for each product and for what they share.

    A product's guess is its own output plus its traits times outputs that all products share. Trained on the squared
    error of the logged choices.
    """

    name = "mlp"

    def _fit_model(self, log: PastLog, progress: Progress) -> tuple[Traits, dict[str, FloatArray]]:
        if not self.spec.user_dim:
            raise PolicyError("rows have no features of visitors to learn from; name some in the schema")
        traits = find_traits(log.products)
        centre, scale = standardised(log.features)
        rng = np.random.default_rng(int(self.rng.integers(2**31)))
        layer, weights, self.losses = train_network(
            (log.features - centre) * scale, log, traits.scores, progress, rng=rng
        )
        own = weights[: len(log.products)]
        shared = weights[len(log.products) :]
        scaling = {"centre": centre, "scale": scale}
        return traits, {"own": np.vstack([own, own.mean(axis=0)]), "shared": shared, **scaling, **layer}

    def _represent(self, user: FloatArray) -> FloatArray:
        model = self._model
        hidden = model["hidden"] @ ((user - model["centre"]) * model["scale"]) + model["hidden_bias"]
        return np.concatenate(([1.0], np.maximum(hidden, 0.0)))

    def _shapes(self, products: int, traits: int) -> dict[str, tuple[int, ...]]:
        dim = self.spec.user_dim
        weights = {"own": (products + 1, 1 + HIDDEN), "shared": (traits, 1 + HIDDEN)}
        return {**weights, "centre": (dim,), "scale": (dim,), "hidden": (HIDDEN, dim), "hidden_bias": (HIDDEN,)}


def train_network(
    inputs: FloatArray, log: PastLog, traits: FloatArray, progress: Progress, *, rng: np.random.Generator
) -> tuple[dict[str, FloatArray], FloatArray, tuple[float, ...]]:
    """Train a network of one hidden layer on a log's rewards, with a head for each product, by AdamW.

    Args:
        inputs: Scaled features of the visitors `(n, d_u)`.
        log: The log.
        traits: Those of the products `(K, p)`.
        progress: Called with a line after each epoch.
        rng: Draws the first weights and the order of the rows.

    Returns:
        The `hidden (H, d_u)` layer and its `hidden_bias (H,)`; the bias and weights of all outputs `(K + p, 1 + H)`, of
        the products, then of their traits; and the mean squared error of each epoch.
    """
    layers = make_layers([inputs.shape[1], HIDDEN], [RELU])
    lower = fresh_weights(layers, rng=rng)
    heads = fresh_heads(sum(traits.shape), HIDDEN, rng=rng)
    trained = with_moments(np.concatenate([lower, heads]).astype(np.float32))
    scores = np.ascontiguousarray(traits, np.float32)
    data = np.ascontiguousarray(inputs), scores, np.array(log.actions, np.int64), np.array(log.rewards, np.float64)
    steps = np.zeros(1, np.int64)
    losses = []
    for epoch in range(EPOCHS):
        losses.append(_take_epoch(trained, layers, *data, rng.permutation(len(log)), steps) / len(log))
        progress(f"trained {epoch + 1} of {EPOCHS} epochs")
    hidden, heads = np.split(trained[0].astype(float), [count_weights(layers)])
    matrix, biases = np.split(heads, [HIDDEN * sum(traits.shape)])
    layer = {"hidden": hidden[:-HIDDEN].reshape(HIDDEN, -1), "hidden_bias": hidden[-HIDDEN:]}
    return layer, np.column_stack([biases, matrix.reshape(-1, HIDDEN)]), tuple(losses)


@jit
def _take_epoch(
    trained: Float32Array,
    layers: IntArray,
    inputs: FloatArray,
    traits: Float32Array,
    actions: IntArray,
    rewards: FloatArray,
    order: IntArray,
    steps: IntArray,
) -> float:
    """Take a step of AdamW (Loshchilov & Hutter 2019) for each batch; return the sum of squared errors."""
    total = 0.0
    no_masks = np.empty((0, HIDDEN), np.float32)
    for start in range(0, order.shape[0], BATCH):
        chosen = order[start : start + BATCH]
        size = chosen.shape[0]
        batch = inputs, chosen, actions[chosen], traits, no_masks, rewards[chosen], np.full(size, 1.0 / size)
        steps[0] += 1
        # Apart from the gradient: as a part of it, Adam would divide decay by the size of past gradients.
        scale_vector(trained[0], 1.0 - RATE * DECAY)
        total += size * fit_heads(trained, layers, *batch, RATE, steps[0])
    return total
