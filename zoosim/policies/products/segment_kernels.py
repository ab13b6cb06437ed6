"""The compiled functions of linear models for each segment of visitors, part of `segment_linear`."""

from zoosim.core.jit import inlined, jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear import hypotheses
from zoosim.linear import window as windows
from zoosim.linear.dense import nonzeros
from zoosim.linear.hypotheses import foreseen
from zoosim.linear.joint import joint, with_lead
from zoosim.linear.ridge import clear, fade_by_turns, observe
from zoosim.monitoring import watch
from zoosim.policies.choice import DRAWS, best_of, draw_number, posterior_key
from zoosim.policies.kernel import Kernel
from zoosim.policies.open_decisions import hash_decision
from zoosim.policies.products.late_widths import count_decision_in_group, settle_in_group, widths_of
from zoosim.policies.products.segment_state import (
    DISCOUNT,
    FILTER,
    RESTART,
    WINDOW,
    Candidates,
    State,
    enter_product,
    enter_segment,
    last_shown,
    meet_arm,
    meet_arms,
    read_slots,
)
from zoosim.policies.products.segment_view import View, arms_of, due_arm, look, scores_of
from zoosim.policies.products.segments import find


@jit
def _first_of(arm: int, arm_of: IntArray, available: BoolArray) -> int:
    """Return the first available product of an arm, -1 if there is none."""
    for k in range(available.shape[0]):
        if arm_of[k] == arm and available[k]:
            return k
    return -1


@inlined
def _look(state: State, candidates: Candidates, user: FloatArray, available: BoolArray) -> tuple[View, int]:
    """Return what a visitor sees, and the visitor's segment.

    One who is new looks at the next segment, whose models know nothing.
    """
    read_slots(state.products, state.arms, candidates)
    s = find(state.segments, user, state.segments.clock.shape[0])
    s = s if s >= 0 else state.segments.found[0]
    leads, models, rows = candidates.leads, candidates.models, candidates.rows
    arms = arms_of(candidates.arm_of, available, leads.shape[0], rows.shape[0])
    widths, first = widths_of(state.widths, state.ridge), s * state.turns.shape[0]
    return look(state.ridge, widths, state.weights, arms, leads, models, user, first, state.sampling), s


@inlined
def _best(state: State, candidates: Candidates, view: View, available: BoolArray, draw: float) -> int:
    key = posterior_key(state.key, state.updates)
    scores = scores_of(view, candidates.rows, candidates.dense, state.alpha, state.sampling, key, draw_number(draw))
    return best_of(scores, candidates.arm_of, available)


@inlined
def _tabulate(state: State, candidates: Candidates, view: View, available: BoolArray, out: FloatArray) -> None:
    key = posterior_key(state.key, state.updates)
    draws = DRAWS if state.sampling else 1
    for i in range(draws):
        scores = scores_of(view, candidates.rows, candidates.dense, state.alpha, state.sampling, key, i)
        out[best_of(scores, candidates.arm_of, available)] += 1.0 / draws


@inlined
def _enter_visit(
    state: State, candidates: Candidates, user: FloatArray, action: int
) -> tuple[int, int, int, FloatArray, FloatArray]:
    """Count a visit that is learned from: return its segment, its number there, the product's slot, x's two sides."""
    s, arm = enter_segment(state, user), candidates.arm_of[action]
    state.updates[0] += 1
    state.segments.clock[s] += 1.0
    rows = candidates.rows.shape[0]
    slot = enter_product(state, candidates, arm)
    left, right = with_lead(candidates.leads[arm // rows], user), candidates.rows[arm % rows]
    return s, int(state.segments.clock[s]), slot, left, right


# Memories that keep all or fade are what policies have by default. Those that cut the past have kernels of their own:
# in one kernel with them, the others would take more than twice as long to compile.


@inlined
def _choose(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, draw: float
) -> int:
    view, _ = _look(state, candidates, user, available)
    return _best(state, candidates, view, available, draw)


@jit
def _distribution(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, out: FloatArray
) -> None:
    view, _ = _look(state, candidates, user, available)
    _tabulate(state, candidates, view, available, out)


@inlined
def _decided(state: State, candidates: Candidates, user_id: int, user: FloatArray, action: int) -> None:
    s, arm, segments = enter_segment(state, user), candidates.arm_of[action], state.segments
    segments.decided[s] += 1.0
    if state.ahead:
        rows, products = candidates.rows.shape[0], state.turns.shape[0]
        model = s * products + enter_product(state, candidates, arm)
        x = joint(with_lead(candidates.leads[arm // rows], user), candidates.rows[arm % rows])
        used = segments.found[0] * products
        decision = hash_decision(candidates.keys[arm], user)
        count_decision_in_group(state.widths, state.ridge, used, segments.clock, state.turns, model, x, decision)


@inlined
def _learn(state: State, candidates: Candidates, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    s, visit, slot, left, right = _enter_visit(state, candidates, user, action)
    products = state.turns.shape[0]
    model = s * products + slot
    x = joint(left, right)
    if state.kind == DISCOUNT:
        fade_by_turns(state.ridge, s * products, slot, state.turns, visit)
    observe(state.ridge, model, x, nonzeros(x), reward)
    state.last[model] = visit
    if state.ahead:
        key = candidates.keys[candidates.arm_of[action]]
        settle_in_group(state.widths, state.turns, model, x, hash_decision(key, user))


@inlined
def _due(state: State, candidates: Candidates, view: View, s: int, available: BoolArray) -> int:
    """Return the product that is due to be shown in a segment, -1 if none is."""
    decided = state.segments.decided[s]
    arm = -1
    if state.due > 0.0 and decided > 0.0:
        shown = last_shown(state.shown[s], candidates.places, decided)
        arm = due_arm(view, candidates.rows, shown, decided + 1.0, state.due / shown.shape[0])
    return _first_of(arm, candidates.arm_of, available)


@inlined
def _choose_cut(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, draw: float
) -> int:
    view, s = _look(state, candidates, user, available)
    action = _due(state, candidates, view, s, available)
    if action < 0:
        action = _best(state, candidates, view, available, draw)
    return action


@jit
def _distribution_cut(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, out: FloatArray
) -> None:
    view, s = _look(state, candidates, user, available)
    action = _due(state, candidates, view, s, available)
    if action >= 0:
        out[action] = 1.0
    else:
        _tabulate(state, candidates, view, available, out)


@inlined
def _decided_cut(state: State, candidates: Candidates, user_id: int, user: FloatArray, action: int) -> None:
    s, segments = enter_segment(state, user), state.segments
    if state.due > 0.0:
        read_slots(state.products, state.arms, candidates)
        meet_arms(state.arms, state.shown, segments, candidates.keys, candidates.places)
    segments.decided[s] += 1.0
    if state.due > 0.0:
        slot = meet_arm(state.arms, state.shown, segments, candidates.keys[candidates.arm_of[action]])
        state.shown[s, slot] = segments.decided[s]


@inlined
def _learn_cut(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    s, visit, slot, left, right = _enter_visit(state, candidates, user, action)
    ridge, products = state.ridge, state.turns.shape[0]
    model = s * products + slot
    x = joint(left, right)
    nonzero = nonzeros(x)
    if state.kind == FILTER:
        kept = (1.0 - state.hazard / candidates.leads.shape[0]) ** (visit - state.last[model])
        hypotheses.loosen(ridge, state.weights, model, kept)
        hypotheses.learn(ridge, state.weights, model, x, nonzero, reward)
    else:
        if state.kind == RESTART:
            residual = 0.5 * (1.0 + reward - foreseen(ridge, model, x, nonzero))
            if watch.observe(state.adwin, state.page_hinkley, state.glr, state.detector, model, residual):
                clear(ridge, model)
        elif state.kind == WINDOW:
            windows.slide(ridge, state.window, s, visit, left, right, model, reward)
        observe(ridge, model, x, nonzero, reward)
        if state.kind == WINDOW and visit % state.window.reward.shape[1] == 0:
            windows.renew(ridge, state.window, s, s * products, products)
    state.last[model] = visit


WHOLE = Kernel("segment_linear", _choose, _distribution, _learn, _decided)
CUT = Kernel("segment_linear_cut", _choose_cut, _distribution_cut, _learn_cut, _decided_cut)
"""The kernels of memories that keep all or fade, and of those that cut the past."""
