"""NeuralUCB as published: a gradient for each arm in a Python loop, and the inverse of a (p, p) matrix a decision."""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class PlainNeuralUCB:
    """Choose by f(x) + alpha sqrt(lambda g' A^-1 g), A = lambda I + sum g g', g the gradient of f in all p weights.

    The network is a multilayer perceptron with ReLU and one output; `layers` are its matrices `(n_l, n_{l-1} + 1)`,
    biases in the last column. With `linearised` the mean is g' A^-1 sum r g instead of f(x). Gradients are divided by
    `length`, where the paper divides by the root of the width.

    Source: Zhou, Li and Gu (2020), "Neural contextual bandits with UCB-based exploration", Algorithm 1; the factor
    lambda under the root as in Zhang, Zhou, Li and Gu (2021), "Neural Thompson sampling", Algorithm 1.
    """

    def __init__(
        self,
        layers: list[FloatArray],
        alpha: float,
        regularization: float,
        length: float = 1.0,
        linearised: bool = False,
    ) -> None:
        self.layers = [layer.copy() for layer in layers]
        self.alpha, self.regularization, self.length, self.linearised = alpha, regularization, length, linearised
        size = sum(layer.size for layer in layers)
        self.A = regularization * np.eye(size)
        self.b = np.zeros(size)
        self.moments = np.zeros((2, size))
        self.n_steps = 0

    def forward(self, x: FloatArray) -> tuple[float, list[FloatArray]]:
        """Return f(x) and what each layer takes in, each with a 1 behind."""
        inputs = [np.append(x, 1.0)]
        for layer in self.layers[:-1]:
            inputs.append(np.append(np.maximum(layer @ inputs[-1], 0.0), 1.0))
        return float((self.layers[-1] @ inputs[-1])[0]), inputs

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return the gradient of f at x in all weights, shape `(p,)`, divided by `length`."""
        _, inputs = self.forward(x)
        delta, parts = np.ones(1), []
        for layer, a in zip(reversed(self.layers), reversed(inputs), strict=True):
            parts.append(np.outer(delta, a).ravel())
            delta = (layer.T @ delta)[:-1] * (a[:-1] > 0)
        return np.concatenate(parts[::-1]) / self.length

    def scores(self, features: FloatArray) -> FloatArray:
        """Return the score of each row of `features (K, d)`, shape `(K,)`."""
        means, bonuses = self.parts(features)
        return means + self.alpha * bonuses

    def parts(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and sqrt(lambda g' A^-1 g) of each row, shapes `(K,)`."""
        inverse = np.linalg.inv(self.A)
        means, bonuses = np.zeros((2, len(features)))
        for arm, x in enumerate(features):
            g = self.gradient(x)
            means[arm] = g @ inverse @ self.b if self.linearised else self.forward(x)[0]
            bonuses[arm] = math.sqrt(self.regularization * (g @ inverse @ g))
        return means, bonuses

    def select(self, features: FloatArray) -> int:
        """Return the arm with the highest score, the lowest index on ties."""
        return int(np.argmax(self.scores(features)))

    def update(self, x: FloatArray, reward: float) -> None:
        """Add one observation: A += g g', b += r g."""
        g = self.gradient(x)
        self.A += np.outer(g, g)
        self.b += reward * g

    def step(self, x: FloatArray, reward: float, rate: float, penalty: float = 0.0) -> None:
        """Take one step of Adam (Kingma and Ba 2015) on (f(x) - r)^2 + penalty |theta|^2."""
        gradient = 2 * (self.forward(x)[0] - reward) * self.gradient(x) * self.length
        gradient += 2 * penalty * np.concatenate([layer.ravel() for layer in self.layers])
        self.n_steps += 1
        first, second = self.moments
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        root = np.sqrt(second / (1 - 0.999**self.n_steps))
        change = rate * first / (1 - 0.9**self.n_steps) / (root + 1e-8)
        place = 0
        for layer in self.layers:
            layer -= change[place : place + layer.size].reshape(layer.shape)
            place += layer.size

    def recompute(self, xs: FloatArray, weights: FloatArray, totals: FloatArray) -> None:
        """Begin the sums anew at today's weights from rows `xs (n, d)`, their weights and sums of rewards `(n,)`."""
        gradients = np.array([self.gradient(x) for x in xs]).reshape(len(xs), len(self.b))
        self.A = self.regularization * np.eye(len(self.b)) + (gradients.T * weights) @ gradients
        self.b = gradients.T @ totals


def split(params: FloatArray, sizes: list[int]) -> list[FloatArray]:
    """Return the matrices `(n_l, n_{l-1} + 1)` that lie one after another in `params (p,)`."""
    layers, place = [], 0
    for n, m in pairwise(sizes):
        layers.append(params[place : place + m * (n + 1)].reshape(m, n + 1).copy())
        place += m * (n + 1)
    return layers
