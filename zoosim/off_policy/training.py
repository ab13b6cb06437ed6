"""Train policies on the earlier part of a log, to judge them by the later."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zoosim.action_spaces import find_action_space
from zoosim.core.arrays import places_in
from zoosim.core.blame import blamed
from zoosim.core.blocks import StoredRows, row_blocks
from zoosim.core.digests import short_hash
from zoosim.core.errors import DataError
from zoosim.core.tabular import TabularResult
from zoosim.core.types import Progress
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
    return np.concatenate([_hashes(part) for _, part in _parts(log)])


def seen_rows(log: Log, seen: NDArray[np.uint64]) -> Any:
    """Return which visits are among those of the hashes `seen`, of equal ones as many as there were: `(n,)`."""
    known, times = np.unique(seen, return_counts=True)
    left = np.append(times, 0)  # none of what is unknown, whose place is -1
    found: Any = StoredRows((len(log),), bool) if log.is_streamed else np.zeros(len(log), bool)
    for rows, part in _parts(log):
        hashes = _hashes(part)
        places = places_in(known, hashes)
        # How many equal rows stand before each in its block.
        before = pl.DataFrame({"hash": hashes}).select(pl.int_range(pl.len()).over("hash")).to_series().to_numpy()
        is_found = before < left[places]
        np.subtract.at(left, places[is_found], 1)
        found[rows] = is_found
    return found


def _parts(log: Log) -> Iterator[tuple[slice, Log]]:
    """Yield the rows of a log by blocks, each as a log in memory; all at once where they are in memory already."""
    if not log.is_streamed:
        yield slice(0, len(log)), log
        return
    for rows in row_blocks(len(log)):
        yield rows, log.rows(rows)


def _hashes(log: Log) -> NDArray[np.uint64]:
    rewards = np.asarray(log.rewards, np.float64) + 0.0  # -0.0 becomes 0.0
    features = np.asarray(log.features, np.float64) + 0.0
    chosen = find_action_space(log.action_space).evaluator.action_words(log)
    visits = np.column_stack([chosen, rewards.view(np.int64), features.view(np.int64)])
    hashes = [short_hash(visit.tobytes()) for visit in visits]
    return np.frombuffer(b"".join(hashes), np.uint64)


def earlier_and_later(log: Log, share: float = EARLIER) -> tuple[Log, Log]:
    """Cut a log in two: the first rows in order of time, a `share` of all, to learn from, and the rest, to judge by.

    Raises `DataError` where the later part has few rows, or rows that are read in blocks are not in order.
    """
    cut = int(share * len(log))
    if len(log) - cut < LEAST_ROWS:
        raise DataError(f"{log.source}: {len(log):,} rows, too few to learn from some and judge by the others")
    if not log.is_streamed:
        log = log.in_order()
    elif not are_in_order(log):
        raise DataError(
            f"{log.source}: its rows are not in order of time, as training needs where rows are read in blocks; sort "
            "them, or take them in memory (--no-stream)"
        )
    return log.span(0, cut), log.span(cut, len(log))


def are_in_order(log: Log) -> bool:
    """Return whether the rows of a log are in order of time, or it tells no times."""
    if log.times is None:
        return True
    last = -np.inf
    for rows in row_blocks(len(log)):
        times = log.times[rows]
        if times[0] < last or (times[1:] < times[:-1]).any():
            return False
        last = times[-1]
    return True
