"""The Q-ensemble as it was published, in torch: ReLU members that see the same rows in orders of their own.

Inputs and rewards are taken as they come, the weights start as torch's linear layers do, Adam's rate stays.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from zoosim.core.types import FloatArray


class PublishedEnsemble:
    """Members of equal `hidden` layers, stacked in matrices `(M, inputs, outputs)`."""

    def __init__(self, inputs: int, *, members: int = 5, hidden: Sequence[int] = (64, 64), seed: int) -> None:
        """Make untrained members."""
        import torch

        self._torch, self._members = torch, members
        self._generator = torch.Generator().manual_seed(seed)
        sizes = [inputs, *hidden, 1]
        self._weights = [self._uniform(n, m, n) for n, m in pairwise(sizes)]
        self._biases = [self._uniform(1, m, n) for n, m in pairwise(sizes)]

    def _uniform(self, rows: int, columns: int, inputs: int) -> Any:
        shape = (self._members, rows, columns)
        made = (2 * self._torch.rand(*shape, generator=self._generator) - 1) / np.sqrt(inputs)
        return made.requires_grad_()

    def fit(
        self, rows: FloatArray, rewards: FloatArray, n_epochs: int, batch_size: int, learning_rate: float = 3e-3
    ) -> None:
        """Train all members on `rows (n, d)` and `rewards (n,)`, on one thread."""
        torch, threads = self._torch, self._torch.get_num_threads()
        torch.set_num_threads(1)
        x, y = (torch.tensor(part, dtype=torch.float32) for part in (rows, rewards))
        adam = torch.optim.Adam([*self._weights, *self._biases], lr=learning_rate)
        try:
            for _ in range(n_epochs):
                orders = [torch.randperm(len(x), generator=self._generator) for _ in range(self._members)]
                for batch in torch.stack(orders).split(batch_size, dim=1):
                    adam.zero_grad()
                    ((self._outputs(x[batch]) - y[batch]) ** 2).mean(dim=1).sum().backward()
                    adam.step()
        finally:
            torch.set_num_threads(threads)

    def members(self, rows: FloatArray) -> FloatArray:
        """Return what each member predicts at `rows (n, d)`, `(M, n)`."""
        with self._torch.no_grad():
            x = self._torch.tensor(rows, dtype=self._torch.float32)
            outputs: FloatArray = self._outputs(x.expand(self._members, -1, -1)).double().numpy()
        return outputs

    def _outputs(self, x: Any) -> Any:
        last = len(self._weights) - 1
        for layer, (weight, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
            x = self._torch.baddbmm(bias, x, weight)
            x = x if layer == last else self._torch.relu(x)
        return x[..., 0]
