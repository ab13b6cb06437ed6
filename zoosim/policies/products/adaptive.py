"""Thompson sampling over segments and categories that it finds itself, with change detection: the default choice.

It tells visitors apart by segment and products by category: the distinct patterns in the columns that hold nothing but
0 and 1. Each (segment, category) cell has a Bayes filter of its click probability (`zoosim.models.change_filter`). A
decision is Thompson sampling over a segment's cells; but a category that was not shown to it for long is shown as soon
as what may have changed meanwhile is worth a visit. Beside the cells run linear models over the visitor's features and
the product's numbers (`zoosim.linear.rivals`), one for each category. They choose within a category whose products have
different numbers, and decide altogether where they predict clicks better than the cells: features may hold what
segments and categories do not.

What a decision moves (when a category was shown last) and what a reward moves (everything else) are kept apart, so that
rewards may come late: otherwise a category would stay overdue, and be shown to everybody, until its rewards are in.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from zoosim.core.arrays import copy_overlap, resized
from zoosim.core.id_table import capacity_for, grown, new_id_table
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.rivals import grown_rivals, new_rivals
from zoosim.policies.kernel import KernelPolicy, saved_length
from zoosim.policies.products.adaptive_kernel import KERNEL
from zoosim.policies.products.adaptive_state import Candidates, State, new_candidates, new_cells
from zoosim.policies.products.categories import FIRST_CATEGORIES, still_binary
from zoosim.policies.products.segments import new_segments

MAX_SEGMENTS, MAX_CATEGORIES, MAX_CELLS, MAX_ENTRIES = 256, 2_048, 200_000, 16_000_000
"""Most segments, categories, (segment, category) cells, and entries of all linear models' matrices."""

MAX_JOINT = 100
"""Most features of a linear model over all products of a visitor's feature and a product's; else it adds them."""

HORIZON = 2_000.0
"""Visits after which an observation weighs 1/e in linear models that fade."""


class Adaptive(KernelPolicy):
    """Find segments and categories by itself, follow each cell through jumps, explore where it may pay (recommended).

    Rewards lie between 0 and 1. There are at most 256 segments, of which the last takes all further visitors, and 2,048
    categories that were shown, of which the one that was shown or rewarded longest ago makes room for a new one.
    """

    name = "adaptive"
    kernel = KERNEL
    learned = ("segments", "categories", "binary", "cells", "rivals", "loss", "shown", "decisions", "key", "updates")
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    hazard: float = parameter(5e-4, low=0, high=0.1, help="probability per visit that one of a segment's cells jumps")
    due: float = parameter(
        1.5e-4, low=0, high=0.1, help="rate at which long unseen categories are tried again; 0 never"
    )
    sharpness: float = parameter(2.0, low=0.1, high=100, help="how much narrower than the posterior it samples")
    together: float = parameter(
        0.1, low=0, high=1, help="probability that a jump in one cell comes with one in another"
    )
    alpha: float = parameter(1.2, low=0, high=100, help="width of the linear models' bound, in standard deviations")

    def _new_state(self) -> State:
        return self._state_of(FIRST_CATEGORIES, draw_key(self.rng))

    def _state_of(self, categories: int, key: np.uint64) -> State:
        users = self.spec.user_dim
        numbers = self.spec.product_dim
        interacts = (1 + users) * (1 + numbers) <= MAX_JOINT
        dim = (1 + users) * (1 + numbers) if interacts else 1 + users + numbers
        segments = _segments_beside(categories)
        return State(
            segments=new_segments(segments, users),
            categories=new_id_table(categories),
            binary=np.ones(numbers, np.bool_),
            cells=new_cells(segments, categories),
            rivals=new_rivals(_models_beside(categories, dim), dim, HORIZON),
            loss=np.zeros(1),
            shown=np.zeros(categories, np.int64),
            decisions=np.zeros(1, np.int64),
            key=np.array([key]),
            updates=np.zeros(1, np.int64),
            interacts=interacts,
            hazard=self.hazard,
            due=self.due,
            sharpness=self.sharpness,
            alpha=self.alpha,
            together=self.together,
            sampling=True,
        )

    def _exploiting(self) -> State:
        state: State = self.state._replace(due=0.0, alpha=0.0, sampling=False)
        return state

    def _ridge(self) -> Any:
        return self.state.rivals.steady

    def _candidates(self, ids: IntArray, products: FloatArray) -> Candidates:
        return new_candidates(products, still_binary(self.state.binary, products))

    def _make_room(self, candidates: Candidates, decisions: int) -> None:
        # For all candidates at once, whoever asks: how many segments there is room for follows from the capacity, and
        # must be the same in compiled runs as for single requests.
        state = self.state
        if not np.array_equal(candidates.binary, state.binary):
            state.binary[:] = candidates.binary
            self._forget_candidates()
        capacity = capacity_for(state.categories, candidates.keys, len(candidates.keys), MAX_CATEGORIES)
        if capacity > len(state.shown):
            self._grow(capacity)

    def _grow(self, categories: int) -> None:
        """Make room for more categories; of the segments those found first stay."""
        state = self.state
        cells = new_cells(_segments_beside(categories), categories)
        segments = new_segments(len(cells.shown), self.spec.user_dim)
        for old, new in zip((*state.cells, *state.segments), (*cells, *segments), strict=True):
            copy_overlap(old, new)
        segments.found[0] = min(segments.found[0], len(cells.shown))
        rivals = grown_rivals(state.rivals, _models_beside(categories, state.rivals.steady.b.shape[1]))
        self.state = state._replace(
            segments=segments,
            categories=grown(state.categories, categories),
            cells=cells,
            rivals=rivals,
            shown=resized(state.shown, categories),
        )

    def _shaped_as(self, saved: Mapping[str, Any]) -> State:
        categories = saved_length(saved, "shown")
        fits = FIRST_CATEGORIES <= categories <= MAX_CATEGORIES
        return self._state_of(categories, self.state.key[0]) if fits else self.state


def _segments_beside(categories: int) -> int:
    """Return how many segments there is room for beside so many categories."""
    return min(MAX_SEGMENTS, MAX_CELLS // categories)


def _models_beside(categories: int, dim: int) -> int:
    """Return how many linear models of `dim` features there is room for, one per category at most."""
    return min(categories, max(1, MAX_ENTRIES // (4 * dim**2)))
