"""A decision of NeuralUCB as it was published, in torch: a gradient for each arm, and the inverse of a (p, p) matrix.

The network is x -> ReLU layers -> one output, in float64 (in float32 on "mps", which has no other); A = lambda I +
sum g g'. `Published.gradients` is the loop over arms, or one Jacobian for all of them; `Published.inverse` and
`Published.bonuses` are the rest of a decision.
Source: Zhou, Li & Gu (2020), algorithm 1.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

REGULARIZATION = 0.3


class Published:
    """A network of layer `sizes` with random weights, and A after so many `updates` with gradients at random rows."""

    def __init__(self, sizes: Sequence[int], updates: int, device: str) -> None:
        self.device, self.inputs = torch.device(device), sizes[0]
        self.dtype = torch.float32 if device == "mps" else torch.float64
        self.generator = torch.Generator().manual_seed(0)
        self.layers = [self._layer(m, n) for m, n in pairwise(sizes)]
        self.size = sum(weight.numel() + bias.numel() for weight, bias in self.layers)
        self.A = REGULARIZATION * torch.eye(self.size, dtype=self.dtype, device=self.device)
        seen = self.jacobian(self.rows(updates))
        self.A += seen.T @ seen

    def _layer(self, inputs: int, outputs: int) -> tuple[Any, Any]:
        weight = self._normal(outputs, inputs) * (2 / inputs) ** 0.5
        made = weight.to(self.device), torch.zeros(outputs, dtype=self.dtype, device=self.device)
        return made[0].requires_grad_(), made[1].requires_grad_()

    def rows(self, n: int) -> Any:
        """Return random features `(n, d)`."""
        return self._normal(n, self.inputs).to(self.device)

    def _normal(self, n: int, m: int) -> Any:
        return torch.randn(n, m, dtype=self.dtype, generator=self.generator)

    def gradient_loop(self, xs: Any) -> Any:
        """Return the gradients `(K, p)` of the output at each row of `xs (K, d)`, one backward pass an arm."""
        weights, rows = [part for layer in self.layers for part in layer], []
        for x in xs:
            parts = torch.autograd.grad(_output(self.layers, x), weights)
            rows.append(torch.cat([part.flatten() for part in parts]))
        return torch.stack(rows)

    def jacobian(self, xs: Any) -> Any:
        """Return the same, by one vectorised pass over all rows."""
        gradient = torch.func.vmap(torch.func.grad(_output), in_dims=(None, 0))
        with torch.no_grad():
            parts = gradient(self.layers, xs)
        return torch.cat([part.reshape(len(xs), -1) for layer in parts for part in layer], dim=1)

    def inverse(self) -> Any:
        """Return A^-1."""
        return torch.linalg.inv(self.A)

    def updated(self, gradient: Any) -> Any:
        """Return A + g g' for one gradient `(1, p)`."""
        return self.A + gradient.T @ gradient

    def bonuses(self, gradients: Any, inverse: Any) -> Any:
        """Return sqrt(g' A^-1 g) of each row of `gradients (K, p)`."""
        return torch.sqrt(torch.clamp(((gradients @ inverse) * gradients).sum(dim=1), min=0.0))

    def wait(self) -> None:
        """Wait until the device has done all that it was asked."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()


def _output(layers: Sequence[tuple[Any, Any]], x: Any) -> Any:
    for weight, bias in layers[:-1]:
        x = torch.relu(weight @ x + bias)
    weight, bias = layers[-1]
    return (weight @ x + bias)[0]
