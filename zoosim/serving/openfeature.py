"""Feature flags whose variants a service chooses: a provider for OpenFeature's Python SDK.

An evaluation of a flag is a decision of the service: its candidates are the flag's variants, the evaluation context is
what is known of the visitor, and the variant's exact probability comes back beside its value. Tracking is feedback.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import (
    FlagNotFoundError,
    GeneralError,
    InvalidContextError,
    OpenFeatureError,
    ProviderFatalError,
    TypeMismatchError,
)
from openfeature.flag_evaluation import FlagResolutionDetails, FlagType, FlagValueType, Reason
from openfeature.provider import AbstractProvider, Metadata
from openfeature.track import TrackingEventDetails

from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown, unknown
from zoosim.serving.client import Client, ServiceError
from zoosim.serving.client_answers import Decision

VISIT = "visit_id"
"""The attribute of a context that names the visit: within one, a flag is decided once."""

DECISION, FEEDBACK = "decision_id", "feedback_id"
"""Attributes of a tracking event: which decision it is about, and its own id, with which it counts once."""

MOST_VISITORS = 10_000
"""Targeting keys whose newest decisions a provider remembers, for tracking events that name no decision."""

Structure = Sequence[FlagValueType] | Mapping[str, FlagValueType]
Variants = Mapping[str, FlagValueType] | Sequence[str]
"""What a flag may come to: values by variant, or variants that are their own values."""

KINDS: Mapping[FlagType, tuple[type, ...]] = {
    FlagType.BOOLEAN: (bool,),
    FlagType.STRING: (str,),
    FlagType.INTEGER: (int,),
    FlagType.FLOAT: (float,),
    FlagType.OBJECT: (dict, list),
}
"""The types of values that each kind of flag has, as the SDK checks them."""

logger = logging.getLogger("zoosim.openfeature")


class OpenFeatureProvider(AbstractProvider):
    """Flags whose variants a service chooses.

    The context's targeting key is the visitor's id, its attributes are the columns of the visitor. Each evaluation is a
    decision of its own, unless the context names the visit (`visit_id`). Its flag metadata has `decision_id`,
    `propensity`, `arm` and `model`.
    """

    def __init__(
        self, url: str, flags: Mapping[str, Variants], key: str = "", timeout: float = 5.0, loop: str = ""
    ) -> None:
        """Name the service, and what flags may come to.

        Args:
            url: Where the service listens, such as `http://127.0.0.1:8100`.
            flags: Variants by flag. The service knows a variant by its name, as a candidate.
            key: The service's key, where it has one.
            timeout: Seconds that one try may take; see `Client`.
            loop: The name of the loop that decides, where the service has several.

        Raises:
            ConfigError: the URL is none, the key cannot be sent, or a flag has no variants.
        """
        super().__init__()
        self._flags = {flag: _values_of(flag, variants) for flag, variants in flags.items()}
        self._client = Client(url, key, timeout, loop)
        self._newest = _NewestDecisions()

    def get_metadata(self) -> Metadata:
        """Return the provider's name."""
        return Metadata(name="zoosim")

    def shutdown(self) -> None:
        """Close the connections."""
        self._client.close()

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Decide on a flag whose variants are true or false."""
        return self._resolve(flag_key, evaluation_context, FlagType.BOOLEAN)

    async def resolve_boolean_details_async(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Do the same from an event loop."""
        return await asyncio.to_thread(self._resolve, flag_key, evaluation_context, FlagType.BOOLEAN)

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        """Decide on a flag whose variants are texts."""
        return self._resolve(flag_key, evaluation_context, FlagType.STRING)

    async def resolve_string_details_async(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        """Do the same from an event loop."""
        return await asyncio.to_thread(self._resolve, flag_key, evaluation_context, FlagType.STRING)

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        """Decide on a flag whose variants are whole numbers."""
        return self._resolve(flag_key, evaluation_context, FlagType.INTEGER)

    async def resolve_integer_details_async(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        """Do the same from an event loop."""
        return await asyncio.to_thread(self._resolve, flag_key, evaluation_context, FlagType.INTEGER)

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """Decide on a flag whose variants are numbers."""
        return self._resolve(flag_key, evaluation_context, FlagType.FLOAT)

    async def resolve_float_details_async(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """Do the same from an event loop."""
        return await asyncio.to_thread(self._resolve, flag_key, evaluation_context, FlagType.FLOAT)

    def resolve_object_details(
        self, flag_key: str, default_value: Structure, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[Structure]:
        """Decide on a flag whose variants are lists or mappings."""
        return self._resolve(flag_key, evaluation_context, FlagType.OBJECT)

    async def resolve_object_details_async(
        self, flag_key: str, default_value: Structure, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[Structure]:
        """Do the same from an event loop."""
        return await asyncio.to_thread(self._resolve, flag_key, evaluation_context, FlagType.OBJECT)

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Send an event as a reward of that name; what the service refuses is a line of the log `zoosim.openfeature`.

        Args:
            tracking_event_name: The reward, as the model's schema names it.
            evaluation_context: Whose event it is, by the targeting key. Where the details name no decision, the event
                counts for the newest decision of this provider on each flag for that visitor.
            tracking_event_details: Its `value` is the reward, 1 where left out; the attributes `decision_id` and
                `feedback_id` name the decision and the event.
        """
        details = tracking_event_details or TrackingEventDetails()
        value = 1.0 if details.value is None else details.value
        event_id = details.attributes.get(FEEDBACK)
        if DECISION in details.attributes:
            decision_ids = [str(details.attributes[DECISION])]
        else:
            decision_ids = self._newest.of(_visitor_id(evaluation_context))
        if not decision_ids:
            logger.warning("%s: there is no decision that it is about; name one by %s", tracking_event_name, DECISION)
        for decision_id in decision_ids:
            feedback_id = None if event_id is None else f"{event_id}"
            try:
                self._client.give_feedback(decision_id, {tracking_event_name: value}, feedback_id=feedback_id)
            except (ServiceError, ConfigError) as error:
                logger.warning("%s of %s: %s", tracking_event_name, decision_id, error)

    def _resolve(self, flag: str, context: EvaluationContext | None, kind: FlagType) -> FlagResolutionDetails[Any]:
        """Return a decision on a flag; raises `OpenFeatureError`, for which the SDK takes the default."""
        if flag not in self._flags:
            raise FlagNotFoundError(unknown("flag", flag, list(self._flags)))
        # Before anything is decided: a decision that nobody sees would teach that it earns nothing.
        values = {variant: _as_kind(value, kind, flag) for variant, value in self._flags[flag].items()}
        decision = self._decide(flag, list(values), context)
        visitor_id = _visitor_id(context)
        if visitor_id:
            self._newest.add(visitor_id, flag, decision.id)
        return FlagResolutionDetails(
            value=values[decision.product],
            variant=decision.product,
            reason=Reason.SPLIT,
            flag_metadata={
                DECISION: decision.id,
                "propensity": decision.propensity,
                "arm": decision.arm,
                "model": decision.model,
            },
        )

    def _decide(self, flag: str, variants: Sequence[str], context: EvaluationContext | None) -> Decision:
        attributes = dict(context.attributes) if context else {}
        visit = attributes.pop(VISIT, None)
        visitor = {name: _column(value) for name, value in attributes.items()}
        decision_id = None if visit is None else f"{visit}/{flag}"
        try:
            return self._client.decide(visitor, variants, decision_id=decision_id, visitor_id=_visitor_id(context))
        except ConfigError as error:
            raise InvalidContextError(str(error)) from None
        except ServiceError as error:
            raise _refusal(error) from None


class _NewestDecisions:
    """The newest decision on each flag of the visitors who came last; threads may share it."""

    def __init__(self) -> None:
        self._of_visitor: OrderedDict[str, dict[str, str]] = OrderedDict()
        self._lock = Lock()

    def add(self, visitor_id: str, flag: str, decision_id: str) -> None:
        """Remember a decision."""
        with self._lock:
            self._of_visitor.setdefault(visitor_id, {})[flag] = decision_id
            self._of_visitor.move_to_end(visitor_id)
            if len(self._of_visitor) > MOST_VISITORS:
                self._of_visitor.popitem(last=False)

    def of(self, visitor_id: str) -> list[str]:
        """Return a visitor's newest decisions, one per flag."""
        with self._lock:
            return list(self._of_visitor.get(visitor_id, {}).values())


def _values_of(flag: str, variants: Variants) -> dict[str, FlagValueType]:
    if isinstance(variants, str) or not variants:
        raise ConfigError(f"flags: {flag}: got {shown(variants)}, expected variants, such as ['grid', 'list']")
    if isinstance(variants, Mapping):
        return dict(variants)
    return {variant: variant for variant in variants}


def _as_kind(value: FlagValueType, kind: FlagType, flag: str) -> FlagValueType:
    """Return a variant's value as a kind of flag has it; raises `TypeMismatchError`."""
    if kind is FlagType.FLOAT and type(value) is int:
        return float(value)
    if type(value) not in KINDS[kind]:
        raise TypeMismatchError(f"{flag}: got a variant with the value {shown(value)}, expected {kind.lower()}")
    return value


def _visitor_id(context: EvaluationContext | None) -> str:
    return (context.targeting_key if context else None) or ""


def _column(value: Any) -> Any:
    """Return what a column of a visitor holds for an attribute: times as texts."""
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def _refusal(error: ServiceError) -> OpenFeatureError:
    """Return the error of OpenFeature that a refusal is: of the context, of the key, or of the moment."""
    if error.status in (400, 409, 413):
        return InvalidContextError(str(error))
    if error.status in (401, 403):
        return ProviderFatalError(str(error))
    return GeneralError(str(error))
