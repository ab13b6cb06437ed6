"""What a service does, without HTTP: decide, take feedback, change products, learn, and survive being killed."""

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from zoosim.core.errors import PolicyError, StoreError
from zoosim.core.parameters import shown, unknown
from zoosim.core.types import FloatArray, frozen
from zoosim.policies.base import policy_name
from zoosim.policies.boost_model import BoostModel
from zoosim.policies.model import SUFFIX, Model, name_of, save_model
from zoosim.serving.answers import decision_answer, slot_of
from zoosim.serving.bodies import (
    DecideBody,
    DecisionAnswer,
    FeedbackBody,
    ProductBody,
    SearchAnswer,
    SearchBody,
    SlotBody,
)
from zoosim.serving.catalogue import Candidates, ServedCatalogue
from zoosim.serving.current import Current
from zoosim.serving.events import (
    Decision,
    Feedback,
    Kind,
    NewRow,
    Row,
    Search,
    Start,
    activation_key,
    decision_key,
    feedback_key,
    pack,
    pack_floats,
    pack_whole,
    unpack,
    unpack_raw,
    unpack_whole,
)
from zoosim.serving.folder import keep_model_file, lock_folder, secret_of
from zoosim.serving.fresh import EXPLORATION, compile_policy
from zoosim.serving.growth import Growth
from zoosim.serving.join import MICROSECONDS
from zoosim.serving.products import Products
from zoosim.serving.ranker import Drawn, Slot, Units, draw
from zoosim.serving.refusals import Busy, Conflict, NotFound, Outcome
from zoosim.serving.replica import WARM_UP, rules_of
from zoosim.serving.searches import check_search_rewards, rank, search_answer
from zoosim.serving.settings import Settings
from zoosim.serving.starting import first_start
from zoosim.serving.store.address import open_store
from zoosim.serving.upkeep import Upkeep
from zoosim.serving.writer import Writer

REPEATED = 150
"""Seconds within which the same values for a decision, sent without an id, are a repetition."""

logger = logging.getLogger("zoosim.serving")

Asked = TypeVar("Asked", DecideBody, SearchBody)
Answer = TypeVar("Answer", DecisionAnswer, SearchAnswer)


class Service:
    """Decides by a model, logs what it decides, and takes in what it earned.

    All methods are called in one thread, that of the event loop. Several services may share a log on a server: what one
    of them stored, each of them goes by.

    Attributes:
        current: What it decides by.
        upkeep: What it does beside requests.
        counts: What happened to requests.
        delay: Seconds that requests wait for their turn.
    """

    def __init__(self, settings: Settings, model_file: Path | None, loop: asyncio.AbstractEventLoop) -> None:
        """Open the folder, take up the state that was left there, and begin with a model.

        Args:
            settings: How the service runs.
            model_file: The model; None for the one that the log names last, or to grow one from the first requests
                where there is none.
            loop: The event loop in which the service is used.

        Raises:
            ConfigError: the folder cannot be used, or another service uses it.
            DataError: the model, or the log, is broken.
        """
        self.address = settings.address._replace(folder=settings.address.folder.resolve())
        self.folder = self.address.folder
        self.started = time.time()
        self.counts: Counter[str] = Counter()
        self.delay = 0.0
        self._id_prefix = secrets.token_hex(12)
        self._ids_made = 0
        self._loop = loop
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, lock_folder(self.folder))
            self._store = opened.enter_context(contextlib.closing(open_store(self.address)))
            self._reader = opened.enter_context(contextlib.closing(open_store(self.address, read_only=True)))
            self._store.fetch(self.folder)
            self._secret = secret_of(self.folder, self._store)
            self._warn_of_the_clock()
            self.current = Current(self.address, settings, self._store, self._reader)
            self.current.begin(partial(first_start, self.current, settings, model_file))
            if self.is_warming_up:
                compile_policy()
            self.model.prepare()
            self._opened = opened.pop_all()
        self._growth = Growth(self, loop)
        self._in_flight: dict[str, asyncio.Future[None]] = {}
        self._writer = Writer(self._store, loop, settings.sync == "all")
        self._products = Products(self.current, self._writer, self._now)
        self.upkeep = Upkeep(self.current, self._store, self._reader, self._writer, self._now)

    @property
    def settings(self) -> Settings:
        """How it runs now."""
        return self.current.settings

    @property
    def model(self) -> Model:
        """The model that decides."""
        return self.current.model

    @property
    def catalogue(self) -> ServedCatalogue:
        """The products."""
        return self.current.catalogue

    @property
    def start(self) -> Start:
        """What the log says of the model and the rules."""
        return self.current.start

    @property
    def failure(self) -> str:
        """Why the log cannot be written now; empty when it can."""
        return self._writer.failure

    @property
    def waiting(self) -> int:
        """How many requests wait for the log."""
        return self._writer.waiting + self.current.waiting

    @property
    def is_warming_up(self) -> bool:
        """Whether there is no schema yet: requests are logged as they come, until there are enough to infer one."""
        return WARM_UP in self.model.facts

    async def decide(
        self, body: DecideBody, slots: Sequence[SlotBody] = (), request: bytes | None = None
    ) -> DecisionAnswer:
        """Decide what to show, and log it before it is answered.

        Args:
            body: The request.
            slots: What to fill, where slots differ; else `count` of the body says how many are alike.
            request: The hash of the request, where the body is not all of it.

        Raises:
            Busy: too many requests wait.
            Conflict: the decision's id was used for another request.
            PolicyError: a candidate is unknown, comes twice or may not be shown; or there is none; or the model ranks
                searches.
            StoreError: the log cannot be written.
        """
        if isinstance(self.model, BoostModel):
            raise PolicyError("decisions: this model ranks searches by boosts; send them to /v1/searches")
        return await self._answered(body, partial(self._decided, slots), request)

    async def search(self, body: SearchBody) -> SearchAnswer:
        """Rank the results of a search, and log how before it is answered.

        Raises:
            Busy, Conflict, StoreError: as `decide`.
            PolicyError: a candidate, the segment or the query type is unknown, or a candidate comes twice; or the
                model decides on products.
        """
        if not isinstance(self.model, BoostModel):
            raise PolicyError("searches: this model decides on products; send its decisions to /v1/decisions")
        return await self._answered(body, self._ranked)

    async def _answered(
        self,
        body: Asked,
        make: Callable[[Asked, bytes, str], Awaitable[tuple[Decision | Search, Answer]]],
        request: bytes | None = None,
    ) -> Answer:
        """Return the stored answer of a request that came before, or that of a new record, once it is stored."""
        self._check_room()
        request = request or _hash_of(body)
        decision_id = body.decision_id or self._new_id()
        async with self._claimed(decision_id):
            if body.decision_id is not None:
                earlier: Answer | None = await self._earlier_answer(body, request)
                if earlier is not None:
                    return earlier
            record, answer = await make(body, request, decision_id)
            kind = Kind.SEARCH if isinstance(record, Search) else Kind.DECISION
            row = NewRow(self._now(), kind, decision_key(decision_id), pack(record))
            self.upkeep.note_decision(row.time)
            (position,) = await self._append(row)
            if position is None:  # the same id came in another way meanwhile
                stored_answer: Answer = await self._earlier_answer(body, request)
                return stored_answer
        self.counts["decisions"] += 1
        return answer

    @contextlib.asynccontextmanager
    async def _claimed(self, decision_id: str) -> AsyncIterator[None]:
        """Let requests with the same id wait for one another."""
        while decision_id in self._in_flight:
            await asyncio.wait([self._in_flight[decision_id]])
        done = self._in_flight[decision_id] = self._loop.create_future()
        try:
            yield
        finally:
            del self._in_flight[decision_id]
            done.cancel()

    async def _decided(
        self, slots: Sequence[SlotBody], body: DecideBody, request: bytes, decision_id: str
    ) -> tuple[Decision, DecisionAnswer]:
        """Return what the log says of a new decision, and its answer; what it rests on is stored then."""
        if body.candidates is None:
            candidates = self.catalogue.everything()
        else:
            candidates = self.catalogue.candidates(await self._products.versions_of(body.candidates))
        if not candidates.names:
            raise PolicyError("candidates: got none, expected at least one product that may be shown")
        visitor = self._encoded(body.visitor)
        to_fill = self._slots(body, slots, visitor, candidates)
        drawn = self._drawn(decision_id, to_fill, candidates)
        decision = Decision(
            request=request,
            model=self.start.model,
            state=self.current.state,
            visitor_id=body.visitor_id,
            visitor=pack_floats(visitor),
            versions=pack_whole(candidates.versions),
            propensities=pack_floats(drawn.propensities),
            shown=drawn.shown,
            chances=drawn.chances,
            deferred=body.defer,
            slots=[slot.id for slot in slots],
            visitors=[pack_floats(slot.visitor) for slot in to_fill] if slots else [],
            raw=self._growth.packed(body, slots) if self.is_warming_up else b"",
            products=[candidates.names[place] for place in drawn.shown],
            turn=self.start.turn,
            excluded=drawn.excluded,
            baseline=drawn.baseline,
        )
        return decision, decision_answer(decision_id, decision, candidates.names)

    async def _ranked(self, body: SearchBody, request: bytes, decision_id: str) -> tuple[Search, SearchAnswer]:
        """Return what the log says of a new search, and its answer."""
        assert isinstance(self.model, BoostModel)
        self._products.check_size(body.candidates)
        is_drawn = self.settings.mode == "online"
        ranked = rank(self.model, body, Units(self._secret, decision_id).generator() if is_drawn else None)
        search = Search(
            request=request,
            model=self.start.model,
            state=self.current.state,
            visitor_id=body.visitor_id,
            visitor=ranked.visitor,
            products=ranked.products,
            scores=pack_floats(ranked.scores),
            boosts=pack_floats(ranked.boosts),
            density=ranked.density,
            ranking=ranked.ranking,
            deferred=body.defer,
            turn=self.start.turn,
        )
        return search, search_answer(decision_id, search)

    async def give_feedback(self, decision_id: str, body: FeedbackBody) -> Outcome:
        """Log what a decision earned; the learner takes it in once.

        Raises:
            Busy: too many requests wait.
            NotFound: no such decision is in the log.
            PolicyError: a reward is unknown or out of range, or the product was not shown.
            StoreError: the log cannot be written; the feedback does not count then, and may be sent again.
        """
        self._check_room()
        row, decision = await self.decision(decision_id)
        if isinstance(decision, Search):
            check_search_rewards(body.rewards)
        else:
            self._check_rewards(body.rewards)
        slot = slot_of(decision, body.product)
        feedback_id = body.feedback_id or f"content {_hash_of(body).hex()}"
        now = self._now()
        event = NewRow(
            now, Kind.FEEDBACK, feedback_key(decision_id, feedback_id), pack(Feedback(dict(body.rewards), slot))
        )
        self.upkeep.note_feedback()
        (position,) = await self._append(event, durable=True)
        if position is None:
            return self._counted("duplicate")
        is_late = now > row.time + round(self.settings.wait * MICROSECONDS)
        is_earlier = decision.origin != self.start.origin
        return self._counted("late" if is_late or is_earlier else "accepted")

    async def give_value(self, decision_id: str, values: Mapping[int, float], feedback_id: str = "") -> None:
        """Log what the slots of a decision earned in units of the objective; of unknown decisions too.

        Args:
            decision_id: The decision.
            values: What each slot earned.
            feedback_id: The caller's own id; without one the same values are a repetition for some time.

        Raises:
            Busy: too many requests wait.
            PolicyError: the model ranks searches, whose rewards have names.
            StoreError: the log cannot be written; nothing counts then, and all may be sent again.
        """
        if isinstance(self.model, BoostModel):
            raise PolicyError("rewards: this model ranks searches by boosts; send feedback to /v1/searches")
        self._check_room()
        feedback_id = feedback_id or await self._id_of_values(decision_id, values)
        name, weight = next((name, weight) for name, weight in self.model.fitted.weights.items() if weight)
        rows = []
        for slot, value in values.items():
            key = feedback_key(decision_id, f"{feedback_id}/{slot}")
            rows.append(NewRow(self._now(), Kind.FEEDBACK, key, pack(Feedback({name: value / weight}, slot))))
        self.upkeep.note_feedback()
        positions = await self._writer.append(rows, durable=True)
        self._counted("duplicate" if None in positions else "accepted")

    async def activate(self, decision_id: str, known: bool = True) -> Outcome:
        """Let a deferred decision count; raises as `give_feedback`, unless it need not be `known`."""
        self._check_room()
        if known:
            await self._decision_row(decision_id)
        event = NewRow(self._now(), Kind.ACTIVATION, activation_key(decision_id), b"")
        self.upkeep.note_feedback()
        (position,) = await self._append(event, durable=True)
        return Outcome("duplicate" if position is None else "accepted")

    async def change_product(self, name: str, body: ProductBody) -> None:
        """Add a product, change its features, or say whether it may be shown.

        Raises:
            Busy: too many requests wait.
            NotFound: the product is not known, and its features are not given.
            PolicyError: features are lacking; or the model ranks searches, whose products are those of its training.
            StoreError: the log cannot be written.
        """
        self._check_room()
        await self._products.change(name, body)

    async def decision(self, decision_id: str) -> tuple[Row, Decision | Search]:
        """Return a decision, or a search, and its row; raises `NotFound`."""
        row = await self._decision_row(decision_id)
        decision = unpack(row)
        assert isinstance(decision, Decision | Search)
        return row, decision

    async def answer(self, decision_id: str, names: Sequence[str] | None = None) -> DecisionAnswer | SearchAnswer:
        """Return what was answered to a decision about candidates with these names; raises `NotFound`."""
        _, decision = await self.decision(decision_id)
        if isinstance(decision, Search):
            return search_answer(decision_id, decision)
        if names is None:
            names = await self._names_in(decision)
        return decision_answer(decision_id, decision, names)

    async def tick(self) -> None:
        """Let what is over be learned, and a policy grow where there are enough first requests."""
        self._growth.tick()
        await self.upkeep.tick()

    def lag(self) -> int:
        """Return how many rows that it stored its decisions do not know of yet."""
        return max(self._writer.position - self.current.state, 0)

    async def time_of(self, position: int) -> float:
        """Return when a row of the log came, in seconds since 1970; 0 where it is gone."""
        row = await self.current.ask(self._reader.row, position)
        return 0.0 if row is None else row.time / MICROSECONDS

    def description(self) -> dict[str, Any]:
        """Return what decides, by which rules it learns, and what came of decisions, as plain values."""
        return {
            "model": self.start.model,
            "policy": policy_name(type(self.model.policy)),
            "facts": self.model.facts,
            "rules": rules_of(self.start),
            "exploration": self.settings.exploration,
            "products": len(self.catalogue.names()),
            "state": self.current.state,
            "learned": dict(self.current.learned),
            "events": dict(self.counts),
        }

    def refuse_to_write(self, reason: str) -> None:
        """Store nothing more, since what this decides by is not what the log says any more."""
        self._writer.refuse(reason)

    def close(self) -> None:
        """Store what waits, and let go of the folder."""
        self._writer.close()
        with contextlib.suppress(StoreError):
            if self._store.leads:
                self.upkeep.share_snapshots()
        self._opened.close()

    def keep_model(self, model_file: Path) -> str:
        """Copy a model into the service's folder; return its digest. Raises `DataError` for what is no model."""
        return keep_model_file(self.folder, model_file)

    def keep(self, model: Model) -> str:
        """Keep a model; return its digest."""
        with tempfile.TemporaryDirectory() as folder:
            return self.keep_model(save_model(model, Path(folder) / f"model{SUFFIX}"))

    async def switch_model(self, digest: str, instead_of: str = "") -> None:
        """Go on with a model that is kept, as its file holds it; raises `StoreError`, or `DataError` for a bad one.

        Args:
            digest: The model.
            instead_of: Switch only while this model decides; empty for whichever does.
        """

        def switched(start: Start) -> Start:
            if instead_of and start.model != instead_of:
                return start
            return msgspec.structs.replace(start, model=digest, turn=start.turn + 1)

        await self.current.switch(self._writer, switched)

    async def change_settings(self, changes: Mapping[str, Any]) -> None:
        """Change settings for good; raises `ConfigError` for what they cannot be, or `StoreError`."""
        await self.current.change_settings(self._writer, changes)

    async def note(self, part: str, values: Mapping[str, Any]) -> None:
        """Keep values in the log, for all its services; raises `StoreError`."""
        await self.current.note(self._writer, part, values)

    def _encoded(self, columns: Mapping[str, Any]) -> FloatArray:
        return frozen(self.model.fitted.visitors.encode_one(columns))

    def _slots(
        self, body: DecideBody, slots: Sequence[SlotBody], visitor: FloatArray, candidates: Candidates
    ) -> list[Slot]:
        """Return what is to be filled; raises `PolicyError` for more slots than candidates."""
        count = len(slots) or body.count
        if count > len(candidates.names):
            raise PolicyError(f"count: got {count}, expected at most the {len(candidates.names)} candidates")
        if not slots:
            return [Slot(visitor)] * count
        places = {name: place for place, name in enumerate(candidates.names)}
        to_fill = []
        for slot in slots:
            excluded = tuple(places[name] for name in slot.excluded if name in places)
            features = self._encoded({**body.visitor, **slot.visitor})
            to_fill.append(Slot(features, places.get(slot.baseline), excluded))
        return to_fill

    def _drawn(self, decision_id: str, slots: Sequence[Slot], candidates: Candidates) -> Drawn:
        unit = Units(self._secret, decision_id)
        if self.settings.mode != "online":
            return draw(None, slots, candidates, 0.0, unit)
        if self.is_warming_up:
            return draw(None, slots, candidates, max(self.settings.exploration, EXPLORATION), unit)
        return draw(self.model.policy, slots, candidates, self.settings.exploration, unit)

    async def _earlier_answer(self, body: DecideBody | SearchBody, request: bytes) -> Any:
        """Return what was answered to a decision before, None for a new one; raises `Conflict`."""
        decision_id = body.decision_id or ""
        row = await self._row_of(decision_id)
        if row is None:
            return None
        decision = unpack(row)
        assert isinstance(decision, Decision | Search)
        if decision.request != request:
            raise Conflict(f"decision {shown(decision_id)}: is the id of another request; give each its own")
        if isinstance(decision, Search):
            return search_answer(decision_id, decision)
        if isinstance(body, DecideBody) and body.candidates is not None:
            names: Sequence[str] | None = [name_of(candidate) for candidate in body.candidates]
        else:
            names = await self._names_in(decision)
        return decision_answer(decision_id, decision, names)

    def _append(self, row: NewRow, durable: bool = False) -> "asyncio.Future[list[int | None]]":
        return self._writer.append([row], durable)

    async def _decision_row(self, decision_id: str) -> Row:
        row = await self._row_of(decision_id)
        if row is None:
            raise NotFound(f"decision {shown(decision_id)}: is not in the log; give the id that was answered")
        return row

    async def _row_of(self, decision_id: str) -> Row | None:
        return await self.current.ask(self._reader.find, decision_key(decision_id))

    async def _names_in(self, decision: Decision) -> Sequence[str] | None:
        """Return the names of a decision's candidates, None where they are not known.

        Those of earlier models are not kept; those that another service stored just now are read from the log.
        """
        if decision.raw:
            return [name for name, _ in unpack_raw(decision.raw).candidates]
        if decision.origin != self.start.origin:
            return None
        versions = unpack_whole(decision.versions).tolist()
        for version in versions:
            if version not in self.catalogue:
                row = await self.current.ask(self._reader.row, version)
                if not self.current.version_from(row, version):
                    return None
        return self.catalogue.candidates(versions).names

    async def _id_of_values(self, decision_id: str, values: Mapping[int, float]) -> str:
        """Return an id for values without one: that of the same values if they came just now, else a new one."""
        content = hashlib.blake2b(repr(sorted(values.items())).encode(), digest_size=8).hexdigest()
        slot = min(values)
        number = 0
        while True:
            key = feedback_key(decision_id, f"values {content} {number}/{slot}")
            row = await self.current.ask(self._reader.find, key)
            if row is None or self._now() - row.time <= REPEATED * MICROSECONDS:
                return f"values {content} {number}"
            number += 1

    def _check_rewards(self, rewards: Mapping[str, float]) -> None:
        """Refuse rewards that the model does not know, and an objective out of range: `PolicyError`."""
        weights = self.model.fitted.weights
        for name in rewards:
            if name not in weights:
                raise PolicyError(unknown("rewards: unknown", name, list(weights)))
        value = sum(weights[name] * reward for name, reward in rewards.items())
        if not self.settings.lowest <= value <= self.settings.highest:
            expected = f"{self.settings.lowest:g} to {self.settings.highest:g} (lowest and highest)"
            raise PolicyError(f"rewards: got an objective of {value:g}, expected {expected}")

    def _check_room(self) -> None:
        """Refuse what cannot be stored now; each tick tries whether the log can be written again."""
        if self.failure:
            raise StoreError(self.failure)
        if self.waiting >= self.settings.most_waiting or self.delay > self.settings.most_delay:
            self.counts["turned away"] += 1
            raise Busy("got more requests than can be answered now; come again in a second")

    def _counted(self, status: str) -> Outcome:
        self.counts[f"feedback {status}"] += 1
        return Outcome(status)

    def _new_id(self) -> str:
        """Return an id that no decision had: random for each start of the service, and then counted."""
        self._ids_made += 1
        return f"{self._id_prefix}-{self._ids_made:x}"

    def _now(self) -> int:
        """Return the time in microseconds since 1970."""
        return time.time_ns() // 1_000

    def _warn_of_the_clock(self) -> None:
        newest = self._reader.last()
        if newest is not None and newest.time > self._now() + MICROSECONDS:
            logger.warning("the clock was set back: time stands still until it has passed that of the log's last row")


def _hash_of(body: msgspec.Struct) -> bytes:
    """Return a hash of what a request asks for, and of which kind it is."""
    content = type(body).__name__.encode() + msgspec.json.encode(body, order="deterministic")
    return hashlib.blake2b(content, digest_size=16).digest()
