"""State that a service decides by: its model, products, rules and settings, as its log says."""

import asyncio
import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import DataError, StoreError
from zoosim.policies.model import Model
from zoosim.serving.arm_replica import ArmReplica, rules_of
from zoosim.serving.arms import Assignment
from zoosim.serving.candidate_sources import CandidateSource, source_of
from zoosim.serving.catalogue import ServedCatalogue
from zoosim.serving.clock import Clock
from zoosim.serving.console.watch import Figures
from zoosim.serving.events import (
    CHAMPION,
    SHADOW,
    Choice,
    Kind,
    NewRow,
    Product,
    Row,
    Start,
    pack,
    start_key,
    unpack,
    without_gap,
)
from zoosim.serving.folder import Models, model_path, newest_snapshot
from zoosim.serving.launches.arm_calls import ArmCalls
from zoosim.serving.launches.report import FailedCheck, LaunchReport
from zoosim.serving.launches.state import launch_in
from zoosim.serving.projection import ROWS_AT_ONCE, Projection, rows_of
from zoosim.serving.publishing import Message, News, StateChanges, take_changes, take_whole
from zoosim.serving.replica import Replica
from zoosim.serving.settings import Settings, changed_settings
from zoosim.serving.shadows.report import ShadowReport
from zoosim.serving.shop_rules.history import VisitorHistory
from zoosim.serving.store.address import Address
from zoosim.serving.store.base import Store
from zoosim.serving.unconfirmed import UnconfirmedDecisions
from zoosim.serving.writer import Writer

SETTINGS = "settings"
"""The part of the changes in a log that are settings."""

FIRST_TICK = MICROSECONDS
"""Microseconds after which a service ticks for feedback that another took in, which ticks by itself while it lives."""

CHECKED_AT_ONCE = 20
"""Visitors of whom it is looked up at each tick whether they were forgotten: of 200,000 within 17 minutes."""

Answer = TypeVar("Answer")

logger = logging.getLogger("zoosim.serving")


class ServedArm:
    """An arm as it decides now: by what the log says of it, and by what the learner says it has learned.

    Attributes:
        origin: What its policy began from.
        state: The position in the log up to which the policy has learned.
        learned: What came of its decisions, by the learner's account.
    """

    def __init__(self, replica: ArmReplica, state: int) -> None:
        """Decide by a replica, whose policy has learned up to a position in the log."""
        self.origin = replica.origin
        self.state = state
        self.learned: Mapping[str, int] = {}
        self.is_asking = False
        self._replica = replica
        self._unconfirmed = UnconfirmedDecisions(replica.learning.moved_by)
        self._knows_whole = False
        self._source: CandidateSource | None = None

    @property
    def source(self) -> CandidateSource:
        """Source of the candidates of requests that name none."""
        if self._source is None:
            self._source = source_of(self.model.policy, self.catalogue)
        return self._source

    @property
    def name(self) -> str:
        """Its name, which changes where it is promoted."""
        return self._replica.name

    @property
    def start(self) -> Start:
        """Newest start in the log, with the model of the arm and the rules."""
        return self._replica.start

    @property
    def model(self) -> Model:
        """The model that decides."""
        return self._replica.model

    @property
    def catalogue(self) -> ServedCatalogue:
        """The products, as the model encodes them."""
        return self._replica.catalogue

    def is_of(self, replica: ArmReplica) -> bool:
        """Return whether it decides by a replica, as that is now."""
        return self._replica is replica and self.origin == replica.origin

    def note_decision(self, position: int, decision: Choice) -> None:
        """Apply a stored decision to the local clocks until the learner confirms it."""
        policy = self.model.policy
        # The learner may have told of the row already, before the writer's answer to it arrived here.
        if not policy.clocks or position <= self.state or decision.origin != self.origin or not self._replica.learns:
            return
        self._unconfirmed.note(policy, position, decision)

    def take_version(self, row: Row | None, version: int) -> None:
        """Take over an older version of a product from its row, if that is it."""
        if row is not None and row.seq == version and row.kind is Kind.PRODUCT:
            self._replica.change_product(row, unpack(row))

    def take(self, message: Message) -> bool:
        """Take over what was learned; return whether that could be, or was news of a state that is not known here."""
        policy = self.model.policy
        if isinstance(message, StateChanges):
            # The arm may have had another name when the learner wrote this, and another one this name.
            if not self._knows_whole or message.news.origin != self.origin:
                return False
            # Changes are told against the state that the learner told last, which local moves of the clocks are no part
            # of.
            self._unconfirmed.take_back(policy)
            take_changes(policy, message)
        else:
            self.is_asking = False
            self._knows_whole = message.news.origin == self.origin
            if not self._knows_whole:  # one of them has not read of the model yet that the other goes by
                return False
            take_whole(policy, message)
        self.state = message.news.position
        self._unconfirmed.note_again(policy, self.state)
        self.learned = message.news.counts
        return True


class Current(Projection):
    """Follows the log, so that what any of its services says of models, rules and products holds for this one.

    Attributes:
        settings: How the service runs now, changes included.
        arms: What decides now, by the name of the arm.
        assignment: Which arm decides for whom.
        deciding: The arms that decide for somebody, by name, and the champion, to which others leave what they cannot.
        is_warming_up: True if there is no schema yet: requests are logged as they come, until there are enough to infer
            one.
        due: The time at which a decision is over, of which nobody may have told the learner yet; None for never.
        silence: What is wrong where feedback has ceased, by the learner's account; None where it comes.
        last_feedback: When the newest feedback came that the learner has read, in microseconds since 1970.
        launch_report: How a launch stands, by the learner's newest report.
        calls: Calls of the arms by this service.
        launch_reported_at: When that came, by the clock's `passed`.
        shadow_reports: What shadows would have earned, by the learner's newest reports, by the name of the arm.
        models: The models in its folder.
        history: What visitors were shown and bought, as far as the rules of the shop ask for it.
        figures: What the console shows of the log, by the learner's newest message.
        waiting: How many wait for an answer of the store.
        ask_learner: Called to let the learner send its whole state.
    """

    def __init__(self, address: Address, settings: Settings, store: Store, reader: Store, clock: Clock) -> None:
        """Take up what the log says.

        Args:
            address: Where everything lies.
            settings: How the service was started.
            store, reader: The log, for the writer and for the thread of the event loop.
            clock: The time of rows.
        """
        self.folder: Path = address.folder
        self.settings = self._first_settings = settings
        self.due: int | None = None
        self.silence: FailedCheck | None = None
        self.last_feedback = 0
        self.calls = ArmCalls()
        self.launch_report: LaunchReport | None = None
        self.launch_reported_at = -math.inf
        self.figures = Figures()
        self.shadow_reports: dict[str, ShadowReport] = {}
        self.ask_learner: Callable[[], None] = lambda: None
        self.waiting = 0
        self.history = VisitorHistory(reader.find)
        self._is_remote = bool(address.server)
        self._store = store
        self._reader = reader
        self._clock = clock
        self.models = Models(self.folder, store)
        self.arms: dict[str, ServedArm] = {}
        self.assignment: Assignment
        self.deciding: dict[str, ServedArm] = {}
        self.is_warming_up = False
        self._complaint = ""
        # Reading awaits the store and the loading of models, so two readers at once would apply rows twice, or out of
        # order.
        self._reading = asyncio.Lock()
        self._switching = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._replica = newest_snapshot(self.folder, reader, self.models)
        if self.has_begun:
            self._take_arms(self._replica.position)
            self._take_settings()
        self._read_to_end()

    @property
    def report_on_launch(self) -> LaunchReport | None:
        """How a launch stands, by the learner's newest report, and by the calls of this service; None for no launch."""
        report = self.launch_report
        if report is None:
            return None
        now = datetime.fromtimestamp(self._clock.seconds(), UTC).strftime("%Y-%m-%d %H:%M UTC")
        return msgspec.structs.replace(report, checks=[*report.checks, *self.calls.checks(now)])

    @property
    def has_begun(self) -> bool:
        """True if the log names a model."""
        return self._replica.start is not None

    @property
    def start(self) -> Start:
        """Newest start in the log, with the model and the rules."""
        assert self._replica.start is not None
        return self._replica.start

    @property
    def champion(self) -> ServedArm:
        """The arm that decides for whom the others leave."""
        return self.arms[CHAMPION]

    @property
    def model(self) -> Model:
        """The model of the champion."""
        return self._replica.champion.model

    @property
    def catalogue(self) -> ServedCatalogue:
        """The products of the champion."""
        return self._replica.champion.catalogue

    @property
    def state(self) -> int:
        """The position in the log up to which the champion has learned."""
        return self.champion.state

    @property
    def learned(self) -> Counter[str]:
        """Counts of what came of the decisions of all arms, by the learner's account."""
        counts = Counter[str]()
        for arm in self.arms.values():
            counts.update(arm.learned)
        return counts

    @property
    def takers(self) -> dict[str, ServedArm]:
        """The arms that may decide, if for nobody now, by name: all but shadows."""
        shadows = {arm.name for arm in self.start.arms if arm.role == SHADOW}
        return {name: arm for name, arm in self.arms.items() if name not in shadows}

    @property
    def origins(self) -> dict[str, str]:
        """Origin of each arm, by name: where it changes, another model reads other features."""
        return {name: arm.origin for name, arm in self.arms.items()}

    @property
    def changes(self) -> dict[str, Any]:
        """Values that the log keeps beside models and rules, by part, such as changed settings."""
        return dict(json.loads(self.start.changes)) if self.has_begun else {}

    def model_to_look_at(self, digest: str) -> Model:
        """Return a model of the folder: that of an arm that decides by it where there is one, not to be changed."""
        own = [arm.model for arm in self.arms.values() if arm.start.model == digest]
        return own[0] if own else self.models.look(digest)

    def learns_from(self, decision: Choice) -> bool:
        """Return whether a decision was made by the model of an arm, or by one that this grew from."""
        return self.arm_of(decision) is not None

    def arm_of(self, decision: Choice) -> ServedArm | None:
        """Return the arm that made a decision, though it have another name by now; None where that decides no more."""
        replica = self._replica.arm_of(decision)
        return None if replica is None else self.arms[replica.name]

    async def ask(self, call: Callable[..., Answer], *values: Any) -> Answer:
        """Ask the store something, without keeping others waiting where it is on a server."""
        if not self._is_remote:
            return call(*values)
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(None, call, *values)
        finally:
            self.waiting -= 1

    def begin(self, start_of: Callable[[], Start]) -> None:
        """Note in the log how the service goes on, where that is new, before there is anybody who waits.

        Args:
            start_of: Returns how, by what the log says when it is called.
        """
        start = start_of()
        while not self.has_begun or start != self.start:
            self._share(start)
            self._store.append([self._start_row(start, self.start.number + 1 if self.has_begun else 1)])
            self._store.sync()
            self._read_to_end()  # to this start, or to that of another service, which was faster
            start = start_of()
        self.models.prepare(())  # those that were only looked at go
        self.history.read(self._reader, self.start, self._replica.position)

    async def switch(self, writer: Writer, change: Callable[[Start], Start]) -> None:
        """Note in the log how its services go on, and do so; raises `StoreError`, or `DataError` for a broken model.

        Args:
            writer: What writes the log.
            change: Returns how to go on from the start that is the newest.
        """
        async with self._switching:
            while True:
                await self.catch_up()
                before = self.start
                start = change(before)
                if start == before:
                    return
                await self._prepare(start)
                # Before the row that names the models: other services fetch them as soon as they read it.
                await asyncio.to_thread(self._share, start)
                # What is over by now is learned by the rules and the model of before: the start takes effect where it
                # stands in the log, and a new model forgets what is open.
                tick = NewRow(self._clock.now(), Kind.TICK, None, b"")
                # In one commit, since requests are decided as before until it is there. Numbered behind the start that
                # it was made of: a start of another service may have been read meanwhile, which this would undo.
                _, position = await writer.append([tick, self._start_row(start, before.number + 1)], durable=True)
                await self.catch_up(position)
                if position is not None:  # else another service went on from the same start
                    return

    async def note(
        self, writer: Writer, part: str, values_in: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> None:
        """Change a part of what is kept in the log beside model and rules; raises as `switch` does.

        Args:
            writer: What writes the log.
            part: Which part.
            values_in: Returns what the part is to hold, from all that the newest start keeps, by part.
        """

        def changed(start: Start) -> Start:
            changes = json.loads(start.changes)
            changes[part] = dict(values_in(changes))
            return _with_parts(start, changes, f"{part} changed")

        await self.switch(writer, changed)

    async def change_settings(self, writer: Writer, changes: Mapping[str, Any]) -> None:
        """Change settings for good, for all services; raises `ConfigError` for what they cannot be, or `StoreError`."""

        def changed(start: Start) -> Start:
            parts = json.loads(start.changes)
            parts[SETTINGS] = {**parts.get(SETTINGS, {}), **changes}
            rules = changed_settings(self.settings, changes).rules.model_dump_json().encode()
            return _with_parts(msgspec.structs.replace(start, rules=rules), parts, f"{SETTINGS} changed")

        await self.switch(writer, changed)

    async def catch_up(self, until: int | None = None) -> None:
        """Read what the log says of models and products, up to a position or to its end; raises as the store does."""
        async with self._reading:
            while until is None or self._replica.position < until:
                rows = await self.ask(self._reader.read, self._replica.position, ROWS_AT_ONCE)
                if not rows:
                    return
                if rows[0].seq > self._replica.position + 1:
                    await self._take_snapshot(rows[0].seq)
                    continue
                for row in rows:
                    if row.kind is Kind.START:
                        # Taking up a start must not load files, as no request is answered meanwhile; so its models are
                        # loaded here, in a thread.
                        await self._prepare(unpack(row))
                    self.apply(row)

    def take(self, message: Message) -> None:
        """Take over what the learner has read and learned."""
        self._clock.note(message.news.time)
        if message.news.arm == CHAMPION:
            self.silence = message.news.silence
            self.last_feedback = message.news.last_feedback
            if message.news.launch is not None:
                self.launch_report = message.news.launch
                self.launch_reported_at = self._clock.passed()
            if message.news.console is not None:
                self.figures = message.news.console
            if message.news.shadows is not None:
                self.shadow_reports = {report.arm: report for report in message.news.shadows}
        # Rows first: the state may be that of a model which one of them starts.
        self._take_rows(message.news)
        self._take_state(message)

    def note_decision(self, row: Row, decision: Choice) -> None:
        """Apply a stored decision to the local clocks until the learner confirms it, and note what was shown."""
        self.history.note(row, decision)
        arm = self.arm_of(decision)
        if arm is not None and not self.is_warming_up:
            arm.note_decision(row.seq, decision)

    async def check_history(self) -> None:
        """Look up whether a few of the visitors who are counted were forgotten, the next ones each time."""
        # One by one: of who was forgotten the next row is looked up at once.
        for _ in range(min(CHECKED_AT_ONCE, len(self.history))):
            for visitor, position in self.history.next_rows(1, self._clock.now()):
                self.history.check_named(visitor, position, await self.ask(self._reader.row, position))

    async def _take_snapshot(self, first: int) -> None:
        """Go on from a snapshot, as rows were removed that this has not read, by which products or arms have changed.

        Args:
            first: The first row that the log still has.

        Raises:
            StoreError: there is no such snapshot yet, or the log cannot be reached.
        """
        snapshot = await asyncio.to_thread(self._shared_snapshot)
        if snapshot.start is None or snapshot.position < first - 1:
            raise StoreError(
                f"log of the service: rows before {first:,} were removed before this service has read them"
            )
        await self._prepare(snapshot.start)
        # Policies stay as they are: the learner tells what changes in them, and may have told of later rows.
        self._replica.begin(snapshot.start)
        for name, arm in self._replica.arms.items():
            arm.catalogue.load_state(*snapshot.arms[name].catalogue.state())
        self._replica.position = snapshot.position
        self._take_arms()
        self._take_settings()
        self.history.take_rules(self.settings.shop_rules)

    def _shared_snapshot(self) -> Replica:
        self._store.fetch(self.folder)
        return newest_snapshot(self.folder, self._reader, self.models)

    def _start_row(self, start: Start, number: int) -> NewRow:
        """Return the row of a start with a number."""
        return NewRow(
            self._clock.now(), Kind.START, start_key(number), pack(msgspec.structs.replace(start, number=number))
        )

    def _read_to_end(self) -> None:
        for row in without_gap(rows_of(self._reader, self._replica.position), self._replica.position + 1):
            self.apply(row)

    def _take_rows(self, news: News) -> None:
        if self._reading.locked():  # somebody reads them from the log
            return
        # A message was missed, or another learner has begun from a later snapshot: rows in between are only in the log.
        if news.after > self._replica.position:
            self._read_on()
            return
        for row in news.rows:
            if row.seq <= self._replica.position:
                continue
            if row.kind is Kind.START and self._models_needed(unpack(row)):
                self._read_on()
                return
            try:
                self.apply(row)
            except StoreError:  # as it is for a row whose decision cannot be looked up now
                self._read_on()
                return
        self._replica.position = max(self._replica.position, news.position)

    def _take_state(self, message: Message) -> None:
        news = message.news
        arm = self._arm_in(news)
        if arm is None:
            return
        if not arm.take(message):
            if isinstance(message, StateChanges) and not arm.is_asking:
                self.ask_learner()
                arm.is_asking = True
            return
        if news.due != 0:
            self.due = news.due
            return
        soon = self._clock.now() + FIRST_TICK
        if self.due is None or self.due > soon:
            self.due = soon

    def _arm_in(self, news: News) -> ServedArm | None:
        """Return the arm that news is of: it may have another name here, where a start is yet to be read or is ahead.

        If news of it went to another arm, or to none, the next difference would be taken for one to what it has.
        """
        arm = self.arms.get(news.arm)
        if arm is None or arm.origin != news.origin:
            return next((other for other in self.arms.values() if other.origin == news.origin), arm)
        return arm

    def _read_on(self) -> None:
        """Read what the learner knows and this does not, while requests go on."""
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._read_quietly())

    async def _read_quietly(self) -> None:
        try:
            await self.catch_up()
            self._complaint = ""
        except (StoreError, DataError) as error:  # the next message tries again
            if str(error) != self._complaint:
                logger.error("the service cannot follow its log: %s", error)
            self._complaint = str(error)
        finally:
            self._following = None

    def _models_needed(self, start: Start) -> list[str]:
        """Return the digests of the models of a start that have to be loaded first."""
        known_origins = {arm.origin for arm in self.arms.values()}
        new = [each.model for each in start.by_arm().values() if each.origin not in known_origins]
        return [] if self.models.are_prepared(new) else new

    async def _prepare(self, start: Start) -> None:
        """Load the models of a start while requests go on."""
        digests = self._models_needed(start)
        if digests:
            await asyncio.to_thread(self.models.prepare, digests)

    def apply(self, row: Row) -> None:
        """Read the next row, for models, rules and products: nothing is learned from it."""
        super().apply(row)
        self.history.apply(row)
        self._replica.position = row.seq

    def on_product(self, row: Row, product: Product) -> None:
        """Take over what a row says of a product."""
        self._replica.on_product(row, product)

    def on_start(self, row: Row, start: Start) -> None:
        """Decide as a start says."""
        before = self._replica.start
        self._replica.begin(start)
        if start != before:
            self._take_arms()
            self._take_settings()

    def _take_arms(self, state: int = 0) -> None:
        """Decide by the arms of the start; new ones have learned up to the position `state`."""
        old_arms = self.arms.values()
        self.arms = {
            name: next((arm for arm in old_arms if arm.is_of(replica)), None) or ServedArm(replica, state)
            for name, replica in self._replica.arms.items()
        }
        self.assignment = Assignment(self.start)
        shares = self.assignment.shares
        self.deciding = {name: arm for name, arm in self.arms.items() if name == CHAMPION or shares[name] > 0.0}
        self.is_warming_up = self._replica.champion.is_warming_up
        self.calls.follow(launch_in(self.start), self.assignment.shares)

    def _take_settings(self) -> None:
        """Go on by the settings of the start, its rules and the changes, over those that the service was started by."""
        changes = {**self.changes.get(SETTINGS, {}), **rules_of(self.start)}
        self.settings = changed_settings(self._first_settings, changes)

    def _share(self, start: Start) -> None:
        models = [model_path(Path(), each.model).as_posix() for each in start.by_arm().values()]
        self._store.share(self.folder, models)


def _with_parts(start: Start, parts: Mapping[str, Any], why: str) -> Start:
    """Return a start with other changes, for which nobody stands who made the change before; the same where none is."""
    changes = json.dumps(parts, sort_keys=True).encode()
    return start if changes == start.changes else msgspec.structs.replace(start, changes=changes, who="", why=why)
