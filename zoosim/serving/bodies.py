"""The bodies of requests and answers; what does not fit them is refused before anything is done."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from zoosim.core.digests import short_hash
from zoosim.serving.events import CHAMPION
from zoosim.serving.ids import Id, OptionalId

Number = Annotated[float, Meta(ge=-1e9, le=1e9)]
Scalar = None | bool | int | float | str
Value = Scalar | list[Scalar]
"""Type of the values in a column of a table."""


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A body of a request: fields that it does not have are refused."""


class DecideBody(Body):
    """A request for a decision on products.

    Fields:
        visitor: What is known of the visitor and the request, by column; what is left out counts as missing.
        candidates: Ids of products, or mappings of an `id` and the columns of a product's features. Left out: all
            products that may be shown, or what a policy that retrieves finds among them.
        count: How many to show, from the top.
        decision_id: The caller's own id, so that a repeated request gets the same answer; made where left out.
        visitor_id: Who the visitor is, so that visits of one are kept together, and can be deleted.
        defer: Whether the decision counts only once it is activated.
        pinned: Products that stand at a place whatever the policy says, by place, 1 being the top.
        forbidden: Products that may not be shown.
    """

    visitor: dict[str, Value] = {}
    # `product_id` checks ids: msgspec 0.22 corrupts memory where a text with a pattern or a mapping may come.
    candidates: list[str | int | dict[str, Value]] | None = None
    count: Annotated[int, Meta(ge=1, le=1000)] = 1
    decision_id: Id | None = None
    visitor_id: OptionalId = ""
    defer: bool = False
    pinned: dict[Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,3}\Z")], Id] = {}
    forbidden: list[Id] = []

    @property
    def pins(self) -> dict[int, str]:
        """Pinned products by place, as numbers."""
        return {int(place): product for place, product in self.pinned.items()}


class SlotBody(msgspec.Struct):
    """A slot that differs from others: what is known of it, what the shop would show there, and what must not be."""

    id: str
    visitor: dict[str, Value]
    baseline: str
    excluded: list[str]


class Shown(msgspec.Struct):
    """A product to show, and the probability that it stands there, given those above it."""

    product: str
    propensity: float


class DecisionAnswer(msgspec.Struct, omit_defaults=True):
    """Products to show, from the top; `propensities` are the probabilities of all candidates to stand at the top.

    `ignored` are candidates that could not be shown, since they are unknown and not described, or hidden: the decision
    was made among the others, and they have probability 0. Absent where there are none. `arm` is the one that decided,
    by whose policy the probabilities are; absent for the champion. `warnings` say in a line each what of the request
    the model was not made for, such as a column that it does not know; absent where nothing is. `pinned` are places, 1
    being the top, that show pinned products; `barred` are candidates that a rule of the shop kept back, by rule, and
    `lifted` the rules that did not hold, as they left nothing; absent where there are none.
    """

    decision_id: str
    shown: list[Shown]
    propensities: dict[str, float]
    model: str
    state: int
    ignored: list[str] = []
    arm: str = CHAMPION
    warnings: list[str] = []
    pinned: list[int] = []
    barred: dict[str, list[str]] = {}
    lifted: list[str] = []


class SearchVisitor(Body):
    """A visitor who searches; tastes count as 0 where they are left out."""

    segment: str
    query_type: str
    price_taste: Number | UnsetType = UNSET
    label_taste: Number | UnsetType = UNSET


class ScoredProduct(Body):
    """A product that a search may show, and its score by the base ranker."""

    id: Id | int
    score: Number


class SearchBody(Body):
    """A search whose results are to be ranked.

    Fields:
        visitor: What is known of the visitor and the query.
        candidates: The base ranker's score of each product that may be shown, by id or as a list.
        decision_id, visitor_id, defer: As in `DecideBody`.
    """

    visitor: SearchVisitor
    candidates: dict[Id, Number] | list[ScoredProduct]
    decision_id: Id | None = None
    visitor_id: OptionalId = ""
    defer: bool = False


class SearchAnswer(msgspec.Struct, omit_defaults=True):
    """A ranking, from the top, and the boosts that made it; `density` is theirs, null where they were not drawn.

    `ignored` are candidates that the model does not know: the others were ranked. Absent where there are none. `arm`
    and `warnings` are as in `DecisionAnswer`.
    """

    decision_id: str
    ranking: list[str]
    boosts: list[float]
    density: float | None
    model: str
    state: int
    ignored: list[str] = []
    arm: str = CHAMPION
    warnings: list[str] = []


class FeedbackBody(Body):
    """Rewards that a decision earned.

    Fields:
        rewards: Rewards by name, those of the model's schema; of a search `click` and `purchase`, 0 or 1.
        product: Which of the products that were shown earned it; the first where left out. Of a search always named.
        feedback_id: The caller's own id: feedback with the same one counts once. Where left out, feedback with the same
            content counts once.
    """

    rewards: Annotated[dict[str, Number], Meta(min_length=1)]
    product: Id | int | None = None
    feedback_id: Id | None = None


class FeedbackAnswer(msgspec.Struct):
    """Outcome of feedback: `accepted`, a `duplicate`, or `late`, which is logged and not learned."""

    status: str


class ProductBody(Body):
    """A product: the columns of its features, or whether it may be shown, or both."""

    features: dict[str, Value] | None = None
    available: bool | None = None


class ProductAnswer(msgspec.Struct):
    """Lines on what of a product's features the model was not made for."""

    warnings: list[str]


class DeploymentBody(Body):
    """A change of what decides.

    Fields:
        action: "launch" a model as a new arm, let it be a "shadow", which decides for nobody, give an arm another
            "share", "promote" it to be the champion, "rollback" to the champion of before, or take the share of a
            challenger, "retire" an arm, "freeze" and "unfreeze" learning, of one arm or of all, "pause" and "resume"
            the launch, or set the "rules" of the shop.
        arm: The name of the arm; of a new one its role where it is left out.
        model: The digest of the model to launch, as `POST /v1/models` answers it; that of the shadow which `arm` names
            where it is left out.
        share: The share of the visitors for whom the arm decides; a challenger that is launched without one gets the
            shares of the plan, as long as the guardrails hold.
        role: The role of a new arm: "challenger", or "holdback", which learns nothing.
        who: Who makes the change.
        why: Why.
        change_id: The caller's own id, so that a change that is sent again is made once.
        plan: The plan of a launch, as in `zoosim.monitoring.launch_plan.Plan`; its defaults where it is left out.
        sticky: What a new arm is drawn for: a "visitor", who keeps it, or each "event", that is each decision, anew.
        forecasts: What is forecast of the model to launch, as in `zoosim.core.forecasts.Forecast`.
        rules: The rules of the shop, as in `zoosim.serving.shop_rules.settings.ShopRules`: they take the place of all.
    """

    action: Literal[
        "launch", "shadow", "share", "promote", "rollback", "retire", "freeze", "unfreeze", "pause", "resume", "rules"
    ]
    arm: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,40}\Z")] = ""
    model: Annotated[str, Meta(pattern=r"^[0-9a-f]{0,64}\Z")] = ""
    share: Annotated[float, Meta(ge=0, le=1)] | None = None
    role: Literal["challenger", "holdback"] = "challenger"
    who: Annotated[str, Meta(max_length=100)] = ""
    why: Annotated[str, Meta(max_length=1000)] = ""
    change_id: OptionalId = ""
    plan: dict[str, Any] | None = None
    sticky: Literal["visitor", "event"] = "visitor"
    forecasts: list[dict[str, Any]] = []
    rules: dict[str, Any] | None = None


class AnnotationBody(Body):
    """What happened to a shop, for its history: a campaign, an outage, a delivery that came late.

    Fields:
        what: What happened.
        time: When, as ISO 8601 with its zone; now where it is left out.
        who: Who tells it.
        why: What else there is to say.
        annotation_id: The caller's own id, so that one that is sent again is logged once.
    """

    what: Annotated[str, Meta(min_length=1, max_length=200)]
    time: Annotated[str, Meta(max_length=40)] = ""
    who: Annotated[str, Meta(max_length=100)] = ""
    why: Annotated[str, Meta(max_length=1000)] = ""
    annotation_id: OptionalId = ""


class ErrorAnswer(msgspec.Struct):
    """Reason for refusing a request."""

    error: str


def openapi_schemas(bodies: Sequence[type[msgspec.Struct]]) -> dict[str, Any]:
    """Return these bodies, and those that all services have, as OpenAPI has them, by name."""
    types = [
        *bodies,
        FeedbackBody,
        FeedbackAnswer,
        ProductBody,
        ProductAnswer,
        DeploymentBody,
        AnnotationBody,
        ErrorAnswer,
    ]
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return dict(components)


def hash_of(body: msgspec.Struct) -> bytes:
    """Return a hash of what a request asks for, and of which kind it is."""
    # Sorted, since a client that sends a request again may write the same columns in another order.
    content = type(body).__name__.encode() + msgspec.json.encode(body, order="deterministic")
    return short_hash(content, 16)
