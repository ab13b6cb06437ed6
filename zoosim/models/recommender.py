"""The offline recommender: user and product embeddings into a small MLP, trained once on a log.

Architecture: embeddings of 32 for user and product, 64 ReLU, 32 ReLU, 1 logit; binary cross-entropy, Adam .001, batches
of 512, 10 epochs, a fifth of the log held out. Trained with torch on one thread; used without it.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoosim.core.array_cache import kept
from zoosim.core.types import Progress
from zoosim.models.torch_training import seeded_torch, take_epoch

Weights = dict[str, NDArray[np.float32]]

LAYERS = ("fc1", "fc2", "output")
WEIGHTS = ("user.weight", "product.weight", *(f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias")))
LOSSES = ("train_loss", "validation_loss")
COLUMNS = ("user_id", "action", "reward")


class Training(NamedTuple):
    """Settings of the recommender's training."""

    embedding: int = 32
    epochs: int = 10
    batch_size: int = 512
    learning_rate: float = 0.001
    holdout: float = 0.2


def load_or_train(
    log: Mapping[str, Any], n_users: int, n_products: int, training: Training, seed: int, progress: Progress
) -> tuple[Weights, dict[str, float]]:
    """Return the weights trained on `log` and their losses: from the cache on disk when they are there and whole.

    The cache's key covers the log itself, the training with its code, and the seed.
    """

    def make() -> dict[str, Any]:
        weights, losses = train(log, n_users, n_products, training, seed, progress)
        return {**weights, **losses}

    columns = [hashlib.sha256(np.ascontiguousarray(log[name]).tobytes()).hexdigest() for name in COLUMNS]
    arrays = kept("models", (n_users, n_products, training, seed, *columns), (*WEIGHTS, *LOSSES), make)
    losses = {name: float(arrays.pop(name)) for name in LOSSES}
    return arrays, losses


def train(
    log: Mapping[str, Any], n_users: int, n_products: int, training: Training, seed: int, progress: Progress
) -> tuple[Weights, dict[str, float]]:
    """Train on `log` (arrays `user_id`, `action`, `reward`); return the weights and the last losses."""
    with seeded_torch(seed):
        return _train(log, _network(n_users, n_products, training.embedding), training, progress)


def _train(
    log: Mapping[str, Any], model: Any, training: Training, progress: Progress
) -> tuple[Weights, dict[str, float]]:
    import torch

    # Copies, because torch takes neither read-only arrays nor reversed ones.
    users = torch.from_numpy(np.array(log["user_id"], np.int64))
    products = torch.from_numpy(np.array(log["action"], np.int64))
    clicks = torch.from_numpy(np.array(log["reward"], np.float32))

    def loss_of(rows: Any) -> Any:
        logits = _logits(model, users[rows], products[rows])
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, clicks[rows])

    optimizer = torch.optim.Adam(model.parameters(), lr=training.learning_rate)
    order = torch.randperm(len(clicks))
    n_held_out = int(len(clicks) * training.holdout)
    held_out = order[:n_held_out] if n_held_out else order
    train_rows = order[n_held_out:]
    losses = {"train_loss": float("nan"), "validation_loss": float("nan")}
    for epoch in range(training.epochs):
        shuffled = train_rows[torch.randperm(len(train_rows))]
        train_loss = take_epoch(optimizer, loss_of, shuffled, training.batch_size)
        with torch.no_grad():
            validation = loss_of(held_out).item()
        losses = {"train_loss": train_loss, "validation_loss": validation}
        progress(f"offline model: epoch {epoch + 1}/{training.epochs}, validation loss {validation:.4f}")
    return {name: value.detach().numpy().copy() for name, value in model.state_dict().items()}, losses


def _network(n_users: int, n_products: int, embedding: int) -> Any:
    from torch import nn

    return nn.ModuleDict(
        {
            "user": nn.Embedding(n_users, embedding),
            "product": nn.Embedding(n_products, embedding),
            "fc1": nn.Linear(2 * embedding, 64),
            "fc2": nn.Linear(64, 32),
            "output": nn.Linear(32, 1),
        }
    )


def _logits(model: Any, users: Any, products: Any) -> Any:
    import torch

    x = torch.cat([model["user"](users), model["product"](products)], dim=1)
    x = torch.relu(model["fc2"](torch.relu(model["fc1"](x))))
    return model["output"](x).squeeze(-1)
