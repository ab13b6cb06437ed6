"""Neural-Linear agents as published: a torch network, a float64 ridge on its embedding, a fresh inverse a decision."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

FloatArray = NDArray[np.float64]
Weights = Mapping[str, FloatArray]


class _PlainNeuralLinear:
    """Score by LinUCB on the network's embedding z = W2'relu(W1'x + b1) + b2; subclasses say how W is trained.

    Each observation enters A and b once, as the network saw it then: neither is recomputed when the network moves.
    Source: Riquelme, Tucker and Snoek (2018), "Deep Bayesian bandits showdown" (the Neural-Linear idea), with the
    bonus of LinUCB, as in Xu, Wen, Zhao and Gu (2022), "Neural contextual bandits with deep representation and
    shallow exploration".
    """

    def __init__(
        self, dim: int, alpha: float, hidden: int, embedding: int, regularization: float, dtype: torch.dtype
    ) -> None:
        self.alpha, self.dtype = alpha, dtype
        self.layer_1 = nn.Linear(dim, hidden, dtype=dtype)
        self.layer_2 = nn.Linear(hidden, embedding, dtype=dtype)
        self.network = nn.Sequential(self.layer_1, nn.ReLU(), self.layer_2)
        self.A = regularization * np.eye(embedding)
        self.b = np.zeros(embedding)

    def embed(self, features: FloatArray) -> FloatArray:
        """Return the embeddings `(..., e)` of `features (..., d)` in one forward pass, without gradients."""
        with torch.no_grad():
            return _array(self.network(torch.as_tensor(features, dtype=self.dtype)))

    def scores(self, features: FloatArray) -> FloatArray:
        """Return z'theta + alpha sqrt(z' A^-1 z), shape `(K,)`, with theta = A^-1 b.

        The products run over all rows at once, so equal rows may differ in the last bit: a tie by features is not
        always a tie here.
        """
        z = self.embed(features)
        inverse = np.linalg.inv(self.A)
        theta = inverse @ self.b
        bonus: FloatArray = np.sqrt(np.sum((z @ inverse) * z, axis=1))
        return z @ theta + self.alpha * bonus

    def select(self, features: FloatArray) -> int:
        """Return the arm with the highest score, the lowest index on ties."""
        return int(np.argmax(self.scores(features)))

    def weights(self) -> dict[str, FloatArray]:
        """Return copies of the weights, named and shaped as the constructor takes them."""
        return _layer_weights(1, self.layer_1) | _layer_weights(2, self.layer_2)

    def _observe(self, z: FloatArray, reward: float) -> None:
        self.A += np.outer(z, z)
        self.b += reward * z


class PlainNeuralLinearOnline(_PlainNeuralLinear):
    """Train the network by one SGD step an update, on (z'theta - r)^2 with theta = A^-1 b held constant.

    `weights`: w1 `(d, h)`, b1 `(h,)`, w2 `(h, e)`, b2 `(e,)`; None is torch's default start. At the first update
    theta is r z / (regularization + z'z), so a reward of zero leaves the network as it was.
    """

    def __init__(
        self,
        dim: int,
        alpha: float = 0.2,
        learning_rate: float = 0.01,
        hidden: int = 64,
        embedding: int = 32,
        *,
        regularization: float = 1.0,
        weights: Weights | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(dim, alpha, hidden, embedding, regularization, dtype)
        _set_layers(weights, self.layer_1, self.layer_2)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=learning_rate)

    def update(self, features: FloatArray, arm: int, reward: float) -> None:
        """Add the chosen row's embedding to A and b, then take one SGD step through that embedding."""
        z = self.network(torch.as_tensor(features[arm], dtype=self.dtype))
        self._observe(_array(z.detach()), reward)
        theta = torch.as_tensor(np.linalg.inv(self.A) @ self.b, dtype=self.dtype)
        loss = (z @ theta - reward) ** 2
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class PlainNeuralLinearHead(_PlainNeuralLinear):
    """Train a network with a ReLU on its embedding by one SGD step an update, through a linear head of its own.

    `weights`: as the online agent's, and w3 `(e,)`, b3 `()` for the head; None is torch's default start. The head only
    trains; A and b decide.
    """

    def __init__(
        self,
        dim: int,
        alpha: float = 1.0,
        learning_rate: float = 0.01,
        hidden: int = 64,
        embedding: int = 32,
        *,
        regularization: float = 1.0,
        weights: Weights | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(dim, alpha, hidden, embedding, regularization, dtype)
        self.network = nn.Sequential(self.layer_1, nn.ReLU(), self.layer_2, nn.ReLU())
        self.head = nn.Linear(embedding, 1, dtype=dtype)
        _set_layers(weights, self.layer_1, self.layer_2, self.head)
        self.optimizer = torch.optim.SGD([*self.network.parameters(), *self.head.parameters()], lr=learning_rate)

    def update(self, features: FloatArray, arm: int, reward: float) -> None:
        """Add the chosen row's embedding to A and b, then take one SGD step on the head's squared error."""
        z = self.network(torch.as_tensor(features[arm], dtype=self.dtype))
        self._observe(_array(z.detach()), reward)
        loss = (self.head(z)[0] - reward) ** 2
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class PlainNeuralLinearStable(_PlainNeuralLinear):
    """Train the network through its own linear head, one Adam step on a replayed minibatch every `train_every` updates.

    The memory is a ring of the newest `memory` observations: update t = 0, 1, ... is written to slot t % memory.
    `sample(n_in_memory, batch_size)` returns the slots of a minibatch; None draws them without replacement. Steps
    that find fewer than `batch_size` observations are skipped. The head only trains; A and b decide.

    `weights`: as the online agent's, and w3 `(e,)`, b3 `()` for the head; None is torch's default start.
    Source of the memory: Mnih et al. (2015), "Human-level control through deep reinforcement learning".
    """

    def __init__(
        self,
        dim: int,
        alpha: float = 0.3,
        learning_rate: float = 0.01,
        hidden: int = 64,
        embedding: int = 32,
        memory: int = 10_000,
        batch_size: int = 64,
        train_every: int = 50,
        sample: Callable[[int, int], Sequence[int]] | None = None,
        *,
        regularization: float = 1.0,
        weights: Weights | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(dim, alpha, hidden, embedding, regularization, dtype)
        self.head = nn.Linear(embedding, 1, dtype=dtype)
        _set_layers(weights, self.layer_1, self.layer_2, self.head)
        self.optimizer = torch.optim.Adam([*self.network.parameters(), *self.head.parameters()], lr=learning_rate)
        self.memory, self.batch_size, self.train_every = memory, batch_size, train_every
        self.sample = sample or _sample_without_replacement
        self.slots: list[tuple[FloatArray, float]] = []
        self.n_updates = 0

    def weights(self) -> dict[str, FloatArray]:
        """Return copies of the weights, the head's included, named and shaped as the constructor takes them."""
        head = _layer_weights(3, self.head)
        return super().weights() | {"w3": head["w3"][:, 0], "b3": head["b3"][0]}

    def update(self, features: FloatArray, arm: int, reward: float) -> None:
        """Add the chosen row's embedding to A and b, remember the row, and train when it is time."""
        x = features[arm].copy()
        self._observe(self.embed(x), reward)
        self._remember(x, reward)
        self.n_updates += 1
        if self.n_updates % self.train_every == 0 and len(self.slots) >= self.batch_size:
            self._train()

    def _remember(self, x: FloatArray, reward: float) -> None:
        if len(self.slots) < self.memory:
            self.slots.append((x, reward))
        else:
            self.slots[self.n_updates % self.memory] = (x, reward)

    def _train(self) -> None:
        batch = [self.slots[slot] for slot in self.sample(len(self.slots), self.batch_size)]
        features = torch.as_tensor(np.array([x for x, _ in batch]), dtype=self.dtype)
        rewards = torch.as_tensor([reward for _, reward in batch], dtype=self.dtype)
        predictions = self.head(self.network(features))[:, 0]
        loss = ((predictions - rewards) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class PlainStaticMLP(nn.Module):
    """Choose by a fixed click model of (user, product) embeddings: 32 + 32 -> 64 ReLU -> 32 ReLU -> 1 sigmoid.

    It never learns. `weights`: users `(n_users, 32)`, products `(n_products, 32)`, w1 `(64, 64)`, b1 `(64,)`,
    w2 `(64, 32)`, b2 `(32,)`, w3 `(32,)`, b3 `()`, where rows of w are inputs; None is torch's default start.
    """

    def __init__(self, n_users: int, n_products: int, weights: Weights | None = None) -> None:
        super().__init__()
        self.users = nn.Embedding(n_users, 32)
        self.products = nn.Embedding(n_products, 32)
        self.layer_1, self.layer_2, self.layer_3 = nn.Linear(64, 64), nn.Linear(64, 32), nn.Linear(32, 1)
        _set_layers(weights, self.layer_1, self.layer_2, self.layer_3)
        if weights is not None:
            with torch.no_grad():
                self.users.weight.copy_(torch.as_tensor(weights["users"]))
                self.products.weight.copy_(torch.as_tensor(weights["products"]))

    def forward(self, user_ids: torch.Tensor, product_ids: torch.Tensor) -> torch.Tensor:
        """Return click probabilities `(n,)` of the pairs `user_ids (n,)`, `product_ids (n,)`."""
        pair = torch.cat([self.users(user_ids), self.products(product_ids)], dim=1)
        hidden = torch.relu(self.layer_2(torch.relu(self.layer_1(pair))))
        return torch.sigmoid(self.layer_3(hidden))[:, 0]

    def scores(self, user_id: int) -> FloatArray:
        """Return the click probabilities `(n_products,)` of every product for one user."""
        product_ids = torch.arange(self.products.num_embeddings)
        with torch.no_grad():
            return _array(self(torch.full_like(product_ids, user_id), product_ids))

    def select(self, user_id: int) -> int:
        """Return the product most likely clicked, the lowest index on ties."""
        return int(np.argmax(self.scores(user_id)))

    def update(self, user_id: int, arm: int, reward: float) -> None:
        """Ignore the outcome."""


class PlainRandom:
    """Choose every arm with the same probability."""

    def __init__(self, n_arms: int, rng: np.random.Generator) -> None:
        self.n_arms, self.rng = n_arms, rng

    def select(self, features: FloatArray) -> int:
        """Return an arm drawn from 0 to n_arms - 1."""
        return int(self.rng.integers(self.n_arms))

    def update(self, features: FloatArray, arm: int, reward: float) -> None:
        """Ignore the outcome."""


def _array(tensor: torch.Tensor) -> FloatArray:
    """Return a float64 array of the tensor."""
    return np.asarray(tensor.numpy(), dtype=np.float64)


def _layer_weights(number: int, layer: nn.Linear) -> dict[str, FloatArray]:
    """Return copies w `(inputs, outputs)` and b `(outputs,)`; torch keeps w the other way round."""
    return {
        f"w{number}": _array(layer.weight.detach()).T.copy(),
        f"b{number}": _array(layer.bias.detach()).copy(),
    }


def _set_layers(weights: Weights | None, *layers: nn.Linear) -> None:
    """Set layers number 1, 2, ... to w1, b1, w2, b2, ...; leave them as they are where `weights` is None."""
    for number, layer in enumerate(layers, 1):
        if weights is not None:
            _set_layer(layer, weights[f"w{number}"], weights[f"b{number}"])


def _set_layer(layer: nn.Linear, weight: FloatArray, bias: FloatArray) -> None:
    """Copy w `(inputs, outputs)` and b into a layer; one output may come as `(inputs,)` and `()`."""
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(np.reshape(weight, (layer.in_features, layer.out_features)).T.copy()))
        layer.bias.copy_(torch.as_tensor(np.reshape(bias, layer.out_features)))


def _sample_without_replacement(n_in_memory: int, batch_size: int) -> list[int]:
    """Draw `batch_size` different slots from fresh entropy."""
    return [int(slot) for slot in np.random.default_rng().choice(n_in_memory, batch_size, replace=False)]
