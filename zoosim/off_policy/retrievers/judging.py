"""What a retriever finds of the clicks of later rows, and how likely these are by it, beside plain rules."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.off_policy.retrievers.rules import Rule
from zoosim.retrieval.exact import Exact
from zoosim.retrieval.towers.rows import ShownRows

MOST_CLICKS = 5_000
"""Clicks of later rows for which candidates are retrieved, drawn at random."""

AT_ONCE = 500
LEAST_CHANCE = 1e-6


class HeldOut(NamedTuple):
    """What came of later rows by one way to retrieve.

    Attributes:
        name: Which way.
        recall: Share of the clicks whose product is among the candidates that are retrieved for their visitor.
        low, high: A 95% interval of it.
        log_loss: Mean of -log of the probability of what came of a row, in nats; rows weigh alike.
    """

    name: str
    recall: float
    low: float
    high: float
    log_loss: float


class LaterRows:
    """Later rows, by which ways to retrieve are judged.

    Where propensities are known, a click weighs as much as it was unlikely to be shown: what a shop shows often is
    clicked often, however it is retrieved.
    """

    def __init__(self, rows: ShownRows, propensities: FloatArray | None, k: int, *, rng: np.random.Generator) -> None:
        """Draw the clicks that candidates are retrieved for.

        Args:
            rows: What was shown.
            propensities: The probability with which each row was shown `(m,)`, or None.
            k: How many candidates are retrieved.
            rng: Draws the clicks.
        """
        clicks = np.flatnonzero(rows.clicked)
        self.rows = rows
        self.k = k
        self.clicks = np.sort(rng.choice(clicks, min(MOST_CLICKS, len(clicks)), replace=False))
        self.is_weighed = propensities is not None
        self._weights = np.ones(len(self.clicks)) if propensities is None else 1.0 / propensities[self.clicks]

    def judge_vectors(self, vectors: Float32Array, queries: Float32Array, positions: FloatArray) -> HeldOut:
        """Judge vectors of products `(K, k + 1)` and queries of visits `(n, k + 1)`, with the effects of positions."""
        rows = self.rows
        log_odds = np.einsum("ij,ij->i", vectors[rows.product], queries[rows.visit], dtype=np.float64)
        log_odds += positions[np.minimum(rows.position, len(positions) - 1)]
        index = Exact(np.arange(rows.n_products), vectors)
        hits = np.zeros(len(self.clicks), bool)
        for start in range(0, len(self.clicks), AT_ONCE):
            some = self.clicks[start : start + AT_ONCE]
            matches = index.search(queries[rows.visit[some]], self.k)
            hits[start : start + AT_ONCE] = (matches.ids == rows.product[some][:, None]).any(axis=1)
        return self._judged("retriever", hits, 1.0 / (1.0 + np.exp(-log_odds)))

    def judge_rule(self, rule: Rule) -> HeldOut:
        """Judge a rule, which retrieves the same for all visitors of a segment."""
        rows = self.rows
        segments = rule.segments.assign(rows.visitors)
        hits = np.zeros(len(self.clicks), bool)
        of_click = segments[rows.visit[self.clicks]]
        for segment in np.unique(of_click):
            best = np.argsort(-rule.scores(segment), kind="stable")[: self.k]
            is_own = of_click == segment
            hits[is_own] = np.isin(rows.product[self.clicks[is_own]], best)
        return self._judged(rule.name, hits, rule.chances(segments[rows.visit], rows.product))

    def _judged(self, name: str, hits: np.ndarray, chances: FloatArray) -> HeldOut:
        chances = np.clip(chances, LEAST_CHANCE, 1.0 - LEAST_CHANCE)
        loss = -np.log(np.where(self.rows.clicked > 0.0, chances, 1.0 - chances)).mean()
        shares = self._weights / self._weights.sum()
        recall = float(shares @ hits)
        # Of a ratio of sums, by the delta method.
        half = 1.96 * float(np.sqrt((shares**2 * (hits - recall) ** 2).sum()))
        return HeldOut(name, recall, max(recall - half, 0.0), min(recall + half, 1.0), float(loss))


def figures(judged: Sequence[HeldOut]) -> list[dict[str, float | str]]:
    """Return judged ways as plain values."""
    return [way._asdict() for way in judged]


def row_propensities(propensities: FloatArray, visit: IntArray) -> FloatArray | None:
    """Return the propensities of rows `(m,)` of single products; None where they are unknown, or of rankings."""
    if propensities.ndim > 1 or np.isnan(propensities).any():
        return None
    return propensities[visit]
