"""The bodies of requests and answers; fields that are not known pass, as clients send such."""

from typing import Any

import msgspec


class PersonalizerBody(msgspec.Struct, rename="camel", omit_defaults=True):
    """A body with names as JavaScript has them; what is absent is left out."""


class Action(PersonalizerBody):
    """Something that may be shown."""

    id: str
    features: list[Any] | None = None


class RankRequest(PersonalizerBody):
    """Actions to rank; the first one is what the application would show itself."""

    actions: list[Action]
    context_features: list[Any] | None = None
    excluded_actions: list[str] | None = None
    event_id: str | None = None
    defer_activation: bool | None = None


class SlotRequest(PersonalizerBody):
    """A slot to fill; some clients call its features `positionFeatures`."""

    id: str
    baseline_action: str
    features: list[Any] | None = None
    position_features: list[Any] | None = None
    excluded_actions: list[str] | None = None


class MultiSlotRankRequest(PersonalizerBody):
    """Actions to choose from for several slots at once."""

    actions: list[Action]
    slots: list[SlotRequest]
    context_features: list[Any] | None = None
    event_id: str | None = None
    defer_activation: bool | None = None


class RankedAction(msgspec.Struct):
    """An action, and the probability with which it was to be shown."""

    id: str
    probability: float


class RankResponse(msgspec.Struct, rename="camel"):
    """Ranked actions, and the one to show."""

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str


class SlotResponse(msgspec.Struct, rename="camel"):
    """Action to show in a slot."""

    id: str
    reward_action_id: str


class MultiSlotRankResponse(msgspec.Struct, rename="camel"):
    """Actions to show, one in each slot."""

    slots: list[SlotResponse]
    event_id: str


class RewardRequest(PersonalizerBody):
    """Reward of an event."""

    value: float


class SlotReward(PersonalizerBody):
    """Reward of a slot of an event."""

    slot_id: str
    value: float


class MultiSlotRewardRequest(PersonalizerBody):
    """Rewards of slots of an event."""

    reward: list[SlotReward]


class PolicyContract(PersonalizerBody):
    """A learning policy: its name and its arguments."""

    name: str
    arguments: str
