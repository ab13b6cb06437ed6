"""A simulated day: three services of one log, their learners, and clients, with faults that one seed draws."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from tests.simulation.clients import Clients
from tests.simulation.deployments import Deployments
from tests.simulation.faults import Faults
from tests.simulation.hosts import Host, Models, World, faulty_parts
from tests.simulation.looks import Looks
from tests.simulation.loop import SimulatedLoop
from tests.simulation.store import MemoryLog
from tests.simulation.troubles import Troubles
from zoosim.core.durations import MICROSECONDS
from zoosim.monitoring import health
from zoosim.serving import learner, writer
from zoosim.serving.bodies import DecideBody
from zoosim.serving.launches import monitor
from zoosim.serving.settings import Settings

DAY = 86_400.0
DECISIONS = 300
EPISODES = 3
"""Times of a day in which visitors come; between them hardly anything happens."""

EPISODE = 60.0
USUAL = 3.0
"""Feedbacks that lack where feedback is taken to have ceased; in services they are 20."""

TRIES_IN_CALM = 5
"""Requests of which a service must answer one at the end of a day, when nothing is wrong."""

CALM = 600.0
"""Seconds at the end in which nothing fails any more."""

SECONDS_TO_SETTLE = 60.0
"""Seconds within which services do what a row of the log calls for, when nothing is wrong."""

IDLE = 3_600.0
"""Seconds after that in which nobody asks for anything."""


class Day:
    """A day of one seed.

    Attributes:
        hosts: The machines.
        log: The server of the log.
        faults: What went wrong.
        violations: What must not happen, and did.
        clients: Who asks.
        deployments: Who changes what decides.
        troubles: What goes wrong.
        looks: Who looks at what services say of their log.
        has_clocks: Whether policies have clocks, so that decisions of a service move its own state.
        sync_all: Whether decisions, too, are on the disk before they are answered.
        settled: The last row of which services have heard before ticks are rare; 0 where some of them were paused then.
        newest_before_idle: The last row before nobody asked for anything any more.
    """

    def __init__(self, seed: int, models: Models, folder: Path) -> None:
        """Make everything that a seed determines; `folder` is for the folders of the machines."""
        self.violations: list[str] = []
        # By purpose, so that a draw more in one of them leaves the others as they are.
        rngs = {name: Random(f"{seed} {name}") for name in ("day", "faults", "delays", "clients", "deployments")}
        self._rng = rngs["day"]
        self.faults = Faults(rngs["faults"])
        self.loop = SimulatedLoop(rngs["delays"])
        self.faults.now = self.loop.time
        self.log = MemoryLog(self.loop, self.faults)
        self.has_clocks = models.has_clocks
        world = World(self.loop, self._rng, self.faults, self.log, models, self.violations)
        self._is_busy = False
        self.settled = self.newest_before_idle = 0
        rng = self._rng
        self._wait = rng.uniform(5.0, 40.0)
        per_visitor = rng.choice([0, 1, 3])
        # Where a log is deleted, which is on days without bounds, rows go once two snapshots hold what they taught.
        is_saved_often = rng.random() < (0.05 if per_visitor else 0.6)
        settings: dict[str, Any] = {
            "wait": self._wait,
            "aggregation": rng.choice(["earliest", "latest", "sum", "average", "median", "min", "max"]),
            "per_visitor": per_visitor,
            "sync": rng.choice(["feedback", "all"]),
            "snapshot": 10.0 if is_saved_often else 20_000.0,
            "keep_days": 0,
            "grow": False,
        }
        self.sync_all = settings["sync"] == "all"
        self.hosts = []
        for name in "abc":
            store = f"redis://simulated:1/0?name=loop&folder={folder / name}"
            self.hosts.append(
                Host(world, name, folder / name, Settings(store=store, **settings), self._seconds_to_tick)
            )
        self.log.on_append = self._wake_learners
        self.clients = Clients(world, self.hosts, self._wait, rngs["clients"])
        self.deployments = Deployments(world, self.clients, rngs["deployments"])
        self.looks = Looks(world, self.clients)
        self.troubles = Troubles(world, self.hosts, self.clients, self.deployments, self.looks, self._wait, rng)
        # How much is done together; so small that limits are reached.
        self.limits = {
            (writer, "MOST_TOGETHER"): rng.choice([2, 4, 512]),
            (learner, "ROWS_AT_ONCE"): rng.choice([7, 50, 1_000]),
            (learner, "SECONDS_BETWEEN_MESSAGES"): rng.choices([0.1, 3.0, 12.0], [0.1, 0.4, 0.5])[0],
            (learner, "SECONDS_BETWEEN_REPORTS"): 4.0,
            (monitor, "LEAST_DECISIONS"): 30.0,
            (monitor, "MOST_LEFT"): 2,
            (monitor, "SILENCE"): 10 * MICROSECONDS,
            (monitor, "USUAL"): USUAL,
        }

    @contextmanager
    def parts(self) -> Iterator[None]:
        """Let the limits of the day hold within the block, and its faults happen."""
        no_rewards = health.no_rewards

        def sooner(name: str, minutes: float, limit: float, usual: float) -> health.Finding | None:
            return no_rewards(name, minutes, limit, usual * 20.0 / USUAL)

        with ExitStack() as stack:
            for (module, name), value in self.limits.items():
                stack.enter_context(patch.object(module, name, value))
            stack.enter_context(patch.object(health, "no_rewards", sooner))
            stack.enter_context(faulty_parts(self.faults))
            yield

    def run(self) -> None:
        """Live through the day."""
        life = self.loop.create_task(self._live())
        self.loop.run_until(DAY)
        life.result()

    def close(self) -> None:
        """Let go of everything."""
        for host in self.hosts:
            host.kill(with_learner=True)
        self.loop.close()

    async def _live(self) -> None:
        for number, host in enumerate(self.hosts):
            self.loop.call_later(3.0 * number, host.start)
        await asyncio.sleep(60.0)
        begins = sorted(self._rng.uniform(100.0, DAY - CALM - IDLE - 1_000.0) for _ in range(EPISODES))
        for begin in begins:
            await asyncio.sleep(max(begin - self.loop.time(), 1.0))
            await self._episode(DECISIONS // EPISODES)
        self.faults.is_calm = True
        self.log.is_away = False
        self.loop.slowness = 1.0
        await asyncio.sleep(max(DAY - CALM - IDLE - self.loop.time(), 1.0))
        self._hurry()
        await self._recover()
        await asyncio.sleep(CALM / 2 - SECONDS_TO_SETTLE)
        if not any(host.is_paused for host in self.hosts):
            self.settled = self.log.rows[-1].seq
        await asyncio.sleep(SECONDS_TO_SETTLE)
        self._is_busy = False
        await self.looks.check_writing(self._rng.choice(self.hosts))
        await self.looks.check_copies(self.hosts)
        await asyncio.sleep(10.0)
        self.newest_before_idle = self.log.rows[-1].seq

    async def _recover(self) -> None:
        """Start what does not run, and start again what cannot go on."""
        for host in self.hosts:
            if host.service is None:
                host.start()
        await asyncio.sleep(60.0)
        for host in self.hosts:
            if host.service is not None and host.service.failure:
                await self.troubles.restart(host)
        await asyncio.sleep(60.0)
        for host in self.hosts:
            answer = None
            for _ in range(TRIES_IN_CALM):  # the network is slow at times even then
                answer = await self.clients.ask(
                    host, "decide", "", DecideBody(), lambda service: service.decide(DecideBody())
                )
                if answer is not None:
                    break
            if answer is None or isinstance(answer, Exception):
                self.violations.append(f"{host.process.name} does not answer though nothing is wrong: {answer!r}")

    async def _episode(self, visits: int) -> None:
        """Let visitors come, and things go wrong."""
        self._hurry()
        self.clients.asks_for_new = self._rng.random() < 0.25
        self.clients.click_chances = self._rng.choice([(0.5, 0.5), (0.1, 1.0), (1.0, 0.0)])
        if self._rng.random() < 0.7:
            self.loop.create_task(self.deployments.launch(self._rng.choice(self.hosts)))
        chaos = self.loop.create_task(self.troubles.trouble())
        arrivals = sorted(self._rng.uniform(0.0, EPISODE) for _ in range(visits))
        began = self.loop.time()
        visits_going = []
        for arrival in arrivals:
            await asyncio.sleep(began + arrival - self.loop.time())
            visits_going.append(self.loop.create_task(self.clients.visit()))
        await self.looks.ask_for_reach(self._rng.choice(self.hosts))
        chaos.cancel()
        await asyncio.wait(visits_going)
        await asyncio.sleep(self._wait + 5.0)
        self._is_busy = False

    def _hurry(self) -> None:
        self._is_busy = True
        for host in self.hosts:
            host.hurry()

    def _seconds_to_tick(self) -> float:
        return 2.0 if self._is_busy else 900.0

    def _wake_learners(self) -> None:
        for host in self.hosts:
            if host.learner is not None:
                host.learner.wake(1.0)
