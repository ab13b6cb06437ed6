"""A launch as a log holds it: a start says where it is, and by which plan."""

import json
from functools import lru_cache
from typing import Any

import msgspec

from zoosim.core.config import build
from zoosim.core.errors import ConfigError
from zoosim.monitoring.launch import SPLITTING, State
from zoosim.monitoring.launch_plan import Plan
from zoosim.serving.events import Start

LAUNCH = "launch"
"""The part of the changes in a log that says how the launch stands."""


class Launch(msgspec.Struct, frozen=True):
    """State of a launch, as a start of the log says.

    Attributes:
        number: The number of the start that began it, which names it.
        arm: The name of its arm; once it has shipped, that of the champion.
        plan: The fields of its plan.
        state: Where it is.
        step: The place of its share among the plan's.
        since: When that share began, in microseconds since 1970.
        by_person: Whether a person paused it.
        reason: Why it is where it is.
        said: What it said before it began, on when it finds what it is set to find, in sentences.
        model: The digest of its model.
        verdict: That of the metrics by which it was shipped or taken back; empty where they did not say so.
        visitors: Visitors that counted by then.
        changes: By how much more the new model earned by then of each reward, as a part of the champion's mean.
    """

    number: int
    arm: str
    plan: dict[str, Any]
    state: State
    step: int
    since: int
    by_person: bool = False
    reason: str = ""
    said: list[str] = []
    model: str = ""
    verdict: str = ""
    visitors: int = 0
    changes: dict[str, float] = {}

    @property
    def is_running(self) -> bool:
        """True while traffic is split by it."""
        return self.state in SPLITTING

    def checked_plan(self) -> Plan:
        """Return its plan; raises `ConfigError` where the log holds none."""
        return _checked_plan(msgspec.json.encode(self.plan, order="sorted"))


@lru_cache(maxsize=8)
def _checked_plan(packed: bytes) -> Plan:
    # Kept, since the service and the learner ask some times a second, and to check a plan takes a millisecond.
    plan: Plan = build(Plan, msgspec.json.decode(packed), "log of the service: launch")
    return plan


def launch_in(start: Start) -> Launch | None:
    """Return how the launch of a start stands; None where there was none."""
    launch = _logged_launch(start.changes)
    if launch is None:
        return None
    # An arm's turn is the number of the start that began it. So an arm of this name that came later, as by
    # `serve --arm`, is not taken for the one that was launched.
    if launch.is_running and all((arm.name, arm.turn) != (launch.arm, launch.number) for arm in start.arms):
        return msgspec.structs.replace(launch, state=State.ROLLED_BACK, reason="its arm was ended")
    return launch


@lru_cache(maxsize=8)
def _logged_launch(changes: bytes) -> Launch | None:
    """Return the launch that the changes in a log name, rolled back where its plan cannot be read."""
    entry = json.loads(changes).get(LAUNCH)
    if entry is None:
        return None
    launch = msgspec.convert(entry, Launch)
    try:
        launch.checked_plan()
    except ConfigError as error:  # of a release that knows other plans: the service goes on without the launch
        return msgspec.structs.replace(launch, state=State.ROLLED_BACK, reason=str(error))
    return launch


def with_launch(start: Start, launch: Launch) -> Start:
    """Return a start that says how a launch stands."""
    changes = json.loads(start.changes)
    changes[LAUNCH] = msgspec.to_builtins(launch)
    return msgspec.structs.replace(start, changes=json.dumps(changes, sort_keys=True).encode())
