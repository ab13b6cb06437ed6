"""The events of a service, in the order of its log: what the state of its policy is a function of.

A row of the log has a position, counted from 1, a time that never goes back, a kind, a key that comes once, and a body.
Bodies are MessagePack, written and read by these records, without executing anything.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import msgspec
import numpy as np

from zoosim.action_spaces.registry import find_action_space
from zoosim.core.action_space import BOOSTS, PRODUCTS
from zoosim.core.digests import short_hash
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray, IntArray


class Kind(IntEnum):
    """Kind of a row of the log."""

    START = 1
    DECISION = 2
    FEEDBACK = 3
    ACTIVATION = 4
    TICK = 5
    PRODUCT = 6
    SEARCH = 7
    CHOICE = 8
    ANNOTATION = 9


class NewRow(NamedTuple):
    """A row to append: `key` is None for what may come any number of times."""

    time: int
    kind: Kind
    key: bytes | None
    body: bytes


class _RowValues(NamedTuple):
    """The values of a row; `Row` has, beside them, room for the record that is read from its body."""

    seq: int
    time: int
    kind: Kind
    key: bytes | None
    body: bytes


class Row(_RowValues):
    """A row of the log, at its position `seq`; `time` is in microseconds since 1970."""

    @cached_property
    def record(self) -> Any:
        """The record in its body, decoded once for all who read the row; see `unpack`, and change nothing in it."""
        try:
            record: Any = ROW_KINDS[self.kind].decode(self.body)
            return _choice_of(*record) if self.kind is Kind.CHOICE else record
        except (msgspec.MsgspecError, KeyError, ConfigError) as error:
            raise DataError(f"log of the service: row {self.seq:,} cannot be read ({error})") from None


CHAMPION, CHALLENGER, HOLDBACK, PREVIOUS, SHADOW = "champion", "challenger", "holdback", "previous", "shadow"
"""Roles of arms, of which the first and the fourth are names, too: the champion decides for whom the others leave, a
challenger is tried, a holdback learns nothing, the previous champion decides for nobody, and can come back, and of a
shadow, which decides for nobody either, it is said what it would have earned."""

ROLES = (CHALLENGER, HOLDBACK)
"""Roles of an arm beside the champion that decides."""

VISITOR, EVENT = "visitor", "event"
"""What an arm is drawn for: a visitor, who keeps it, or each decision anew."""


# Records are written as arrays, without the names of their fields. So a field is only ever added behind all others,
# with a default: rows of earlier releases end before it.
class Arm(msgspec.Struct, array_like=True):
    """An arm beside the champion: the digest of its model, and the share of visitors for whom that decides.

    `turn` is as in `Start`; `sticky` says whether it is drawn for a visitor or for each decision anew.
    """

    name: str
    model: str
    share: float
    role: str
    turn: int
    sticky: str = VISITOR


class Start(msgspec.Struct, array_like=True):
    """From here on the service decides by this model, and learns by these rules.

    `model` is the digest of its file, `rules` the settings by which feedback becomes rewards, as JSON. With another
    `turn` the same model starts anew, from what its file holds. `number` counts the starts of a log: it is their key,
    so that of two services that go on from the same start one has to look again. `changes` are, by part and as JSON,
    what changed while services ran: settings, the model file that was given, gaps in time, what was deleted. `model`
    decides for whom the `arms` beside it leave; `salt` is what the draw of an arm hangs on beside a visitor's id. `who`
    made this start, and `why`.
    """

    model: str
    rules: bytes
    turn: int = 0
    number: int = 1
    changes: bytes = b"{}"
    arms: list[Arm] = []
    salt: bytes = b""
    who: str = ""
    why: str = ""

    def by_arm(self) -> dict[str, "Start"]:
        """Return the start of each arm, as if it were alone, by its name; the champion's first."""
        others = {arm.name: msgspec.structs.replace(self, model=arm.model, turn=arm.turn, arms=[]) for arm in self.arms}
        return {CHAMPION: self, **others}

    @property
    def origin(self) -> str:
        """Origin of the policy: a model, in a turn."""
        return f"{self.model}/{self.turn}"


class Unexpressed(msgspec.Struct, array_like=True):
    """Values of a request that the schema of the model does not express, from which a schema can grow.

    `visitors` are values by column for each slot, or once for all, `candidates` names, and values by column, of those
    candidates that have some.
    """

    visitors: list[dict[str, Any]]
    candidates: list[tuple[str, dict[str, Any]]]

    def visitor_in(self, slot: int) -> dict[str, Any]:
        """Return the values of the visitor in a slot."""
        if not self.visitors:
            return {}
        return self.visitors[slot if slot < len(self.visitors) else 0]


class Product(msgspec.Struct, array_like=True):
    """A product as it is from here on: its features, and whether it may be shown.

    Each such row makes a new *version* of the product, whose number is the position of the row; those that came with a
    model have numbers below 0. Decisions name versions by their numbers, so that a row is read alike for ever. `model`
    is the digest of the one that encoded the features: to others they say nothing.
    """

    name: str
    features: bytes
    available: bool
    model: str


class AppliedRules(msgspec.Struct, array_like=True):
    """What the rules of a shop did to a decision on products.

    `pinned` are the places on the page, from 0, that showed a pinned product. `barred` are places among the candidates
    that a rule kept back, by the name of the rule, and `lifted` the rules that did not hold since they left nothing.
    `per_page` are the columns with a cap on the page, and `closed` the candidates that these caps kept from each place
    on it, given those above.
    """

    pinned: list[int] = []
    barred: dict[str, list[int]] = {}
    lifted: list[str] = []
    per_page: list[str] = []
    closed: list[list[int]] = []


class Source(msgspec.Struct, array_like=True):
    """Source of a decision's candidates, where one of the arms that could have decided retrieves its own.

    `propensity` is the probability with which the decision took its candidates from it, before the arm was drawn;
    `products` is how many there were that could have been shown.
    """

    name: str
    version: str
    propensity: float
    products: int


class Choice(msgspec.Struct, array_like=True):
    """A model's choice for a request, in one action space; a subclass has the fields that this takes.

    `request` is the hash of the request, empty where what the record said of its visitor was removed; `model` the
    digest of the model, `state` the position in the log up to which its policy had learned.
    """

    action_space: ClassVar[str]
    """The name of its action space."""

    kind: ClassVar[Kind] = Kind.CHOICE
    """The kind of its row."""

    names_product: ClassVar[bool] = False
    """True where feedback must name the product that it is about."""

    request: bytes
    model: str
    state: int
    visitor_id: str

    # Fields of all of them, which stand at different places in their rows.
    @property
    def deferred(self) -> bool:
        """True if it counts only once it is activated."""
        raise NotImplementedError

    @property
    def turn(self) -> int:
        """The turn of the start that it was made under; see `Start`."""
        raise NotImplementedError

    @property
    def ignored(self) -> list[str]:
        """The candidates that could not be shown, so that it was made among the others."""
        raise NotImplementedError

    @property
    def arm(self) -> str:
        """The name of the arm that made it."""
        return CHAMPION

    @property
    def slots(self) -> list[str]:
        """The ids of the slots of the page that it filled, where these have ids."""
        return []

    @property
    def origin(self) -> str:
        """Origin of the policy that made it; see `Start`."""
        return f"{self.model}/{self.turn}"

    def is_pinned(self, part: int) -> bool:
        """Return whether a part of it was settled beforehand: nothing is learned from that."""
        return False

    @property
    def is_forgotten(self) -> bool:
        """True if what it says of its visitor was removed: nothing is learned from it any more."""
        return not self.request

    @property
    def parts(self) -> int:
        """Number of its parts, each learned for itself."""
        return 1

    @property
    def names_shown(self) -> list[str]:
        """The ids of what was shown, from the top."""
        raise NotImplementedError

    def without_visitor(self) -> Self:
        """Return it without what it says of its visitor."""
        raise NotImplementedError

    def visitor_texts(self) -> set[str]:
        """Return the texts in it that are about its visitor and stand in no column of the schema."""
        return set()

    def asked(self) -> dict[str, Any]:
        """Return what it was made for, as plain values."""
        raise NotImplementedError


class ProductDecision(Choice, array_like=True):
    """A decision on products: those shown to a visitor, and how likely each candidate was.

    `versions` are the candidates, `shown` places among them from the top, `chances` the
    probability of each given those above it, and `propensities` the distribution of the first. Where slots have names
    and features of their own, `slots` are the names and `visitors` what stands for `visitor` in each. `unexpressed` is
    a packed `Unexpressed`, or empty. `products` are the names of what was shown, and `turn` is that of the start.
    `excluded` are places among the candidates that could not stand at the top, and `baseline` is the place of what the
    shop would have shown there. Where that was shown for sure, since the policy is an apprentice, `agrees` says
    whether the policy would have shown it, too. `ignored` are candidates that the request named and that could not be
    shown, so that the decision was made among the others. `arm` made it, by whose policy `chances` and `propensities`
    are; `mixture` are the chances as they were before the arm was drawn, among those that would have decided on the
    same candidates, empty where no other would. `rules` are what the rules of the shop did, None where nothing.
    Where candidates were retrieved, `source` says how, `chances` and `propensities` are those given the candidates,
    `marginals` the probability of each product given those above it, wherever its candidates may have come from, and
    `mixture` are these before the arm was drawn.
    """

    action_space: ClassVar[str] = PRODUCTS
    kind: ClassVar[Kind] = Kind.DECISION

    visitor: bytes
    versions: bytes
    propensities: bytes
    shown: list[int]
    chances: list[float]
    deferred: bool
    slots: list[str] = []
    visitors: list[bytes] = []
    unexpressed: bytes = b""
    products: list[str] = []
    turn: int = 0
    excluded: list[int] = []
    baseline: int = 0
    agrees: bool | None = None
    ignored: list[str] = []
    arm: str = CHAMPION
    mixture: list[float] = []
    rules: AppliedRules | None = None
    source: Source | None = None
    marginals: list[float] = []

    @property
    def overall_chances(self) -> list[float]:
        """How likely each product was given those above it, over all arms and sources of candidates."""
        return self.mixture or self.marginals or self.chances

    @property
    def n_products(self) -> int:
        """Number of products that could have been shown."""
        return self.source.products if self.source else len(self.propensities) // 8

    def is_pinned(self, part: int) -> bool:
        """Return whether a pinned product was shown in a slot."""
        return self.rules is not None and part in self.rules.pinned

    def visitor_in(self, slot: int) -> bytes:
        """Return what the visitor was in a slot."""
        return self.visitors[slot] if self.visitors else self.visitor

    def version_at(self, place: int) -> int:
        """Return the version of the candidate at a place."""
        return int.from_bytes(self.versions[8 * place : 8 * place + 8], "little", signed=True)

    @property
    def parts(self) -> int:
        """Number of its parts, each learned for itself: the products that it showed."""
        return len(self.shown)

    @property
    def names_shown(self) -> list[str]:
        """The ids of what was shown, from the top."""
        return self.products

    def without_visitor(self) -> Self:
        """Return it without what it says of its visitor."""
        # The rules, too: they say what the visitor saw and bought before.
        return msgspec.structs.replace(
            self, request=b"", visitor_id="", visitor=b"", visitors=[], unexpressed=b"", ignored=[], rules=None
        )

    def visitor_texts(self) -> set[str]:
        """Return the texts in it that are about its visitor and stand in no column of the schema."""
        visitors = unpack_unexpressed(self.unexpressed).visitors
        return {value for values in visitors for value in values.values() if isinstance(value, str)}

    def asked(self) -> dict[str, Any]:
        """Return what it was made for, as plain values."""
        return {
            "visitor": unpack_floats(self.visitor).tolist(),
            "versions": unpack_whole(self.versions).tolist(),
        }


class SearchDecision(Choice, array_like=True):
    """A ranking of the results of a search, and all that it takes to make the request again.

    `turn` is as in `ProductDecision`. `visitor` is what the request said of the visitor,
    `products` and `scores` are the candidates, `boosts` what ranked them, `density` that of the boosts, None where they
    were not drawn, and `ranking` places among the candidates from the top. `ignored` and `arm` are as in
    `ProductDecision`; `mixture` is the density before the arm was drawn, None where no other could have made it.
    """

    action_space: ClassVar[str] = BOOSTS
    kind: ClassVar[Kind] = Kind.SEARCH
    names_product: ClassVar[bool] = True

    visitor: dict[str, str | float]
    products: list[str]
    scores: bytes
    boosts: bytes
    density: float | None
    ranking: list[int]
    deferred: bool
    turn: int = 0
    ignored: list[str] = []
    arm: str = CHAMPION
    mixture: float | None = None

    @property
    def names_shown(self) -> list[str]:
        """The ids of what was shown, from the top."""
        return [self.products[place] for place in self.ranking]

    def without_visitor(self) -> Self:
        """Return it without what it says of its visitor."""
        return msgspec.structs.replace(self, request=b"", visitor_id="", visitor={})

    def asked(self) -> dict[str, Any]:
        """Return what it was made for, as plain values."""
        scores = unpack_floats(self.scores).tolist()
        return {"visitor": self.visitor, "candidates": dict(zip(self.products, scores, strict=True))}


class Feedback(msgspec.Struct, array_like=True):
    """Rewards, by name, of a product that was shown; `slot` is its place from the top."""

    rewards: dict[str, float]
    slot: int


class Annotation(msgspec.Struct, array_like=True):
    """What happened to the shop at a time, in microseconds since 1970, as `who` tells, and what else there is to say.

    Nothing follows from it: it stands in the history, and the console marks it.
    """

    time: int
    what: str
    who: str = ""
    why: str = ""


DECISION_KEY, FEEDBACK_KEY, ACTIVATION_KEY, START_KEY, ANNOTATION_KEY = b"d", b"f", b"a", b"s", b"n"


def start_key(number: int) -> bytes:
    """Return the key of a start."""
    return START_KEY + str(number).encode()


def decision_key(decision_id: str) -> bytes:
    """Return the key of a decision."""
    return DECISION_KEY + decision_id.encode()


def feedback_key(decision_id: str, feedback_id: str) -> bytes:
    """Return the key of a feedback, which names its decision: `decision_of` reads it."""
    name = decision_id.encode()
    return FEEDBACK_KEY + len(name).to_bytes(2, "big") + name + feedback_id.encode()


def activation_key(decision_id: str) -> bytes:
    """Return the key of an activation."""
    return ACTIVATION_KEY + decision_id.encode()


def annotation_key(annotation_id: str) -> bytes:
    """Return the key of an annotation."""
    return ANNOTATION_KEY + annotation_id.encode()


def decision_of(row: Row) -> str:
    """Return the id of the decision that a row is, or is about."""
    key = row.key or b""
    if row.kind is Kind.FEEDBACK:
        stop = 3 + int.from_bytes(key[1:3], "big")
        return key[3:stop].decode()
    return key[1:].decode()


def renamed_key(row: Row, decision_id: str, feedback_id: str) -> bytes:
    """Return the key of a row with other ids: that of its decision, and of feedback its own."""
    if row.kind is Kind.FEEDBACK:
        return feedback_key(decision_id, feedback_id)
    key = row.key or b""
    return key[:1] + decision_id.encode()


def feedback_id_of(row: Row) -> str:
    """Return the id of a feedback."""
    key = row.key or b""
    return key[3 + int.from_bytes(key[1:3], "big") :].decode()


def without_gap(rows: Iterable[Row], expected: int | None = None) -> Iterator[Row]:
    """Yield rows that begin at an expected position, or anywhere; raises `DataError` where one is missing."""
    for row in rows:
        if row.seq != (expected or row.seq):
            raise DataError(f"log of the service: row {expected:,} is missing; restore a backup")
        expected = row.seq + 1
        yield row


class RowKind:
    """A kind of rows: the method of a `Projection` that takes them, and the record that they hold."""

    def __init__(self, handler: str, record: Any = None) -> None:
        """Describe a kind of row.

        Args:
            handler: The name of the method.
            record: The type of the record; None where time and key say all.
        """
        self.handler = handler
        self.has_record = record is not None
        self.decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(record or None).decode


ROW_KINDS = {
    Kind.START: RowKind("on_start", Start),
    Kind.DECISION: RowKind("on_choice", ProductDecision),
    Kind.FEEDBACK: RowKind("on_feedback", Feedback),
    Kind.ACTIVATION: RowKind("on_activation"),
    Kind.TICK: RowKind("on_tick"),
    Kind.PRODUCT: RowKind("on_product", Product),
    Kind.SEARCH: RowKind("on_choice", SearchDecision),
    Kind.CHOICE: RowKind("on_choice", tuple[str, msgspec.Raw]),
    Kind.ANNOTATION: RowKind("on_annotation", Annotation),
}
"""All kinds of rows; a new one is an entry here, and a handler in each projection that needs it."""

CHOICES = tuple(kind for kind, row_kind in ROW_KINDS.items() if row_kind.handler == "on_choice")
"""Rows that say what was chosen; `CHOICE` is that of all action spaces of other packages."""

_encode = msgspec.msgpack.Encoder(order="sorted").encode
_unexpressed_decoder = msgspec.json.Decoder(Unexpressed)


def pack_unexpressed(values: Unexpressed) -> bytes:
    """Return what a schema does not express as bytes, with whole numbers of any size; empty for nothing."""
    return msgspec.json.encode(values) if any(values.visitors) or values.candidates else b""


def unpack_unexpressed(packed: bytes) -> Unexpressed:
    """Return what `pack_unexpressed` packed; raises `DataError` for what it did not."""
    if not packed:
        return Unexpressed([], [])
    try:
        return _unexpressed_decoder.decode(packed)
    except msgspec.MsgspecError as error:
        raise DataError(f"log of the service: a request cannot be read ({error})") from None


def pack(body: msgspec.Struct) -> bytes:
    """Return a record as bytes; before a choice in an action space of another package stands the name of that."""
    if isinstance(body, Choice) and body.kind is Kind.CHOICE:
        return _encode((body.action_space, body))
    return _encode(body)


def unpack(row: Row) -> Any:
    """Return the record that a row holds, of the type that its kind has; raises `DataError` for what is none."""
    return row.record


def _choice_of(name: str, packed: msgspec.Raw) -> Choice:
    """Return a choice in the action space of this name; raises `MsgspecError` or `ConfigError`."""
    endpoint = find_action_space(name).endpoint
    if endpoint is None:
        raise ConfigError(f"action_space: no service decides on {name}")
    choice: Choice = msgspec.msgpack.decode(packed, type=endpoint.choice)
    return choice


def pack_floats(values: FloatArray) -> bytes:
    """Return numbers as bytes, 8 each, the same on every machine."""
    return np.ascontiguousarray(values, "<f8").tobytes()


def unpack_floats(packed: bytes) -> FloatArray:
    """Return the numbers of `pack_floats`."""
    return np.frombuffer(packed, "<f8")


def pack_whole(values: IntArray) -> bytes:
    """Return whole numbers as bytes, 8 each."""
    return np.ascontiguousarray(values, "<i8").tobytes()


def unpack_whole(packed: bytes) -> IntArray:
    """Return the numbers of `pack_whole`."""
    return np.frombuffer(packed, "<i8").astype(np.int64)


def row_checksum(row: Row) -> bytes:
    """Return the checksum that is stored beside a row: no flipped bit of it goes unnoticed."""
    head = f"{row.seq} {row.time} {int(row.kind)} ".encode()
    key = b"-" if row.key is None else len(row.key).to_bytes(4, "big") + row.key
    return short_hash(head + key + row.body)
