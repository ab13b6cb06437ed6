"""A running service as a policy: the visitors of a simulated shop come to it over HTTP, and their rewards, too."""

import os
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.parameters import parameter
from zoosim.core.types import Context, FloatArray, PolicySpec
from zoosim.policies.base import Policy
from zoosim.serving.client import KEY, Client, ServiceError

VISITOR, PRODUCT = "visitor", "product"
"""Prefixes of the names of a request's columns: visitor_0, visitor_1 and so on."""

SECONDS_PER_REQUEST = 30.0


class ThroughService(Policy):
    """A policy that lets a running service decide, and tells it, in their order, what its decisions earn."""

    name = "service"
    url: str = parameter("", help="where the service listens")
    run: str = parameter("", help="what the ids of its decisions begin with, so that each run has its own")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        super().__init__(spec, rng, **params)
        self._client = Client(self.url, os.environ.get(KEY, ""), SECONDS_PER_REQUEST)
        self._reward, self._weight = objective(self._client.model())
        self._known = set(self._client.products())
        self._decided = 0
        self._open: deque[str] = deque()

    def select_action(self, context: Context) -> int:
        """Ask the service which of the available products to show."""
        places = np.flatnonzero(context.available)
        ids = [f"{product}" for product in context.product_ids[places]]
        candidates = [
            name if name in self._known else {"id": name, **columns(PRODUCT, context.products[place])}
            for name, place in zip(ids, places, strict=True)
        ]
        decision = self._client.decide(
            columns(VISITOR, context.user), candidates, decision_id=f"{self.run} {self._decided}"
        )
        self._decided += 1
        self._open.append(decision.id)
        return int(places[ids.index(decision.product)])

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Send the service the reward of its oldest decision that has none yet."""
        self._client.give_feedback(self._open.popleft(), {self._reward: float(reward) / self._weight})


def columns(kind: str, features: FloatArray) -> dict[str, float]:
    """Return features `(d,)` by the names of the columns in which they are sent."""
    return {f"{kind}_{number}": value for number, value in enumerate(features.tolist())}


def objective(model: Mapping[str, Any]) -> tuple[str, float]:
    """Return the reward by which a service is told what visits earn, and its weight in what is learned.

    Args:
        model: What the service says of its model.

    Raises:
        ConfigError: no reward has a weight.
    """
    weighted: Iterator[tuple[str, float]] = ((name, weight) for name, weight in model["rewards"].items() if weight)
    first = next(weighted, None)
    if first is None:
        raise ConfigError("through: the service's model learns from no reward; serve one that does")
    return first


def describe_service(url: str) -> str:
    """Say what decides at an address; raises `ConfigError` where no service does."""
    try:
        with Client(url, os.environ.get(KEY, ""), SECONDS_PER_REQUEST) as client:
            model = client.model()
        objective(model)
    except (ServiceError, KeyError) as error:
        raise ConfigError(
            f"through: got {url}: {error}; give the address that `zoosim serve` prints, and its key in {KEY}"
        ) from None
    return f"service: {model['policy']} at {url}, which learns by the clock, so rewards are some visits later"
