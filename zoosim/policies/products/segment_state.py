"""What the linear policies of segments keep: models for segments and products, with room for products as they come up.

Part of `segment_linear.py`. Policies with a model for each product know S segments and P products, and the
models of segment s are numbers s P to s P + P - 1; those with one model for all products have P = 1.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.id_table import UNKNOWN, IdTable, claim_slot, renew_slots
from zoosim.core.jit import inlined, jit
from zoosim.core.limits import COUNTS, NOT_NEGATIVE
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear import hypotheses
from zoosim.linear.ridge import Ridge, clear, period_of
from zoosim.linear.window import Window, empty
from zoosim.monitoring import watch
from zoosim.monitoring.adwin import AdwinState
from zoosim.monitoring.glr import GLRState
from zoosim.monitoring.page_hinkley import PageHinkleyState
from zoosim.policies.choice import hash_row
from zoosim.policies.products.late_widths import LateWidths, forget_decisions
from zoosim.policies.products.segments import Segments, enter, shed

MEMORIES = ("all", "discount", "window", "filter", "restart")
ALL, DISCOUNT, WINDOW, FILTER, RESTART = range(len(MEMORIES))


ROUNDING = 1e-6
"""How far rounding may take the sum of the weights of hypotheses from 1."""


class State(NamedTuple):
    """The models of segments and products, each with H ridge models.

    `products` gives products their slots, P in all, of which the first one stands for all that were never shown;
    `turns (P,)` when each fades. By model: `weights (S P, H)`; `last (S P,)` the segment's reward that it learned from
    last. Arms are products or, with one model for all, distinct products: `arms` gives them slots, A in all, and
    `shown (S, A)` is the segment's decision at which each was shown last. `key (1,)` of the posterior draws; `updates
    (1,)`, rewards learned. `kind` of memory and `detector` are places in MEMORIES and DETECTORS; `ahead` tells whether
    widths count decisions before their rewards; `hazard` and `due` are those of all models and arms together.
    """

    segments: Segments
    products: IdTable
    turns: IntArray
    ridge: Ridge
    weights: Annotated[FloatArray, NOT_NEGATIVE]
    last: Annotated[FloatArray, COUNTS]
    widths: LateWidths
    arms: IdTable
    shown: Annotated[FloatArray, COUNTS]
    window: Window
    adwin: AdwinState
    page_hinkley: PageHinkleyState
    glr: GLRState
    key: np.ndarray
    updates: IntArray
    sampling: bool
    kind: int
    detector: int
    ahead: bool
    alpha: float
    hazard: float
    due: float

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        models, segments, products = len(self.last), len(self.segments.clock), len(self.turns)
        if self.window.model.max() >= models:
            yield f"window.model holds {self.window.model.max()}, expected a model below {models:,}"
        if self.turns.max() >= period_of(self.ridge):
            yield f"turns holds {self.turns.max()}, expected a turn below {period_of(self.ridge)}"
        if np.abs(self.weights.sum(axis=1) - 1.0).max() > ROUNDING:
            yield "weights do not add up to 1 in each model"
        if (self.last.reshape(segments, products) > self.segments.clock[:, None]).any():
            yield "last holds a later reward than the segments' clocks"


class Candidates(NamedTuple):
    """The V models and R rows of candidates, which make V R arms, of which one of V and R is 1.

    `rows (R, w)` on the right of the features; `leads (V,)` the first on their left, before the user's; `arm_of (K,)`;
    `keys (V R,)` the ids or hashes of arms. `models (V,)` are slots of products and `places (V R,)` slots of arms, read
    at `versions (2,)` of the tables of products and arms. `dense` tells whether most numbers of `rows` are not 0.
    """

    rows: FloatArray
    leads: FloatArray
    arm_of: IntArray
    keys: IntArray
    models: IntArray
    places: IntArray
    versions: IntArray
    dense: bool


def new_candidates(rows: FloatArray, leads: FloatArray, arm_of: IntArray, keys: IntArray, dense: bool) -> Candidates:
    """Return candidates whose slots have not been read."""
    places = np.zeros(len(keys), np.int64)
    return Candidates(rows, leads, arm_of, keys, np.zeros(len(leads), np.int64), places, np.full(2, -1), dense)


@jit
def hash_rows(rows: FloatArray) -> IntArray:
    """Return the hash of each of `rows (R, w)`."""
    hashes = np.empty(rows.shape[0], np.int64)
    for r in range(rows.shape[0]):
        hashes[r] = hash_row(rows[r])
    return hashes


@jit
def read_slots(products: IdTable, arms: IdTable, candidates: Candidates) -> None:
    """Look up the slots of candidates, unless no product or arm has got or lost one since."""
    models = candidates.models
    renew_slots(products, candidates.keys[: models.shape[0]], models, candidates.versions[:1])
    renew_slots(arms, candidates.keys, candidates.places, candidates.versions[1:])


@inlined
def enter_segment(state: State, user: FloatArray) -> int:
    """Return the segment of a visitor; all models are cleared when segments begin anew."""
    found = state.segments.found[0]
    if shed(state.segments, user):
        _forget_models(state, found, 0, state.turns.shape[0])
        for n in range(found):
            state.shown[n] = 0.0
        forget_decisions(state.widths)
    s, _ = enter(state.segments, user, state.segments.clock.shape[0])  # of a new one, nothing is known yet
    return s


@inlined
def enter_product(state: State, candidates: Candidates, arm: int) -> int:
    """Return the slot of an arm's product, with models that know nothing if it is new; 0 with one model for all."""
    if state.turns.shape[0] == 1:
        return 0
    slot, is_new = claim_slot(state.products, candidates.keys[arm])
    if is_new:
        state.turns[slot] = candidates.keys[arm] % period_of(state.ridge)
        _forget_models(state, state.segments.found[0], slot, slot + 1)
    return slot


@jit
def _forget_models(state: State, segments: int, first: int, stop: int) -> None:
    """Clear the models of the first so many segments for the products with slots `first` to `stop` - 1."""
    for s in range(segments):
        for model in range(s * state.turns.shape[0] + first, s * state.turns.shape[0] + stop):
            hypotheses.begin(state.ridge, state.weights, model)
            state.last[model] = 0.0
            if state.ahead:
                clear(state.widths.ahead, model)
            if state.kind == RESTART:
                watch.reset(state.adwin, state.page_hinkley, state.glr, state.detector, model)
            if state.kind == WINDOW:
                empty(state.window, s, model)


@jit
def meet_arms(arms: IdTable, shown: FloatArray, segments: Segments, keys: IntArray, places: IntArray) -> None:
    """Enter candidates that were never met: `keys (A,)`, `places (A,)` their slots as they were read."""
    most = min(keys.shape[0], arms.ids.shape[0] - 1)
    if np.any(places[:most] == UNKNOWN):
        for arm in range(most):
            meet_arm(arms, shown, segments, keys[arm])


@jit
def meet_arm(arms: IdTable, shown: FloatArray, segments: Segments, key: int) -> int:
    """Return the slot of an arm; a new one counts as shown to each segment just now."""
    slot, is_new = claim_slot(arms, key)
    if is_new:
        for s in range(segments.found[0]):
            shown[s, slot] = segments.decided[s]
    return slot


@jit
def last_shown(shown: FloatArray, places: IntArray, now: float) -> FloatArray:
    """Return the decision at which each arm `(A,)` was shown last to a segment; `now` for those never met."""
    last = np.empty(places.shape[0])
    for arm in range(places.shape[0]):
        last[arm] = now if places[arm] == UNKNOWN else shown[places[arm]]
    return last


def move_models(old: State, new: State) -> None:
    """Copy what was learned into a state with room for more products, and maybe for fewer segments."""
    segments = int(old.segments.found[0])
    products = len(old.turns)
    more_products = len(new.turns)
    for source, target in zip(_by_model(old), _by_model(new), strict=True):
        per_model = source.reshape(len(old.segments.clock), products, -1)
        target.reshape(len(new.segments.clock), more_products, -1)[:segments, :products] = per_model[:segments]
    for source, target in zip(_by_segment(old), _by_segment(new), strict=True):
        target[:segments] = source[:segments]
    new.window.model[:] = _renumbered(new.window.model, products, more_products)
    new.widths.first_model[:] = _renumbered(old.widths.first_model, products, more_products)
    new.turns[:products] = old.turns
    new.ridge.condition[-1] = old.ridge.condition[-1]
    for name in ("binary", "found"):
        getattr(new.segments, name)[:] = getattr(old.segments, name)


def _renumbered(models: IntArray, products: int, more: int) -> IntArray:
    """Return numbers of models of s P + slot where there were P `products`, and are `more`."""
    return models // products * more + models % products


def _by_model(state: State) -> Iterator[np.ndarray]:
    """Yield the arrays whose first axis numbers the models of segments and products, or their H ridge models."""
    ridges = (state.ridge, state.widths.ahead) if state.ahead else (state.ridge,)
    for ridge in ridges:
        yield from (ridge.gram, ridge.inverse, ridge.b, ridge.theta, ridge.age, ridge.condition[:-1])
    yield from (state.weights, state.last)
    if state.kind == RESTART:
        detector = (state.adwin, state.page_hinkley, state.glr)[state.detector]
        yield from (array for array in detector if isinstance(array, np.ndarray))


def _by_segment(state: State) -> Iterator[np.ndarray]:
    yield from (state.segments.patterns, state.segments.decided, state.segments.clock, state.shown)
    if state.ahead:
        yield state.widths.clock
    if state.kind == WINDOW:
        yield from state.window
