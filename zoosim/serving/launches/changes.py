"""What a person's change of the arms means for the launch: it begins, pauses, goes on, ships or is taken back."""

from typing import Any

import msgspec

from zoosim.core.config import build
from zoosim.core.errors import ConfigError
from zoosim.monitoring.launch import Event, State, next_state
from zoosim.monitoring.launch_plan import Plan
from zoosim.serving.bodies import DeploymentBody
from zoosim.serving.deployment import is_launch, with_share
from zoosim.serving.events import CHAMPION, Start
from zoosim.serving.launches.state import Launch, launch_in, with_launch

MOVES = {
    "pause": Event.PAUSED,
    "resume": Event.RESUMED,
    "share": Event.PAUSED,
    "rollback": Event.TAKEN_BACK,
    "retire": Event.TAKEN_BACK,
}
"""What happens to a launch by an action on its arm."""


def plan_of(body: DeploymentBody) -> Plan:
    """Return the plan of a launch; raises `ConfigError`."""
    plan: Plan = build(Plan, body.plan or {}, "plan of the launch")
    return plan


def with_change(before: Start, after: Start, body: DeploymentBody, now: int) -> Start:
    """Return a start that says how the launch stands after a person's change.

    Args:
        before: The start before the change.
        after: The start after it, with the arms changed.
        body: The change.
        now: The time, in microseconds since 1970.

    Raises:
        ConfigError: no launch is running, or it cannot be moved so.
    """
    launch = launch_in(before)
    if is_launch(body):
        arm = body.arm or body.role
        plan = plan_of(body).model_dump(mode="json")
        begun = Launch(before.number + 1, arm, plan, State.RUNNING, 0, now, model=body.model)
        share = share_of(after, begun)
        if share <= 0.0:
            raise ConfigError("launch: got no visitors, as other arms have them all; give those smaller shares first")
        return with_launch(with_share(after, arm, share), begun)
    if launch is None or not _concerns(launch, body):
        if body.action in ("pause", "resume"):
            raise ConfigError(f"{body.action}: no launch is running; launch a model first")
        return after
    if body.action == "promote":
        return with_launch(after, _moved(launch, State.COMPLETED, body))
    event = MOVES.get(body.action)
    return after if event is None else with_launch(after, _moved(launch, next_state(launch.state, event), body))


def share_of(start: Start, launch: Launch) -> float:
    """Return the share of a launch at its step: of what other arms leave to it and the champion."""
    others = sum(arm.share for arm in start.arms if arm.name != launch.arm)
    return launch.checked_plan().steps[launch.step] * (1.0 - others)


def _concerns(launch: Launch, body: DeploymentBody) -> bool:
    """Return whether an action is about a launch: what is running, or what has shipped and is taken back."""
    if body.action == "rollback" and body.arm in ("", CHAMPION):
        return launch.state is State.COMPLETED
    return launch.is_running and body.arm in ("", launch.arm)


def _moved(launch: Launch, state: State, body: DeploymentBody) -> Launch:
    changes: dict[str, Any] = {"state": state, "by_person": state is State.PAUSED, "reason": body.why or body.action}
    return msgspec.structs.replace(launch, **changes)
