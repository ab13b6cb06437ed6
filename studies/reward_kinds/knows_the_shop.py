"""What could be reached at all with revenue: a policy that knows how the shop was drawn, but not what came of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from studies.reward_kinds import REVENUE
from zoosim import Context, Policy, PolicySpec, parameter

STEPS = np.linspace(-5.0, 5.0, 81)
"""Standard deviations from the typical logit at which the chance that a visit pays is reckoned."""


class KnowsTheShop(Policy):
    """Thompson sampling by the exact posterior of each segment and category in the shops that pay `revenue`.

    It knows that products of a category are alike, which chances and sizes are typical, how far they differ between
    cells, and how far sizes vary within one: all that a policy in a real shop has to learn as well. No beliefs are
    better; draws are normal, with the posterior's mean, and `width` was chosen on seeds 0 to 31.
    """

    name = "knows-the-shop"
    width: float = parameter(0.75, low=0, help="width of the draws, in standard deviations of the posterior")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has learned nothing; see `zoosim.Policy`."""
        super().__init__(spec, rng, **params)
        cells = spec.user_dim, spec.product_dim
        self._logits = special.logit(REVENUE.chance) + REVENUE.difference * STEPS
        self._log_densities = np.broadcast_to(-0.5 * STEPS**2, (*cells, len(STEPS))).copy()
        self._chances = np.empty((*cells, 2))  # mean and standard deviation of the logit
        self._sizes = np.empty((*cells, 2))  # of the logarithm of a typical size
        self._paid, self._total = np.zeros(cells), np.zeros(cells)
        for segment, category in np.ndindex(cells):
            self._reckon((segment, category))

    def select_action(self, context: Context) -> int:
        """Return the first product of the category of the highest draw."""
        segment = context.user.argmax()
        (chance, chance_sd), (size, size_sd) = self._chances[segment].T, self._sizes[segment].T
        first, second = self.width * self.rng.normal(size=(2, self.spec.product_dim))
        expected = special.expit(chance + chance_sd * first) * np.exp(size + size_sd * second)
        return int(np.where(context.available, expected[context.products.argmax(axis=1)], -1.0).argmax())

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn what a segment and a category earned."""
        cell = int(context.user.argmax()), int(context.products[action].argmax())
        self._log_densities[cell] += special.log_expit(self._logits if reward else -self._logits)
        if reward:
            self._paid[cell] += 1.0
            self._total[cell] += np.log(reward / REVENUE.size)
        self._reckon(cell)

    def _reckon(self, cell: tuple[int, int]) -> None:
        weights = special.softmax(self._log_densities[cell])
        mean = weights @ self._logits
        self._chances[cell] = mean, np.sqrt(weights @ (self._logits - mean) ** 2)
        precision = REVENUE.difference**-2.0 + self._paid[cell] * REVENUE.spread**-2.0
        total = REVENUE.spread**-2.0 * self._total[cell]
        self._sizes[cell] = total / precision, precision**-0.5
