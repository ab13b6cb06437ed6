"""A service without HTTP: it decides, takes feedback, changes products, learns, and survives being killed."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from zoosim.core.blame import one_line
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import ConfigError, StoreError
from zoosim.core.parameters import unknown
from zoosim.core.version import VERSION
from zoosim.monitoring.launch_plan import OBJECTIVE, Plan
from zoosim.policies.base import policy_name
from zoosim.policies.model import Model
from zoosim.serving.annotations import Annotations
from zoosim.serving.arm_replica import GROWN_FROM, checked_rules, rules_of
from zoosim.serving.backlog import Backlog
from zoosim.serving.bodies import AnnotationBody, DeploymentBody, FeedbackBody, ProductBody, hash_of
from zoosim.serving.candidate_sources import index_products
from zoosim.serving.catalogue import ServedCatalogue
from zoosim.serving.current import Current, ServedArm
from zoosim.serving.deployment import deployed, is_launch, launched_digest, models_in, registered, with_holdback
from zoosim.serving.endpoints.base import Endpoints, ServiceParts
from zoosim.serving.events import (
    CHAMPION,
    EVENT,
    HOLDBACK,
    SHADOW,
    VISITOR,
    Choice,
    NewRow,
    Row,
    Start,
    decision_key,
    pack,
    start_key,
    unpack,
)
from zoosim.serving.feedback import FeedbackLog
from zoosim.serving.floors import floors_of
from zoosim.serving.folder import (
    keep_content,
    keep_model,
    keep_model_file,
    load_served_model,
    locked_folder,
    model_path,
    prepare_model,
    secret_of,
)
from zoosim.serving.forecasts.kept import checked_of_model, forecasts_in, with_forecasts
from zoosim.serving.fresh import FIRST_REQUESTS, compile_policy
from zoosim.serving.growth import Watch
from zoosim.serving.inputs import InputCounts
from zoosim.serving.launches.arm_calls import Calls
from zoosim.serving.launches.beforehand import ROWS, Baseline, Beforehand, said_of, with_said
from zoosim.serving.launches.changes import plan_of, with_change
from zoosim.serving.launches.keeper import LaunchKeeper
from zoosim.serving.launches.report import described
from zoosim.serving.launches.state import launch_in
from zoosim.serving.learning.products import AGREED, JUDGED
from zoosim.serving.log_reports import LogReports, drift_report, forecast_report
from zoosim.serving.logged import LoggedDecisions
from zoosim.serving.machine import Machine
from zoosim.serving.projection import ROWS_AT_ONCE
from zoosim.serving.refusals import Acknowledgement, Busy
from zoosim.serving.settings import Settings
from zoosim.serving.shadows.report import ShadowReport
from zoosim.serving.shop_rules.settings import check_shop_rules
from zoosim.serving.starting import SALT_BYTES, check_arm, first_start
from zoosim.serving.upkeep import Upkeep
from zoosim.serving.writer import Writer

logger = logging.getLogger("zoosim.serving")


class Service:
    """Decides by a model, logs what it decides, and takes in what it earned.

    All methods are called in one thread, that of the event loop. Several services may share a log on a server: what one
    of them stored, each of them goes by.

    Attributes:
        current: What it decides by.
        upkeep: What it does beside requests.
        logged: The decisions in its log.
        counts: What happened to requests.
        clock: Its time, and that of its log.
        backlog: How long requests wait for their turn.
    """

    def __init__(
        self,
        settings: Settings,
        model_file: Path | None,
        loop: asyncio.AbstractEventLoop,
        machine: Machine | None = None,
    ) -> None:
        """Open the folder, take up the state that was left there, and begin with a model.

        Args:
            settings: How the service runs.
            model_file: The model; None for the one that the log names last, or to grow one from the first requests
                where there is none.
            loop: The event loop in which the service is used.
            machine: What it runs on; this machine by default.

        Raises:
            ConfigError: the folder cannot be used, or another service uses it.
            DataError: the model, or the log, is broken.
        """
        self.address = settings.address._replace(folder=settings.address.folder.resolve())
        self.folder = self.address.folder
        machine = machine or Machine()
        self.clock = machine.clock
        self.counts: Counter[str] = Counter()
        self._random_bytes = machine.random_bytes
        self._id_prefix = machine.random_bytes(12).hex()
        self._ids_made = 0
        self.backlog = Backlog(loop, self.clock.passed)
        self._loop = loop
        with contextlib.ExitStack() as stack:
            # The lock first: a log in SQLite counts on one process that appends. Then the shared files, among which may
            # be the secret that the first service of the log made.
            stack.enter_context(locked_folder(self.folder))
            self._store = stack.enter_context(contextlib.closing(machine.open_store(self.address, False)))
            self._reader = stack.enter_context(contextlib.closing(machine.open_store(self.address, True)))
            self._store.fetch(self.folder)
            secret = secret_of(self.folder, self._store, machine.random_bytes)
            self._begin_time()
            self.current = Current(self.address, settings, self._store, self._reader, self.clock)
            self.current.begin(
                partial(first_start, self.current, settings, model_file, machine.random_bytes, self.clock.gaps)
            )
            self.clock.gaps.clear()
            if self.is_warming_up:
                compile_policy()
            for arm in self.current.arms.values():
                prepare_model(arm.model)
                index_products(arm.model)
            self._opened = stack.pop_all()
        self._in_flight: dict[str, asyncio.Future[None]] = {}
        self._writer = Writer(self._store, loop, settings.sync == "all", machine.start_worker)
        self._watch = Watch(self, loop)
        self._reports = LogReports(self.address, self.clock.passed)
        parts = ServiceParts(
            self.current,
            self._reader,
            self._writer,
            self.clock,
            secret,
            self.counts,
            self._watch.note,
            self._watch.grows,
        )
        self._endpoints = Endpoints(parts)
        self.logged = LoggedDecisions(self.current, self._endpoints, self._reader)
        self.upkeep = Upkeep(self.current, self._store, self._reader, self._writer, self.clock)
        self._keeper = LaunchKeeper(self.current, self._store, self._writer, self.clock)
        self._feedback = FeedbackLog(self.current, self._endpoints, self.logged, self._writer, self.upkeep, self.clock)
        self._annotations = Annotations(self.clock, self._writer, lambda: machine.random_bytes(12).hex())
        self._try_requests()

    @property
    def settings(self) -> Settings:
        """Settings by which it runs now."""
        return self.current.settings

    @property
    def model(self) -> Model:
        """The model of the champion, which decides for whom other arms leave."""
        return self.current.model

    @property
    def catalogue(self) -> ServedCatalogue:
        """The products."""
        return self.current.catalogue

    @property
    def start(self) -> Start:
        """Newest start in the log, with the model and the rules."""
        return self.current.start

    @property
    def rewards(self) -> Mapping[tuple[str, str], float]:
        """Rewards of decisions, by arm and name, as far as this service was told since it started."""
        return self._feedback.rewards

    @property
    def failure(self) -> str:
        """Reason why the log cannot be written now; empty when it can."""
        return self._writer.failure

    @property
    def waiting(self) -> int:
        """Number of requests that wait for the log."""
        return self._writer.waiting + self.current.waiting

    @property
    def inputs(self) -> InputCounts:
        """Counts of what requests held that the model was not made for."""
        return self._endpoints.current.inputs

    @property
    def is_warming_up(self) -> bool:
        """True if there is no schema yet: requests are logged as they come, until there are enough to infer one."""
        return self.current.is_warming_up

    async def decide(self, body: Any, request: bytes | None = None, **more: Any) -> Any:
        """Decide on a request, and log that before it is answered.

        Args:
            body: The request, whose type says which endpoint takes it; see `zoosim.serving.endpoints`.
            request: The hash of the request, where the body is not all of it.
            **more: What else the endpoint's `decide` takes, such as `slots`.

        Returns:
            The endpoint's answer: that of before to a request that came before.

        Raises:
            Conflict: the decision's id was used for another request.
            PolicyError: the model decides on other requests, or cannot decide on this one: no candidate is known and
                may be shown, or one comes twice.
            StoreError: the log cannot be written.
        """
        request = request or hash_of(body)
        if body.decision_id is None:
            return await self._decide_anew(body, request, self._new_id(), more)
        # Requests that have the same id, one after the other. Several may wait for one: whoever goes on first claims
        # the id anew, and the others wait again. By `asyncio.wait`, which does not raise that the future was cancelled.
        while body.decision_id in self._in_flight:
            await asyncio.wait([self._in_flight[body.decision_id]])
        done = self._in_flight[body.decision_id] = self._loop.create_future()
        try:
            # The draw follows from the id, but from the state, too, which has gone on since: so the log is asked, not
            # the policy.
            earlier = await self.logged.earlier_answer(body, request)
            if earlier is None:
                return await self._decide_anew(body, request, body.decision_id, more)
            # Its row may not be on the disk yet, or could not be synced when it was first asked for.
            await self._writer.confirm()
            return earlier
        finally:
            del self._in_flight[body.decision_id]
            done.cancel()

    async def _decide_anew(self, body: Any, request: bytes, decision_id: str, more: Mapping[str, Any]) -> Any:
        """Decide on a request that was not decided on before; raises as `decide`."""
        endpoint = self._endpoints.for_body(body)
        record, answer = await endpoint.decide(body, request, decision_id, **more)
        row = NewRow(self.clock.now(), record.kind, decision_key(decision_id), pack(record))
        # Before the row is stored: where the answer of the store gets lost, it may be in the log, and needs its tick.
        self.upkeep.note_decision(row.time)
        with self.current.history.storing(record):
            (position,) = await self._writer.append([row])
            if position is None:  # the same id came in another way meanwhile
                return await self.logged.earlier_answer(body, request)
            self.current.note_decision(Row(position, *row), record)
        endpoint.note_stored(record)
        self.counts["decisions"] += 1
        if len(self.current.arms) > 1:
            self._count_arm(record, decision_id)
        if record.ignored:
            self.counts["candidates left out"] += len(record.ignored)
        return answer

    def _count_arm(self, choice: Choice, decision_id: str) -> None:
        """Count which arm decided, and which one could not."""
        self.counts[f"decisions by {choice.arm}"] += 1
        assigned = self.current.assignment.arm_for(choice.visitor_id, decision_id)
        if assigned != choice.arm:
            self.counts[f"left to the champion by {assigned}"] += 1

    async def give_feedback(self, decision_id: str, body: FeedbackBody) -> Acknowledgement:
        """Log what a decision earned; the learner takes it in once.

        Raises:
            NotFound: no such decision is in the log.
            Conflict: the feedback's id was used for other feedback.
            PolicyError: a reward is unknown or out of range, or the product was not shown.
            StoreError: the log cannot be written; the feedback does not count then, and may be sent again.
        """
        return self._counted(await self._feedback.give(decision_id, body))

    async def give_value(self, decision_id: str, values: Mapping[int, float], feedback_id: str = "") -> None:
        """Log what the slots of a decision earned in units of the objective; of unknown decisions too.

        Args:
            decision_id: The decision.
            values: What each slot earned.
            feedback_id: The caller's own id; without one the same values are a repetition for some time.

        Raises:
            PolicyError: the model ranks searches, whose rewards have names.
            StoreError: the log cannot be written; nothing counts then, and all may be sent again.
        """
        self._counted(await self._feedback.give_value(decision_id, values, feedback_id))

    async def activate(self, decision_id: str, known: bool = True) -> Acknowledgement:
        """Activate a deferred decision; raises as `give_feedback`, unless it need not be `known`."""
        return await self._feedback.activate(decision_id, known)

    async def annotate(self, body: AnnotationBody) -> Acknowledgement:
        """Log what happened to the shop; raises as `Annotations.add`."""
        return await self._annotations.add(body)

    async def change_product(self, name: str, body: ProductBody) -> list[str]:
        """Add a product, change its features, or say whether it may be shown.

        Returns:
            What of its features the model was not made for, a line each.

        Raises:
            NotFound: the product is not known, and its features are not given.
            PolicyError: features are lacking; or the model ranks searches, whose products are those of its training.
            StoreError: the log cannot be written.
        """
        return await self._endpoints.current.change_product(name, body)

    async def decision(self, decision_id: str) -> tuple[Row, Choice]:
        """Return a decision and its row; raises `NotFound`."""
        return await self.logged.get(decision_id)

    async def answer(self, decision_id: str) -> Any:
        """Return what was answered to a decision; raises `NotFound`."""
        return await self.logged.answer(decision_id)

    async def tick(self) -> None:
        """Append a tick row if one is due, move a launch, and let the schema grow where requests call for it."""
        await self.upkeep.tick()
        await self.current.check_history()
        await self._keeper.look()
        self._watch.tick()

    def lag(self) -> int:
        """Return how many rows that it stored its decisions do not know of yet."""
        return max(self._writer.position - self.current.state, 0)

    async def time_of(self, position: int) -> float:
        """Return when a row of the log came, in seconds since 1970; 0 where it is gone."""
        row = await self.current.ask(self._reader.row, position)
        return 0.0 if row is None else row.time / MICROSECONDS

    async def drift(self, window: int) -> dict[str, Any]:
        """Return what changed against the first period of the log; raises as `LogReports.report`."""
        return await self._reports.report(drift_report, window)

    @property
    def drift_findings(self) -> int | None:
        """Number of changes in the newest report on the log; None where nobody asked for one."""
        report = self._reports.newest(drift_report)
        return None if report is None else len(report["findings"])

    async def forecasts(self) -> dict[str, Any]:
        """Return what was forecast of models, and what came; raises as `LogReports.report`."""
        return await self._reports.report(forecast_report)

    def description(self) -> dict[str, Any]:
        """Return what decides, by which rules it learns, and what came of decisions, as plain values."""
        return {
            "model": self.start.model,
            "policy": policy_name(type(self.model.policy)),
            "facts": {name: fact for name, fact in self.model.facts.items() if name != GROWN_FROM},
            "unexpressed": self._watch.columns(),
            "clipped": self._endpoints.current.clipped(),
            "inputs": self.inputs.as_rows(),
            "rules": rules_of(self.start),
            "rewards": dict(self.model.fitted.weights),
            "arms": self._arms(),
            "exploration": self.settings.exploration,
            "products": self.catalogue.n_shown,
            "state": self.current.state,
            "learned": dict(self.current.learned),
            "apprentice": self.agreement(),
            "events": dict(self.counts),
        }

    def _arms(self) -> dict[str, Any]:
        """Return what decides for which share of the visitors, by arm, as plain values."""
        by_name = {arm.name: arm for arm in self.start.arms}
        return {
            name: {
                "model": arm.start.model,
                "policy": policy_name(type(arm.model.policy)),
                "share": self.current.assignment.shares[name],
                "role": by_name[name].role if name in by_name else CHAMPION,
                "sticky": by_name[name].sticky if name in by_name else VISITOR,
                "state": arm.state,
                "failed": self._calls_of(name).failed,
                "seconds": self._calls_of(name).seconds / max(self._calls_of(name).decided, 1),
                "learned": dict(arm.learned),
                "floors": [report.sentence for report in floors_of(arm.model.policy)],
            }
            for name, arm in self.current.arms.items()
        }

    def _calls_of(self, name: str) -> Calls:
        return self.current.calls.by_arm.get(name, Calls())

    def knowledge(self) -> str:
        """Return in words what decides, and how many products it knows."""
        if self.is_warming_up:
            return f"no model yet: one grows from the first {FIRST_REQUESTS} requests"
        names = ", ".join(f"{arm.name} {arm.share:.0%}" for arm in self.start.arms)
        beside = f"; beside it {names}" if names else ""
        return f"{policy_name(type(self.model.policy))} knows {self.catalogue.n_shown:,} products{beside}"

    def agreement(self) -> dict[str, Any]:
        """Return how many decisions an apprentice was asked about, and how often it would show the baseline, too.

        Empty where it was asked about none.
        """
        decisions, agreements = (self.current.learned.get(name, 0) for name in (JUDGED, AGREED))
        if not decisions:
            return {}
        return {"decisions": decisions, "agreements": agreements, "agreement": agreements / decisions}

    def refuse_to_write(self, reason: str) -> None:
        """Store nothing more, and let another service lead: what this decides by is not what the log says any more."""
        self._writer.refuse(reason)
        self._writer.run(lambda store: store.resign())

    def close(self) -> None:
        """Store what waits, and let go of the folder."""
        self._reports.close()
        # Rows first, while the store is open; and snapshots while this service still leads, as closing the store ends
        # that.
        self._writer.close()
        with contextlib.suppress(StoreError):
            if self._store.leads:
                self.upkeep.share_snapshots()
        self._opened.close()

    def keep_model(self, model_file: Path) -> str:
        """Copy a model into the service's folder; return its digest. Raises `DataError` for what is no model."""
        return keep_model_file(self.folder, model_file)

    def keep_model_content(self, content: bytes) -> str:
        """Keep a model, the content of its file; return its digest.

        Raises:
            DataError, ConfigError: as `keep_model`.
            StoreError: there is no room for it, or the log's server cannot be reached.
        """
        with _room():
            digest, _ = keep_content(self.folder, content)
        # Another service of the log may be asked to launch it.
        self._store.share(self.folder, [model_path(Path(), digest).as_posix()])
        return digest

    def keep(self, model: Model) -> str:
        """Keep a model; return its digest."""
        return keep_model(self.folder, model)

    async def switch_model(self, digest: str, instead_of: str = "") -> None:
        """Go on with a model that is kept, as its file holds it.

        Args:
            digest: The model.
            instead_of: Switch only while a policy of this origin decides, and no arms beside it; empty for any.

        Raises:
            ConfigError: it does not go with the arms.
            DataError: it is broken.
            StoreError: the log cannot be written.
        """
        schema = None
        if not instead_of:
            schema = await asyncio.to_thread(lambda: _schema_of(load_served_model(self.folder, digest)))

        def switched(start: Start) -> Start:
            why = "the schema grew" if instead_of else "another model"
            after = msgspec.structs.replace(start, model=digest, turn=start.number + 1, who="", why=why)
            if instead_of:
                is_outdated = start.origin != instead_of or any(arm.share for arm in start.arms)
                # What grew has another schema, by which no arm that decided before can decide again.
                shadows = [arm for arm in start.arms if arm.role == SHADOW]  # which may have another schema
                return start if is_outdated else msgspec.structs.replace(after, arms=shadows)
            names = ", ".join(arm.name for arm in start.arms if arm.role != SHADOW)
            if names and schema != _schema_of(self.model):
                remedy = "give one with the schema of the champion, or end the arms first (zoosim deploy retire NAME)"
                raise ConfigError(f"model: got one with another schema than that of the arms {names}; {remedy}")
            return after

        await self.current.switch(self._writer, switched)

    async def deploy(self, body: DeploymentBody) -> dict[str, Any]:
        """Change what decides; requests go on meanwhile.

        Args:
            body: The change.

        Returns:
            What decides then, as `deployment`.

        Raises:
            ConfigError: it cannot be made.
            DataError: the model is broken, or not kept here.
            StoreError: the log cannot be written.
        """
        model = await asyncio.to_thread(self._launched_model, body) if body.action in ("launch", SHADOW) else None
        forecasts = checked_of_model(body.forecasts, body.model)
        held_back = ""
        beforehand = None
        if is_launch(body):
            plan = plan_of(body)
            _check_rewards(plan, self.model.fitted.weights)
            beforehand = await self._beforehand(plan, body)
            if plan.holdback and not any(arm.role == HOLDBACK for arm in self.start.arms):
                with _room():
                    held_back = self.keep(self.model)  # here, where no message of the learner changes it meanwhile
        salt = self._random_bytes(SALT_BYTES)

        def changed(start: Start) -> Start:
            after = deployed(start, body)
            if after == start:
                return start
            if body.action == "rules":
                check_shop_rules(checked_rules(after).shop_rules, self.model, self.settings.keep_days)
            if model is not None:
                role = SHADOW if body.action == SHADOW else body.role
                check_arm(body.arm or role, role, model, self.model)
                after = registered(after, launched_digest(start, body), model, body.who, self.clock.seconds())
                after = with_forecasts(after, forecasts)
            if held_back:
                after = with_holdback(after, held_back, plan_of(body).holdback)
            after = with_change(start, after, body, self.clock.now())
            after = after if beforehand is None else with_said(after, beforehand)
            return after if after.salt or not after.arms else msgspec.structs.replace(after, salt=salt)

        await self.current.switch(self._writer, changed)
        self.counts[f"deployments: {body.action}"] += 1
        return self.deployment()

    async def _beforehand(self, plan: Plan, body: DeploymentBody) -> Beforehand:
        """Return what a launch says beforehand, by the newest rows of the log."""
        window = round((plan.window or self.settings.wait) * MICROSECONDS)
        baseline = Baseline(plan, window, self.model.fitted.weights, body.sticky == EVENT)
        newest = await self.current.ask(self._reader.last)
        position = 0 if newest is None else max(newest.seq - ROWS, 0)
        while rows := await self.current.ask(self._reader.read, position, ROWS_AT_ONCE):
            for row in rows:
                baseline.apply(row)
            position = rows[-1].seq
        shares = [arm.share for arm in self.start.arms if arm.name != (body.arm or body.role)]
        if not any(arm.role == HOLDBACK for arm in self.start.arms):
            shares.append(plan.holdback)
        now = datetime.fromtimestamp(self.clock.seconds(), UTC)
        made = {"model": body.model, "version": VERSION, "policy": body.arm or body.role}
        return said_of(plan, baseline, max(1.0 - sum(shares), 0.0), now, **made)

    def _launch(self) -> dict[str, Any] | None:
        """Return how the launch stands, and what the learner says of it, as plain values; None where there was none."""
        launch = launch_in(self.start)
        if launch is None:
            return None
        report = self.current.report_on_launch
        is_of_it = report is not None and report.number == launch.number
        return {**msgspec.to_builtins(launch), "report": described(report) if is_of_it and report else None}

    def shadow_reports(self) -> dict[str, ShadowReport]:
        """Return what shadows would have earned, by the learner's newest reports; no more of those that are gone."""
        reports = self.current.shadow_reports
        return {name: reports[name] for name, arm in self.current.arms.items() if _is_of(reports.get(name), arm)}

    def _launched_model(self, body: DeploymentBody) -> Model:
        digest = launched_digest(self.start, body)
        path = model_path(Path(), digest)
        self._store.fetch(self.folder, path.as_posix())  # another service of the log may have got it
        if not (self.folder / path).exists():
            raise ConfigError(f"model: got {digest}, which is not kept here; send its file to /v1/models first")
        return load_served_model(self.folder, digest)

    def deployment(self) -> dict[str, Any]:
        """Return what decides for which share of the visitors, and where models came from, as plain values."""
        return {
            "arms": self._arms(),
            "frozen": bool(self.settings.frozen),
            "rules": self.settings.shop_rules.model_dump(mode="json", exclude_defaults=True),
            "models": models_in(self.start),
            "launch": self._launch(),
            "forecasts": len(forecasts_in(self.start)),
            "shadows": {name: report.as_plain() for name, report in self.shadow_reports().items()},
            "who": self.start.who,
            "why": self.start.why,
        }

    async def history(self, most: int = 50) -> list[dict[str, Any]]:
        """Return the newest changes of what decides, the newest first, as far as the log goes back.

        Args:
            most: How many.
        """
        changes: list[dict[str, Any]] = []
        number = self.start.number
        while number > 0 and len(changes) < most:
            row = await self.current.ask(self._reader.find, start_key(number))
            if row is None:
                break
            start: Start = unpack(row)
            shares = {arm.name: arm.share for arm in start.arms}
            change = {"time": row.time / MICROSECONDS, "who": start.who, "why": start.why}
            changes.append({**change, "model": start.model, "shares": shares})
            number -= 1
        return changes

    async def change_settings(self, changes: Mapping[str, Any]) -> None:
        """Change settings for good; raises `ConfigError` for what they cannot be, or `StoreError`."""
        await self.current.change_settings(self._writer, changes)

    async def note(self, part: str, values: Mapping[str, Any]) -> None:
        """Keep values in the log, for all its services; raises `StoreError`."""
        await self.current.note(self._writer, part, lambda changes: values)

    def check_room(self) -> None:
        """Refuse what cannot be answered now: `Busy`, or `StoreError` until the log can be written again.

        To be asked once for each request, before its body is read: who comes again is turned away at little cost.
        """
        if self.failure:
            raise StoreError(self.failure)
        if self.waiting >= self.settings.most_waiting or self.backlog.is_longer(self.settings.most_delay):
            self.counts["turned away"] += 1
            raise Busy("got more requests than can be answered now; come again in a second")

    def _try_requests(self) -> None:
        """Answer made-up requests before visitors come, so that none waits for what is done only once.

        Nothing of it is stored or counted, and no state moves. What fails is told in a line of the service's log:
        visitors would be refused likewise.
        """
        try:
            self._endpoints.current.try_requests()
        except Exception as error:  # a policy of the user's own may raise anything
            logger.warning("a made-up request cannot be answered: %s", one_line(error))

    def _counted(self, outcome: Acknowledgement) -> Acknowledgement:
        self.counts[f"feedback {outcome.status}"] += 1
        return outcome

    def _new_id(self) -> str:
        """Return an id that no decision had: random for each start of the service, and then counted."""
        self._ids_made += 1
        return f"{self._id_prefix}-{self._ids_made:x}"

    def _begin_time(self) -> None:
        """Go on from the time of the log, and give it to the other services of the log while this one leads."""
        newest = self._reader.last()
        self.clock.begin(None if newest is None else newest.time, self._store.common_time())
        self.started = self.clock.seconds()
        # Only then: other services go by the time that this gives, so it must not be that of a clock behind the log's
        # newest row.
        self._store.keep_time(self.clock.now)


@contextlib.contextmanager
def _room() -> Iterator[None]:
    """Raise `StoreError` where a model cannot be written, as on a full disk."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"model: cannot be kept ({error.strerror}); make room, and send it again") from None


def _check_rewards(plan: Plan, weights: Mapping[str, float]) -> None:
    """Refuse a plan with rewards that the model does not know: `ConfigError`."""
    for metric in plan.metrics:
        if metric.reward != OBJECTIVE and metric.reward not in weights:
            raise ConfigError(unknown("plan of the launch: reward", metric.reward, [OBJECTIVE, *weights]))


def _is_of(report: ShadowReport | None, arm: ServedArm) -> bool:
    return report is not None and report.origin == arm.origin


def _schema_of(model: Model) -> tuple[str, str]:
    """Return what models must have alike for decisions of theirs to stand in one log."""
    return model.action_space, model.fitted.fingerprint
