"""S10: what an optimised action costs on an ensemble of 5 x [64, 64], against a loop over samples and members."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from zoosim.optimizers import CEMConfig, cem_optimize, cem_optimize_many
from zoosim.optimizers.gradient import GradientConfig, gradient_ascent

Floats = NDArray[np.float64]
MEMBERS, DIM, WIDTH = 5, 10, 64


class Ensemble:
    """Tanh networks with random weights, stacked; their mean and a half of their deviation is to be maximised."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.first = rng.normal(0, 1.2 / DIM**0.5, (MEMBERS, DIM, WIDTH))
        self.shift = rng.normal(0, 1, (MEMBERS, 1, WIDTH))
        self.second = rng.normal(0, 1.4 / WIDTH**0.5, (MEMBERS, WIDTH, WIDTH))
        self.last = rng.normal(0, 1 / WIDTH**0.5, (MEMBERS, WIDTH, 1))

    def values(self, actions: Floats) -> Floats:
        """Value actions `(n, d)`, all members at once."""
        hidden = np.tanh(np.tanh(actions @ self.first + self.shift) @ self.second)
        told = (hidden @ self.last)[:, :, 0]
        return np.asarray(told.mean(axis=0) + 0.5 * told.std(axis=0))

    def loop(self, actions: Floats) -> Floats:
        """Do the same one sample and member at a time."""
        out = np.empty(len(actions))
        for i, a in enumerate(actions):
            told = [
                float(np.tanh(np.tanh(a @ self.first[k] + self.shift[k, 0]) @ self.second[k]) @ self.last[k, :, 0])
                for k in range(MEMBERS)
            ]
            out[i] = np.mean(told) + 0.5 * np.std(told)
        return out

    def slopes(self, actions: Floats) -> tuple[Floats, Floats]:
        """Return the mean of the members and its gradients `(n, d)`."""
        hidden = np.tanh(actions @ self.first + self.shift)
        top = np.tanh(hidden @ self.second)
        weights = self.last.transpose(0, 2, 1)
        back = ((weights * (1 - top**2)) @ self.second.transpose(0, 2, 1)) * (1 - hidden**2)
        return (top @ self.last)[:, :, 0].mean(axis=0), (back @ self.first.transpose(0, 2, 1)).mean(axis=0)


def main() -> None:
    """Print milliseconds an action."""
    ensemble, rng, fast = Ensemble(), np.random.default_rng(1), CEMConfig.fast()
    slow = shortest(lambda: cem_optimize(ensemble.loop, DIM, fast, rng=rng), 3)
    quick = shortest(lambda: cem_optimize(ensemble.values, DIM, fast, rng=rng), 30)
    print(f"S10 CEM, fast preset: {quick:.2f} ms, a loop over samples {slow:.0f} ms: {slow / quick:.0f} times")
    whole = shortest(lambda: cem_optimize(ensemble.values, DIM, rng=rng), 20)
    count = cem_optimize(ensemble.values, DIM, rng=rng).n_evaluations
    print(f"S10 CEM, default: {whole:.1f} ms, {count:,} samples")
    own = np.random.default_rng(2).normal(size=(256, fast.n_samples))
    alone = shortest(lambda: cem_optimize(lambda a: own[0], DIM, fast, rng=rng), 100)
    many = shortest(lambda: cem_optimize_many(lambda a: own, 256, DIM, fast, rng=rng), 10)
    print(f"S10 CEM, fast preset without the objective: {alone:.3f} ms, 256 requests {many:.1f} ms")
    climb = shortest(lambda: gradient_ascent(ensemble.slopes, DIM, GradientConfig(n_steps=10), rng=rng), 30)
    print(f"S10 gradient ascent, 8 starts, 10 steps: {climb:.2f} ms")


def shortest(call: Callable[[], object], times: int) -> float:
    """Return the milliseconds of the shortest of so many calls."""
    spans = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        spans.append(time.perf_counter() - began)
    return 1000 * min(spans)
