"""What a service does, without HTTP: decide, take feedback, change products, learn, and survive being killed."""

import asyncio
import contextlib
import hashlib
import heapq
import logging
import os
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from zoosim.core.errors import PolicyError, StoreError
from zoosim.core.parameters import shown, unknown
from zoosim.core.types import FloatArray, frozen
from zoosim.policies.base import policy_name
from zoosim.policies.boost_model import BoostModel
from zoosim.policies.model import ID, SUFFIX, Model, name_of, save_model
from zoosim.serving.bodies import (
    LONGEST_ID,
    DecideBody,
    DecisionAnswer,
    FeedbackBody,
    ProductBody,
    SearchAnswer,
    SearchBody,
    Shown,
    SlotBody,
)
from zoosim.serving.catalogue import MOST_VERSIONS, Candidates, ServedCatalogue
from zoosim.serving.changes import CHANGES, DELETED, changed_settings, read_changes, write_changes
from zoosim.serving.events import (
    Decision,
    Feedback,
    Kind,
    NewRow,
    Product,
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
    unpack_floats,
    unpack_raw,
    unpack_whole,
)
from zoosim.serving.folder import SECRET, Models, keep_model_file, lock_folder, replayed, secret_of
from zoosim.serving.fresh import EXPLORATION, compile_policy, warm_up_model
from zoosim.serving.growth import Growth
from zoosim.serving.join import MICROSECONDS
from zoosim.serving.learner import MODELS, SNAPSHOTS
from zoosim.serving.publishing import Changes, Message, take_changes, take_whole
from zoosim.serving.ranker import Drawn, Slot, Units, draw
from zoosim.serving.refusals import Busy, Conflict, NotFound, Outcome
from zoosim.serving.replica import GROWN_FROM, WARM_UP, rules_of
from zoosim.serving.searches import check_search_rewards, rank, search_answer
from zoosim.serving.settings import Settings
from zoosim.serving.snapshots import PREFIX, needed_position
from zoosim.serving.store.address import open_store
from zoosim.serving.writer import Writer

SETTINGS = "settings"
"""The part of a folder's changes that are settings."""

CHECK_LASTS = 1.0
"""Seconds for which it is known that the log can be written."""

REPEATED = 150
"""Seconds within which the same values for a decision, sent without an id, are a repetition."""

REMOVED_AT_ONCE = 10_000
"""Rows of a log that are removed in one step, so that nothing waits long for it."""

logger = logging.getLogger("zoosim.serving")

Asked = TypeVar("Asked", DecideBody, SearchBody)
Answer = TypeVar("Answer", DecisionAnswer, SearchAnswer)


class Service:
    """Decides by a model, logs what it decides, and takes in what it earned.

    All methods are called in one thread, that of the event loop; what a request decides and the place of its rows in
    the log are settled without waiting, so rows stand in the order in which they were made.
    """

    def __init__(self, settings: Settings, model_file: Path | None, loop: asyncio.AbstractEventLoop) -> None:
        """Open the folder, take up the state that was left there, and begin with a model.

        Args:
            settings: How the service runs.
            model_file: The model; None for the one that the folder's log names last, or to grow one from the first
                requests where there is none.
            loop: The event loop in which the service is used.

        Raises:
            ConfigError: the folder cannot be used, or another service uses it.
            DataError: the model, or the log, is broken.
        """
        self.address = settings.address._replace(folder=settings.address.folder.resolve())
        self.folder = self.address.folder
        self.started = time.time()
        self.counts: Counter[str] = Counter()
        self.learned: Mapping[str, int] = {}
        self.delay = 0.0
        self._knows_whole = False
        self._is_asking = False
        self._checked_at = -CHECK_LASTS
        self.ask_learner: Callable[[], None] = lambda: None
        self._id_prefix = secrets.token_hex(12)
        self._ids_made = 0
        self._loop = loop
        self._switching = asyncio.Lock()
        self._start_before: Start | None = None
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, lock_folder(self.folder))
            self._store = opened.enter_context(contextlib.closing(open_store(self.address)))
            self._reader = opened.enter_context(contextlib.closing(open_store(self.address, read_only=True)))
            self._store.fetch(self.folder)
            self.settings = changed_settings(settings, read_changes(self.folder).get(SETTINGS, {}))
            self._secret = secret_of(self.folder)
            self._models = Models(self.folder)
            self._replica, self.state, dues = replayed(self.folder, self._reader, self._models)
            self._time = 0 if (newest := self._reader.last()) is None else newest.time
            if self._time > time.time_ns() // 1_000 + MICROSECONDS:
                logger.warning(
                    "the clock was set back: time stands still until it has passed that of the log's last row"
                )
            self._unticked = True
            self._growth = Growth(self, loop)
            self._begin(model_file)
            self._opened = opened.pop_all()
        self._dues = sorted(dues)  # a heap
        self._in_flight: dict[str, asyncio.Future[None]] = {}
        self._is_failing = False
        self._writer = Writer(self._store, loop, self._undo, settings.sync == "all")

    @property
    def model(self) -> Model:
        """The model that decides."""
        return self._replica.model

    @property
    def catalogue(self) -> ServedCatalogue:
        """The products."""
        return self._replica.catalogue

    @property
    def start(self) -> Start:
        """What the log says of the model and the rules."""
        assert self._replica.start is not None
        return self._replica.start

    @property
    def failure(self) -> str:
        """Why the log cannot be written now; empty when it can."""
        return self._writer.failure

    @property
    def waiting(self) -> int:
        """How many requests wait for the log."""
        return self._writer.waiting

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
        make: Callable[[Asked, bytes, str], tuple[Decision | Search, Answer]],
        request: bytes | None = None,
    ) -> Answer:
        """Return the stored answer of a request that came before, or that of a new record, once it is stored."""
        request = request or _hash_of(body)
        if body.decision_id is not None:
            earlier: Answer | None = await self._earlier_answer(body, request)
            if earlier is not None:
                return earlier
        self._check_room()
        decision_id = body.decision_id or self._new_id()
        record, answer = make(body, request, decision_id)
        kind = Kind.SEARCH if isinstance(record, Search) else Kind.DECISION
        row = NewRow(self._now(), kind, decision_key(decision_id), pack(record))
        stored = self._append(row)
        heapq.heappush(self._dues, row.time + round(self.settings.wait * MICROSECONDS))
        (position,) = await self._acknowledge(decision_id, stored)
        if position is None:  # the same id came in another way meanwhile
            stored_answer: Answer = await self._earlier_answer(body, request)
            return stored_answer
        return answer

    def _decided(
        self, slots: Sequence[SlotBody], body: DecideBody, request: bytes, decision_id: str
    ) -> tuple[Decision, DecisionAnswer]:
        """Return what the log says of a new decision, and its answer."""
        candidates = self._candidates(body)
        visitor = self._encoded(body.visitor)
        to_fill = self._slots(body, slots, visitor, candidates)
        drawn = self._drawn(decision_id, to_fill, candidates)
        decision = Decision(
            request=request,
            model=self.start.model,
            state=self.state,
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
        return decision, _answer_of(decision_id, decision, candidates.names)

    def _ranked(self, body: SearchBody, request: bytes, decision_id: str) -> tuple[Search, SearchAnswer]:
        """Return what the log says of a new search, and its answer."""
        assert isinstance(self.model, BoostModel)
        self._check_size(body.candidates)
        is_drawn = self.settings.mode == "online"
        ranked = rank(self.model, body, Units(self._secret, decision_id).generator() if is_drawn else None)
        search = Search(
            request=request,
            model=self.start.model,
            state=self.state,
            visitor_id=body.visitor_id,
            visitor=ranked.visitor,
            products=ranked.products,
            scores=pack_floats(ranked.scores),
            boosts=pack_floats(ranked.boosts),
            density=ranked.density,
            ranking=ranked.ranking,
            deferred=body.defer,
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
        row, decision = self.decision(decision_id)
        if isinstance(decision, Search):
            check_search_rewards(body.rewards)
        else:
            self._check_rewards(body.rewards)
        slot = self._slot_of(decision, body.product)
        self._check_room()
        feedback_id = body.feedback_id or f"content {_hash_of(body).hex()}"
        now = self._now()
        event = NewRow(
            now, Kind.FEEDBACK, feedback_key(decision_id, feedback_id), pack(Feedback(dict(body.rewards), slot))
        )
        self._unticked = True
        (position,) = await self._append(event, durable=True)
        if position is None:
            return self._counted("duplicate")
        is_late = now > row.time + round(self.settings.wait * MICROSECONDS)
        is_earlier = not self._is_current(decision)
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
        feedback_id = feedback_id or self._id_of_values(decision_id, values)
        name, weight = next((name, weight) for name, weight in self.model.fitted.weights.items() if weight)
        rows = []
        for slot, value in values.items():
            key = feedback_key(decision_id, f"{feedback_id}/{slot}")
            rows.append(NewRow(self._now(), Kind.FEEDBACK, key, pack(Feedback({name: value / weight}, slot))))
        self._unticked = True
        positions = await self._writer.append(rows, durable=True)
        self._counted("duplicate" if None in positions else "accepted")

    async def activate(self, decision_id: str, known: bool = True) -> Outcome:
        """Let a deferred decision count; raises as `give_feedback`, unless it need not be `known`."""
        if known:
            self._decision_row(decision_id)
        self._check_room()
        event = NewRow(self._now(), Kind.ACTIVATION, activation_key(decision_id), b"")
        self._unticked = True
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
        if isinstance(self.model, BoostModel):
            raise PolicyError("products: this model ranks the shop that it was trained for; train it anew for others")
        self._check_room()
        name = name_of(name)
        if not 0 < len(name) <= LONGEST_ID:
            raise PolicyError(f"product: got an id of {len(name)} characters, expected 1 to {LONGEST_ID}")
        version = self.catalogue.version_of(name)
        if body.features is not None:
            features = self.model.product_features({ID: name, **body.features})
        elif version is not None:
            features = self.catalogue.features_of(version)
        else:
            raise NotFound(f"product {shown(name)}: is not in the catalogue; give its features to add it")
        available = self.catalogue.may_be_shown(name) or version is None if body.available is None else body.available
        product = Product(name, pack_floats(features), available)
        if not self.catalogue.is_current(product):
            await self._append(self._changed(product), durable=True)

    def decision(self, decision_id: str) -> tuple[Row, Decision | Search]:
        """Return a decision, or a search, and its row; raises `NotFound`."""
        row = self._decision_row(decision_id)
        decision = unpack(row)
        assert isinstance(decision, Decision | Search)
        return row, decision

    def answer(self, decision_id: str, names: Sequence[str] | None = None) -> DecisionAnswer | SearchAnswer:
        """Return what was answered to a decision about candidates with these names; raises `NotFound`."""
        _, decision = self.decision(decision_id)
        if isinstance(decision, Search):
            return search_answer(decision_id, decision)
        if names is None:
            names = self._names_in(decision)
        return _answer_of(decision_id, decision, names)

    async def tick(self) -> None:
        """Let what is over be learned: where anything may be, a row of the log says that time has passed."""
        self._growth.tick()
        now = self._now()
        while self._dues and self._dues[0] <= now:
            heapq.heappop(self._dues)
            self._unticked = True
        if not self._unticked and not self.failure:
            return
        self._unticked = False
        try:
            await self._writer.append([NewRow(now, Kind.TICK, None, b"")])
        except StoreError:
            self._unticked = True
        else:
            self._is_failing = False

    def take(self, message: Message) -> None:
        """Take over what the learner has learned."""
        if isinstance(message, Changes):
            if not self._knows_whole:
                if not self._is_asking:
                    self.ask_learner()
                self._is_asking = True
                return
            take_changes(self.model.policy, message)
        else:
            self._knows_whole = (message.model, message.rules) == (self.start.origin, self.start.rules)
            if not self._knows_whole:  # the learner has not read of the model that decides now
                return
            take_whole(self.model.policy, message)
            self._is_asking = False
        self.state = message.position
        self.learned = message.counts

    async def clean(self) -> int:
        """Share models and snapshots with other machines; remove rows of the log that the settings call old.

        Returns:
            How many rows were removed: none that is not in a snapshot which other machines find.
        """
        learned = self._reader.row(needed_position(self.folder / SNAPSHOTS))
        await self._loop.run_in_executor(None, self._share_files)
        if learned is None:
            return 0
        limits = [read_changes(self.folder).get(DELETED, {}).get("time", 0)]
        if self.settings.keep_days:
            limits.append(self._now() - self.settings.keep_days * 86_400 * MICROSECONDS)
        still_open = self._now() - round(self.settings.wait * MICROSECONDS)
        before = min(max(limits), still_open, learned.time)
        return await self._writer.run(lambda store: store.remove_before(before, REMOVED_AT_ONCE))

    def log_reach(self) -> tuple[float, float] | None:
        """Return when the first and the newest of what is logged came, in seconds; None where nothing was."""
        position = read_changes(self.folder).get(DELETED, {}).get("position", 0)
        newest = self._reader.last()
        while newest is not None and (rows := self._reader.read(position, 1_000)):
            for row in rows:
                if row.kind in (Kind.DECISION, Kind.FEEDBACK):
                    return row.time / MICROSECONDS, newest.time / MICROSECONDS
            position = rows[-1].seq
        return None

    async def delete_log(self) -> None:
        """Delete what is logged: at once for readers, from the disk once two snapshots hold what it taught."""
        newest = self._reader.last()
        if newest is not None:
            write_changes(self.folder, DELETED, {"position": newest.seq, "time": newest.time})
        await self.clean()

    def time_of(self, position: int) -> float:
        """Return when a row of the log came, in seconds since 1970; 0 where it is gone."""
        row = self._reader.row(position)
        return 0.0 if row is None else row.time / MICROSECONDS

    async def check_writing(self) -> str:
        """Return why the log cannot be written, by writing to it, at most once a second; empty when it can."""
        now = time.monotonic()
        if now - self._checked_at < CHECK_LASTS and not self.failure:
            return ""
        self._checked_at = now
        try:
            await self._write_tick()
        except StoreError as error:
            return str(error)
        return ""

    async def _write_tick(self) -> None:
        await self._writer.append([NewRow(self._now(), Kind.TICK, None, b"")], durable=True)

    def lag(self) -> int:
        """Return how many rows of the log the decisions do not know of yet."""
        return max(self._writer.position - self.state, 0)

    def description(self) -> dict[str, Any]:
        """Return what decides, by which rules it learns, and what came of decisions, as plain values."""
        return {
            "model": self.start.model,
            "policy": policy_name(type(self.model.policy)),
            "facts": self.model.facts,
            "rules": rules_of(self.start),
            "exploration": self.settings.exploration,
            "products": len(self.catalogue.names()),
            "state": self.state,
            "learned": dict(self.learned),
            "events": dict(self.counts),
        }

    def close(self) -> None:
        """Store what waits, and let go of the folder."""
        self._writer.close()
        with contextlib.suppress(StoreError):
            self._share_files()
        self._opened.close()

    def _begin(self, model_file: Path | None) -> None:
        """Note in the log by which model and rules the service goes on, where they are new."""
        before = self._replica.start
        if model_file is not None:
            digest = keep_model_file(self.folder, model_file)
        elif before is not None:
            digest = before.model
        else:
            digest = self._begin_fresh()
        turn = 0 if before is None else before.turn + (digest != before.model)
        start = Start(digest, self.settings.rules.model_dump_json().encode(), turn)
        if start != before:
            self._replica.begin(start)
            self._share_files()
            self._store.append([NewRow(self._now(), Kind.START, None, pack(start))])
            self._store.sync()
            if before is not None and before.origin != start.origin:
                self.state = 0
        if self.is_warming_up:
            compile_policy()
        self.model.prepare()

    def _begin_fresh(self) -> str:
        """Keep a model that stands in until there is a schema; return its digest."""
        rewards = {} if "lowest" in self.settings.model_fields_set else {"lowest": -1.0}
        self.settings = changed_settings(self.settings, rewards)
        write_changes(self.folder, SETTINGS, rewards)
        return self.keep(warm_up_model())

    def keep_model(self, model_file: Path) -> str:
        """Copy a model into the service's folder; return its digest. Raises `DataError` for what is no model."""
        return keep_model_file(self.folder, model_file)

    def keep(self, model: Model) -> str:
        """Keep a model; return its digest."""
        with tempfile.TemporaryDirectory() as folder:
            return self.keep_model(save_model(model, Path(folder) / f"model{SUFFIX}"))

    async def switch_model(self, digest: str) -> None:
        """Go on with a model that is kept, as its file holds it; raises `StoreError`, or `DataError` for a bad one."""
        async with self._switching:
            await asyncio.to_thread(self._models.prepare, digest)
            await self._switch(Start(digest, self.start.rules, self.start.turn + 1))

    async def change_settings(self, changes: Mapping[str, Any]) -> None:
        """Change settings for good; raises `ConfigError` for what they cannot be, or `StoreError`."""
        async with self._switching:
            settings = changed_settings(self.settings, changes)
            await self._switch(Start(self.start.model, settings.rules.model_dump_json().encode(), self.start.turn))
            self.settings = settings
            write_changes(self.folder, SETTINGS, {**read_changes(self.folder).get(SETTINGS, {}), **changes})
            await self._loop.run_in_executor(None, self._share_files)

    async def _switch(self, start: Start) -> None:
        """Note in the log by which model and rules the service goes on."""
        if start == self.start:
            return
        await self._write_tick()
        await self._loop.run_in_executor(None, self._share_files)
        before = self.start
        self._replica.begin(start)
        if start.origin != before.origin:
            self._knows_whole = False
            self.state = 0
        self._start_before = before
        try:
            await self._append(NewRow(self._now(), Kind.START, None, pack(start)), durable=True)
        finally:
            self._start_before = None

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
        while decision_id in self._in_flight:
            await asyncio.wait([self._in_flight[decision_id]])
        row = self._row_of(decision_id)
        if row is None:
            return None
        decision = unpack(row)
        assert isinstance(decision, Decision | Search)
        if decision.request != request:
            raise Conflict(f"decision {shown(decision_id)}: is the id of another request; give each its own")
        if isinstance(body, SearchBody) or body.candidates is None:
            return self.answer(decision_id)
        return self.answer(decision_id, [name_of(candidate) for candidate in body.candidates])

    async def _acknowledge(self, decision_id: str, stored: "asyncio.Future[list[int | None]]") -> list[int | None]:
        """Return where a decision is stored, once it is; others with the same id wait for it meanwhile."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._in_flight[decision_id] = done
        try:
            positions = await asyncio.shield(stored)
        finally:
            del self._in_flight[decision_id]
            done.cancel()
        self.counts["decisions"] += 1
        return positions

    def _candidates(self, body: DecideBody) -> Candidates:
        """Return a request's candidates; products that are new or have changed go to the log."""
        if body.candidates is None:
            return self._checked(self.catalogue.everything())
        self._check_size(body.candidates)
        products = [self._product_of(candidate) for candidate in body.candidates]
        names = [name for name, _ in products]
        if len(set(names)) < len(names):
            repeated = next(name for place, name in enumerate(names) if name in names[:place])
            raise PolicyError(f"candidates: got {shown(repeated)} twice, expected each once")
        for _, product in products:
            if product is not None:
                _heed(self._append(self._changed(product)))
        versions = [self.catalogue.version_of(name) for name in names]
        return self._checked(self.catalogue.candidates(v for v in versions if v is not None))

    def _check_size(self, candidates: Sized) -> None:
        if len(candidates) > self.settings.most_candidates:
            expected = f"at most {self.settings.most_candidates:,}"
            raise PolicyError(f"candidates: got {len(candidates):,}, expected {expected}")

    def _product_of(self, candidate: str | int | dict[str, Any]) -> tuple[str, Product | None]:
        """Return a candidate's name, and the product where its features are given and new; raises `PolicyError`."""
        if isinstance(candidate, str) and self.catalogue.may_be_shown(candidate):
            return candidate, None
        name = name_of(candidate)
        encoder = self.model.fitted.products
        if GROWN_FROM in self.model.facts:  # of columns that the first requests had, later ones may lack some
            columns = candidate if isinstance(candidate, dict) else {}
            candidate = {**dict.fromkeys(encoder.names), ID: name, **columns}
        is_shown = self.catalogue.may_be_shown(name)
        if not is_shown and self.catalogue.version_of(name) is not None:
            raise PolicyError(f"candidates: got {shown(name)}, which may not be shown (available: false)")
        if isinstance(candidate, dict) and not candidate.keys().isdisjoint(encoder.names):
            product = Product(name, pack_floats(self.model.product_features(candidate)), True)
            return name, None if self.catalogue.is_current(product) else product
        if is_shown:
            return name, None
        return name, Product(name, pack_floats(self.model.product_features(candidate)), True)

    def _checked(self, candidates: Candidates) -> Candidates:
        if not candidates.names:
            raise PolicyError("candidates: got none, expected at least one product that may be shown")
        return candidates

    def _changed(self, product: Product) -> NewRow:
        """Take over a product, and return the row of it, which must go to the log next; raises `PolicyError`."""
        if len(self.catalogue) >= MOST_VERSIONS:
            raise PolicyError(
                f"products: got more than {MOST_VERSIONS:,} versions; give features that change less, or begin with "
                "another model"
            )
        self.catalogue.change(product)
        return NewRow(self._now(), Kind.PRODUCT, None, pack(product))

    def _append(self, row: NewRow, durable: bool = False) -> "asyncio.Future[list[int | None]]":
        return self._writer.append([row], durable)

    def _undo(self, changes: int, stored_after_all: Sequence[Row]) -> None:
        """Take changes back that could not be stored, and take over those that are stored after all.

        They are changes of products, and a switch to another model or other rules.
        """
        if not self._is_failing:
            logger.error("the log cannot be written: %s", self._writer.failure)
        self._is_failing = True
        before = self._start_before
        if before is not None and before.origin != self.start.origin:
            self._replica, self.state, _ = replayed(self.folder, self._reader, self._models)
            self._knows_whole = False
            return
        if before is not None:
            self._replica.begin(before)
        self.catalogue.undo(changes)
        for row in stored_after_all:
            if row.kind in (Kind.PRODUCT, Kind.START):
                self._replica.apply(row)

    def _share_files(self) -> None:
        paths = [path for path in (self.folder / SECRET, self.folder / CHANGES) if path.exists()]
        paths += (self.folder / MODELS).glob("*.zoosim")
        paths += (self.folder / SNAPSHOTS).glob(f"{PREFIX}*")
        self._store.share(self.folder, [path.relative_to(self.folder).as_posix() for path in paths])

    def _decision_row(self, decision_id: str) -> Row:
        row = self._row_of(decision_id)
        if row is None:
            raise NotFound(f"decision {shown(decision_id)}: is not in the log; give the id that was answered")
        return row

    def _row_of(self, decision_id: str) -> Row | None:
        """Return the row of a decision; raises `StoreError` also while the log and the products may not agree."""
        if self.failure:
            raise StoreError(self.failure)
        return self._reader.find(decision_key(decision_id))

    def _is_current(self, decision: Decision | Search) -> bool:
        """Whether a decision was made by the model that decides now, since it began last."""
        turn = decision.turn if isinstance(decision, Decision) else self.start.turn
        return (decision.model, turn) == (self.start.model, self.start.turn)

    def _names_in(self, decision: Decision) -> Sequence[str] | None:
        """Return the names of a decision's candidates, None for one of an earlier model, whose products are not kept.

        Raises `StoreError` for products that another service added.
        """
        if decision.raw:
            return [name for name, _ in unpack_raw(decision.raw).candidates]
        if not self._is_current(decision):
            return None
        versions = unpack_whole(decision.versions)
        if versions.max() >= len(self.catalogue):
            raise StoreError("decision: is of another service, which has taken the log over; send requests to that one")
        return self.catalogue.candidates(versions.tolist()).names

    def _slot_of(self, decision: Decision | Search, product: str | int | None) -> int:
        """Return at which place from the top a product was shown; raises `PolicyError` where it was not."""
        products: Sequence[str]
        if isinstance(decision, Search):
            products = decision.ranked
        elif product is None:
            return 0
        else:
            products = decision.products
        if product is None:
            raise PolicyError("product: got none, expected the one of the ranking that was clicked or bought")
        name = name_of(product)
        if name not in products:
            raise PolicyError(unknown("product: was not shown", name, products))
        return products.index(name)

    def _id_of_values(self, decision_id: str, values: Mapping[int, float]) -> str:
        """Return an id for values without one: that of the same values if they came just now, else a new one."""
        content = hashlib.blake2b(repr(sorted(values.items())).encode(), digest_size=8).hexdigest()
        slot = min(values)
        number = 0
        while row := self._reader.find(feedback_key(decision_id, f"values {content} {number}/{slot}")):
            if self._now() - row.time <= REPEATED * MICROSECONDS:
                break
            number += 1
        return f"values {content} {number}"

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
        if self._writer.waiting >= self.settings.most_waiting or self.delay > self.settings.most_delay:
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
        """Return the time in microseconds since 1970; it never goes back."""
        self._time = max(self._time, time.time_ns() // 1_000)
        return self._time


def _heed(stored: "asyncio.Future[list[int | None]]") -> None:
    """Let nobody wait for rows: if they are lost, so is what comes behind them, for which somebody waits."""
    stored.add_done_callback(lambda done: done.cancelled() or done.exception())


def _hash_of(body: msgspec.Struct) -> bytes:
    """Return a hash of what a request asks for, and of which kind it is."""
    content = type(body).__name__.encode() + msgspec.json.encode(body, order="deterministic")
    return hashlib.blake2b(content, digest_size=16).digest()


def _answer_of(decision_id: str, decision: Decision, names: Sequence[str] | None) -> DecisionAnswer:
    """Return what is answered; without the candidates' `names`, with the probabilities of what was shown alone."""
    propensities = unpack_floats(decision.propensities).tolist()
    if names is None:
        known = [(name, propensities[place]) for name, place in zip(decision.products, decision.shown, strict=True)]
    else:
        known = list(zip(names, propensities, strict=True))
    shown_products = zip(decision.products, decision.chances, strict=True)
    return DecisionAnswer(
        decision_id=decision_id,
        shown=[Shown(name, chance) for name, chance in shown_products],
        propensities=dict(known),
        model=decision.model,
        state=decision.state,
    )
