"""Rank and reward: requests of Personalizer as decisions and feedback of the service."""

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from zoosim.core.digests import short_hash
from zoosim.policies.model import ID
from zoosim.serving.bodies import DecideBody, DecisionAnswer, SlotBody
from zoosim.serving.ids import why_no_id
from zoosim.serving.personalizer.bodies import (
    Action,
    MultiSlotRankRequest,
    MultiSlotRankResponse,
    MultiSlotRewardRequest,
    RankedAction,
    RankRequest,
    RankResponse,
    RewardRequest,
    SlotRequest,
    SlotResponse,
)
from zoosim.serving.personalizer.errors import PersonalizerError
from zoosim.serving.personalizer.features import FeatureError, action_columns, columns_of, product_name
from zoosim.serving.refusals import NotFound
from zoosim.serving.service import Service

MOST_ACTIONS = 50

INVALID_RANK, INVALID_REWARD = "InvalidRankRequest", "InvalidRewardRequest"
INVALID_ACTIVATION = "InvalidEventIdToActivate"


async def rank(service: Service, request: RankRequest) -> RankResponse:
    """Decide which action to show."""
    _check_event(request.event_id)
    _check_actions(request.actions)
    excluded_ids = set(request.excluded_actions or ())
    included_actions = [action for action in request.actions if action.id not in excluded_ids]
    if not included_actions:
        raise PersonalizerError(INVALID_RANK, "Excluded actions should not be all actions.")
    decide = _decide_body(service, request, included_actions)
    answer = await service.decide(decide, request=_hash_of(request), takes_any_columns=True)
    top_product = answer.shown[0].product
    return RankResponse(
        ranking=_ranking(request.actions, excluded_ids | _ignored(request.actions, answer), answer),
        event_id=answer.decision_id,
        reward_action_id=next(action.id for action in included_actions if product_name(action.id) == top_product),
    )


async def rank_slots(service: Service, request: MultiSlotRankRequest) -> MultiSlotRankResponse:
    """Decide which action to show in each slot; each draws from what the slots above it leave."""
    _check_event(request.event_id)
    _check_actions(request.actions)
    _check_slots(request)
    decide = _decide_body(service, request, request.actions)
    slots = [_slot_body(slot) for slot in request.slots]
    answer = await service.decide(decide, _hash_of(request), slots=slots, takes_any_columns=True)
    id_of = {product_name(action.id): action.id for action in request.actions}
    responses = [
        SlotResponse(slot.id, id_of[shown.product]) for slot, shown in zip(request.slots, answer.shown, strict=True)
    ]
    return MultiSlotRankResponse(responses, answer.decision_id)


async def reward(service: Service, event_id: str, request: RewardRequest, request_id: str) -> None:
    """Take in what an event earned; events that nobody ranked are logged, and earn nothing."""
    _check_id(event_id, INVALID_REWARD)
    _check_value(request.value)
    await service.give_value(event_id, {0: request.value}, request_id)


async def reward_slots(service: Service, event_id: str, request: MultiSlotRewardRequest, request_id: str) -> None:
    """Take in what slots of an event earned."""
    _check_id(event_id, INVALID_REWARD)
    if not request.reward:
        raise PersonalizerError(INVALID_REWARD, "Reward should have at least one slot.")
    slots = await _slots_of(service, event_id)
    values = {}
    for number, slot_reward in enumerate(request.reward):
        _check_value(slot_reward.value)
        if slots is not None and slot_reward.slot_id not in slots:
            raise PersonalizerError(INVALID_REWARD, f"Slot {slot_reward.slot_id!r} is none of the event's.")
        place = number if slots is None else slots.index(slot_reward.slot_id)
        if place in values:
            raise PersonalizerError(INVALID_REWARD, "Slot ids must be unique.")
        values[place] = slot_reward.value
    await service.give_value(event_id, values, request_id)


async def activate(service: Service, event_id: str) -> None:
    """Activate a deferred event."""
    _check_id(event_id, INVALID_ACTIVATION)
    await service.activate(event_id, known=False)


def _decide_body(
    service: Service, request: RankRequest | MultiSlotRankRequest, actions: Sequence[Action]
) -> DecideBody:
    return DecideBody(
        visitor=_columns(request.context_features),
        candidates=[_candidate(service, action) for action in actions],
        decision_id=request.event_id or uuid.uuid4().hex,
        defer=bool(request.defer_activation),
    )


def _candidate(service: Service, action: Action) -> str | dict[str, Any]:
    """Return an action as a product, with None for columns that it lacks; by its name where it lacks all."""
    try:
        features = action_columns(action.features)
    except FeatureError as error:
        raise PersonalizerError(INVALID_RANK, str(error)) from None
    if not features:
        raise PersonalizerError(INVALID_RANK, "Every action should have at least one non-null action feature.")
    name = product_name(action.id)
    columns = service.model.fitted.products.names
    if features.keys().isdisjoint(columns) and service.catalogue.may_be_shown(name) and not service.is_warming_up:
        return name
    # A service leaves columns that a request does not name as they were. Here an action is what its request says of it
    # and nothing else, so what it lacks is named as missing.
    return {**dict.fromkeys(columns), **features, ID: name}


def _slot_body(slot: SlotRequest) -> SlotBody:
    return SlotBody(
        id=slot.id,
        visitor=_columns(slot.features or slot.position_features),
        baseline=product_name(slot.baseline_action),
        excluded=[product_name(excluded) for excluded in slot.excluded_actions or ()],
    )


def _columns(features: list[Any] | None) -> dict[str, Any]:
    try:
        return columns_of(features)
    except FeatureError as error:
        raise PersonalizerError(INVALID_RANK, str(error)) from None


def _ranking(actions: Sequence[Action], excluded: set[str], answer: DecisionAnswer) -> list[RankedAction]:
    """Return all actions: the one to show, then by probability; what is excluded stays in its place with 0."""
    top_product = answer.shown[0].product
    included_ids = [action.id for action in actions if action.id not in excluded]
    included_ids.sort(key=lambda id: (product_name(id) != top_product, -answer.propensities[product_name(id)]))
    order = iter(included_ids)
    ranking = []
    for action in actions:
        if action.id in excluded:
            ranking.append(RankedAction(action.id, 0.0))
        else:
            action_id = next(order)
            ranking.append(RankedAction(action_id, answer.propensities[product_name(action_id)]))
    return ranking


def _ignored(actions: Sequence[Action], answer: DecisionAnswer) -> set[str]:
    """Return the ids of actions that could not be shown, as the service hides them."""
    ignored = set(answer.ignored)
    return {action.id for action in actions if product_name(action.id) in ignored}


async def _slots_of(service: Service, event_id: str) -> list[str] | None:
    """Return the ids of an event's slots, None for an event that nobody ranked."""
    try:
        _, decision = await service.decision(event_id)
    except NotFound:
        return None
    return decision.slots


def _check_actions(actions: Sequence[Action]) -> None:
    if not 1 <= len(actions) <= MOST_ACTIONS:
        raise PersonalizerError(INVALID_RANK, f"Action count should be between 1 and {MOST_ACTIONS}.")
    if not all(action.id for action in actions):
        raise PersonalizerError(INVALID_RANK, "Action ids must not be empty.")
    _check_ids(product_name(action.id) for action in actions)
    if len({product_name(action.id) for action in actions}) < len(actions):
        raise PersonalizerError(INVALID_RANK, "Action ids must be unique.")


def _check_slots(request: MultiSlotRankRequest) -> None:
    slots = request.slots
    actions = {action.id for action in request.actions}
    if not 1 <= len(slots) <= len(actions):
        raise PersonalizerError(INVALID_RANK, "Slots count should be between 1 and the number of actions")
    _check_ids(slot.id for slot in slots if slot.id)
    if not all(slot.id for slot in slots) or _repeats(slot.id for slot in slots):
        raise PersonalizerError(INVALID_RANK, "Slot ids must be unique, and not empty.")
    if _repeats(slot.baseline_action for slot in slots):
        raise PersonalizerError(INVALID_RANK, "BaselineActions must be unique.")
    for slot in slots:
        if slot.baseline_action not in actions:
            raise PersonalizerError(INVALID_RANK, "BaselineAction should be one of the actions.")
        if slot.baseline_action in (slot.excluded_actions or ()):
            raise PersonalizerError(INVALID_RANK, "BaselineAction cannot be part of ExcludedActions.")


def _repeats(values: Iterable[str]) -> bool:
    return any(count > 1 for count in Counter(values).values())


def _check_event(event_id: str | None) -> None:
    if event_id is None:
        return
    if not event_id:
        raise PersonalizerError(INVALID_RANK, "EventId should be non-empty or null.")
    _check_id(event_id, INVALID_RANK)


def _check_id(event_id: str, code: str) -> None:
    reason = why_no_id(event_id)
    if reason:
        raise PersonalizerError(code, f"EventId: {reason}.")


def _check_ids(ids: Iterable[str]) -> None:
    """Refuse ids of actions and slots that the log is not to keep: `PersonalizerError`."""
    for each in ids:
        reason = why_no_id(each)
        if reason:
            raise PersonalizerError(INVALID_RANK, f"Actions and slots: {reason}.")


def _check_value(value: float) -> None:
    if not -1.0 <= value <= 1.0:
        raise PersonalizerError(INVALID_REWARD, f"Reward value should be between -1 and 1, got {value:g}.")


def _hash_of(request: RankRequest | MultiSlotRankRequest) -> bytes:
    content = msgspec.json.encode([type(request).__name__, request], order="deterministic")
    return short_hash(content, 16)
