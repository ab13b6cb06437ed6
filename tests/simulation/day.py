"""A simulated day: three services of one log, their learners, and clients, with faults that one seed draws."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.serving.shop import COUNTRIES, PRODUCTS
from tests.simulation.faults import Fault, Faults
from tests.simulation.hosts import OUTSIDE_CONTEXT, Host, World, faulty_parts
from tests.simulation.loop import SimulatedLoop
from tests.simulation.store import LEASE_SECONDS, MemoryLog
from zoosim.core.errors import StoreError, ZoosimError
from zoosim.serving import learner, writer
from zoosim.serving.bodies import DecideBody, FeedbackBody, ProductBody
from zoosim.serving.refusals import Busy
from zoosim.serving.service import Service
from zoosim.serving.settings import ArmSetting, Settings

DAY = 86_400.0
DECISIONS, FEEDBACKS = 300, 100
EPISODES = 6
"""Times of a day in which visitors come; between them hardly anything happens."""

EPISODE = 60.0
TRIES_IN_CALM = 5
"""Requests of which a service must answer one at the end of a day, when nothing is wrong."""

TIMEOUT = 5.0
"""Seconds after which a client gives up."""

CALM = 600.0
"""Seconds at the end in which nothing fails any more."""

IDLE = 3_600.0
"""Seconds after that in which nobody asks for anything."""


class Models(NamedTuple):
    """The files of models, all of one schema: the first one, and others that may follow it or decide beside it.

    `has_clocks` says whether their policies have clocks, which decisions move at once.
    """

    first: Path
    others: list[Path]
    has_clocks: bool


class Operation(NamedTuple):
    """What a client asked of a service, and what came of it.

    Attributes:
        kind: What it asked: "decide", "feedback", "values", "activate" or "product".
        id: The id of the decision, or the name of the product.
        body: What it sent.
        host: The name of the service's process.
        start, end: When it asked, and when it had the answer.
        answer: The answer, or the refusal; None where it gave up.
    """

    kind: str
    id: str
    body: Any
    host: str
    start: float
    end: float
    answer: Any


class Day:
    """A day of one seed.

    Attributes:
        history: What clients asked, and what they were answered.
        hosts: The machines.
        log: The server of the log.
        faults: What went wrong.
        violations: What must not happen, and did.
        has_clocks: Whether policies have clocks, so that decisions of a service move its own state.
        sync_all: Whether decisions, too, are on the disk before they are answered.
        explorations: All shares of even draws that were ever set.
        newest_before_idle: The last row before nobody asked for anything any more.
    """

    def __init__(self, seed: int, models: Models, folder: Path) -> None:
        """Make everything that a seed determines; `folder` is for the folders of the machines."""
        self.history: list[Operation] = []
        self.violations: list[str] = []
        # By purpose, so that a draw more in one of them leaves the others as they are.
        self._rng, of_faults, of_delays = np.random.default_rng(seed).spawn(3)
        self.faults = Faults(of_faults)
        self.loop = SimulatedLoop(of_delays)
        self.faults.now = self.loop.time
        self.log = MemoryLog(self.loop, self.faults)
        self.models = models
        self.has_clocks = models.has_clocks
        self.world = World(self.loop, self._rng, self.faults, self.log, models.first, self.violations)
        self._is_busy = False
        self._visits = 0
        self.newest_before_idle = 0
        self.explorations = {0.05}
        rng = self._rng
        self.wait = float(rng.uniform(5.0, 40.0))
        settings: dict[str, Any] = {
            "wait": self.wait,
            "aggregation": str(rng.choice(["earliest", "latest", "sum", "average", "median", "min", "max"])),
            "per_visitor": int(rng.choice([0, 1, 3])),
            "sync": str(rng.choice(["feedback", "all"])),
            "snapshot": float(rng.choice([20.0, 20_000.0], p=[0.1, 0.9])),
            "keep_days": 0,
            "grow": False,
        }
        self.sync_all = settings["sync"] == "all"
        self.hosts = []
        for name in "abc":
            store = f"redis://simulated:1/0?name=loop&folder={folder / name}"
            self.hosts.append(
                Host(self.world, name, folder / name, Settings(store=store, **settings), self._seconds_to_tick)
            )
        self.log.on_append = self._wake_learners
        # How much is done together; so small that limits are reached.
        self.limits = {
            (writer, "MOST_TOGETHER"): int(rng.choice([1, 2, 512])),
            (learner, "ROWS_AT_ONCE"): int(rng.choice([7, 50, 1_000])),
            (learner, "SECONDS_BETWEEN_MESSAGES"): float(rng.choice([0.1, 3.0], p=[0.25, 0.75])),
        }

    def run(self) -> None:
        """Live through the day."""
        before = {place: getattr(*place) for place in self.limits}
        for (module, name), value in self.limits.items():
            setattr(module, name, value)
        try:
            with faulty_parts(self.faults):
                life = self.loop.create_task(self._live())
                self.loop.run_until(DAY)
                life.result()
        finally:
            for (module, name), value in before.items():
                setattr(module, name, value)

    def close(self) -> None:
        """Let go of everything."""
        for host in self.hosts:
            host.kill(with_learner=True)
        self.loop.close()

    async def _live(self) -> None:
        for number, host in enumerate(self.hosts):
            self.loop.call_later(3.0 * number, host.start)
        await asyncio.sleep(60.0)
        begins = np.sort(self._rng.uniform(100.0, DAY - CALM - IDLE - 1_000.0, EPISODES))
        for begin in begins:
            await asyncio.sleep(max(begin - self.loop.time(), 1.0))
            await self._episode(DECISIONS // EPISODES)
        self.faults.is_calm = True
        self.log.is_away = False
        self.loop.slowness = 1.0
        await asyncio.sleep(max(DAY - CALM - IDLE - self.loop.time(), 1.0))
        self._is_busy = True
        await self._recover()
        await asyncio.sleep(CALM / 2)
        self._is_busy = False
        self.newest_before_idle = self.log.rows[-1].seq

    async def _recover(self) -> None:
        """Start what does not run, and start again what cannot go on."""
        for host in self.hosts:
            if host.service is None:
                host.start()
        await asyncio.sleep(60.0)
        for host in self.hosts:
            if host.service is not None and host.service.failure:
                await self._restart(host)
        await asyncio.sleep(60.0)
        for host in self.hosts:
            answer = None
            for _ in range(TRIES_IN_CALM):  # the network is slow at times even then
                answer = await self._ask(host, "decide", "", DecideBody(), lambda service: service.decide(DecideBody()))
                if answer is not None:
                    break
            if answer is None or isinstance(answer, Exception):
                self.violations.append(f"{host.process.name} does not answer though nothing is wrong: {answer!r}")

    async def _episode(self, visits: int) -> None:
        """Let visitors come, and things go wrong."""
        self._is_busy = True
        chaos = self.loop.create_task(self._chaos())
        arrivals = np.sort(self._rng.uniform(0.0, EPISODE, visits))
        began = self.loop.time()
        visits_going = []
        for arrival in arrivals:
            await asyncio.sleep(began + arrival - self.loop.time())
            visits_going.append(self.loop.create_task(self._visit()))
        chaos.cancel()
        await asyncio.wait(visits_going)
        await asyncio.sleep(self.wait + 5.0)
        self._is_busy = False

    def _seconds_to_tick(self) -> float:
        return 1.0 if self._is_busy else 300.0

    def _wake_learners(self) -> None:
        for host in self.hosts:
            if host.learner is not None:
                host.learner.wake(0.5)

    # What clients do.

    async def _visit(self) -> None:
        rng = self._rng
        number = self._visits
        self._visits += 1
        decision_id = f"visit {number}"
        body = self._body(decision_id)
        if body.defer and rng.random() < 0.3:
            self.faults.note(Fault.NEVER_ACTIVATED)
        is_activated = not body.defer or rng.random() < 0.7
        hosts = [self._host()]
        if self.faults.happens(Fault.SAME_ID_AT_ONCE, 0.03):
            hosts.append(self._host())
        outcomes = await asyncio.gather(*(self._decide(host, body) for host in hosts))
        answer = outcomes[0]
        for _ in range(3):
            if not _may_be_tried_again(answer):
                break
            await asyncio.sleep(float(rng.exponential(2.0)))
            answer = await self._decide(self._host(), body)
        if self.faults.happens(Fault.SAME_ID_ELSEWHERE, 0.03):
            await self._decide(self._host(), body)
        if self.faults.happens(Fault.OTHER_BODY, 0.03):
            await self._decide(self._host(), self._body(decision_id))
        if answer is None or isinstance(answer, Exception):
            return
        if body.defer and is_activated:
            await asyncio.sleep(float(rng.uniform(0.0, self.wait / 2)))
            await self._insist("activate", decision_id, None, lambda service: service.activate(decision_id))
        if rng.random() < FEEDBACKS / DECISIONS:
            await self._give_feedback(decision_id, [shown.product for shown in answer.shown])

    def _body(self, decision_id: str) -> DecideBody:
        rng = self._rng
        candidates: list[Any] = [*rng.choice(PRODUCTS, int(rng.integers(3, 6)), replace=False).tolist()]
        if self.faults.happens(Fault.PRODUCT_NEW, 0.02):
            candidates.append({"id": f"q{rng.integers(5)}", "category": f"c{rng.integers(3)}"})
        visitor = f"v{rng.integers(80)}"
        if self.faults.happens(Fault.HEAVY_VISITOR, 0.1):
            visitor = "heavy"
        return DecideBody(
            visitor={"country": str(rng.choice(COUNTRIES))},
            candidates=candidates if rng.random() < 0.9 else None,
            count=int(rng.integers(1, 3)),
            decision_id=decision_id,
            visitor_id=visitor if rng.random() < 0.9 else "",
            defer=bool(rng.random() < 0.15),
        )

    async def _decide(self, host: Host, body: DecideBody) -> Any:
        assert body.decision_id is not None
        return await self._ask(host, "decide", body.decision_id, body, lambda service: service.decide(body))

    async def _give_feedback(self, decision_id: str, shown: list[str]) -> None:
        rng = self._rng
        seconds = float(rng.exponential(self.wait / 4))
        if self.faults.happens(Fault.FEEDBACK_LATE, 0.1):
            seconds = self.wait * float(rng.uniform(0.9, 1.3))
        await asyncio.sleep(seconds)
        if self.faults.happens(Fault.FEEDBACK_UNKNOWN, 0.02):
            decision_id = "unknown"
        if rng.random() < 0.1:
            values = {0: float(rng.integers(2))}

            async def give(service: Service) -> str:
                await service.give_value(decision_id, values, "values")
                return "done"

            await self._insist("values", decision_id, values, give)
            return
        product = shown[int(rng.integers(len(shown)))]
        body = FeedbackBody({"click": float(rng.integers(2))}, product, "first" if rng.random() < 0.8 else None)
        sends = 2 if self.faults.happens(Fault.FEEDBACK_REPEATED, 0.1) else 1
        for _ in range(sends):
            await self._insist("feedback", decision_id, body, lambda service: service.give_feedback(decision_id, body))
        if rng.random() < 0.3:
            await asyncio.sleep(float(rng.exponential(3.0)))
            again = FeedbackBody({"click": float(rng.integers(2))}, product, "second")
            await self._insist(
                "feedback", decision_id, again, lambda service: service.give_feedback(decision_id, again)
            )
        if self.faults.happens(Fault.FEEDBACK_CHANGED, 0.05):
            other = FeedbackBody({"click": 1.0 - body.rewards["click"]}, product, "first")
            await self._insist(
                "feedback", decision_id, other, lambda service: service.give_feedback(decision_id, other)
            )

    async def _insist(self, kind: str, name: str, body: Any, operation: Callable[[Service], Awaitable[Any]]) -> Any:
        """Ask for something until it is answered, of whichever service."""
        for _ in range(4):
            answer = await self._ask(self._host(), kind, name, body, operation)
            if not _may_be_tried_again(answer):
                return answer
            await asyncio.sleep(float(self._rng.exponential(2.0)))
        return answer

    async def _ask(
        self, host: Host, kind: str, name: str, body: Any, operation: Callable[[Service], Awaitable[Any]]
    ) -> Any:
        """Send a request to a service, and note what comes of it."""
        start = self.loop.time()
        process = host.process.name
        answered = self.loop.create_future()
        self.loop.call_later(self.loop.delay(), self._receive, host, operation, answered, context=host._context)
        giving_up = self.loop.call_later(TIMEOUT, _succeed, answered, GAVE_UP)
        answer = await answered
        giving_up.cancel()
        if answer is GAVE_UP:
            self.faults.note(Fault.GAVE_UP)
            answer = None
        self.history.append(Operation(kind, name, body, process, start, self.loop.time(), answer))
        if isinstance(answer, Exception) and not isinstance(answer, ZoosimError):
            self.violations.append(f"{kind} {name} of {process}: {answer!r}")
        return answer

    def _receive(
        self, host: Host, operation: Callable[[Service], Awaitable[Any]], answered: "asyncio.Future[Any]"
    ) -> None:
        task = self.loop.create_task(self._serve(host, operation, answered))
        host.running.add(task)
        task.add_done_callback(host.running.discard)

    async def _serve(
        self, host: Host, operation: Callable[[Service], Awaitable[Any]], answered: "asyncio.Future[Any]"
    ) -> None:
        answer: Any
        if host.service is None or not host.is_ready:
            answer = StoreError("nobody listens")
        else:
            try:
                host.service.check_room()
                answer = await operation(host.service)
            except Exception as error:
                answer = error
        self.loop.call_later(self.loop.delay(), _succeed, answered, answer, context=OUTSIDE_CONTEXT)

    def _host(self) -> Host:
        """Return a machine that is asked, one that seems to be up if there is one."""
        ready = [host for host in self.hosts if host.is_ready]
        return (ready or self.hosts)[int(self._rng.integers(len(ready or self.hosts)))]

    # What goes wrong.

    async def _chaos(self) -> None:
        """Let something go wrong every few seconds."""
        troubles = [
            (Fault.SERVICE_KILLED, self._kill_service, 0.5),
            (Fault.SERVICE_STOPPED, self._stop_service, 0.2),
            (Fault.LEARNER_KILLED, self._kill_learner, 0.5),
            (Fault.SERVICE_PAUSED, self._pause_service, 1.0),
            (Fault.LEARNER_PAUSED, self._pause_learner, 1.0),
            (Fault.STORE_AWAY, self._be_away, 0.5),
            (Fault.SLOW_STORE, self._be_slow, 0.5),
            (Fault.ROWS_LOST, self._lose_rows, 0.1),
            (Fault.CLOCK_FORWARD, self._set_forward, 0.5),
            (Fault.CLOCK_BACK, self._set_back, 0.5),
            (Fault.PRODUCT_CHANGED, self._change_product, 1.0),
            (Fault.SETTINGS_CHANGED, self._change_settings, 0.5),
            (Fault.MODEL_SWITCHED, self._switch_model, 0.3),
            (Fault.ARMS_CHANGED, self._change_arms, 0.2),
            (Fault.LOG_DELETED, self._delete_log, 0.3),
        ]
        weights = np.array([weight for _, _, weight in troubles])
        while True:
            await asyncio.sleep(float(self._rng.exponential(12.0)))
            fault, trouble, _ = troubles[int(self._rng.choice(len(troubles), p=weights / weights.sum()))]
            if self.faults.has(fault):
                self.loop.create_task(trouble(self.hosts[int(self._rng.integers(3))]))

    async def _kill_service(self, host: Host) -> None:
        if host.service is None:
            return
        self.faults.note(Fault.SERVICE_KILLED)
        host.kill(with_learner=self._rng.random() < 0.5)
        await asyncio.sleep(float(self._rng.exponential(3.0)))
        self._spoil(host)
        host.start()

    def _spoil(self, host: Host) -> None:
        """Spoil what is on a disk."""
        snapshots = host.snapshots()
        if self.faults.happens(Fault.MACHINE_LOST, 0.2):
            host.lose_folder()
        elif snapshots and self.faults.happens(Fault.SNAPSHOT_TORN, 0.3):
            content = snapshots[-1].read_bytes()
            snapshots[-1].write_bytes(content[: int(self._rng.integers(len(content)))])
        elif snapshots and self.faults.happens(Fault.SNAPSHOT_MISSING, 0.3):
            snapshots[-1].unlink()

    async def _stop_service(self, host: Host) -> None:
        if host.service is not None:
            self.faults.note(Fault.SERVICE_STOPPED)
            await self._restart(host)

    async def _restart(self, host: Host) -> None:
        """Stop a service in good order, and start it again."""
        process = host.process
        stopped = self.loop.create_future()

        async def stop() -> None:
            await host.stop()
            self.loop.call_soon(_succeed, stopped, None, context=OUTSIDE_CONTEXT)

        self.loop.spawn(process, stop)
        self.loop.call_later(60.0, _succeed, stopped, None)
        await stopped
        host.kill(with_learner=True)
        await asyncio.sleep(1.0)
        if host.service is None and host.process is process:
            host.start()

    async def _kill_learner(self, host: Host) -> None:
        if host.learner is not None and not host.learner.has_ended:
            self.faults.note(Fault.LEARNER_KILLED)
            host.learner.kill()

    async def _pause_service(self, host: Host) -> None:
        self.faults.note(Fault.SERVICE_PAUSED)
        host.process.paused_until = self.loop.time() + self._duration()

    async def _pause_learner(self, host: Host) -> None:
        if host.learner is not None:
            self.faults.note(Fault.LEARNER_PAUSED)
            host.learner.process.paused_until = self.loop.time() + self._duration()

    def _duration(self) -> float:
        return float(np.exp(self._rng.uniform(np.log(0.1), np.log(2 * LEASE_SECONDS))))

    async def _be_away(self, host: Host) -> None:
        self.faults.note(Fault.STORE_AWAY)
        self.log.is_away = True
        await asyncio.sleep(float(self._rng.exponential(5.0)))
        self.log.is_away = False

    async def _be_slow(self, host: Host) -> None:
        self.faults.note(Fault.SLOW_STORE)
        self.loop.slowness = 50.0
        await asyncio.sleep(float(self._rng.exponential(5.0)))
        self.loop.slowness = 1.0

    async def _lose_rows(self, host: Host) -> None:
        if self.log.unsynced():
            self.faults.note(Fault.ROWS_LOST)
            self.log.restart()

    async def _set_forward(self, host: Host) -> None:
        self.faults.note(Fault.CLOCK_FORWARD)
        host.set_wall(float(self._rng.choice([0.5, 60.0, 3_600.0, 100 * DAY])))

    async def _set_back(self, host: Host) -> None:
        self.faults.note(Fault.CLOCK_BACK)
        host.set_wall(-float(self._rng.choice([0.5, 60.0, 3_600.0, 100 * DAY])))

    async def _change_product(self, host: Host) -> None:
        self.faults.note(Fault.PRODUCT_CHANGED)
        name = str(self._rng.choice([*PRODUCTS, "q1", "q2"]))
        features: dict[str, Any] | None = {"category": f"c{self._rng.integers(3)}"}
        body = ProductBody(features if self._rng.random() < 0.7 else None, bool(self._rng.random() < 0.7))
        await self._insist("product", name, body, lambda service: service.change_product(name, body))

    async def _change_settings(self, host: Host) -> None:
        self.faults.note(Fault.SETTINGS_CHANGED)
        rng = self._rng
        exploration = float(rng.choice([0.0, 0.1, 0.3]))
        self.explorations.add(exploration)
        wait = float(rng.uniform(5.0, self.wait))
        changes = {"exploration": exploration, "wait": wait, "aggregation": str(rng.choice(["earliest", "sum"]))}
        await self._ask(host, "settings", "", changes, lambda service: service.change_settings(changes))

    async def _switch_model(self, host: Host) -> None:
        self.faults.note(Fault.MODEL_SWITCHED)
        files = [self.models.first, *self.models.others]
        file = files[int(self._rng.integers(len(files)))]

        async def switch(service: Service) -> None:
            await service.switch_model(service.keep_model(file))

        await self._ask(host, "model", "", None, switch)

    async def _change_arms(self, host: Host) -> None:
        if host.service is None:
            return
        self.faults.note(Fault.ARMS_CHANGED)
        rng = self._rng
        number = int(rng.integers(3))
        roles = ["challenger", "holdback"]
        arms = [
            ArmSetting(name=name, model=str(self.models.others[place]), share=float(rng.choice([0.1, 0.4])), role=role)
            for place, (name, role) in enumerate(zip(["new", "held"], rng.permutation(roles), strict=True))
        ][:number]
        values = {name: getattr(host.settings, name) for name in host.settings.model_fields_set}
        host.settings = Settings(**{**values, "arms": arms})
        await self._restart(host)
        host.settings = Settings(**{**values, "arms": None})

    async def _delete_log(self, host: Host) -> None:
        # A learner that starts again asks the log whose the counted decisions are; of rows that are gone nobody knows.
        if host.settings.per_visitor:
            return
        self.faults.note(Fault.LOG_DELETED)
        await self._ask(host, "delete", "", None, lambda service: service.upkeep.delete_log())


GAVE_UP = object()


def _may_be_tried_again(answer: Any) -> bool:
    return answer is None or isinstance(answer, StoreError | Busy)


def _succeed(done: "asyncio.Future[Any]", result: Any) -> None:
    if not done.done():
        done.set_result(result)
