"""One launch over HTTP: a service, its visitors, and how the launch went by the service's own log."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import numpy as np

from zoosim.core.durations import MICROSECONDS
from zoosim.core.types import FloatArray
from zoosim.monitoring.launch import State
from zoosim.monitoring.launch_plan import STEPS
from zoosim.playground.service import ServiceProcess
from zoosim.playground.shop import HOUR, Shop
from zoosim.playground.visitors import Visitors
from zoosim.playground.world import appeal_of, liking, rival_picks, small_shop, teach
from zoosim.rehearsal.launches.course import Course
from zoosim.serving.arms import Assignment
from zoosim.serving.client import Client
from zoosim.serving.events import CHAMPION, HOLDBACK, Start, start_key, unpack
from zoosim.serving.store.address import find_log, open_store

NEW = "new"
"""The name of the challenger's arm."""

EXPLORATION = 0.05
SETTINGS: dict[str, Any] = {"exploration": EXPLORATION, "most_delay": 30.0, "snapshot": 3_600.0}

LOOK = 200
"""Visitors between two looks at how the launch stands."""

OVER = (State.COMPLETED, State.ROLLED_BACK)


class ServedLaunch(NamedTuple):
    """How a launch went.

    Attributes:
        course: Its states and shares over time.
        visitors: The visitors with the draws that decided here, as `studies.launches` takes them.
        refused: Requests that got no answer.
    """

    course: Course
    visitors: Visitors
    refused: int


def serve_launch(visitors: Visitors, effect: float, seed: int, hours: float) -> ServedLaunch:
    """Launch a challenger of an effect in a service, and let visitors come until it is over.

    Args:
        visitors: The visitors.
        effect: By what part more of its visitors click than of the champion's.
        seed: That of the shop.
        hours: Simulated hours after which it is left as it is.
    """
    world = small_shop(visitors, appeal_of(effect, EXPLORATION), seed)
    own, rival = rival_picks()
    with TemporaryDirectory(prefix="zoosim-shop-") as name:
        folder = Path(name)
        champion = teach(liking(own), folder / "champion.zoosim")
        challenger = teach(liking(rival), folder / "challenger.zoosim")
        process = ServiceProcess(folder / "shop", champion, SETTINGS)
        with process as service, Client(service.url, timeout=30.0) as client:
            shop = Shop(world, service.url, service.time)
            opened_at = service.time.now()
            client.deploy("launch", arm=NEW, model=client.keep_model(challenger.read_bytes()), who="study")
            shop.visit(_watch(client, hours))
            deployment = client.deployment()
        drawn = visitors._replace(arm=_arm_draws(service.store, len(visitors.hour)), luck=_luck(shop, visitors))
        return ServedLaunch(_course(deployment, opened_at), drawn, sum(shop.refused.values()))


def _luck(shop: Shop, visitors: Visitors) -> FloatArray:
    """Return draws of clicks by which those who came click, or not, as they did."""
    luck = visitors.luck.copy()
    for visit in shop.visits:
        luck[visit.visitor] = 0.0 if visit.is_clicked else 1.0
    return luck


def _watch(client: Client, hours: float) -> Callable[[Shop], bool]:
    """Return what asks the service now and then whether the launch is over."""
    next_look = LOOK

    def is_over(shop: Shop) -> bool:
        nonlocal next_look
        if len(shop.visits) < next_look:
            return False
        next_look = len(shop.visits) + LOOK
        return shop.hours > hours or client.deployment()["launch"]["state"] in OVER

    return is_over


def _course(deployment: dict[str, Any], opened_at: int) -> Course:
    """Return the course of a launch, by the history that a service tells; the newest change comes first in it."""
    begin, *changes = [change for change in reversed(deployment["history"]) if change["who"]]
    course = Course(State.RUNNING, 0.0, (0.0,), (begin["shares"][NEW],))
    for change in changes:
        hour = (change["time"] * MICROSECONDS - opened_at) / HOUR
        # Once it has shipped, the challenger is the champion, and its arm is gone.
        course = course.then(hour, State.RUNNING, change["shares"].get(NEW, 1.0 - change["shares"].get(HOLDBACK, 0.0)))
    return course._replace(state=State(deployment["launch"]["state"]))


def _arm_draws(store: Path, count: int) -> FloatArray:
    """Return a draw for each visitor by which the computed launch gives them the arm that the service gives them.

    The service draws by hashes, and the computed launch by one number: the new model has those below its share, the
    holdback those above what it leaves.
    """
    address = find_log(store)
    assert address is not None
    log = open_store(address, True)
    number = 1
    while (row := log.find(start_key(number))) is None or not unpack(row).arms:
        number += 1
    begin: Start = unpack(row)
    log.close()
    part = 1.0 - begin.arms[[arm.role for arm in begin.arms].index(HOLDBACK)].share
    ends = [0.0, *(part * step for step in STEPS)]
    assignments = [Assignment(_at_share(begin, share)) for share in ends[1:]]
    draws = np.empty(count)
    for visitor in range(count):
        arms = [each.arm_for(f"v{visitor}", "") for each in assignments]
        if NEW in arms:
            place = arms.index(NEW)
            draws[visitor] = (ends[place] + ends[place + 1]) / 2.0
        else:
            draws[visitor] = (ends[-1] + part) / 2.0 if arms[-1] == CHAMPION else (part + 1.0) / 2.0
    return draws


def _at_share(start: Start, share: float) -> Start:
    """Return a start in which the challenger has another share."""
    arms = [msgspec.structs.replace(arm, share=share) if arm.name == NEW else arm for arm in start.arms]
    return msgspec.structs.replace(start, arms=arms)
