"""The compiled functions of linear models for each segment of visitors, part of `segment_linear`."""

from zoosim.core.jit import inlined, jit
from zoosim.core.types import BoolArray, FloatArray
from zoosim.linear.dense import nonzeros
from zoosim.linear.joint import joint, with_lead
from zoosim.linear.ridge import fade_by_turns, observe
from zoosim.policies.choice import DRAWS, best_of, draw_number, posterior_key
from zoosim.policies.kernel import Kernel
from zoosim.policies.open_decisions import hash_decision
from zoosim.policies.products.late_widths import count_decision_in_group, settle_in_group, widths_of
from zoosim.policies.products.segment_state import (
    SegmentCandidates,
    SegmentState,
    enter_product,
    enter_segment,
    read_slots,
)
from zoosim.policies.products.segment_view import VisitorModels, arms_of, look, scores_of
from zoosim.policies.products.segments import find


@inlined
def _look(state: SegmentState, candidates: SegmentCandidates, user: FloatArray, available: BoolArray) -> VisitorModels:
    """Return what a visitor sees of the models of its segment.

    One who is new looks at the next segment, whose models know nothing.
    """
    read_slots(state.products, candidates)
    s = find(state.segments, user, state.segments.clock.shape[0])
    s = s if s >= 0 else state.segments.found[0]
    leads = candidates.leads
    models = candidates.models
    rows = candidates.rows
    arms = arms_of(candidates.arm_of, available, leads.shape[0], rows.shape[0])
    widths = widths_of(state.widths, state.ridge)
    first = s * state.turns.shape[0]
    return look(state.ridge, widths, arms, leads, models, user, first, state.sampling)


@inlined
def _features_of(candidates: SegmentCandidates, user: FloatArray, arm: int) -> FloatArray:
    """Return the joint features of an arm for a visitor: left (x) right."""
    rows = candidates.rows.shape[0]
    return joint(with_lead(candidates.leads[arm // rows], user), candidates.rows[arm % rows])


@inlined
def _choose(
    state: SegmentState,
    candidates: SegmentCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    draw: float,
) -> int:
    view = _look(state, candidates, user, available)
    key = posterior_key(state.key, state.updates)
    scores = scores_of(view, candidates.rows, candidates.dense, state.alpha, state.sampling, key, draw_number(draw))
    return best_of(scores, candidates.arm_of, available)


@jit
def _distribution(
    state: SegmentState,
    candidates: SegmentCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    out: FloatArray,
) -> None:
    view = _look(state, candidates, user, available)
    key = posterior_key(state.key, state.updates)
    draws = DRAWS if state.sampling else 1
    for i in range(draws):
        scores = scores_of(view, candidates.rows, candidates.dense, state.alpha, state.sampling, key, i)
        out[best_of(scores, candidates.arm_of, available)] += 1.0 / draws


@inlined
def _decided(
    state: SegmentState,
    candidates: SegmentCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    action: int,
) -> None:
    segments = state.segments
    s = enter_segment(state, user)
    arm = candidates.arm_of[action]
    segments.decided[s] += 1.0
    if state.ahead:
        products = state.turns.shape[0]
        model = s * products + enter_product(state, candidates, arm)
        x = _features_of(candidates, user, arm)
        used = segments.found[0] * products
        decision = hash_decision(candidates.keys[arm], user)
        count_decision_in_group(state.widths, state.ridge, used, segments.clock, state.turns, model, x, decision)


@inlined
def _learn(
    state: SegmentState, candidates: SegmentCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    s = enter_segment(state, user)
    arm = candidates.arm_of[action]
    state.updates[0] += 1
    state.segments.clock[s] += 1.0
    slot = enter_product(state, candidates, arm)
    first = s * state.turns.shape[0]
    model = first + slot
    x = _features_of(candidates, user, arm)
    if state.fades:
        # Before `observe`, which finds the age of the model that is learning set by it.
        fade_by_turns(state.ridge, first, slot, state.turns, int(state.segments.clock[s]))
    observe(state.ridge, model, x, nonzeros(x), reward)
    if state.ahead:
        settle_in_group(state.widths, state.turns, model, x, hash_decision(candidates.keys[arm], user))


KERNEL = Kernel("segment_linear", _choose, _distribution, _learn, _decided)
