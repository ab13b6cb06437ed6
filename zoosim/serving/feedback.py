"""Feedback: what decisions earned, checked against what was shown, and logged once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from zoosim.core.digests import short_hash
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import PolicyError, StoreError
from zoosim.core.parameters import shown, unknown
from zoosim.serving.bodies import FeedbackBody, hash_of
from zoosim.serving.clock import Clock
from zoosim.serving.current import Current
from zoosim.serving.endpoints.base import Endpoints
from zoosim.serving.events import Choice, Feedback, Kind, NewRow, Row, activation_key, feedback_key, pack
from zoosim.serving.ids import product_id
from zoosim.serving.logged import LoggedDecisions
from zoosim.serving.refusals import Acknowledgement, Conflict
from zoosim.serving.upkeep import Upkeep
from zoosim.serving.writer import Writer

REPEATED = 150
"""Seconds within which the same values for a decision, sent without an id, are a repetition."""


class FeedbackLog:
    """Logs what decisions earned; methods are those of `Service`, which says what they do and refuse.

    Attributes:
        rewards: What decisions earned by arm and reward since the service started, as far as this one was told.
    """

    def __init__(
        self,
        current: Current,
        endpoints: Endpoints,
        logged: LoggedDecisions,
        writer: Writer,
        upkeep: Upkeep,
        clock: Clock,
    ) -> None:
        self._current = current
        self._endpoints = endpoints
        self._logged = logged
        self._writer = writer
        self._upkeep = upkeep
        self._clock = clock
        self.rewards: Counter[tuple[str, str]] = Counter()

    async def give(self, decision_id: str, body: FeedbackBody) -> Acknowledgement:
        """Log what a decision earned, by reward."""
        row, decision = await self._logged.get(decision_id)
        self._endpoints.for_choice(decision).check_rewards(body.rewards)
        slot = _slot_of(decision, body.product)
        feedback_id = body.feedback_id or f"content {hash_of(body).hex()}"
        now = self._clock.now()
        key = feedback_key(decision_id, feedback_id)
        record = pack(Feedback(dict(body.rewards), slot))
        self._upkeep.note_feedback()
        # On the disk before it is acknowledged: a client that has its answer does not send it again.
        new_row = NewRow(now, Kind.FEEDBACK, key, record)
        (position,) = await self._writer.append([new_row], durable=True)
        if position is None:
            # Only a row that is there can refuse feedback: so the log is asked after the append, and two requests at
            # once need no lock.
            earlier = await self._logged.find(key)
            if earlier is not None and earlier.body != record:
                raise Conflict(f"feedback {shown(feedback_id)}: is the id of other feedback; give each its own")
            return Acknowledgement("duplicate")
        self._note([new_row], [position])
        self.rewards.update({(decision.arm, name): reward for name, reward in body.rewards.items()})
        # A forecast for the caller. What counts is the time that the row got in the log, and the rules there.
        is_late = now > row.time + round(self._current.settings.wait * MICROSECONDS)
        is_earlier = not self._current.learns_from(decision)
        return Acknowledgement("late" if is_late or is_earlier else "accepted")

    async def give_value(self, decision_id: str, values: Mapping[int, float], feedback_id: str = "") -> Acknowledgement:
        """Log what the slots of a decision earned in units of the objective; of unknown decisions too."""
        rewards = {slot: self._endpoints.current.reward_of_value(value) for slot, value in values.items()}
        feedback_id = feedback_id or await self._id_of_values(decision_id, values)
        rows = []
        for slot, reward in rewards.items():
            key = feedback_key(decision_id, f"{feedback_id}/{slot}")
            rows.append(NewRow(self._clock.now(), Kind.FEEDBACK, key, pack(Feedback(reward, slot))))
        self._upkeep.note_feedback()
        positions = await self._writer.append(rows, durable=True)
        self._note(rows, positions)
        return Acknowledgement("duplicate" if None in positions else "accepted")

    async def activate(self, decision_id: str, known: bool = True) -> Acknowledgement:
        """Log that a deferred decision counts."""
        if known:
            await self._logged.row(decision_id)
        event = NewRow(self._clock.now(), Kind.ACTIVATION, activation_key(decision_id), b"")
        self._upkeep.note_feedback()
        (position,) = await self._writer.append([event], durable=True)
        self._note([event], [position])
        return Acknowledgement("duplicate" if position is None else "accepted")

    def _note(self, rows: Sequence[NewRow], positions: Sequence[int | None]) -> None:
        """Let what was stored just now count for visitors, before the log is read that far."""
        for row, position in zip(rows, positions, strict=True):
            if position is not None:
                # What is stored is acknowledged, also where its decision cannot be looked up now.
                with suppress(StoreError):
                    self._current.history.apply(Row(position, *row))

    async def _id_of_values(self, decision_id: str, values: Mapping[int, float]) -> str:
        """Return an id for values without one: that of the same values if they came just now, else a new one."""
        content = short_hash(repr(sorted(values.items())).encode()).hex()
        slot = min(values)
        number = 0
        while True:
            key = feedback_key(decision_id, f"values {content} {number}/{slot}")
            row = await self._logged.find(key)
            if row is None or self._clock.now() - row.time <= REPEATED * MICROSECONDS:
                return f"values {content} {number}"
            number += 1


def _slot_of(choice: Choice, product: str | int | None) -> int:
    """Return at which place from the top a product was shown; raises `PolicyError` where it was not."""
    if product is None:
        if choice.names_product:
            raise PolicyError("product: got none, expected the one of the ranking that was clicked or bought")
        return 0
    products = choice.names_shown
    name = product_id(product)
    if name not in products:
        raise PolicyError(unknown("product: was not shown", name, products))
    return products.index(name)
