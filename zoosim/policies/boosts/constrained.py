"""Policies of boosts with floors of a visit's parts and a ceiling of rank change."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoosim.core.checks import check_array
from zoosim.core.errors import DataError
from zoosim.core.parameters import parameter
from zoosim.core.types import Context, FloatArray, Progress
from zoosim.optimizers.dual_ascent import Constraint
from zoosim.policies.base import policy_name
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.constraints import Constrained
from zoosim.ranking.top_k import top_of

FLOORED = ("gmv", "cm2", "strategic", "clicks")
"""The parts of a visit that may have a floor."""

RANK_CHANGE = "rank_change"

NEEDED = ("shown", "products", "clicks", "purchases")
"""The columns of feedback that tell the parts of a visit."""


class ConstrainedBoosts(Constrained, BoostPolicy):
    """A policy of boosts that earns as much as it can while visits bring, on average, what the parameters ask for."""

    rank_ceiling: float = parameter(
        0.0, low=0, high=1_000, help="most products that leave the base ranker's top per visit, on average; 0: no limit"
    )

    _is_past: bool = False
    """Whether what is learned is a log of the past, whose decisions are those of another policy."""

    def fit(self, log: Any, progress: Progress = lambda line: None) -> dict[str, float]:
        """Learn from a log; multipliers stay, since its decisions are those of another policy."""
        self._is_past = True
        try:
            return super().fit(log, progress)
        finally:
            self._is_past = False

    def _heed(self, reward: float, quantities: FloatArray) -> None:
        """Move the multipliers by a visit, unless it is one of a log."""
        if not self._is_past:
            self._ascend(reward, quantities)

    def _constrain_boosts(self) -> None:
        """Begin with the floors and the ceiling of the parameters; raises `ConfigError` for an unknown part."""
        ceiling = [Constraint(RANK_CHANGE, self.rank_ceiling, is_floor=False)] if self.rank_ceiling else []
        self._constrain(FLOORED, ceiling)

    def _quantities_of(self, context: Context, feedback: Mapping[str, Any] | None) -> FloatArray:
        """Return the constrained quantities of a visit `(m,)`; raises `DataError` where its feedback lacks them."""
        if not self._dual.constraints:
            return np.zeros(0)
        name = policy_name(type(self))
        missing = [column for column in NEEDED if column not in (feedback or {})]
        if feedback is None or missing:
            raise DataError(f"{name}: got feedback without {missing[0]}, which floors and ceilings are checked by")
        clicks = check_array(f"{name}: clicks", feedback["clicks"], (None,))
        purchases = check_array(f"{name}: purchases", feedback["purchases"], clicks.shape)
        columns = {
            part: check_array(f"{name}: products {column}", feedback["products"].get(column), clicks.shape)
            for part, column in (("gmv", "price"), ("cm2", "cm2"), ("strategic", "strategic"))
        }
        bought = purchases > 0.0
        parts = {part: float(column[bought].sum()) for part, column in columns.items()}
        clicked = float((clicks > 0.0).sum())
        return self._quantities({**parts, "clicks": clicked, RANK_CHANGE: self._left(context, feedback["shown"])})

    def _left(self, context: Context, shown: Any) -> float:
        """Return how many products of the base ranker's top are not in the top that was shown."""
        k = self.spec.reward.rank_change_at
        baseline = top_of(np.asarray(context.base_scores, float), min(k, len(context.base_scores)))
        ids = np.asarray(context.product_ids)[baseline]
        return float(len(ids) - np.isin(ids, np.asarray(shown)[:k]).sum())
