"""How long does a model decide that has been taken back? Requests are on their way all the time."""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.serving.process import serving
from tests.serving.shop import make_model
from zoosim import AsyncClient

CLIENTS = 16
"""Requests that are on their way at once."""

BEFORE, AFTER = 0.5, 1.0
"""Seconds of requests before the rollback is asked for, and after it was answered."""

MOST = 1.0
"""Seconds from asking until the last answer of the model, at most."""

NEW = "new"


class Answer(NamedTuple):
    """An answer: the arm that decided, and when it came."""

    arm: str
    time: float


def main(count: int, folder: Path) -> None:
    """Launch a model for half of the visitors and take it back, `count` times; print the seconds until it is gone."""
    model = make_model(folder)
    with serving(folder / "service", model, most_delay=30.0) as service:
        measured = [asyncio.run(_take_back(service.url, model)) for _ in range(count)]
        assert service.stop() == 0
    asked, last, answers = np.array(measured).T
    print(
        f"{count} rollbacks, {CLIENTS} requests on their way at once, {answers.sum():,.0f} answers, none refused; "
        f"seconds from asking to the last answer of the model: median {np.median(last):.3f}, most {last.max():.3f}; "
        f"to the answer to the rollback: median {np.median(asked):.3f}, most {asked.max():.3f}"
    )
    assert last.max() < MOST


async def _take_back(url: str, model: Path) -> tuple[float, float, int]:
    """Return the seconds from asking to its answer, and to the last answer of the model, and how many answers came."""
    answers: list[Answer] = []
    is_over = asyncio.Event()

    async def ask(client: AsyncClient) -> None:
        while not is_over.is_set():
            decision = await client.decide({"country": "de"})
            answers.append(Answer(decision.arm, time.perf_counter()))

    async with AsyncClient(url, timeout=30.0) as client:
        digest = await client.keep_model(model.read_bytes())
        await client.deploy("launch", arm=NEW, model=digest, share=0.5)
        visitors = [asyncio.create_task(ask(client)) for _ in range(CLIENTS)]
        await asyncio.sleep(BEFORE)
        begin = time.perf_counter()
        await client.deploy("rollback", arm=NEW)
        asked = time.perf_counter() - begin
        await asyncio.sleep(AFTER)
        is_over.set()
        await asyncio.gather(*visitors)  # raises what was refused
        await client.deploy("retire", arm=NEW)
    by_model = [answer.time - begin for answer in answers if answer.arm == NEW]
    assert by_model, "the model decided for nobody"
    return asked, max(0.0, *by_model), len(answers)
