"""The offline recommender: user and product embeddings into a small MLP, trained once on a log.

Architecture: embeddings of 32 for user and product, 64 ReLU, 32 ReLU, 1 logit; binary cross-entropy, Adam .001, batches
of 512, 10 epochs, a fifth of the log held out. Embeddings start from N(0, 1), as torch's do.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.array_cache import kept
from zoosim.core.digests import content_digest
from zoosim.core.jit import jit
from zoosim.core.types import Float32Array, FloatArray, IntArray, Progress
from zoosim.nets.adam import adam_step
from zoosim.nets.network import (
    BIASES,
    INPUTS,
    LINEAR,
    OUTPUTS,
    RELU,
    WEIGHTS,
    Workspace,
    add_gradient,
    add_input_slopes,
    block,
    count_units,
    descend,
    fresh_weights,
    go_up,
    make_layers,
    new_workspace,
    with_moments,
)

Weights = dict[str, Float32Array]

LAYERS = ("fc1", "fc2", "output")
NAMES = ("user.weight", "product.weight", *(f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias")))
LOSSES = ("train_loss", "validation_loss")
COLUMNS = ("user_id", "action", "reward")


class TrainingSettings(NamedTuple):
    """Settings of the recommender's training."""

    embedding: int = 32
    epochs: int = 10
    batch_size: int = 512
    learning_rate: float = 0.001
    holdout: float = 0.2


def load_or_train(
    log: Mapping[str, Any], n_users: int, n_products: int, training: TrainingSettings, seed: int, progress: Progress
) -> tuple[Weights, dict[str, float]]:
    """Return the weights trained on `log` and their losses: from the cache on disk when they are there and whole.

    The cache's key covers the log itself, the training with its code, and the seed.
    """

    def make() -> dict[str, Any]:
        weights, losses = train(log, n_users, n_products, training, seed, progress)
        return {**weights, **losses}

    columns = [content_digest(np.ascontiguousarray(log[name]).tobytes()) for name in COLUMNS]
    arrays = kept("models", (n_users, n_products, training, seed, *columns), (*NAMES, *LOSSES), make)
    losses = {name: float(arrays.pop(name)) for name in LOSSES}
    return arrays, losses


def train(
    log: Mapping[str, Any], n_users: int, n_products: int, training: TrainingSettings, seed: int, progress: Progress
) -> tuple[Weights, dict[str, float]]:
    """Train on `log` (arrays `user_id`, `action`, `reward`); return the weights and the last losses."""
    rng = np.random.default_rng(seed)
    size = training.embedding
    n_embedded = (n_users + n_products) * size
    # The same layers twice: from place 0 on, as first weights are drawn,
    # and behind the embeddings, as they are trained.
    own = make_layers([2 * size, 64, 32, 1], [RELU, RELU, LINEAR])
    params = np.concatenate([rng.standard_normal(n_embedded), fresh_weights(own, rng=rng)])
    trained = with_moments(params.astype(np.float32))
    layers = make_layers([2 * size, 64, 32, 1], [RELU, RELU, LINEAR], start=n_embedded)
    # Numbers of embeddings: those of products come after those of users.
    pairs = np.column_stack([log["user_id"], n_users + np.asarray(log["action"])]).astype(np.int64)
    clicks = np.array(log["reward"], np.float64)
    order = rng.permutation(len(clicks))
    n_held_out = int(len(clicks) * training.holdout)
    # Of a log too short for a fifth to be held out, the loss is measured on what was trained on.
    held_out = order[:n_held_out] if n_held_out else order
    train_rows = order[n_held_out:]
    steps = np.zeros(1, np.int64)
    losses = {name: float("nan") for name in LOSSES}
    for epoch in range(training.epochs):
        shuffled = rng.permutation(train_rows)
        data = trained, layers, size, pairs, clicks
        loss = _pass(*data, shuffled, training.batch_size, training.learning_rate, steps)
        validation = _pass(*data, held_out, training.batch_size, 0.0, np.zeros(0, np.int64))
        losses = {"train_loss": loss, "validation_loss": validation}
        progress(f"offline model: epoch {epoch + 1}/{training.epochs}, validation loss {validation:.4f}")
    return _named(trained[0], layers, n_users, size), losses


def _named(params: Float32Array, layers: IntArray, n_users: int, size: int) -> Weights:
    embeddings = params[: layers[0, WEIGHTS]].reshape(-1, size)
    weights = {"user.weight": embeddings[:n_users].copy(), "product.weight": embeddings[n_users:].copy()}
    for name, layer in zip(LAYERS, layers, strict=True):
        matrix = params[layer[WEIGHTS] : layer[BIASES]].reshape(layer[OUTPUTS], layer[INPUTS])
        weights[f"{name}.weight"] = matrix.copy()
        weights[f"{name}.bias"] = params[layer[BIASES] : layer[BIASES] + layer[OUTPUTS]].copy()
    return weights


@jit
def _pass(
    trained: Float32Array,
    layers: IntArray,
    size: int,
    pairs: IntArray,
    clicks: FloatArray,
    order: IntArray,
    batch_size: int,
    rate: float,
    steps: IntArray,
) -> float:
    """Return the mean cross-entropy over rows in an `order`; with `steps (1,)` also take a step for each batch."""
    learns = steps.shape[0] > 0
    work = new_workspace(layers, min(batch_size, order.shape[0]), trained[0])
    gradient = np.zeros(trained.shape[1], np.float32)
    total = 0.0
    for start in range(0, order.shape[0], batch_size):
        batch = order[start : start + batch_size]
        total += _add_errors(trained[0], layers, size, pairs, clicks, batch, work, gradient, learns)
        if learns:
            steps[0] += 1
            adam_step(trained, gradient, rate, steps[0])
    return float(total / order.shape[0])


@jit
def _add_errors(
    params: Float32Array,
    layers: IntArray,
    size: int,
    pairs: IntArray,
    clicks: FloatArray,
    batch: IntArray,
    work: Workspace,
    gradient: Float32Array,
    learns: bool,
) -> float:
    """Return the cross-entropy of a batch; if it `learns`, add the gradient of its mean."""
    width = batch.shape[0]
    total = count_units(layers)
    inputs = block(work.inputs, 2 * size, width)
    units = block(work.units, total, width)
    slopes = block(work.slopes, total, width)
    for j in range(width):
        for i in range(2 * size):
            inputs[i, j] = params[pairs[batch[j], i // size] * size + i % size]
    go_up(params, layers, inputs, units, slopes)
    loss = 0.0
    for j in range(width):
        logit = float(units[total - 1, j])
        click = clicks[batch[j]]
        # By exp(-|x|), which cannot overflow.
        tail = np.exp(-abs(logit))
        loss += max(logit, 0.0) - logit * click + np.log1p(tail)
        chance = 1.0 / (1.0 + tail) if logit >= 0.0 else tail / (1.0 + tail)
        slopes[total - 1, j] = (chance - click) / width
    if learns:
        descend(params, layers, slopes, work.scratch)
        add_gradient(layers, inputs, units, slopes, work, gradient)
        inputs[:] = 0.0
        add_input_slopes(params, layers[0], slopes, inputs)
        # A user or a product may stand in several rows of the batch, so slopes are added up.
        for j in range(width):
            for i in range(2 * size):
                gradient[pairs[batch[j], i // size] * size + i % size] += inputs[i, j]
    return loss
