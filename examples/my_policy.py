"""A small policy to start from: epsilon-greedy over recent click rates."""

from typing import Any

import numpy as np

import zoosim


class MyPolicy(zoosim.Policy):
    """Show the kind of product that this kind of visitor clicked most of late; now and then, any product."""

    learned = ("rates", "rng")
    epsilon: float = zoosim.parameter(0.1, low=0, high=1, help="share of visits spent on a random product")
    step_size: float = zoosim.parameter(0.05, low=0.001, high=1, help="weight of the newest click in its rate")

    def __init__(self, spec: zoosim.PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        super().__init__(spec, rng, **params)
        self.rates = np.ones((spec.user_dim, spec.product_dim))  # too high at first, so that every kind is tried

    def select_action(self, context: zoosim.Context) -> int:
        if self.rng.random() < self.epsilon:
            return int(self.rng.choice(np.flatnonzero(context.available)))
        return self.best(context)

    def propensities(self, context: zoosim.Context) -> np.ndarray:
        chances: np.ndarray = self.epsilon * context.available / context.available.sum()
        chances[self.best(context)] += 1 - self.epsilon
        return chances

    def update(
        self, context: zoosim.Context, action: int, reward: float, feedback: Any = None, next_context: Any = None
    ) -> None:
        kind = context.user.argmax(), context.products[action].argmax()
        self.rates[kind] += self.step_size * (reward - self.rates[kind])

    def best(self, context: zoosim.Context) -> int:
        rates = self.rates[context.user.argmax(), context.products.argmax(axis=1)]
        return int(np.where(context.available, rates, -1.0).argmax())
