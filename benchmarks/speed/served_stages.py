"""S35, its second part: a service of two stages under 100 decisions per second, of requests without candidates.

Products have 16 numbers, visitors 8. `ZOOSIM_PRODUCTS` sets another number of products than 1,000,000.
"""

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

import zoosim
from benchmarks.speed.serving import Load, evenly, timed
from tests.serving.process import ServiceProcess, serving
from zoosim.core.types import Context
from zoosim.policies.model import Catalogue, Model, load_model, save_model
from zoosim.policies.products.two_stage import TwoStage
from zoosim.serving.candidate_sources import index_products

PRODUCTS = int(os.environ.get("ZOOSIM_PRODUCTS", 1_000_000))
USERS, WIDTH, SAMPLE, ROWS = 8, 16, 500, 2_000
DECISIONS, SECONDS = 100, 20


def main() -> None:
    """Print how a service answers, and what a decision takes there and in process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make_model(folder)
        alone = in_process(model)
        print(f"S35 {PRODUCTS:,} products, in process: {alone:.2f} ms of processor time per decision", flush=True)
        began = time.monotonic()
        with serving(folder / "service", model, wait=5.0) as service:
            print(f"S35 service: starts in {time.monotonic() - began:.0f} s", flush=True)
            asyncio.run(send(service.url, 2))
            busy = processor_seconds(service.pid)
            load = asyncio.run(send(service.url, SECONDS))
            # Of those that were answered: a request that is turned away takes little, and counts for these.
            each = 1e3 * (processor_seconds(service.pid) - busy) / load.statuses[200]
            memory = gigabytes(service)
        print(
            f"S35 service: {load.line('decide')}; statuses {dict(load.statuses)}; {each:.2f} ms of processor time per "
            f"decision, {each / alone:.1f} times that in process; {memory:.1f} GB",
            flush=True,
        )


def make_model(folder: Path) -> Path:
    """Write a model of two stages whose catalogue is large; its policy learned the rewards of a few products."""
    rng = np.random.default_rng(0)
    items = {"item": [f"SKU-{k}" for k in range(SAMPLE)], **dict(numbers("x", WIDTH, SAMPLE, rng))}
    shown = [f"SKU-{k}" for k in rng.integers(SAMPLE, size=ROWS)]
    clicks = (rng.random(ROWS) < 0.3).astype(int)
    table = {"item": shown, "propensity": 1 / SAMPLE, "click": clicks, **dict(numbers("u", USERS, ROWS, rng))}
    pl.DataFrame(items).write_csv(folder / "items.csv")
    zoosim.import_log(pl.DataFrame(table), None, folder / "log.parquet", products=folder / "items.csv")
    zoosim.train(folder / "log.parquet", ["two-stage"], folder / "small.zoosim", progress=None)
    small = load_model(folder / "small.zoosim")
    names = tuple(f"SKU-{k}" for k in range(PRODUCTS))
    features = rng.normal(size=(PRODUCTS, small.catalogue.features.shape[1]))
    large = Model(small.policy, small.fitted, Catalogue(names, features), small.facts)
    return save_model(large, folder / "large.zoosim")


def numbers(name: str, width: int, rows: int, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """Yield columns of normal numbers."""
    for column in range(width):
        yield f"{name}{column}", rng.normal(size=rows)


def in_process(file: Path) -> float:
    """Return the milliseconds of processor time that a decision takes by the policy alone, the median."""
    model = load_model(file)
    policy = model.policy
    assert isinstance(policy, TwoStage)
    index_products(model)
    rng = np.random.default_rng(1)
    taken = []
    for number in range(220):
        user = model.fitted.visitors.encode_one({f"u{k}": float(v) for k, v in enumerate(rng.normal(size=USERS))})
        began = time.process_time()
        policy.decide(Context(user_id=0, user=user))
        if number >= 20:
            taken.append(1e3 * (time.process_time() - began))
    return float(np.median(taken))


async def send(url: str, seconds: float) -> Load:
    """Send requests without candidates at even distances."""
    import aiohttp

    rng = np.random.default_rng(2)
    visitors = rng.normal(size=(int(DECISIONS * seconds), USERS))
    rows = [{f"u{k}": value for k, value in enumerate(row)} for row in visitors.tolist()]
    bodies = iter([msgspec.json.encode({"visitor": row}) for row in rows])
    load = Load({}, Counter(), [])
    connector = aiohttp.TCPConnector(limit=200)
    async with aiohttp.ClientSession(url, connector=connector, headers={"Content-Type": "application/json"}) as client:

        async def decide() -> None:
            await timed(load, "decide", client.post("/v1/decisions", data=next(bodies)))

        await evenly(decide, DECISIONS, seconds)
    return load


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def gigabytes(service: ServiceProcess) -> float:
    """Return the memory of a service and its learner."""
    pages = [int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in (service.pid, service.learner())]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 1e9
