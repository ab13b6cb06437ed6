"""Policies that learn a model of visitors, plan in it, and show what is worth the most by the plan."""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar

import numpy as np

from zoosim.core.limits import IDS, INPUTS
from zoosim.core.parameters import parameter
from zoosim.core.types import Context, FloatArray, IntArray, PolicySpec
from zoosim.policies.choice import add_share, best_of, hash_row, pick
from zoosim.policies.kernel import DrawingPolicy, new_draws
from zoosim.policies.requests import LARGEST, CheckedRequest, checked_request
from zoosim.policies.sessions.base import KindCandidates, kinds_among

TAKEN, GONE, DUE, KINDS = range(4)
"""Counts: decisions that were learned from, visitors who have gone, at how many of these a plan is due, and kinds."""

FIRST_PLAN, NEXT_PLAN, MOST_BETWEEN = 10, 1.2, 100
"""Visitors who have gone when the first plan is made, the factor from one plan to the next, and the most in between."""


class PlanningPolicy(DrawingPolicy):
    """Base of policies whose decisions follow a plan: what each kind of product brings from here on.

    A subclass says in `_values_of_kinds` what a plan is worth in a request, and sets two plans: `_expected`, of the
    most likely model, which recommendations follow, and `_drawn`, of one from the posterior, which decisions follow.
    """

    chooses = ("products",)
    looks_ahead = True
    rewards: ClassVar = (0.0, LARGEST)
    _kind_ids: Annotated[IntArray, IDS]
    _kind_rows: Annotated[FloatArray, INPUTS]
    _expected: FloatArray
    _drawn: FloatArray
    explore: float = parameter(0.1, low=0, high=1, help="share of random decisions")
    memory: int = parameter(50_000, low=100, high=10_000_000, help="decisions that are learned from, the newest ones")
    kinds: int = parameter(64, low=1, high=1_000, help="kinds of products that are told apart, the first ones met")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has met no kind of product.

        Args:
            spec: The dimensions of its task.
            rng: The source of its random draws.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(spec, rng, **params)
        self._kind_ids = np.zeros(self.kinds, np.int64)
        self._kind_rows = np.zeros((self.kinds, spec.product_dim))
        self._counts = np.array([0, 0, FIRST_PLAN, 0])
        self.draws = new_draws(rng)

    @abstractmethod
    def _values_of_kinds(self, request: CheckedRequest, plan: FloatArray) -> FloatArray | None:
        """Return what each known kind is worth in a request by a plan, `(kinds,)`; None where it says nothing."""

    def action_values(self, context: Context) -> FloatArray:
        """Return what the policy expects of each candidate `(K,)`: all clicks from here on, if the best follows.

        0 for all where there is no plan, or none for such a visitor; products of unknown kinds count as the worst.

        Args:
            context: The request.

        Raises:
            PolicyError: the request is not one of the policy's task.
        """
        request = checked_request(context, self.spec)
        candidates = self.attach(context)
        values: FloatArray = self._values_of(request, candidates, self._expected)[candidates.kind_of]
        return values

    def _number(self, product: FloatArray) -> int:
        """Return the number of a kind by its features, a new one for one that is new, -1 if there is no room for it."""
        kind_id = int(hash_row(np.ascontiguousarray(product, float)))
        count = int(self._counts[KINDS])
        known = np.flatnonzero(self._kind_ids[:count] == kind_id)
        if len(known):
            return int(known[0])
        if count == self.kinds:
            return -1
        self._kind_ids[count] = kind_id
        self._kind_rows[count] = product
        self._counts[KINDS] += 1
        return count

    def _set_next_plan(self) -> None:
        """Say at how many visitors who have gone the next plan is due."""
        gone = int(self._counts[GONE])
        self._counts[DUE] = min(int(NEXT_PLAN * gone), gone + MOST_BETWEEN) + 1

    def _oldest_first(self) -> IntArray:
        """Return the places of the decisions that are held, the oldest first."""
        taken = int(self._counts[TAKEN])
        if taken <= self.memory:
            return np.arange(taken)
        return (taken + np.arange(self.memory)) % self.memory

    def _candidates(self, ids: IntArray, products: FloatArray) -> KindCandidates:
        return kinds_among(products)

    def _values_of(self, request: CheckedRequest, candidates: KindCandidates, plan: FloatArray) -> FloatArray:
        """Return the value of each kind of a request `(R,)` by a plan."""
        values = np.zeros(len(candidates.ids))
        planned = self._values_of_kinds(request, plan)
        if planned is None:
            return values
        values[:] = planned.min()
        for number, kind_id in enumerate(self._kind_ids[: len(planned)]):
            values[candidates.ids == kind_id] = planned[number]
        return values

    def _draw_action(self, request: CheckedRequest, candidates: KindCandidates, draw: float) -> int:
        values = self._values_of(request, candidates, self._drawn)
        share = self._random_share(values)
        if draw < share:
            return int(pick(request.available, draw / share))
        return int(best_of(values, candidates.kind_of, request.available))

    def _distribution(self, request: CheckedRequest, candidates: KindCandidates) -> FloatArray:
        values = self._values_of(request, candidates, self._drawn)
        share = self._random_share(values)
        chances = np.zeros(len(request.available))
        chances[best_of(values, candidates.kind_of, request.available)] = 1.0 - share
        add_share(request.available, share, chances)
        return chances

    def _random_share(self, values: FloatArray) -> float:
        """Return the share of random decisions: all of them where nothing is known."""
        return max(self.explore, self.floor) if values.any() else 1.0

    def _exploit(self, request: CheckedRequest, candidates: KindCandidates) -> int:
        values = self._values_of(request, candidates, self._expected)
        return int(best_of(values, candidates.kind_of, request.available))

    def _state_loaded(self) -> None:
        self._forget_candidates()
