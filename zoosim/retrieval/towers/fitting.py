"""Both towers, then the vector of each product: the steps of a retriever's training, on arrays."""

from typing import NamedTuple

import numpy as np

from zoosim.core.countdown import Countdown
from zoosim.core.types import Float32Array, Progress
from zoosim.retrieval.towers.joint import TrainedTowers, train_towers
from zoosim.retrieval.towers.own import OwnRows, Spreads
from zoosim.retrieval.towers.rows import ShownRows

ROWS_TAKEN, MOST_PASSES = 400_000, 10
"""Rows to be taken where there are few, each a few times; with more passes the towers fit what is chance."""


class Settings(NamedTuple):
    """How to train: numbers of a vector without its bias, hidden units of each tower, and passes over the rows."""

    width: int = 32
    hidden: int = 64
    passes: int = 1


def enough_passes(n_rows: int) -> int:
    """Return how often to take each of so many rows."""
    return min(max(round(ROWS_TAKEN / n_rows), 1), MOST_PASSES)


class Fitted(NamedTuple):
    """Trained towers, the vectors of all products `(K, width + 1)`, and how far these lie from their tower."""

    towers: TrainedTowers
    vectors: Float32Array
    spreads: Spreads


def fit_vectors(rows: ShownRows, settings: Settings, *, seed: int, progress: Progress) -> Fitted:
    """Train both towers, then fit the vector of each product to its own rows.

    Args:
        rows: What was shown.
        settings: How to train.
        seed: Of all draws.
        progress: Called with lines about how far it is.
    """
    rng = np.random.default_rng(seed)
    countdown = Countdown(progress, "took", settings.passes * len(rows.clicked), "rows")
    towers = train_towers(rows, *settings, rng=rng, report=countdown.report)
    progress("fitting the products' own vectors")
    own = OwnRows(rows, towers)
    spreads = own.choose_spreads(rng=rng)
    return Fitted(towers, own.vectors(spreads), spreads)
