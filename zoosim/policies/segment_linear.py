"""LinUCB and linear Thompson sampling with models for each segment of visitors, and memories that fade or are cut.

Each segment (see `zoosim.policies.segments`) has a clock of its own and models of its own: one over the joint features
[1, user] (x) [1, product] without their constant (shared), or one a product over [user, product]. Of the latter the
product's part is the same at each showing, so that [length of product, user] is the same model with fewer features.
Both are x = left (x) right, and run through one kernel: `shared` models have the rows [1, product] on their right,
a product's own has [1].

Sources: LinUCB, Li, Chu, Langford & Schapire (2010); linear Thompson sampling, Agrawal & Goyal (2013); discounting,
Russac, Vernade & Cappe (2019); sliding window, Cheung, Simchi-Levi & Zhu (2019); change-point filter, Adams & MacKay
(2007).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear import hypotheses
from zoosim.linear import window as windows
from zoosim.linear.dense import nonzeros
from zoosim.linear.hypotheses import foreseen
from zoosim.linear.joint import joint, with_lead
from zoosim.linear.ridge import Ridge, clear, fade, new_ridge, observe
from zoosim.linear.window import Window
from zoosim.monitoring import adwin, glr, page_hinkley, watch
from zoosim.monitoring.adwin import MAX_BUCKETS, AdwinState
from zoosim.monitoring.glr import GLRState
from zoosim.monitoring.page_hinkley import PageHinkleyState
from zoosim.policies.kernel import DRAWS, Kernel, KernelPolicy, asked_key, best_of, distinct_rows
from zoosim.policies.segment_view import View, arms_of, due_arm, look, scores_of
from zoosim.policies.segments import Segments, enter, find, new_segments, shed

MEMORIES = ("all", "discount", "window", "filter", "restart")
ALL, DISCOUNT, WINDOW, FILTER, RESTART = range(len(MEMORIES))

THRESHOLD = 15.0
"""Of Page-Hinkley: lower than its default, since errors halved to fit into [0, 1] have a quarter of the variance."""

HYPOTHESES = 4
"""Of a change-point filter; each has a ridge model of its own."""

MAX_SEGMENTS, MAX_ENTRIES = 256, 2**24
"""Room for segments, and for the entries of all their models' matrices: four a model, sums and inverse in two halves,
and the visits in their windows."""


class State(NamedTuple):
    """The models of segments; those of segment s are s V to s V + V - 1, each with H ridge models.

    `weights (S V, H)`; `shown (S, V R)` the segment's visit at which each of V models and R rows was shown last;
    `rows (R, w)` on the right of the features, `leads (V,)` the first on their left, before the user's; `arm_of (K,)`
    a product's model times R plus its row; `key (1,)` and `draws (1,)` number the random draws; `room` for segments.
    `kind` of memory and `detector` are places in MEMORIES and DETECTORS; `hazard` and `due` are those of one model and
    arm.
    """

    segments: Segments
    ridge: Ridge
    weights: FloatArray
    shown: FloatArray
    window: Window
    adwin: AdwinState
    page_hinkley: PageHinkleyState
    glr: GLRState
    rows: FloatArray
    leads: FloatArray
    arm_of: IntArray
    key: np.ndarray
    draws: IntArray
    room: int
    sampling: bool
    kind: int
    detector: int
    alpha: float
    hazard: float
    due: float


@jit
def _first_of(arm: int, arm_of: IntArray, available: BoolArray) -> int:
    """Return the first available product of an arm, -1 if there is none."""
    for k in range(available.shape[0]):
        if arm_of[k] == arm and available[k]:
            return k
    return -1


@inlined
def _look(state: State, user: FloatArray, available: BoolArray) -> tuple[View, int]:
    """Return what a visitor sees, and the product that is due or else -1.

    One who is new looks at the next segment, whose models know nothing.
    """
    s = find(state.segments, user, state.room)
    s = s if s >= 0 else state.segments.found[0]
    arms = arms_of(state.arm_of, available, state.leads.shape[0], state.rows.shape[0])
    view = look(state.ridge, state.weights, arms, state.leads, user, s, state.sampling)
    arm, clock = -1, state.segments.clock[s]
    if state.due > 0.0 and clock > 0.0:
        arm = due_arm(view, state.rows, state.shown[s], clock + 1.0, state.due)
    return view, _first_of(arm, state.arm_of, available)


@inlined
def _choose(state: State, user_id: int, user: FloatArray, available: BoolArray) -> int:
    view, action = _look(state, user, available)
    if action < 0:
        state.draws[0] += state.sampling
        scores = scores_of(view, state.rows, state.alpha, state.sampling, state.key[0], state.draws[0])
        action = best_of(scores, state.arm_of, available)
    return action


@jit
def _probability(state: State, user_id: int, user: FloatArray, available: BoolArray, action: int) -> float:
    view, due = _look(state, user, available)
    if due >= 0:
        return 1.0 if due == action else 0.0
    key, arm_of, chosen, asked = asked_key(state.key, state.draws), state.arm_of, 0, DRAWS if state.sampling else 1
    for i in range(asked):
        scores = scores_of(view, state.rows, state.alpha, state.sampling, key, i)
        chosen += best_of(scores, arm_of, available) == action
    if not state.sampling:
        return float(chosen)
    hits, first = float(chosen), _first_of(arm_of[action], arm_of, available)
    return (hits + (_share(view.arms) if first == action else 0.0)) / (DRAWS + 1)


@jit
def _share(arms: BoolArray) -> float:
    count = 0
    for v in range(arms.shape[0]):
        for r in range(arms.shape[1]):
            count += arms[v, r]
    return 1.0 / count


@inlined
def _learn(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    s, rows, models, arm = _enter(state, user), state.rows.shape[0], state.leads.shape[0], state.arm_of[action]
    visit, v, ridge = int(state.segments.clock[s]), arm // rows, state.ridge
    left, right, model = with_lead(state.leads[v], user), state.rows[arm % rows], s * models + v
    x = joint(left, right)
    nonzero = nonzeros(x)
    if state.kind == FILTER:
        kept = (1.0 - state.hazard) ** (visit - _last(state.shown[s], v * rows, rows))
        hypotheses.loosen(ridge, state.weights, model, kept)
        hypotheses.learn(ridge, state.weights, model, x, nonzero, reward)
    else:
        if state.kind == RESTART:
            residual = 0.5 * (1.0 + reward - foreseen(ridge, model, x, nonzero))
            if watch.observe(state.adwin, state.page_hinkley, state.glr, state.detector, model, residual):
                clear(ridge, model)
        elif state.kind == DISCOUNT:
            fade(ridge, s * models, v, models, visit)
        elif state.kind == WINDOW:
            windows.slide(ridge, state.window, s, visit, left, right, model, reward)
        observe(ridge, model, x, nonzero, reward)
        if state.kind == WINDOW and visit % state.window.reward.shape[1] == 0:
            windows.renew(ridge, state.window, s, s * models, models)
    state.shown[s, arm] = visit


@jit
def _last(shown: FloatArray, first: int, count: int) -> float:
    """Return the visit at which any of `count` arms was shown last."""
    last = 0.0
    for arm in range(first, first + count):
        last = max(last, shown[arm])
    return last


@inlined
def _enter(state: State, user: FloatArray) -> int:
    """Return the segment of a visitor and count the visit; clear all models when segments begin anew."""
    found, models = state.segments.found[0], state.leads.shape[0]
    if shed(state.segments, user):
        state.shown[:found] = 0.0
        hypotheses.begin(state.ridge, state.weights, found * models)
        if state.kind == RESTART:
            for model in range(found * models):
                watch.reset(state.adwin, state.page_hinkley, state.glr, state.detector, model)
    return enter(state.segments, user, state.room)


class _SegmentLinear(KernelPolicy):
    """What the four policies have in common."""

    kernel = Kernel("segment_linear", _choose, _learn, _probability)
    learned = ("segments", "ridge", "weights", "shown", "window", "adwin", "page_hinkley", "glr", "key", "draws")
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    shared: ClassVar[bool]
    sampling: ClassVar[bool]
    memory: str = parameter("discount", choices=MEMORIES, help="what is kept of the past")
    alpha: float = parameter(1.0, low=0, high=100, help="width of bounds or draws, in standard deviations")
    regularization: float = parameter(1.0, low=1e-6, high=1e6, help="lambda of the ridge regression")
    half_life: float = parameter(1_700.0, low=1, high=1e9, help="visits after which it counts half, with discount")
    window: int = parameter(2_500, low=1, high=1_000_000, help="visits of a segment that are kept, with window")
    hazard: float = parameter(5e-4, low=0, high=0.1, help="chance of a change, a visit, with filter")
    detector: str = parameter(
        "page-hinkley", choices=watch.DETECTORS, help="what watches a model's errors, with restart"
    )
    due: float = parameter(1.5e-4, low=0, high=0.1, help="how soon what was not shown is, with filter and restart")

    def _new_state(self) -> State:
        k, dim = self.spec.n_products, self.spec.user_dim + 1
        models, width = (1, self.spec.product_dim + 1) if self.shared else (k, 1)
        kind = MEMORIES.index(self.memory)
        count = HYPOTHESES if kind == FILTER else 1
        visits = self.window if kind == WINDOW else 1
        entries = 4 * models * count * (dim * width) ** 2 + visits * (dim + width)
        room = max(1, min(MAX_SEGMENTS, MAX_ENTRIES // entries))
        watched = [models * room if kind == RESTART and name == self.detector else 1 for name in watch.DETECTORS]
        discount = 0.5 ** (1 / self.half_life) if kind == DISCOUNT else 1.0
        return State(
            segments=new_segments(room, dim - 1),
            ridge=new_ridge(room * models * count, dim * width, self.regularization, discount),
            weights=hypotheses.new_weights(room * models, count),
            shown=np.zeros((room, k)),
            window=windows.new_window(room if kind == WINDOW else 1, visits, dim, width),
            adwin=adwin.new_adwin(watched[watch.ADWIN]),
            page_hinkley=page_hinkley.new_page_hinkley(watched[watch.PAGE_HINKLEY], threshold=THRESHOLD),
            glr=glr.new_glr(watched[watch.GLR]),
            rows=np.ones((1, width)),
            leads=np.ones(models),
            arm_of=np.zeros(k, np.int64),
            key=np.array([draw_key(self.rng)]),
            draws=np.zeros(1, np.int64),
            room=room,
            sampling=self.sampling,
            kind=kind,
            detector=watch.DETECTORS.index(self.detector),
            alpha=self.alpha,
            hazard=self.hazard / models,
            due=0.0,
        )

    def _signature(self) -> str:
        return f"{super()._signature()}, memory {self.memory}"

    def _sound(self, saved: Mapping[str, Any]) -> bool:
        models, filled = len(self.state.ridge.b), saved["adwin.filled"]
        return super()._sound(saved) and bool((saved["window.model"] < models).all() and (filled <= MAX_BUCKETS).all())

    def _with_products(self, products: FloatArray) -> Any:
        if self.shared:
            rows, arm_of = distinct_rows(np.hstack([np.ones((len(products), 1)), products]))
            return self.state._replace(rows=rows, arm_of=arm_of, due=self._due(len(rows)), shown=self._shown(rows))
        arm_of, leads = np.arange(len(products)), np.linalg.norm(products, axis=1)
        return self.state._replace(leads=leads, arm_of=arm_of, due=self._due(len(products)))

    def _shown(self, rows: FloatArray) -> FloatArray:
        """Return when each of other `rows` was shown to each segment: a new one counts as shown at its last visit."""
        state = self.state
        if self._products is None or np.array_equal(rows, state.rows):
            return np.asarray(state.shown)
        known = {row.tobytes(): r for r, row in enumerate(state.rows + 0.0)}  # -0.0 is 0.0
        before = np.array([known.get(row.tobytes(), -1) for row in rows + 0.0])
        shown = np.zeros(state.shown.shape)
        shown[:, : len(rows)] = np.where(before < 0, state.segments.clock[:, np.newaxis], state.shown[:, before])
        return shown

    def _due(self, arms: int) -> float:
        return self.due / arms if self.memory in ("filter", "restart") else 0.0


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
