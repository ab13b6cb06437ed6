"""The boosts that were served last to visitors of the same segment who searched in the same way."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from zoosim.core.state import Stateful
from zoosim.core.types import Context, FloatArray
from zoosim.policies.boosts.base import ROUNDING, BoostSpec


class LastBoosts(Stateful):
    """Remember the last boosts of each pair of segment and query type.

    Applied to a later request of the pair they give the ranking that the policy would have shown there before, so that
    a new ranking can be held against it when it is decided.
    """

    learned: ClassVar = {"last": "_boosts"}

    def __init__(self, spec: BoostSpec, first: FloatArray) -> None:
        """Remember the same boosts for all.

        Args:
            spec: The task.
            first: What counts as served before the first decision, `(product_dim,)`.
        """
        self._segments = spec.n_segments
        self._kinds = spec.n_kinds
        self._a_max = spec.a_max
        n_pairs = max(1, spec.n_segments) * max(1, spec.n_kinds)
        self._boosts = np.tile(np.asarray(first, float), (n_pairs, 1))

    def of(self, context: Context) -> FloatArray:
        """Return the last boosts `(product_dim,)` of the pair that a request is of."""
        boosts: FloatArray = self._boosts[self._pair(context)].copy()
        return boosts

    def record(self, context: Context, boosts: FloatArray) -> None:
        """Take note of the boosts `(product_dim,)` that a request is served."""
        self._boosts[self._pair(context)] = boosts

    def _pair(self, context: Context) -> int:
        columns = context.features
        segment = int(np.argmax(columns[: self._segments])) if self._segments else 0
        if not self._kinds:
            return segment
        return segment * self._kinds + int(np.argmax(columns[self._segments : self._segments + self._kinds]))

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield whether boosts lie outside the box."""
        if not (np.abs(values["last"]) <= (1.0 + ROUNDING) * self._a_max).all():
            yield f"last holds boosts outside [-{self._a_max:g}, {self._a_max:g}]"
