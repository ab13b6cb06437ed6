"""Several loops in the test's own process, asked over HTTP without a server, and without learners."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx2

from zoosim.serving.access import Access
from zoosim.serving.console.sessions import Sessions
from zoosim.serving.events import CHOICES
from zoosim.serving.loops.application import LoopsApplication
from zoosim.serving.loops.folder import LoopsFolder
from zoosim.serving.loops.learners import LearnerProcess
from zoosim.serving.loops.loops import Loops
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings
from zoosim.serving.store.address import Address, open_store


class NoLearner:
    """A learner that learns nothing, and has said so."""

    def __init__(self) -> None:
        self.has_reported = asyncio.Event()
        self.has_reported.set()
        self.was_stopped = threading.Event()

    def stop(self) -> None:
        self.was_stopped.set()


class NoLearners:
    """Learners of loops, by the folder of each."""

    def __init__(self) -> None:
        self.by_folder: dict[str, NoLearner] = {}

    def learn(self, service: Service) -> NoLearner:
        learner = self.by_folder[service.folder.name] = NoLearner()
        return learner


class Served(NamedTuple):
    """Loops that are served, and a client that asks them."""

    loops: Loops
    client: httpx2.AsyncClient
    learners: NoLearners

    async def add(self, name: str, model: Path | None = None, **settings: Any) -> httpx2.Response:
        """Add a loop as `zoosim loops add` does."""
        digest = "" if model is None else await self.keep(model)
        return await self.client.post("/v1/loops", json={"name": name, "model": digest, "settings": settings})

    async def keep(self, model: Path) -> str:
        return str((await self.client.post("/v1/models", content=model.read_bytes())).json()["model"])

    async def decide(self, name: str, **body: Any) -> httpx2.Response:
        return await self.client.post(f"/loops/{name}/v1/decisions", json={"visitor": {"country": "de"}, **body})

    async def states(self) -> dict[str, str]:
        answer = (await self.client.get("/v1/loops")).json()["loops"]
        return {loop["name"]: loop["state"] for loop in answer}


@asynccontextmanager
async def served(folder: Path, **options: Any) -> AsyncIterator[Served]:
    """Serve the loops of a folder."""
    settings = Settings(**{"loops": f"{folder}", "most_delay": 60.0, **options})
    learners = NoLearners()
    on_disk = LoopsFolder(folder)
    sessions = Sessions(Access(settings.keys, settings.rate), time.monotonic)
    with on_disk.locked():
        loops = Loops(on_disk, settings, cast(LearnerProcess, learners), sessions)
        stopping = asyncio.Event()
        await loops.open(stopping)
        transport = httpx2.ASGITransport(app=LoopsApplication(loops, sessions, stopping))
        try:
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60.0) as client:
                yield Served(loops, client, learners)
        finally:
            await loops.close()


def decisions_in(log: Path) -> int:
    """Return how many decisions a log holds."""
    store = open_store(Address(log), read_only=True)
    rows = store.read(0, 1_000_000)
    store.close()
    return sum(row.kind in CHOICES for row in rows)
