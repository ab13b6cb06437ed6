"""Vowpal Wabbit's contextual bandits with action-dependent features (`--cb_explore_adf`)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim import Context, Policy, PolicySpec, parameter
from zoosim.core.types import FloatArray, IntArray

INTERACTIONS = "-q up -q uc"
"""Visitors' features cross the product itself and the product's features, as in the tutorial (`-q UA`)."""


class Decision(NamedTuple):
    """A decision whose reward is still to come, with the probabilities `(K,)` that it was drawn from.

    The context is kept so that its address is not another's meanwhile.
    """

    context: Context
    chances: FloatArray


class VowpalWabbit(Policy):
    """Learn by `--cb_type mtr`, the default, and explore as a derived class says."""

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has learned nothing; see `zoosim.Policy`."""
        from vowpalwabbit import Workspace

        super().__init__(spec, rng, **params)
        self._workspace = Workspace(f"--cb_explore_adf {self.exploration()} {INTERACTIONS} --random_seed 1 --quiet")
        self._product_lines: dict[int, str] = {}
        self._decisions: dict[int, Decision] = {}

    def exploration(self) -> str:
        """Return the options that say how to explore."""
        raise NotImplementedError

    def select_action(self, context: Context) -> int:
        """Draw a product."""
        chances = self.propensities(context)
        self._decisions[id(context)] = Decision(context, chances)
        return int(self.rng.choice(len(chances), p=chances))

    def propensities(self, context: Context) -> FloatArray:
        """Return the probability of each candidate `(K,)`."""
        candidates = np.flatnonzero(context.available)
        chances = np.zeros(len(context.available))
        predicted = self._workspace.predict(self._lines(context, candidates))
        chances[candidates] = np.clip(predicted, 0.0, 1.0)  # with many candidates single precision may fall below 0
        normalized: FloatArray = chances / chances.sum()
        return normalized

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn what a product earned, by the probability that it had when it was chosen."""
        decision = self._decisions.pop(id(context), None)
        chances = self.propensities(context) if decision is None else decision.chances
        candidates = np.flatnonzero(context.available)
        lines = self._lines(context, candidates)
        place = int(np.searchsorted(candidates, action))
        lines[place + 1] = f"{place}:{-reward}:{chances[action]:.6g} {lines[place + 1]}"
        self._workspace.learn(lines)

    def _lines(self, context: Context, candidates: IntArray) -> list[str]:
        """Write a request as text; products are written once, as theirs does not change."""
        lines = [f"shared |u {as_text(context.user)}"]
        for candidate in candidates:
            product = int(context.product_ids[candidate])
            if product not in self._product_lines:
                self._product_lines[product] = f"|p {product} |c {as_text(context.products[candidate])}"
            lines.append(self._product_lines[product])
        return lines


class VWSquareCB(VowpalWabbit):
    """SquareCB (Foster & Rakhlin 2020), with its defaults."""

    name = "vw-squarecb"
    gamma_scale: float = parameter(10.0, low=0, help="how much less a product of higher cost is shown")

    def exploration(self) -> str:
        """Return the options that say how to explore."""
        return f"--squarecb --gamma_scale {self.gamma_scale}"


class VWEpsilonGreedy(VowpalWabbit):
    """Epsilon-greedy, with the epsilon of the tutorial."""

    name = "vw-epsilon"
    epsilon: float = parameter(0.2, low=0, high=1, help="share of decisions that is spread evenly")

    def exploration(self) -> str:
        """Return the options that say how to explore."""
        return f"--epsilon {self.epsilon}"


def as_text(features: FloatArray) -> str:
    """Write features as Vowpal Wabbit reads them, zeros left out."""
    return " ".join(f"{number}:{value:.5g}" for number, value in enumerate(features) if value != 0.0)
