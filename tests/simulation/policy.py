"""A policy for simulations: small, quick to publish, and sensitive to each reward, its order and each decision."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.serving.shop import make_model
from tests.simulation.hosts import Models
from zoosim.core.parameters import parameter
from zoosim.core.types import Context, FloatArray, PolicySpec
from zoosim.policies.base import Policy
from zoosim.policies.model import load_model, save_model
from zoosim.policies.registry import BUILT_IN

BUCKETS = 64


class Recency(Policy):
    """Prefers what earned much lately: each reward counts for a share `rate` of what is known of a product.

    So another reward, one that counts twice or rewards in another order lead to another state. `note_decision` counts
    decisions for good, and moves a clock as soon as they are made where `has_clocks`.
    """

    learned = ("values", "decided", "moments")
    rate: float = parameter(0.2, low=0, high=1, help="weight of the newest reward")
    has_clocks: bool = parameter(False, help="whether decisions move clocks before they are confirmed")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        super().__init__(spec, rng, **params)
        self.values = np.zeros(BUCKETS)
        self.decided = np.zeros(BUCKETS, np.int64)
        self.moments = np.zeros(BUCKETS)
        if self.has_clocks:
            self.clocks = ("moments",)  # type: ignore[misc]

    def select_action(self, context: Context) -> int:
        """Return the most likely product."""
        return int(np.argmax(self.propensities(context)))

    def propensities(self, context: Context) -> FloatArray:
        """Return a distribution that hangs on all that was learned."""
        places = context.product_ids % BUCKETS
        scores = 3.0 * self.values[places] + 0.01 * self.decided[places] - self.moments[places]
        weights = np.exp(scores - scores.max()) * context.available
        return np.asarray(weights / weights.sum())

    def update(
        self, context: Context, action: int, reward: float, feedback: Any = None, next_context: Any = None
    ) -> None:
        """Move the value of a product towards what it earned."""
        place = context.product_ids[action] % BUCKETS
        self.values[place] += self.rate * (reward + 0.01 - self.values[place])

    def note_decision(self, context: Context, action: int, is_confirmed: bool = True) -> None:
        """Count a decision, and let a moment of other products pass."""
        place = context.product_ids[action] % BUCKETS
        if self.has_clocks:
            self.moments *= 0.9
            self.moments[place] += 0.1
        if is_confirmed:
            self.decided[place] += 1


@contextmanager
def known_policy() -> Iterator[None]:
    """Let files of models hold the policy within the block."""
    with patch.dict(BUILT_IN, {"recency": f"{__name__}:Recency"}):
        yield


def make_models(folder: Path, has_clocks: bool) -> Models:
    """Make three models that differ by how fast they learn, where `known_policy`."""
    trained = load_model(make_model(folder, "random"))
    trained.facts = {}  # they name the folder, and a simulation repeats to the byte
    files = []
    for rate in (0.2, 0.4, 0.1):
        trained.policy = Recency(trained.policy.spec, np.random.default_rng(0), rate=rate, has_clocks=has_clocks)
        files.append(save_model(trained, folder / f"recency-{rate}-{has_clocks}.zoosim"))
    return Models(files, has_clocks)
