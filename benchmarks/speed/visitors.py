"""S27: a service whose policy knows 100,000 visitors by their last eight visits, products of 64 numbers.

How soon a reward is used in decisions for its visitor, how long requests take meanwhile, what a snapshot takes, and the
memory of both processes.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import polars as pl

import zoosim
from benchmarks.speed.memory import most_memory
from benchmarks.speed.serving import evenly, learned_from_feedback
from tests.serving.process import ServiceProcess, serving
from zoosim.core.rng import stream
from zoosim.policies.model import load_model, save_model
from zoosim.policies.products.visitor_linear import VisitorLinUCB
from zoosim.serving.folder import SNAPSHOTS, load_served_model
from zoosim.serving.ids import user_id_of
from zoosim.serving.snapshots import newest_replica, write_snapshot
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore

VISITORS, PRODUCTS, NUMBERS = 100_000, 50, 64
ROWS = 2_000
AT_ONCE = 10_000
"""Visits that are taught together."""

ASKED = 50
RATE, SECONDS = 50, 20
"""Visitors per second, each with a decision and a reward, and for how long they come."""

TOO_MANY = 429


def main() -> None:
    """Print what a service with so many visitors takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make_model(folder, VISITORS)
        with serving(folder / "service", model, wait=60.0, per_visitor=0) as service:
            service.wait_for_learner()
            delays = asyncio.run(freshness(service.url))
            print(f"S27 {VISITORS:,} visitors: a reward is used after {_quantiles(delays)}")
            seconds, refused = asyncio.run(visit(service.url))
            print(
                f"S27 {RATE} decisions and rewards per second: a decision takes {_quantiles(seconds)}, {refused} of "
                f"{RATE * SECONDS:,} refused"
            )
            print(f"S27 memory: {memory_of(service)}")
            service.stop()
        print(f"S27 {snapshot_times(folder / 'service', folder)}")


def make_model(folder: Path, visitors: int) -> Path:
    """Train a model on a small log, let it learn eight visits of each visitor, and save it."""
    rng = stream(0, "shop")
    names = [f"p{number}" for number in range(PRODUCTS)]
    columns: dict[str, Any] = {
        "item": rng.choice(names, ROWS),
        "propensity": np.full(ROWS, 1 / PRODUCTS),
        "click": rng.integers(0, 2, ROWS),
        **{f"x{number}": rng.normal(size=ROWS).round(3) for number in range(2)},
    }
    embeddings = rng.normal(size=(PRODUCTS, NUMBERS)) / np.arange(1, NUMBERS + 1)
    numbers = {f"e{number}": embeddings[:, number] for number in range(NUMBERS)}
    pl.DataFrame({"item": names, **numbers}).write_csv(folder / "products.csv")
    schema = {
        "columns": {"action": "item", "propensity": "propensity"},
        "rewards": {"click": "click"},
        "features": {"x0": "number", "x1": "number"},
        "products": {
            "table": str(folder / "products.csv"),
            "id": "item",
            "features": dict.fromkeys(numbers, "number"),
        },
    }
    zoosim.import_log(pl.DataFrame(columns), schema, folder / "log.parquet")
    zoosim.train(folder / "log.parquet", ["visitor-linucb"], folder / "trained.zoosim")
    model = load_model(folder / "trained.zoosim")
    policy = model.policy
    assert isinstance(policy, VisitorLinUCB)
    ids = np.repeat([user_id_of(f"v{number}") for number in range(visitors)], policy.visits)
    rng.shuffle(ids)
    for start in range(0, len(ids), AT_ONCE):
        part = ids[start : start + AT_ONCE]
        candidates = policy.attach_block(model.catalogue.ids, model.catalogue.features, len(part))
        users = rng.normal(size=(len(part), policy.spec.user_dim))
        actions = rng.integers(PRODUCTS, size=len(part))
        policy.teach(candidates, part, users, actions, rng.integers(0, 2, len(part)).astype(float))
    return save_model(model, folder / "taught.zoosim")


async def freshness(url: str) -> list[float]:
    """Return how many seconds pass from the answer to a reward until decisions know of it, for one visitor each."""
    delays = []
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        for number in range(ASKED):
            decision_id = await _decide(client, number)
            learned = await learned_from_feedback(client)
            await _reward(client, decision_id)
            began = time.perf_counter()
            while await learned_from_feedback(client) == learned:
                await asyncio.sleep(0.005)
            delays.append(time.perf_counter() - began)
    return delays


async def visit(url: str) -> tuple[list[float], int]:
    """Let visitors come, each with a decision and its reward.

    Returns how many seconds the decisions took, and how many requests the service refused as too many.
    """
    taken = []
    refused = 0
    coming = iter(stream(1, "coming").integers(VISITORS, size=RATE * SECONDS).tolist())
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:

        async def come() -> None:
            nonlocal refused
            began = time.perf_counter()
            try:
                decision_id = await _decide(client, next(coming))
                taken.append(time.perf_counter() - began)
                await _reward(client, decision_id)
            except httpx2.HTTPStatusError as error:
                if error.response.status_code != TOO_MANY:
                    raise
                refused += 1

        await evenly(come, RATE, SECONDS)
    return taken, refused


async def _decide(client: httpx2.AsyncClient, visitor: int) -> str:
    body = {"visitor": {"x0": 0.5, "x1": -0.5}, "visitor_id": f"v{visitor}"}
    answer = await client.post("/v1/decisions", json=body)
    return str(answer.raise_for_status().json()["decision_id"])


async def _reward(client: httpx2.AsyncClient, decision_id: str) -> None:
    path = f"/v1/decisions/{decision_id}/feedback"
    (await client.post(path, json={"rewards": {"click": 1.0}})).raise_for_status()


def memory_of(service: ServiceProcess) -> str:
    """Return the most memory of both processes, in words."""
    learner = most_memory(service.learner())
    return f"the process that decides takes at most {most_memory(service.pid):.2f} GB, the learner {learner:.2f} GB"


def snapshot_times(store: Path, folder: Path) -> str:
    """Return the size of the newest snapshot, and how long it takes to read and to write, in words."""
    reader = SqliteStore(store / LOG, read_only=True)
    (store / SNAPSHOTS).mkdir(exist_ok=True)
    began = time.perf_counter()
    replica = newest_replica(store / SNAPSHOTS, lambda digest: load_served_model(store, digest), reader.rows, print)
    read = time.perf_counter() - began
    began = time.perf_counter()
    path = write_snapshot(folder, replica)
    written = time.perf_counter() - began
    return f"a snapshot takes {path.stat().st_size / 1e6:,.0f} MB, {written:.1f} s to write and {read:.1f} s to read"


def _quantiles(seconds: list[float]) -> str:
    median, most = 1e3 * np.quantile(seconds, (0.5, 0.99))
    return f"p50 {median:.0f} ms, p99 {most:.0f} ms"
