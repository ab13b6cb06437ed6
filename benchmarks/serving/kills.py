"""Kill the processes of a service at random moments, and hold what was acknowledged against its log."""

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.serving.process import ServiceProcess, serving
from tests.serving.shop import make_model
from tests.serving.test_faults import check_nothing_is_lost, disturbed, restart
from tests.serving.valkey import valkey_server
from zoosim.serving.store.address import parse_address

CLIENTS, SENDS, SEED = 8, 5, 0
LONGEST = 3.0
"""Seconds between two kills at most: as long as a learner takes to start, so some hit its start, others its work."""

WAIT = 7_200.0
"""Longer than all of it takes, so that each feedback counts."""


def on_sqlite(count: int, folder: Path) -> None:
    """Kill the service and its learner, each `count` times."""
    run(f"sqlite:{folder / 'service'}", folder, count, {})


def on_valkey(count: int, folder: Path) -> None:
    """Kill the service, its learner and the server of its log, each `count` times."""
    with valkey_server(folder / "valkey") as server:
        run(server.store("loop", folder / "service"), folder, count, {"server of the log": server.restart})


def run(store: str, folder: Path, count: int, others: Mapping[str, Callable[[], None]]) -> None:
    """Kill in a random order; print what was acknowledged, once it is checked that all of it is there."""
    with serving(folder / "service", make_model(folder), store, wait=WAIT, snapshot=2.0) as service:
        victims = {"service": lambda: restart(service), "learner": lambda: kill_learner(service), **others}
        kills = [kill for kill in victims.values() for _ in range(count)]
        random.Random(SEED).shuffle(kills)
        shops = disturbed(service, kills, SEED, CLIENTS, SENDS, LONGEST)
        assert service.stop() == 0
    assert "Traceback" not in service.output, service.output
    rows = check_nothing_is_lost(parse_address(store), shops)
    decisions = sum(len(shop.decisions) for shop in shops)
    feedback = sum(len(shop.feedback) for shop in shops)
    print(
        f"{count} kills of each: {', '.join(victims)}; {CLIENTS} clients, each request sent 1 to {SENDS} times: "
        f"{decisions:,} decisions and {feedback:,} feedbacks acknowledged, 0 lost, each applied once; the state "
        f"is that of an undisturbed replay of the {rows:,} rows"
    )


def kill_learner(service: ServiceProcess) -> None:
    """Kill the learner; where it is being started again, as soon as it is there."""
    while not service.learner():
        time.sleep(0.01)
    service.kill_learner()
