"""One network for the rewards of all products, learned from a log."""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.types import FloatArray, PastLog, Progress
from zoosim.models.torch_training import seeded_torch, take_epoch
from zoosim.policies.from_log.base import FromLog, standardised
from zoosim.policies.from_log.traits import Traits, find_traits

HIDDEN, EPOCHS, BATCH, RATE, DECAY = 64, 20, 512, 0.003, 1e-4


class Layers(NamedTuple):
    """A network: the `hidden` layer `(H, d_u)`, and `outputs (K + p, H)`: of the products, then of their traits."""

    hidden: FloatArray
    hidden_bias: FloatArray
    outputs: FloatArray
    output_bias: FloatArray


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
        seed = int(self.rng.integers(2**31))
        layers, self.losses = train_network((log.features - centre) * scale, log, traits.scores, seed, progress)
        weights = np.column_stack([layers.output_bias, layers.outputs])
        own = weights[: len(log.products)]
        return traits, {
            "own": np.vstack([own, own.mean(axis=0)]),
            "shared": weights[len(log.products) :],
            "centre": centre,
            "scale": scale,
            "hidden": layers.hidden,
            "hidden_bias": layers.hidden_bias,
        }

    def _represent(self, user: FloatArray) -> FloatArray:
        model = self._model
        hidden = model["hidden"] @ ((user - model["centre"]) * model["scale"]) + model["hidden_bias"]
        return np.concatenate(([1.0], np.maximum(hidden, 0.0)))

    def _shapes(self, products: int, traits: int) -> dict[str, tuple[int, ...]]:
        dim = self.spec.user_dim
        weights = {"own": (products + 1, 1 + HIDDEN), "shared": (traits, 1 + HIDDEN)}
        return {**weights, "centre": (dim,), "scale": (dim,), "hidden": (HIDDEN, dim), "hidden_bias": (HIDDEN,)}


def train_network(
    inputs: FloatArray, log: PastLog, traits: FloatArray, seed: int, progress: Progress
) -> tuple[Layers, tuple[float, ...]]:
    """Train a network of one hidden layer on a log's rewards, by scaled `inputs (n, d_u)` and `traits (K, p)`.

    Returns it, and the mean squared error of each epoch.

    The same `seed` gives the same network on the same kind of processor.
    """
    with seeded_torch(seed):
        network, losses = _trained(inputs, log, traits, progress)
    return Layers(*(np.asarray(value.detach().numpy(), float) for value in network.state_dict().values())), losses


def _trained(inputs: FloatArray, log: PastLog, traits: FloatArray, progress: Progress) -> tuple[Any, tuple[float, ...]]:
    import torch
    from torch import nn, optim

    n_products, n_traits = traits.shape
    network = nn.Sequential(nn.Linear(inputs.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_products + n_traits))
    optimizer = optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    x = torch.from_numpy(inputs.astype(np.float32))
    z = torch.from_numpy(traits.astype(np.float32))
    actions = torch.from_numpy(np.array(log.actions))
    rewards = torch.from_numpy(log.rewards.astype(np.float32))

    def loss_of(rows: Any) -> Any:
        outputs = network(x[rows])
        chosen = actions[rows]
        own = outputs.gather(1, chosen[:, None])[:, 0]
        shared = (outputs[:, n_products:] * z[chosen]).sum(dim=1)
        return ((own + shared - rewards[rows]) ** 2).mean()

    losses = []
    for epoch in range(EPOCHS):
        losses.append(take_epoch(optimizer, loss_of, torch.randperm(len(log)), BATCH))
        progress(f"trained {epoch + 1} of {EPOCHS} epochs")
    return network, tuple(losses)
