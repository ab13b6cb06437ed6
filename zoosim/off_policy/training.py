"""Train policies on the earlier part of a log, to judge them by the later."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zoosim.action_spaces import find_action_space
from zoosim.core.blame import blamed
from zoosim.core.digests import short_hash
from zoosim.core.errors import DataError
from zoosim.core.tabular import TabularResult
from zoosim.core.types import BoolArray, Progress
from zoosim.logs.log import Log
from zoosim.policies.base import Policy

if TYPE_CHECKING:
    from zoosim.core.tables import Table
    from zoosim.off_policy.results import Evaluation
    from zoosim.policies.model import Model

EARLIER = 0.6
LEAST_ROWS = 50


@dataclass(frozen=True, repr=False)
class Training(TabularResult):
    """Result of `zoosim.train`: the best `model`, its `policy`'s name, and what the later rows say of all policies.

    `reason` says why it was chosen. `evaluation` is None where the later rows cannot judge policies, such as without
    propensities, unless these are estimated; `unjudged` says what else stood in the way. `predicted` is the reward per
    later visit that `dm` predicts for each policy, by a mixed model fitted to the earlier rows and calibrated on the
    later ones; it is empty where none was needed. `losses` are those of each epoch, of policies trained in epochs.
    `notes` say why policies were left out.
    """

    model: "Model"
    policy: str
    reason: str
    evaluation: "Evaluation | None"
    predicted: Mapping[str, float] = field(default_factory=dict)
    losses: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unjudged: str = ""

    def to_polars(self) -> pl.DataFrame:
        """Return what later rows say of each policy and estimator; without propensities, facts of the model."""
        return self.model.to_polars() if self.evaluation is None else self.evaluation.to_polars()

    def _headline(self) -> str:
        why = f" because {self.reason}" if self.reason and self.model.competitors > 1 else ""
        return f"Training: {self.policy} was chosen{why}; trained on {self.model.rows:,} rows"

    def _tables(self) -> "list[Table]":
        judged = [] if self.evaluation is None else self.evaluation._tables()
        return [*judged, *self.model._tables()]


class TrainingJob(NamedTuple):
    """A policy that has learned nothing yet, and the log that it learns from before it is judged by another."""

    policy: Policy
    log: Log

    def run(self, progress: Progress) -> Policy:
        """Train the policy and return it; raises `PolicyError`."""
        with blamed("cannot learn from the log: "):
            self.policy.fit(self.log, progress)
        return self.policy


def row_hashes(log: Log) -> NDArray[np.uint64]:
    """Return a hash of each visit `(n,)`, by which it is known again in another log of the same products.

    It covers the product or the boosts, the reward and the features, and not the user, whose number differs from log
    to log.
    """
    rewards = np.asarray(log.rewards, np.float64) + 0.0  # -0.0 becomes 0.0
    features = np.asarray(log.features, np.float64) + 0.0
    chosen = find_action_space(log.action_space).evaluator.action_words(log)
    visits = np.column_stack([chosen, rewards.view(np.int64), features.view(np.int64)])
    hashes = [short_hash(visit.tobytes()) for visit in visits]
    return np.frombuffer(b"".join(hashes), np.uint64)


def seen_rows(hashes: NDArray[np.uint64], seen: NDArray[np.uint64]) -> BoolArray:
    """Return which rows are among those `seen` before `(n,)`: of equal ones, as many as there were."""
    rows = pl.DataFrame({"hash": hashes}).with_columns(number=pl.int_range(pl.len()).over("hash"))
    known = pl.DataFrame({"hash": seen}).group_by("hash").agg(pl.len().alias("times"))
    joined = rows.join(known, on="hash", how="left", maintain_order="left")
    return np.asarray(joined.select((pl.col("number") < pl.col("times")).fill_null(False)).to_series().to_numpy())


def earlier_and_later(log: Log, share: float = EARLIER) -> tuple[Log, Log]:
    """Cut a log in two: the first rows in order of time, a `share` of all, to learn from, and the rest, to judge by.

    Raises `DataError` where the later part has few rows.
    """
    ordered = log.in_order()
    cut = int(share * len(log))
    if len(log) - cut < LEAST_ROWS:
        raise DataError(f"{log.source}: {len(log):,} rows, too few to learn from some and judge by the others")
    return ordered.rows(np.arange(cut)), ordered.rows(np.arange(cut, len(log)))
