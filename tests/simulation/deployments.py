"""A person who launches models in a simulated day, gives them shares, promotes them and takes them back."""

import asyncio
from random import Random
from typing import Any

from tests.simulation.clients import Clients, may_be_tried_again, pause_before_a_try
from tests.simulation.faults import Fault
from tests.simulation.hosts import Host, World
from zoosim.serving.bodies import DeploymentBody
from zoosim.serving.service import Service

ARMS = ("challenger", "second", "holdback")
"""Names of arms that are launched; those of settings are others."""

PLAN: dict[str, Any] = {
    "steps": [0.3, 0.5],
    "least": 2,
    "level": 0.4,
    "ship_level": 0.4,
    "metrics": [
        {"role": "success", "lift": 0.5},
        {"role": "guardrail", "margin": 0.3, "drop": 0.5},
        {"role": "signal", "margin": 0.0, "drop": 0.9},
    ],
}
"""A plan so hasty that launches of a few visitors go through, and are taken back."""


class Deployments:
    """Changes of what decides.

    Attributes:
        bodies: What was asked for, by the id of the change.
    """

    def __init__(self, world: World, clients: Clients, rng: Random) -> None:
        """Begin with nothing asked for.

        Args:
            world: What all machines share.
            clients: Who asks.
            rng: What is asked for.
        """
        self.bodies: dict[str, list[DeploymentBody]] = {}
        self._faults = world.faults
        self._models = world.models.files
        self._clients = clients
        self._rng = rng
        self._launched = ARMS[0]

    async def change(self, host: Host) -> None:
        """Ask for a change, and where its answer is lost or by mistake ask again, also of another service, or later."""
        self._faults.note(Fault.DEPLOYED)
        await self._ask_for(host, self._body(f"change {len(self.bodies)}"))

    async def launch(self, host: Host) -> None:
        """Ask for a launch by a plan."""
        await self._ask_for(host, self._launch(f"change {len(self.bodies)}", self._rng.choice(ARMS[:2])))

    async def _ask_for(self, host: Host, body: DeploymentBody) -> None:
        rng = self._rng
        self.bodies[body.change_id] = [body]
        model = rng.choice(self._models)
        answer = await self._send(host, body, model)
        for _ in range(3):
            if not may_be_tried_again(answer):
                break
            await asyncio.sleep(pause_before_a_try(rng))
            answer = await self._send(self._clients.host(), body, model)
        if self._faults.happens(Fault.CHANGE_REPEATED, 0.2):
            await asyncio.sleep(rng.expovariate(0.1))
            await self._send(self._clients.host(), body, model)
        if self._faults.happens(Fault.CHANGE_ID_TAKEN, 0.1):
            other = self._body(body.change_id)
            self.bodies[body.change_id].append(other)
            await self._send(self._clients.host(), other, model)

    def _body(self, change_id: str) -> DeploymentBody:
        rng = self._rng
        actions = ["launch", "share", "promote", "rollback", "retire", "freeze", "unfreeze", "pause", "resume"]
        (action,) = rng.choices(actions, [4, 2, 2, 2, 1, 1, 2, 1, 2])
        arm = rng.choice(ARMS)
        if action != "launch" and rng.random() < 0.5:
            arm = self._launched  # most changes are of what is on its way
        if action == "launch" and arm != "holdback" and rng.random() < 0.7:
            return self._launch(change_id, arm)
        share = rng.choice([0.0, 0.1, 0.3]) if action in ("launch", "share") else None
        if action in ("rollback", "freeze", "unfreeze") and rng.random() < 0.5:
            arm = ""
        return DeploymentBody(
            action=action,  # type: ignore[arg-type]
            arm=arm,
            share=share,
            role="holdback" if arm == "holdback" else "challenger",
            who="somebody",
            change_id=change_id,
        )

    def _launch(self, change_id: str, arm: str) -> DeploymentBody:
        self._launched = arm
        return DeploymentBody("launch", arm, who="somebody", change_id=change_id, plan=self._plan())

    def _plan(self) -> dict[str, Any]:
        rng = self._rng
        return {
            **PLAN,
            "holdback": rng.choice([0.0, 0.1]),
            "hours": rng.choice([0.002, [0.001, 0.003]]),
            "window": rng.choice([0.0, 10.0]),
            "most_days": rng.choice([0.0, 0.0005]),
        }

    async def _send(self, host: Host, body: DeploymentBody, model: Any) -> Any:
        content = model.read_bytes() if body.action == "launch" else b""

        async def deploy(service: Service) -> Any:
            sent = body
            if content:
                # What a client does before: the digest of the model is what the service answers.
                sent = _with_model(body, service.keep_model_content(content))
            return await service.deploy(sent)

        return await self._clients.ask(host, "deploy", body.change_id, body, deploy)


def _with_model(body: DeploymentBody, digest: str) -> DeploymentBody:
    values = {name: getattr(body, name) for name in body.__struct_fields__}
    return DeploymentBody(**{**values, "model": digest})
