"""Q22: does a service whose first requests lacked a column, or had another in it, come to learn of that column?

Each shop has some segments of visitors, and each segment likes another product. A service without a model decides, and
a learner beside it reads its log, both in this process. ZOOSIM_SHOPS sets another number of shops.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.statistics import mean_interval
from zoosim.core.types import FloatArray
from zoosim.serving.bodies import DecideBody
from zoosim.serving.events import Kind
from zoosim.serving.folder import SECRET, SECRET_BYTES, Models
from zoosim.serving.publishing import News, Publisher, decode, encode
from zoosim.serving.replica import Replica
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore

SHOPS, FIRST = 5, 1_000
PROBE = 200
"""Requests that come first, of a way that has them."""

VISITS, COUNTED = 1_500, 500
"""Visits behind the probe, and how many of them count, the last ones."""

TOGETHER = 20
"""Visits after which the service learns what they earned."""

Columns = Callable[[int, np.random.Generator], dict[str, Any]]


class Shop(NamedTuple):
    """The probability of a click of each segment on each product `(S, K)`; no two segments like the same one best."""

    click_rates: FloatArray


class Way(NamedTuple):
    """What a probe sends of each segment, None for no probe, and whether later visits say their segment."""

    probe: Columns | None
    has_segment: bool = True


def _said(segment: int, rng: np.random.Generator) -> dict[str, Any]:
    return {"age": int(rng.integers(18, 80)), "segment": f"segment {segment}"}


def _nothing(segment: int, rng: np.random.Generator) -> dict[str, Any]:
    return {}


WAYS: Mapping[str, Way] = {
    "control, no probe": Way(None),
    "a schema that stays as it is": Way(_nothing, has_segment=False),
    "probe without columns": Way(_nothing),
    "probe with one segment": Way(lambda segment, rng: {"age": int(rng.integers(18, 80)), "segment": "segment 0"}),
    "probe with two segments": Way(lambda segment, rng: {"segment": f"segment {segment % 2}"}),
    "probe with numbers": Way(lambda segment, rng: {"segment": float(rng.integers(100))}),
}


def main() -> None:
    """Print how often visitors were shown what their segment likes best, in the last visits of each way."""
    shops = int(os.environ.get("ZOOSIM_SHOPS", SHOPS))
    shares: dict[str, list[float]] = {name: [] for name in WAYS}
    for seed in range(FIRST, FIRST + shops):
        for name, way in WAYS.items():
            shares[name].append(float(right(draw_shop(seed), seed, way)[-COUNTED:].mean()))
            of_shop = f"shop {seed - FIRST + 1} of {shops}, {name}: {shares[name][-1]:.1%} right"
            print(f"Q22: {of_shop}", file=sys.stderr, flush=True)
    control = np.array(shares[next(iter(WAYS))])
    visits = f"visits {VISITS - COUNTED + 1:,} to {VISITS:,}"
    for name, of_shops in shares.items():
        mean, low, high = mean_interval(100.0 * np.array(of_shops))
        less = mean_interval(100.0 * (control - np.array(of_shops)))
        interval = "" if low is None else f" ({low:.1f} to {high:.1f})"
        print(
            f"Q22 schema growth, {name}: {mean:.1f}% right{interval} in {visits} of {shops} shops, "
            f"{less.mean:.1f} points less than the control"
        )


def draw_shop(seed: int) -> Shop:
    """Draw a shop of 2 to 5 segments and up to 4 more products, clicked by 5 to 20%, the best by 50 to 80%."""
    rng = np.random.default_rng([seed, 22])
    segments = int(rng.integers(2, 6))
    rates = rng.uniform(0.05, 0.2, (segments, segments + int(rng.integers(0, 5))))
    best = rng.permutation(rates.shape[1])[:segments]
    rates[np.arange(segments), best] = rng.uniform(0.5, 0.8, segments)
    return Shop(rates)


def right(shop: Shop, seed: int, way: Way, visits: int = VISITS) -> FloatArray:
    """Return for each visit after the probe whether its visitor was shown the best product `(visits,)`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / SECRET).write_bytes(np.random.default_rng([seed, 24]).bytes(SECRET_BYTES))
        return asyncio.run(_right(shop, np.random.default_rng([seed, 23]), way, visits, folder))


async def _right(shop: Shop, rng: np.random.Generator, way: Way, visits: int, folder: Path) -> FloatArray:
    service = Service(Settings(store=f"sqlite:{folder}"), None, asyncio.get_running_loop())
    learner = Learner(service)
    try:
        if way.probe is not None:
            await _visit(learner, shop, rng, PROBE, "probe", way.probe)
        return await _visit(learner, shop, rng, visits, "visit", _said if way.has_segment else _nothing)
    finally:
        learner.close()
        service.close()


class Learner:
    """Learns what a service in the same process logs, and tells it, as the learner's process does."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._store = SqliteStore(service.folder / LOG, read_only=True)
        self._replica = Replica(Models(service.folder, self._store).load, self._store.rows)
        self._publisher = Publisher()

    async def learn(self) -> None:
        """Let the service tick, and learn all that its log holds."""
        await self.service.tick()
        after = self._replica.position
        rows = self._store.read(after, 1_000)
        for row in rows:
            self._replica.apply(row)
        start = self._replica.start
        assert start is not None
        spoken = [row for row in rows if row.kind in (Kind.START, Kind.PRODUCT)]
        news = News(after, self._replica.position, start.origin, spoken)
        self.service.current.take(decode(encode(self._publisher.message(self._replica.champion.model.policy, news))))
        await asyncio.sleep(0.001)

    def close(self) -> None:
        """Close the log."""
        self._store.close()


async def _visit(
    learner: Learner, shop: Shop, rng: np.random.Generator, visits: int, name: str, columns: Columns
) -> FloatArray:
    """Let visitors come, and return whether each was shown the best product."""
    segments, products = shop.click_rates.shape
    shown = np.zeros(visits)
    names = [f"p{product}" for product in range(products)]
    for number in range(visits):
        segment = int(rng.integers(segments))
        draw = float(rng.random())
        visitor_id = f"{name} {number}"
        candidates: list[Any] = [{"id": product} for product in names]
        values = columns(segment, np.random.default_rng(number))  # so that all ways meet the same visitors
        body = DecideBody(values, candidates, decision_id=visitor_id, visitor_id=visitor_id)
        decision = await learner.service.decide(body)
        product = names.index(decision.shown[0].product)
        shown[number] = product == int(shop.click_rates[segment].argmax())
        await learner.service.give_value(visitor_id, {0: float(draw < shop.click_rates[segment, product])})
        if number % TOGETHER == TOGETHER - 1:
            await learner.learn()
    return shown
