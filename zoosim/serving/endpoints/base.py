"""The contract of what a service does with requests of one action space."""

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec

from zoosim.action_spaces.registry import find_action_space, spaces_with
from zoosim.core.blame import one_line
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.policies.model import Model
from zoosim.serving.bodies import ProductBody
from zoosim.serving.clock import Clock
from zoosim.serving.current import Current, ServedArm
from zoosim.serving.events import CHAMPION, Choice
from zoosim.serving.inputs import InputCounts
from zoosim.serving.store.base import Store
from zoosim.serving.throttle import Throttle
from zoosim.serving.writer import Writer

Result = TypeVar("Result")

logger = logging.getLogger("zoosim.serving")

NO_REFUSALS: Mapping[str, PolicyError] = {}
NO_SECONDS: Mapping[str, float] = {}

TRIAL = "trial"
"""The id of a made-up decision."""


class ServiceParts(NamedTuple):
    """Parts of a service that its endpoints use.

    Attributes:
        current: What the service decides by: model, products, settings.
        reader: The log, to read.
        writer: What appends rows to the log.
        clock: The time of rows.
        secret: The bytes from which, with a decision's id, its random numbers follow.
        counts: What happened to requests.
        note_unexpressed: Called with what the schema of the model does not express of a request, packed.
        grows: Returns whether the schema takes up columns and levels of requests.
    """

    current: Current
    reader: Store
    writer: Writer
    clock: Clock
    secret: bytes
    counts: Counter[str]
    note_unexpressed: Callable[[bytes], None]
    grows: Callable[[], bool]


class Endpoint(ABC):
    """Decides on requests of one action space, answers again what the log holds, and checks what feedback says."""

    path: ClassVar[str]
    """Path to which requests are posted, such as `/v1/decisions`."""

    operation: ClassVar[str]
    """Name of such a request in the metrics of the service."""

    summary: ClassVar[str]
    """Sentence on such a request, for the API's description."""

    what: ClassVar[str]
    """Verb phrase for what its models do, to be said after "this model"."""

    body: ClassVar[type[Any]]
    """The body of a request: a `Body` with `decision_id`, `visitor_id` and `defer`."""

    answer: ClassVar[type[msgspec.Struct]]
    """The body of an answer."""

    choice: ClassVar[type[Choice]]
    """The record in the log."""

    fills_slots: ClassVar[bool] = False
    """True where it decides on pages with several slots."""

    follows_shop_rules: ClassVar[bool] = False
    """True where the rules of the shop hold for its decisions."""

    schema_grows: ClassVar[bool] = False
    """True where requests may have columns that the model does not know, for which a model grows; its records are then
    rows of the kind `DECISION`."""

    inputs: InputCounts
    """Counts of what the model was not made for; a subclass that compares requests with a schema fills them."""

    def __init__(self, parts: ServiceParts) -> None:
        self._parts = parts
        self._current = parts.current
        self._throttle = Throttle(now=parts.clock.passed)
        self.inputs = InputCounts(lambda: parts.current.start.model)

    @abstractmethod
    async def decide(self, body: Any, request: bytes, decision_id: str) -> tuple[Choice, Any]:
        """Return the record of a new decision and its answer; what the decision rests on is stored then.

        Args:
            body: The request.
            request: Its hash.
            decision_id: The id of the decision, from which its random numbers follow.

        Raises:
            PolicyError: the request cannot be decided on.
            StoreError: what the decision rests on cannot be stored.
        """

    @abstractmethod
    async def answer_again(self, decision_id: str, choice: Any, body: Any = None) -> Any:
        """Return what was answered to a decision that the log holds; `body` is the request where it came again."""

    @abstractmethod
    def check_rewards(self, rewards: Mapping[str, float]) -> None:
        """Refuse what a decision cannot earn: `PolicyError`."""

    @abstractmethod
    def try_requests(self) -> None:
        """Decide on made-up requests, so that no visitor waits for what is done only once; store nothing."""

    def reward_of_value(self, value: float) -> dict[str, float]:
        """Return the rewards by name that are worth `value` in units of the objective; raises `PolicyError`."""
        raise PolicyError(f"rewards: this model {self.what}; send its rewards by name to /v1/decisions/ID/feedback")

    def clipped(self) -> dict[str, int]:
        """Return how many requests had numbers that were clipped to the range of the training, by column."""
        return {}

    def note_stored(self, choice: Any) -> None:
        """Take note of a record that has come into the log."""
        return

    async def change_product(self, name: str, body: ProductBody) -> list[str]:
        """Add a product or change it; returns and raises as `zoosim.serving.service.Service.change_product`."""
        raise PolicyError(f"products: this model {self.what}, those that it was trained for; train it anew for others")

    def decided(
        self,
        body: Any,
        decision_id: str,
        decide: Callable[[ServedArm], Result],
        refusals: Mapping[str, PolicyError] = NO_REFUSALS,
        seconds: Mapping[str, float] = NO_SECONDS,
    ) -> tuple[ServedArm, Result]:
        """Return the arm that decides on a request, and what it decides.

        Where an arm cannot, whatever a policy of the user's own raises, the champion does.

        Args:
            body: The request.
            decision_id: The id of the decision.
            decide: Returns what an arm decides.
            refusals: Why arms cannot decide, as far as that is known.
            seconds: How long arms took already.

        Raises:
            PolicyError: the champion would have to decide, and cannot; or what its policy raised.
        """
        name = self._current.assignment.arm_for(body.visitor_id, decision_id)
        arm = self._current.arms[name]
        if name != CHAMPION and name not in refusals:
            try:
                return arm, self._counted(arm, decide, decision_id, seconds)
            except Exception as error:
                if self._throttle.allows():
                    logger.warning("arm %s leaves a decision to the champion: %s", name, one_line(error))
        if CHAMPION in refusals:
            raise refusals[CHAMPION]
        if name == CHAMPION:
            return arm, self._counted(arm, decide, decision_id, seconds)
        return self._current.champion, decide(self._current.champion)

    def _counted(
        self, arm: ServedArm, decide: Callable[[ServedArm], Result], decision_id: str, seconds: Mapping[str, float]
    ) -> Result:
        """Return what the arm that was drawn decides, and count how long that took, and whether it failed."""
        began = self._parts.clock.passed() - seconds.get(arm.name, 0.0)
        has_failed = True
        try:
            result = decide(arm)
            has_failed = False
        finally:
            if decision_id != TRIAL:
                self._current.calls.note(arm.name, self._parts.clock.passed() - began, has_failed)
        return result

    def check_model(self) -> None:
        """Refuse requests where the model that decides now is of another action space: `PolicyError`."""
        decides = endpoint_class(self._current.model)
        if decides is not type(self):
            noun = self.path.rpartition("/")[2]
            raise PolicyError(f"{noun}: this model {decides.what}; send its requests to {decides.path}")
        if not self.follows_shop_rules and self._current.settings.shop_rules.are_set:
            raise PolicyError(f"shop_rules: this model {self.what}; they hold for decisions on products alone")


def endpoint_class(model: Model) -> type[Endpoint]:
    """Return what decides by a model that a service keeps."""
    endpoint: type[Endpoint] = find_action_space(model.action_space).endpoint
    return endpoint


def answered_arm(choice: Choice) -> str:
    """Return the arm that an answer names: the champion's default text itself, since others that are equal are sent."""
    return CHAMPION if choice.arm == CHAMPION else choice.arm


class Endpoints:
    """The endpoints of a service, each made when it is first needed."""

    def __init__(self, parts: ServiceParts) -> None:
        self._parts = parts
        self._made: dict[type[Endpoint], Endpoint] = {}
        self._class_of_body = {each.body: each for each in endpoint_classes()}

    @property
    def current(self) -> Endpoint:
        """The endpoint of the model that decides."""
        return self._get(endpoint_class(self._parts.current.model))

    def for_body(self, body: Any) -> Endpoint:
        """Return the endpoint that takes a body."""
        return self._get(self._class_of_body[type(body)])

    def for_choice(self, choice: Choice) -> Endpoint:
        """Return the endpoint of the action space in which a choice was made."""
        return self._get(find_action_space(choice.action_space).endpoint)

    def _get(self, endpoint: type[Endpoint]) -> Endpoint:
        if endpoint not in self._made:
            self._made[endpoint] = endpoint(self._parts)
        return self._made[endpoint]


def endpoint_classes() -> list[type[Endpoint]]:
    """Return the endpoints of all action spaces that services decide in.

    Raises:
        ConfigError: two of them take the same requests, as those do that leave out a path or body of their own.
    """
    endpoints: list[type[Endpoint]] = [space.endpoint for space in spaces_with("endpoint")]
    for first, second in combinations(endpoints, 2):
        for part in ("path", "operation", "body", "choice"):
            if getattr(first, part) == getattr(second, part):
                names = f"{first.__name__} and {second.__name__}"
                raise ConfigError(f"action_space: {names} have one {part}, expected each its own")
    return endpoints
