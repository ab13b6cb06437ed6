"""Break the pixel of a shop, wait until its service has frozen learning, mend it, and wait until that is over."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.playground.service import ServiceProcess
from zoosim.playground.shop import Shop
from zoosim.playground.visitors import draw_visitors
from zoosim.playground.world import appeal_of, liking, rival_picks, small_shop, teach
from zoosim.serving.client import Client

TRAFFIC = (1.0, 10.0, 100.0)
"""How many times the 20,000 visitors a day come."""

BEFORE = 3_000
"""Visitors who come before it breaks."""

MOST = 3_000
"""Visitors within whom learning has to be frozen, and go on again."""

EXPLORATION = 0.05
SETTINGS: dict[str, Any] = {"exploration": EXPLORATION, "most_delay": 30.0, "snapshot": 3_600.0}


@dataclass(frozen=True)
class Run:
    """A pixel that broke: simulated minutes until learning was frozen and until it went on; how the launch stood then.

    Minutes are None where that did not happen within `MOST` visitors.
    """

    seed: int
    traffic: float
    to_freeze: float | None
    to_go_on: float | None
    launch: str


def measure(*, seeds: Any = "1000:1003", progress: Progress = lambda line: None) -> list[Run]:
    """Return a run for each shop and traffic, one after the other."""
    rows = []
    with TemporaryDirectory(prefix="zoosim-shop-") as name:
        models = [teach(liking(picks), Path(name) / f"{place}.zoosim") for place, picks in enumerate(rival_picks())]
        for seed in parse_seeds(seeds):
            for traffic in TRAFFIC:
                rows.append(_run(seed, traffic, models, Path(name) / f"shop {seed} {traffic:g}"))
                progress(f"seed {seed}, traffic x {traffic:g}: frozen after {rows[-1].to_freeze} minutes")
    return rows


def _run(seed: int, traffic: float, models: list[Path], folder: Path) -> Run:
    champion, challenger = models
    world = small_shop(draw_visitors(seed, days=2), appeal_of(0.0, EXPLORATION), seed)
    with ServiceProcess(folder, champion, SETTINGS) as service, Client(service.url, timeout=30.0) as client:
        shop = Shop(world, service.url, service.time)
        shop.traffic = traffic
        client.deploy("launch", arm="new", model=client.keep_model(challenger.read_bytes()))
        shop.visit(lambda shop: len(shop.visits) >= BEFORE)
        shop.break_pixel()
        to_freeze = _minutes_until(shop, lambda: bool(client.deployment()["frozen"]))
        shop.mend_pixel()
        to_go_on = _minutes_until(shop, lambda: not client.deployment()["frozen"])
        return Run(seed, traffic, to_freeze, to_go_on, client.deployment()["launch"]["state"])


def _minutes_until(shop: Shop, has_come: Callable[[], bool]) -> float | None:
    """Let visitors come until something has, and return the simulated minutes; None where it does not come."""
    begin = shop.hours
    most = len(shop.visits) + MOST
    # Asked before each visitor, as minutes are to be told apart.
    shop.visit(lambda shop: has_come() or len(shop.visits) >= most)
    return 60.0 * (shop.hours - begin) if has_come() else None
