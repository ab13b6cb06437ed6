"""LinUCB of contextualbandits: a linear model on visitors' features for each product."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers.inputs import draw_seed
from zoosim import Context, Policy, PolicySpec, parameter
from zoosim.core.types import FloatArray


class Model(NamedTuple):
    """What the library keeps of a product: its regression, and whether it is past the prior, hits and misses `(3,)`."""

    regression: Any
    counters: FloatArray


class ContextualBanditsLinUCB(Policy):
    """LinUCB as its documentation recommends: `beta_prior` in place of `ucb_from_empty`, and a small alpha.

    The library decides among all products that it has, so that those which are no candidates are dropped. Their models
    are kept and put back.
    """

    name = "contextualbandits-linucb"
    alpha: float = parameter(0.1, low=0, help="width of the confidence bound")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has learned nothing; see `zoosim.Policy`."""
        super().__init__(spec, rng, **params)
        self._library: Any = None
        self._products: list[int] = []
        self._dropped: dict[int, Model] = {}

    def select_action(self, context: Context) -> int:
        """Return the product of the highest bound."""
        candidates = np.flatnonzero(context.available)
        products = context.product_ids[candidates].tolist()
        if products != self._products and set(products) != set(self._products):
            self._offer(products)
        bounds = self._library.decision_function(context.user[np.newaxis])[0]
        bound_of = dict(zip(self._products, bounds, strict=True))
        return int(candidates[np.argmax([bound_of[product] for product in products])])

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn what a product earned."""
        product = int(context.product_ids[action])
        if product not in self._products:
            self._offer([*self._products, product])
        self._library.partial_fit(context.user[np.newaxis], np.array([product]), np.array([reward]))

    def _offer(self, products: list[int]) -> None:
        """Let the library have these products and no others."""
        if self._library is None or not self._library.is_fitted:  # it adds none before it has learned
            self._library = self._start(products)
            self._products = list(products)
            return
        held = set(self._products)
        for product in products:
            if product not in held:
                self._add(product)
        wanted = set(products)
        for place in reversed(range(len(self._products))):
            if self._products[place] not in wanted:
                self._drop(place)

    def _start(self, products: list[int]) -> Any:
        from contextualbandits.online import LinUCB

        return LinUCB(
            nchoices=products,
            alpha=self.alpha,
            ucb_from_empty=False,
            beta_prior="auto",
            random_state=draw_seed(self.rng),
        )

    def _add(self, product: int) -> None:
        self._library.add_arm(product)
        self._products.append(product)
        model = self._dropped.pop(product, None)
        if model is not None:
            self._library._oracles.algos[-1] = model.regression
            self._library._oracles.beta_counters[:, -1] = model.counters

    def _drop(self, place: int) -> None:
        models = self._library._oracles
        model = Model(models.algos[place], models.beta_counters[:, place].copy())
        self._dropped[self._products.pop(place)] = model
        self._library.drop_arm(place)
