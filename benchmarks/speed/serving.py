"""S17: a service under load: 300 decisions among 50 candidates and 100 feedbacks per second for a minute.

Requests are sent at their times, whether earlier ones were answered or not. In the same run: a plain Starlette handler
that parses the same bodies and answers, a policy of Vowpal Wabbit behind such a handler, how long the disk takes to
sync, how soon a reward is used in decisions, what five times the load does, how fast a state is computed anew from the
log, and how long a start takes.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import httpx2
import msgspec
import numpy as np
import polars as pl

import zoosim
from benchmarks.speed.shop import LIKED, NUMBERS, category_of, click_chance, product_names, requests
from tests.serving.process import serving
from zoosim.serving.folder import load_served_model
from zoosim.serving.replica import Replica
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore

if TYPE_CHECKING:
    import aiohttp

DECISIONS, FEEDBACKS, SECONDS = 300, 100, 60
POLICIES = ("adaptive", "neural-linear")

PLAIN = """
import msgspec, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from zoosim.serving.bodies import DecideBody
decode, encode = msgspec.json.Decoder(DecideBody).decode, msgspec.json.Encoder().encode
async def decide(request):
    body = decode(await request.body())
    return Response(encode({"propensities": {name: 0.02 for name in body.candidates}}), media_type="application/json")
app = Starlette(routes=[Route("/v1/decisions", decide, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
"""


class Load(NamedTuple):
    """What came of requests.

    Attributes:
        seconds: How many each answer took, by kind of request.
        statuses: How often each status came.
        chances: How likely what each decision showed was clicked, in the order of answers.
    """

    seconds: dict[str, list[float]]
    statuses: Counter[int]
    chances: list[float]

    def line(self, what: str) -> str:
        """Return the median and the 99th percentile of a kind, in milliseconds."""
        taken = np.array(self.seconds[what]) * 1e3
        return f"{what} p50 {np.quantile(taken, 0.5):.1f} ms, p99 {np.quantile(taken, 0.99):.1f} ms ({len(taken):,})"

    def clicks(self) -> str:
        """Return which share of visitors clicks, in all and in the later half."""
        later = self.chances[len(self.chances) // 2 :]
        return f"{np.mean(self.chances):.1%} click, {np.mean(later):.1%} of the later half (the best: {LIKED:.0%})"


def main() -> None:
    """Print how a service answers, learns and starts, beside what does less."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"S17 disk: fdatasync p50 {sync_time(folder, 0.5):.1f} ms, p99 {sync_time(folder, 0.99):.1f} ms")
        (folder / "plain.py").write_text(PLAIN)
        plain = asyncio.run(handler_load([str(folder / "plain.py")], 0, 20))
        print(f"S17 plain handler: {plain.line('decide')}")
        vowpal = asyncio.run(handler_load(["-m", "benchmarks.speed.vowpal_handler"], FEEDBACKS, SECONDS))
        print(
            f"S17 Vowpal Wabbit behind such a handler: {vowpal.line('decide')}; {vowpal.line('feedback')}; "
            f"statuses {dict(vowpal.statuses)}; {vowpal.clicks()}"
        )
        for policy in POLICIES:
            measure_policy(folder, policy)


def measure_policy(folder: Path, policy: str) -> None:
    """Print all figures of a policy."""
    model = make_model(folder, policy)
    store = folder / f"service-{policy}"
    began = time.monotonic()
    with serving(store, model, wait=5.0) as service:
        first_start = time.monotonic() - began
        load = asyncio.run(send(service.url, DECISIONS, FEEDBACKS, SECONDS))
        print(
            f"S17 {policy}: {load.line('decide')}; {load.line('feedback')}; statuses {dict(load.statuses)}; "
            f"{load.clicks()}"
        )
        fresh = asyncio.run(freshness(service.url))
        median, most = np.quantile(fresh, (0.5, 0.99))
        print(f"S17 {policy}: a reward is used after p50 {median:.0f} ms, p99 {most:.0f} ms")
        over = asyncio.run(send(service.url, 5 * DECISIONS, 0, 10))
        refused = np.array(over.seconds.get("refused", [0.0])) * 1e3
        print(
            f"S17 {policy}, five times the load: statuses {dict(over.statuses)}, 429 after p50 "
            f"{np.quantile(refused, 0.5):.0f} ms, p99 {np.quantile(refused, 0.99):.0f} ms"
        )
        time.sleep(5)
        after = asyncio.run(send(service.url, DECISIONS, FEEDBACKS, 5))
        print(f"S17 {policy}, 5 s later: {after.line('decide')}; statuses {dict(after.statuses)}")
        service.stop()
        began = time.monotonic()
        service.start()
        second_start = time.monotonic() - began
    print(f"S17 {policy}: answers {first_start:.1f} s after its first start, {second_start:.1f} s after its second")
    print(f"S17 {policy}: computes its state anew from {rebuild(store)}")


def make_model(folder: Path, policy: str, rows: int = 3_000) -> Path:
    """Train a policy on a table of 64 features, 60 numbers of visitors and 4 categories of products, and of noise."""
    rng = np.random.default_rng(0)
    names = product_names()
    columns = {
        "item": rng.choice(names, rows),
        "propensity": np.full(rows, 1 / len(names)),
        "click": (rng.random(rows) < 0.1).astype(int),
        **{f"x{number}": rng.normal(size=rows).round(3) for number in range(NUMBERS)},
    }
    products = pl.DataFrame({"item": names, "category": [f"c{category_of(name)}" for name in names]})
    products.write_csv(folder / "products.csv")
    schema = {
        "columns": {"action": "item", "propensity": "propensity"},
        "rewards": {"click": "click"},
        "features": {f"x{number}": "number" for number in range(NUMBERS)},
        "products": {"table": str(folder / "products.csv"), "id": "item", "features": {"category": "category"}},
    }
    zoosim.import_log(pl.DataFrame(columns), schema, folder / "log.parquet")
    zoosim.train(folder / "log.parquet", [policy], folder / f"{policy}.zoosim")
    return folder / f"{policy}.zoosim"


async def send(url: str, decisions: int, feedbacks: int, seconds: float, prefixes: Sequence[str] = ("",)) -> Load:
    """Send requests at even distances; feedback goes to decisions that were answered.

    What is sent is made before the first is: the load shares two cores with the service that it measures.

    Args:
        url: Where the service listens.
        decisions, feedbacks: How many per second.
        seconds: For how long.
        prefixes: Of the paths of its loops, which are asked in turns.
    """
    import aiohttp

    load = Load({}, Counter(), [])
    answered: list[tuple[str, float]] = []
    asked = iter(list(requests(int(decisions * seconds))))
    loops = cycle(prefixes)
    rng = np.random.default_rng(2)
    connector = aiohttp.TCPConnector(limit=200)
    async with aiohttp.ClientSession(url, connector=connector, headers={"Content-Type": "application/json"}) as client:

        async def decide() -> None:
            request, liked = next(asked)
            path = f"{next(loops)}/v1/decisions"
            status, content = await timed(load, "decide", client.post(path, data=request))
            if status == 200 and "decision_id" in (answer := msgspec.json.decode(content)):
                load.chances.append(click_chance(liked, answer["shown"][0]["product"]))
                answered.append((f"{path}/{answer['decision_id']}/feedback", load.chances[-1]))

        async def give_feedback() -> None:
            if answered:
                path, chance = answered.pop(0)
                body = msgspec.json.encode({"rewards": {"click": float(rng.random() < chance)}})
                await timed(load, "feedback", client.post(path, data=body))

        await asyncio.gather(evenly(decide, decisions, seconds), evenly(give_feedback, feedbacks, seconds))
    return load


async def timed(load: Load, what: str, request: "Awaitable[aiohttp.ClientResponse]") -> tuple[int, bytes]:
    """Return the status and the content of an answer, and note how long it took."""
    began = time.perf_counter()
    answer = await request
    content = await answer.read()
    taken = time.perf_counter() - began
    load.seconds.setdefault("refused" if answer.status == 429 else what, []).append(taken)
    load.statuses[answer.status] += 1
    return answer.status, content


async def evenly(act: Callable[[], Coroutine[None, None, None]], rate: int, seconds: float) -> None:
    """Begin something `rate` times a second, and wait until all of it has ended."""
    began = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            tasks.create_task(act())


async def freshness(url: str) -> Sequence[float]:
    """Return how many milliseconds pass until decisions know of a feedback, 50 times."""
    delays = []
    async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
        for _ in range(50):
            decision = (await client.post("/v1/decisions", json={})).json()
            body = {"rewards": {"click": 1.0}}
            learned = await learned_from_feedback(client)
            await client.post(f"/v1/decisions/{decision['decision_id']}/feedback", json=body)
            began = time.perf_counter()
            while await learned_from_feedback(client) == learned:
                await asyncio.sleep(0.005)
            delays.append((time.perf_counter() - began) * 1e3)
    return delays


async def learned_from_feedback(client: httpx2.AsyncClient) -> int:
    """Return how many decisions were learned whose feedback came."""
    counts = (await client.get("/v1/model")).json()["learned"]
    return int(counts.get("learned", 0) - counts.get("default", 0))


async def handler_load(program: Sequence[str], feedbacks: int, seconds: float) -> Load:
    """Return how another handler answers, which a program runs at the port that it is told."""
    environment = {**os.environ, "PYTHONPATH": str(Path(zoosim.__file__).parents[1])}
    port = "8197"
    server = subprocess.Popen([sys.executable, *program, port], env=environment)
    try:
        async with httpx2.AsyncClient() as client:
            for _ in range(200):
                try:
                    await client.get(f"http://127.0.0.1:{port}/")
                    break
                except httpx2.TransportError:
                    await asyncio.sleep(0.05)
        return await send(f"http://127.0.0.1:{port}", DECISIONS, feedbacks, seconds)
    finally:
        server.kill()
        server.wait()


def rebuild(store: Path) -> str:
    """Return how many rows of a log are read in a second, and learned from."""
    reader = SqliteStore(store / LOG, read_only=True)
    replica = Replica(lambda digest: load_served_model(store, digest), reader.rows)
    rows = reader.read(0, 10_000_000)
    replica.apply(rows[0])
    replica.champion.model.policy.prepare()
    began = time.perf_counter()
    for row in rows[1:]:
        replica.apply(row)
    taken = time.perf_counter() - began
    return f"{len(rows):,} rows, {len(rows) / taken:,.0f} per second ({replica.champion.counts['learned']:,} learned)"


def sync_time(folder: Path, quantile: float) -> float:
    """Return how many milliseconds a sync of the disk takes."""
    taken = []
    handle = os.open(folder / "sync", os.O_WRONLY | os.O_CREAT)
    for _ in range(200):
        os.write(handle, b"x" * 4_096)
        began = time.perf_counter()
        os.fdatasync(handle)
        taken.append((time.perf_counter() - began) * 1e3)
    os.close(handle)
    return float(np.quantile(taken, quantile))
