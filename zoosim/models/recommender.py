"""The offline recommender: user and product embeddings into a small MLP, trained once on a log.

Architecture: embeddings of 32 for user and product, 64 ReLU, 32 ReLU, 1 logit; binary cross-entropy, Adam .001, batches
of 512, 10 epochs, a fifth of the log held out. Trained with torch on one thread; used without it.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoosim.core.errors import DataError
from zoosim.core.files import atomic, cache_folder
from zoosim.core.sources import source_digest
from zoosim.core.threads import seeded_torch
from zoosim.core.types import Progress

Weights = dict[str, NDArray[np.float32]]

MAGIC = b"zoosim-model-1\n"


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
    """Return the weights trained on `log` and their losses: from the cache when they are there and whole.

    The cache's key covers the log itself, the training with its code, and the seed. A damaged file is trained again; a
    folder that cannot be written is done without.
    """
    path = cache_folder() / "models" / f"{_key(log, n_users, n_products, training, seed)}.safetensors"
    try:
        return load(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except DataError as error:
        progress(f"{error}; training it again")
    except OSError as error:
        progress(f"{path} cannot be read ({error.strerror}); training it again")
    weights, losses = train(log, n_users, n_products, training, seed, progress)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, weights, losses)
    except OSError as error:
        progress(f"the trained model is not kept: {path.parent} cannot be written ({error.strerror})")
    return weights, losses


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
        batches = train_rows[torch.randperm(len(train_rows))].split(training.batch_size)
        total = 0.0
        for batch in batches:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(batch)
            loss.backward()
            optimizer.step()
            total += loss.item()
        with torch.no_grad():
            validation = loss_of(held_out).item()
        losses = {"train_loss": total / len(batches), "validation_loss": validation}
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


def _key(log: Mapping[str, Any], n_users: int, n_products: int, training: Training, seed: int) -> str:
    digest = hashlib.sha256(repr((source_digest(__name__), n_users, n_products, training, seed)).encode())
    for name in ("user_id", "action", "reward"):
        digest.update(np.ascontiguousarray(log[name]).tobytes())
    return digest.hexdigest()[:32]


def save(path: Path, weights: Weights, losses: Mapping[str, float]) -> None:
    """Write weights and losses: a line that names the format, a SHA-256, then safetensors; whole or not at all."""
    from safetensors.numpy import save as to_bytes

    body = to_bytes(dict(weights), metadata={name: repr(value) for name, value in losses.items()})
    with atomic(path) as temporary:
        temporary.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)


def load(path: Path) -> tuple[Weights, dict[str, float]]:
    """Read what `save` wrote; raises `FileNotFoundError`, or `DataError` when a bit is not as it was."""
    from safetensors.numpy import load as from_bytes

    raw = path.read_bytes()
    start = len(MAGIC) + 32
    body = raw[start:]
    if not raw.startswith(MAGIC) or hashlib.sha256(body).digest() != raw[len(MAGIC) : start]:
        raise DataError(f"{path} is damaged (its checksum does not fit)")
    return from_bytes(body), _metadata(body)


def _metadata(body: bytes) -> dict[str, float]:
    """Read the losses from the header of a safetensors body."""
    import json

    header = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
    return {name: float(value) for name, value in header.get("__metadata__", {}).items()}
