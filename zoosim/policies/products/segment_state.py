"""State of the linear policies of segments: models for segments and products, with room for products as they come up.

Part of `segment_linear.py`. Policies with a model for each product know S segments and P products, and the
models of segment s are numbers s P to s P + P - 1; those with one model for all products have P = 1.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zoosim.core.id_table import IdTable, claim_slot, renew_slots
from zoosim.core.jit import inlined, jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.ridge import Ridge, clear, period_of
from zoosim.policies.choice import hash_row
from zoosim.policies.products.late_widths import LateWidths, forget_decisions
from zoosim.policies.products.segments import Segments, enter, shed


class SegmentState(NamedTuple):
    """The models of segments and products.

    `products` gives products their slots, P in all, of which the first one stands for all that were never shown;
    `turns (P,)` when each fades, where it `fades`. `key (1,)` of the posterior draws; `updates (1,)`, rewards learned.
    `ahead` tells whether widths count decisions before their rewards.
    """

    segments: Segments
    products: IdTable
    turns: IntArray
    ridge: Ridge
    widths: LateWidths
    key: np.ndarray
    updates: IntArray
    sampling: bool
    fades: bool
    ahead: bool
    alpha: float

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if self.turns.max() >= period_of(self.ridge):
            yield f"turns holds {self.turns.max()}, expected a turn below {period_of(self.ridge)}"


class SegmentCandidates(NamedTuple):
    """The V models and R rows of candidates, which make V R arms, of which one of V and R is 1.

    `rows (R, w)` on the right of the features; `leads (V,)` the first on their left, before the user's; `arm_of (K,)`;
    `keys (V R,)` the ids or hashes of arms. `models (V,)` are slots of products, read at `version (1,)` of their table.
    `dense` tells whether most numbers of `rows` are not 0.
    """

    rows: FloatArray
    leads: FloatArray
    arm_of: IntArray
    keys: IntArray
    models: IntArray
    version: IntArray
    dense: bool


def new_candidates(
    rows: FloatArray, leads: FloatArray, arm_of: IntArray, keys: IntArray, dense: bool
) -> SegmentCandidates:
    """Return candidates whose slots have not been read."""
    return SegmentCandidates(rows, leads, arm_of, keys, np.zeros(len(leads), np.int64), np.full(1, -1), dense)


@jit
def hash_rows(rows: FloatArray) -> IntArray:
    """Return the hash of each of `rows (R, w)`."""
    hashes = np.empty(rows.shape[0], np.int64)
    for r in range(rows.shape[0]):
        hashes[r] = hash_row(rows[r])
    return hashes


@jit
def read_slots(products: IdTable, candidates: SegmentCandidates) -> None:
    """Look up the slots of candidates, unless no product has got or lost one since."""
    models = candidates.models
    renew_slots(products, candidates.keys[: models.shape[0]], models, candidates.version)


@inlined
def enter_segment(state: SegmentState, user: FloatArray) -> int:
    """Return the segment of a visitor; all models are cleared when segments begin anew."""
    found = state.segments.found[0]
    if shed(state.segments, user):
        _forget_models(state, found, 0, state.turns.shape[0])
        forget_decisions(state.widths)
    s, _ = enter(state.segments, user, state.segments.clock.shape[0])  # of a new one, nothing is known yet
    return s


@inlined
def enter_product(state: SegmentState, candidates: SegmentCandidates, arm: int) -> int:
    """Return the slot of an arm's product, with models that know nothing if it is new; 0 with one model for all."""
    if state.turns.shape[0] == 1:
        return 0
    slot, is_new = claim_slot(state.products, candidates.keys[arm])
    if is_new:
        # By its id, not by its slot: when a product fades does not depend on which came up before it.
        state.turns[slot] = candidates.keys[arm] % period_of(state.ridge)
        _forget_models(state, state.segments.found[0], slot, slot + 1)
    return slot


@jit
def _forget_models(state: SegmentState, segments: int, first: int, stop: int) -> None:
    """Clear the models of the first so many segments for the products with slots `first` to `stop` - 1."""
    for s in range(segments):
        for model in range(s * state.turns.shape[0] + first, s * state.turns.shape[0] + stop):
            clear(state.ridge, model)
            if state.ahead:
                clear(state.widths.ahead, model)


def move_models(old: SegmentState, new: SegmentState) -> None:
    """Copy what was learned into a state with room for more products, and maybe for fewer segments."""
    segments = int(old.segments.found[0])
    products = len(old.turns)
    more_products = len(new.turns)
    for source, target in zip(_by_model(old), _by_model(new), strict=True):
        per_model = source.reshape(len(old.segments.clock), products, -1)
        target.reshape(len(new.segments.clock), more_products, -1)[:segments, :products] = per_model[:segments]
    for source, target in zip(_by_segment(old), _by_segment(new), strict=True):
        target[:segments] = source[:segments]
    # Model s P + slot has another number where P is larger.
    segment, slot = divmod(old.widths.first_model, products)
    new.widths.first_model[:] = segment * more_products + slot
    new.turns[:products] = old.turns
    new.ridge.condition[-1] = old.ridge.condition[-1]
    for name in ("binary", "found"):
        getattr(new.segments, name)[:] = getattr(old.segments, name)


def _by_model(state: SegmentState) -> Iterator[np.ndarray]:
    """Yield the arrays whose first axis numbers the models of segments and products."""
    ridges = (state.ridge, state.widths.ahead) if state.ahead else (state.ridge,)
    for ridge in ridges:
        yield from (ridge.gram, ridge.inverse, ridge.b, ridge.theta, ridge.age, ridge.condition[:-1])


def _by_segment(state: SegmentState) -> Iterator[np.ndarray]:
    yield from (state.segments.patterns, state.segments.decided, state.segments.clock)
    if state.ahead:
        yield state.widths.clock
