"""LinUCB and linear Thompson sampling with models for each segment of visitors, and memories that may fade.

Each segment (see `segments.py`) has a clock of its own and models of its own: one over the joint features
[1, user] (x) [1, product] without their constant (shared), or one per product over [user, product]. Of the latter the
product's part is the same at each showing, so that [length of product, user] is the same model with fewer features.
Both are x = left (x) right, and run through one kernel: `shared` models have the rows [1, product] on their right,
a product's own has [1].

Sources: LinUCB, Li, Chu, Langford & Schapire (2010); linear Thompson sampling, Agrawal & Goyal (2013); discounting,
Russac, Vernade & Cappe (2019).
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from zoosim.core.id_table import IN_USE, UNKNOWN, grown, new_id_table
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.state import saved_length
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import is_dense
from zoosim.linear.joint import new_joint_ridge
from zoosim.linear.rank_one import rows_for_terms
from zoosim.policies.choice import distinct_rows
from zoosim.policies.kernel import KernelPolicy
from zoosim.policies.products.late_widths import new_late_widths
from zoosim.policies.products.segment_kernels import KERNEL
from zoosim.policies.products.segment_state import (
    SegmentCandidates,
    SegmentState,
    hash_rows,
    move_models,
    new_candidates,
    read_slots,
)
from zoosim.policies.products.segments import new_segments

MAX_SEGMENTS, MAX_ENTRIES = 256, 2**24
"""Room for segments, and for the entries of all their models' matrices, two a model, or four where widths run ahead."""

FIRST_PRODUCTS, KEPT_SEGMENTS = 8, 16
"""Products that there is room for at first, and segments that products which come up later leave room for."""


class _SegmentLinear(KernelPolicy):
    """Base of the four policies.

    Products with models of their own are known by their id. There is room for 8 at first, which doubles as they come up
    until all models' matrices would take 2^24 entries; then the product that was shown or rewarded longest ago is
    dropped, and begins anew should it return.
    """

    learned = (
        "segments",
        "products",
        "turns",
        "ridge",
        "widths",
        "key",
        "updates",
    )
    once_learned = ("weights", "last", "arms", "shown", "window", "adwin", "page_hinkley", "glr")
    kernel = KERNEL
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    shared: ClassVar[bool]
    sampling: ClassVar[bool]
    memory: str = parameter("discount", choices=("all", "discount"), help="what is kept of the past")
    alpha: float = parameter(1.0, low=0, high=100, help="width of bounds or draws, in standard deviations")
    regularization: float = parameter(1.0, low=1e-6, high=1e6, help="lambda of the ridge regression")
    half_life: float = parameter(1_700.0, low=1, high=1e9, help="visits after which it counts half, with discount")

    @property
    def _runs_ahead(self) -> bool:
        """True where widths count at once what was shown: those of bounds."""
        return not self.sampling

    @property
    def _sides(self) -> tuple[int, int]:
        """Return how many features stand on the left and on the right of x = left (x) right."""
        return self.spec.user_dim + 1, self.spec.product_dim + 1 if self.shared else 1

    @property
    def _entries(self) -> int:
        """Return how many entries the matrices of a model take."""
        left_dim, right_dim = self._sides
        matrices = 4 if self._runs_ahead else 2
        dim = left_dim * right_dim
        return matrices * (dim + rows_for_terms(dim)) * dim

    def _segments_beside(self, products: int) -> int:
        """Return how many segments there is room for beside so many products."""
        return max(1, min(MAX_SEGMENTS, MAX_ENTRIES // (products * self._entries)))

    @property
    def _most(self) -> int:
        """Return the most products that there may be, unknown ones included."""
        return 1 if self.shared else max(2, MAX_ENTRIES // self._entries)

    def _new_state(self) -> SegmentState:
        return self._state_of(min(FIRST_PRODUCTS, self._most), draw_key(self.rng))

    def _state_of(self, products: int, key: np.uint64) -> SegmentState:
        left_dim, right_dim = self._sides
        fades = self.memory == "discount"
        segments = self._segments_beside(products)
        models = segments * products
        discount = 0.5 ** (1 / self.half_life) if fades else 1.0
        learning = (left_dim * right_dim, self.regularization, discount)
        # What a policy does not use has room for one.
        ahead, groups = (models, segments) if self._runs_ahead else (1, 1)
        return SegmentState(
            segments=new_segments(segments, self.spec.user_dim),
            products=new_id_table(products),
            turns=np.zeros(products, np.int64),
            ridge=new_joint_ridge(models, *learning),
            widths=new_late_widths(new_joint_ridge(ahead, *learning), groups),
            key=np.array([key]),
            updates=np.zeros(1, np.int64),
            sampling=self.sampling,
            fades=fades,
            ahead=self._runs_ahead,
            alpha=self.alpha,
        )

    def _candidates(self, ids: IntArray, products: FloatArray) -> SegmentCandidates:
        if self.shared:
            rows, row_of = distinct_rows(np.hstack([np.ones((len(products), 1)), products]))
            return new_candidates(rows, np.ones(1), row_of, hash_rows(rows), is_dense(rows))
        return new_candidates(np.ones((1, 1)), np.linalg.norm(products, axis=1), np.arange(len(ids)), ids, False)

    def _make_room(self, candidates: SegmentCandidates, decisions: int) -> None:
        # For all candidates at once, whoever asks: how many segments there is room for follows from the capacity, and
        # must be the same in compiled runs as for single requests.
        state = self.state
        if self.shared:
            return
        read_slots(state.products, candidates)
        unknown = int(np.count_nonzero(candidates.models == UNKNOWN))
        capacity = len(state.turns)
        needed = int(state.products.counts[IN_USE]) + unknown
        if needed <= capacity:
            return
        segments = max(int(state.segments.found[0]), min(KEPT_SEGMENTS, len(state.segments.clock)))
        most = MAX_ENTRIES // segments // self._entries
        room = min(max(needed, 2 * capacity), most)
        if room > capacity:
            self._grow(room)

    def _grow(self, products: int) -> None:
        state = self.state
        larger = self._state_of(products, state.key[0])
        move_models(state, larger)
        widths = larger.widths._replace(
            decisions=state.widths.decisions, first_x=state.widths.first_x, late=state.widths.late
        )
        self.state = larger._replace(products=grown(state.products, products), widths=widths, updates=state.updates)

    def _exploiting(self) -> SegmentState:
        state: SegmentState = self.state._replace(alpha=0.0, sampling=False)
        return state

    def _shaped_as(self, saved: Mapping[str, Any]) -> SegmentState:
        capacity = saved_length(saved, "turns")
        fits = not self.shared and 2 <= capacity <= self._most
        return self._state_of(capacity, self.state.key[0]) if fits else self.state

    def _signature(self) -> str:
        return f"{super()._signature()}, memory {self.memory}"


class SharedLinUCB(_SegmentLinear):
    """LinUCB with one model a segment, with interactions, for all products; memory fades by the segment's visits."""

    name = "shared-linucb"
    shared = True
    sampling = False


class SharedLinTS(_SegmentLinear):
    """Linear Thompson sampling with one model a segment for all products; its memory fades by the segment's visits."""

    name = "shared-lin-ts"
    shared = True
    sampling = True
    alpha: float = parameter(0.35, low=0, high=100, help="width of bounds or draws, in standard deviations")


class ProductLinUCB(_SegmentLinear):
    """LinUCB with a model for each product and segment; its memory fades by the segment's visits."""

    name = "product-linucb"
    shared = False
    sampling = False
    alpha: float = parameter(0.5, low=0, high=100, help="width of bounds or draws, in standard deviations")


class ProductLinTS(_SegmentLinear):
    """Linear Thompson sampling with a model for each product and segment; memory fades by the segment's visits."""

    name = "product-lin-ts"
    shared = False
    sampling = True
    alpha: float = parameter(0.15, low=0, high=100, help="width of bounds or draws, in standard deviations")
