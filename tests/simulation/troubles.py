"""Troubles of a simulated day: machines die or pause, clocks jump, a store fails, and settings change."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, NamedTuple

from tests.serving.shop import PRODUCTS
from tests.simulation.clients import Clients, succeed
from tests.simulation.deployments import Deployments
from tests.simulation.faults import Fault
from tests.simulation.hosts import OUTSIDE_CONTEXT, Host, World
from tests.simulation.looks import Looks
from tests.simulation.loop import Process
from tests.simulation.store import LEASE_SECONDS
from zoosim.serving.bodies import ProductBody
from zoosim.serving.service import Service
from zoosim.serving.settings import ArmSetting, Settings

SECONDS_BETWEEN = 6.0
"""Mean seconds from one trouble to the next, while visitors come."""

JUMPS = [0.5, 60.0, 3_600.0, 8_640_000.0]
"""Seconds by which wall clocks are set."""


class Trouble(NamedTuple):
    """Something that may go wrong on a machine, and how often in relation to others."""

    fault: Fault
    begin: Callable[[Host], Awaitable[None]]
    weight: float


class Troubles:
    """Lets things go wrong.

    Attributes:
        explorations: All shares of even draws that were ever set.
    """

    def __init__(
        self,
        world: World,
        hosts: list[Host],
        clients: Clients,
        deployments: Deployments,
        looks: Looks,
        wait: float,
        rng: Random,
    ) -> None:
        """Begin with nothing wrong.

        Args:
            world: What all machines share.
            hosts: The machines.
            clients: Who asks services for changes.
            deployments: Whose changes of the arms are among the troubles.
            looks: Who deletes logs, and looks what is left of them.
            wait: The longest seconds for which decisions wait for feedback.
            rng: What goes wrong, and when.
        """
        self.explorations = {0.05}
        self._world = world
        self._loop = world.loop
        self._faults = world.faults
        self._hosts = hosts
        self._clients = clients
        self._looks = looks
        self._wait = wait
        self._rng = rng
        troubles = [
            Trouble(Fault.SERVICE_KILLED, self._kill_service, 0.5),
            Trouble(Fault.SERVICE_STOPPED, self._stop_service, 0.2),
            Trouble(Fault.LEARNER_KILLED, self._kill_learner, 0.5),
            Trouble(Fault.SERVICE_PAUSED, self._pause_service, 0.6),
            Trouble(Fault.LEARNER_PAUSED, self._pause_learner, 1.0),
            Trouble(Fault.STORE_AWAY, self._be_away, 0.5),
            Trouble(Fault.SLOW_STORE, self._be_slow, 0.5),
            Trouble(Fault.ROWS_LOST, self._lose_rows, 0.1),
            Trouble(Fault.CLOCK_FORWARD, self._set_forward, 0.5),
            Trouble(Fault.CLOCK_BACK, self._set_back, 0.5),
            Trouble(Fault.PRODUCT_CHANGED, self._change_product, 1.0),
            Trouble(Fault.SETTINGS_CHANGED, self._change_settings, 0.5),
            Trouble(Fault.MODEL_SWITCHED, self._switch_model, 0.3),
            Trouble(Fault.ARMS_CHANGED, self._change_arms, 0.2),
            Trouble(Fault.FEEDBACK_CEASED, self._break_feedback, 0.2),
            Trouble(Fault.LOG_DELETED, self._delete_log, 1.0),
            Trouble(Fault.DEPLOYED, deployments.change, 3.0),
        ]
        self._troubles = [trouble for trouble in troubles if self._faults.has(trouble.fault)]

    async def trouble(self) -> None:
        """Let something go wrong every few seconds."""
        weights = [trouble.weight for trouble in self._troubles]
        while self._troubles:
            await asyncio.sleep(self._rng.expovariate(1.0 / SECONDS_BETWEEN))
            (trouble,) = self._rng.choices(self._troubles, weights)
            self._loop.create_task(trouble.begin(self._rng.choice(self._hosts)))

    async def _kill_service(self, host: Host) -> None:
        if host.service is None:
            return
        self._faults.note(Fault.SERVICE_KILLED)
        host.kill(with_learner=self._rng.random() < 0.5)
        await asyncio.sleep(self._rng.expovariate(1.0 / 3.0))
        self._spoil(host)
        host.start()

    def _spoil(self, host: Host) -> None:
        """Spoil what is on a disk."""
        snapshots = host.snapshots()
        if self._faults.happens(Fault.MACHINE_LOST, 0.2):
            host.lose_folder()
        elif snapshots and self._faults.happens(Fault.SNAPSHOT_TORN, 0.3):
            content = snapshots[-1].read_bytes()
            snapshots[-1].write_bytes(content[: self._rng.randrange(len(content))])
        elif snapshots and self._faults.happens(Fault.SNAPSHOT_MISSING, 0.3):
            snapshots[-1].unlink()

    async def _stop_service(self, host: Host) -> None:
        if host.service is not None:
            self._faults.note(Fault.SERVICE_STOPPED)
            await self.restart(host)

    async def restart(self, host: Host) -> None:
        """Stop a service in good order, and start it again."""
        process = host.process
        stopped = self._loop.create_future()

        async def stop() -> None:
            await host.stop()
            self._loop.call_soon(succeed, stopped, None, context=OUTSIDE_CONTEXT)

        self._loop.spawn(process, stop)
        self._loop.call_later(60.0, succeed, stopped, None)
        await stopped
        host.kill(with_learner=True)
        await asyncio.sleep(1.0)
        if host.service is None and host.process is process:
            host.start()

    async def _kill_learner(self, host: Host) -> None:
        if host.learner is not None and not host.learner.has_ended:
            self._faults.note(Fault.LEARNER_KILLED)
            host.learner.kill()

    async def _pause_service(self, host: Host) -> None:
        self._faults.note(Fault.SERVICE_PAUSED)
        self._pause(host.process)

    async def _pause_learner(self, host: Host) -> None:
        if host.learner is not None:
            self._faults.note(Fault.LEARNER_PAUSED)
            self._pause(host.learner.process)

    def _pause(self, process: Process) -> None:
        self._pause_for(process, math.exp(self._rng.uniform(math.log(0.1), math.log(2 * LEASE_SECONDS))))

    def _pause_for(self, process: Process, seconds: float) -> None:
        # Never shortened: what waits for the end of a pause keeps its order so.
        process.paused_until = max(process.paused_until, self._loop.time() + seconds)

    async def _be_away(self, host: Host) -> None:
        self._faults.note(Fault.STORE_AWAY)
        self._world.log.is_away = True
        await asyncio.sleep(self._rng.expovariate(0.2))
        self._world.log.is_away = False

    async def _be_slow(self, host: Host) -> None:
        self._faults.note(Fault.SLOW_STORE)
        self._loop.slowness = 50.0
        await asyncio.sleep(self._rng.expovariate(0.2))
        self._loop.slowness = 1.0

    async def _break_feedback(self, host: Host) -> None:
        self._faults.note(Fault.FEEDBACK_CEASED)
        self._clients.is_feedback_broken = True
        await asyncio.sleep(self._rng.uniform(20.0, 60.0))
        self._clients.is_feedback_broken = False

    async def _lose_rows(self, host: Host) -> None:
        if self._world.log.unsynced():
            self._faults.note(Fault.ROWS_LOST)
            self._world.log.restart()

    async def _set_forward(self, host: Host) -> None:
        self._faults.note(Fault.CLOCK_FORWARD)
        host.set_wall(self._rng.choice(JUMPS))

    async def _set_back(self, host: Host) -> None:
        self._faults.note(Fault.CLOCK_BACK)
        host.set_wall(-self._rng.choice(JUMPS))

    async def _change_product(self, host: Host) -> None:
        self._faults.note(Fault.PRODUCT_CHANGED)
        rng = self._rng
        name = rng.choice([*PRODUCTS, "q1", "q2"])
        features: dict[str, Any] | None = {"category": f"c{rng.randrange(3)}"}
        body = ProductBody(features if rng.random() < 0.7 else None, rng.random() < 0.7)
        await self._clients.insist("product", name, body, lambda service: service.change_product(name, body))

    async def _change_settings(self, host: Host) -> None:
        self._faults.note(Fault.SETTINGS_CHANGED)
        rng = self._rng
        exploration = rng.choice([0.0, 0.1, 0.3])
        self.explorations.add(exploration)
        wait = rng.uniform(5.0, self._wait)
        changes = {"exploration": exploration, "wait": wait, "aggregation": rng.choice(["earliest", "sum"])}
        await self._clients.ask(host, "settings", "", changes, lambda service: service.change_settings(changes))

    async def _switch_model(self, host: Host) -> None:
        self._faults.note(Fault.MODEL_SWITCHED)
        file = self._rng.choice(self._world.models.files)

        async def switch(service: Service) -> None:
            await service.switch_model(service.keep_model(file))

        await self._clients.ask(host, "model", "", None, switch)

    async def _change_arms(self, host: Host) -> None:
        if host.service is None:
            return
        self._faults.note(Fault.ARMS_CHANGED)
        rng = self._rng
        roles: list[Any] = rng.sample(["challenger", "holdback"], 2)
        arms = [
            ArmSetting(name=name, model=str(model), share=rng.choice([0.1, 0.4]), role=role)
            for name, model, role in zip(["new", "held"], self._world.models.files[1:], roles, strict=True)
        ][: rng.randrange(3)]
        values = {name: getattr(host.settings, name) for name in host.settings.model_fields_set}
        host.settings = Settings(**{**values, "arms": arms})
        await self.restart(host)
        host.settings = Settings(**{**values, "arms": None})

    async def _delete_log(self, host: Host) -> None:
        # A learner that starts again asks the log whose the counted decisions are; of rows that are gone nobody knows.
        if host.settings.per_visitor:
            return
        self._faults.note(Fault.LOG_DELETED)
        behind = self._rng.choice(self._hosts)
        # So that at times what is removed is not learned everywhere.
        if behind.learner is not None and self._rng.random() < 0.7:
            self._faults.note(Fault.LEARNER_PAUSED)
            self._pause_for(behind.learner.process, 200.0)
            await asyncio.sleep(self._rng.uniform(10.0, 30.0))
        await self._looks.delete_log(host)
        for _ in range(3):  # as the store fails at times, and snapshots are to hold what is deleted
            await asyncio.sleep(self._rng.uniform(20.0, 50.0))
            for each in self._hosts:
                each.clean_soon()
