"""The log that off-policy evaluation reads, as arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from zoosim.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Log:
    """`n` checked interactions among `K` actions; `read_log` and `to_log` make one.

    `actions`, `propensities` (of the logged action, in (0, 1]) and `rewards` are `(n,)`, `features (n, d)`, `positions
    (n,)`. Row i could choose among `candidates[candidate_set[i]]`, of `candidates (s, K)`. `user_ids (n,)` tells which
    rows belong together, `times (n,)` counts microseconds since 1970; None where the log does not say. `products (K,
    d_p)` describes the actions, `categories` names the category of each where a catalogue does. `columns` holds further
    numbers, such as target probabilities, each `(n,)`. `skipped` tells how many bad rows were left out, by reason.
    """

    actions: IntArray
    propensities: FloatArray
    rewards: FloatArray
    candidates: BoolArray
    candidate_set: IntArray
    features: FloatArray
    positions: IntArray
    products: FloatArray
    user_ids: IntArray | None = None
    times: IntArray | None = None
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    categories: tuple[str, ...] = ()
    source: str = "log"

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def earned(self) -> FloatArray:
        """Return what each visit earned `(n,)`: its reward."""
        return self.rewards

    @property
    def product_ids(self) -> IntArray:
        """Return the ids of the actions `(K,)`: their numbers."""
        return np.arange(self.n_actions)

    @property
    def n_actions(self) -> int:
        """Count the actions, `K`."""
        return int(self.candidates.shape[1])

    def available(self, start: int, stop: int) -> BoolArray:
        """Return the candidates of rows `start` to `stop - 1`: `(stop - start, K)`."""
        found: BoolArray = self.candidates[self.candidate_set[start:stop]]
        return found

    def rows(self, chosen: np.ndarray) -> "Log":
        """Return the log of the `chosen` rows: indices, or a mask `(n,)`."""
        told = {name: getattr(self, name) for name in PER_ROW}
        per_row: dict[str, Any] = {name: values[chosen] for name, values in told.items() if values is not None}
        return replace(self, **per_row, columns={name: values[chosen] for name, values in self.columns.items()})


PER_ROW = ("actions", "propensities", "rewards", "candidate_set", "features", "positions", "user_ids", "times")
