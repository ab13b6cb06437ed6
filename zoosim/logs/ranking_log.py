"""The log of rankings that off-policy evaluation reads, as arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.log import Log


@dataclass(frozen=True)
class RankingLog:
    """`n` checked visits that showed `L` of `K` actions each; `read_rankings` and `to_rankings` make one.

    `actions`, `propensities` (of the action given those above it, in (0, 1]), `rewards`, and, where the log tells them,
    `marginals` (of the action at its position, whatever stands above) are `(n, L)`, as are `columns`. A visit could
    show `candidates[candidate_set[i]]`, each action once. The rest is as in `Log`, by visit.
    """

    actions: IntArray
    propensities: FloatArray
    rewards: FloatArray
    candidates: BoolArray
    candidate_set: IntArray
    features: FloatArray
    products: FloatArray
    marginals: FloatArray | None = None
    user_ids: IntArray | None = None
    times: IntArray | None = None
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    categories: tuple[str, ...] = ()
    source: str = "log"

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def n_positions(self) -> int:
        """Count the positions, `L`."""
        return int(self.actions.shape[1])

    @property
    def n_actions(self) -> int:
        """Count the actions, `K`."""
        return int(self.candidates.shape[1])

    @property
    def earned(self) -> FloatArray:
        """Return what each visit earned `(n,)`: its positions' rewards, summed."""
        return np.asarray(self.rewards.sum(axis=1))

    def rows(self, chosen: IntArray) -> "RankingLog":
        """Return the log of the `chosen` visits."""
        known = {name: getattr(self, name) for name in BY_VISIT}
        told: dict[str, Any] = {name: values[chosen] for name, values in known.items() if values is not None}
        return replace(self, **told, columns={name: values[chosen] for name, values in self.columns.items()})

    def at(self, position: int) -> Log:
        """Return the choices of one position as a log of single actions, those above it no longer candidates."""
        return self.without(self.actions[:, :position], position)

    def without(self, above: IntArray, position: int) -> Log:
        """Return the choices of a position as if `above (n, m)` stood over it."""
        open_to = self.candidates[self.candidate_set]
        np.put_along_axis(open_to, above, False, axis=1)
        packed, number = np.unique(np.packbits(open_to, axis=1), axis=0, return_inverse=True)
        sets = np.unpackbits(packed, axis=1, count=self.n_actions).astype(bool)
        known: dict[str, Any] = {name: getattr(self, name) for name in SAME}
        return Log(
            actions=np.ascontiguousarray(self.actions[:, position]),
            propensities=np.ascontiguousarray(self.propensities[:, position]),
            rewards=np.ascontiguousarray(self.rewards[:, position]),
            candidates=sets,
            candidate_set=number.reshape(-1).astype(np.int64),
            positions=np.zeros(len(self), np.int64),
            columns={name: np.ascontiguousarray(values[:, position]) for name, values in self.columns.items()},
            **known,
        )


BY_VISIT = (
    *("actions", "propensities", "rewards", "marginals"),
    *("candidate_set", "features", "user_ids", "times"),
)
SAME = ("features", "products", "user_ids", "times", "categories", "source")
"""What a position shares with its log."""
