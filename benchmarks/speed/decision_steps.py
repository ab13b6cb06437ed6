"""S31: what a decision costs a service, and where: S17's requests over 16 connections, each sent when one was answered.

Candidates are named by their ids, or described with their features. With ZOOSIM_BASELINE, the folder of another
checkout, its service is loaded in turns with this one, so that what else the machine does falls on both alike;
ZOOSIM_ROUNDS sets how many turns there are. Shares are those of the last turn, by a sampling profile, which takes some
of the time itself.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from benchmarks.speed import profiled_service
from benchmarks.speed.arms import processor_seconds
from benchmarks.speed.serving import make_model
from benchmarks.speed.shop import category_of, requests
from tests.waiting import eventually
from zoosim.playground.service import find_learner

POLICY = "adaptive"
CONNECTIONS = 16
WARM_UP, SECONDS = 3.0, 10.0
DIFFERENT = 4_000
"""Requests, no two alike, which come again and again."""

ROUNDS = int(os.environ.get("ZOOSIM_ROUNDS", "3"))
HERE = Path(__file__).parents[2]
LARGEST_START = 120.0


class Turn(NamedTuple):
    """What a service did in some seconds of load.

    Attributes:
        rate: Decisions per second.
        median, p99: Of their latency, in milliseconds.
        cost: Processor time of the service's process per decision, in milliseconds.
        learning_cost: The same of its learner.
        shares: Share of the service's processor time by step.
    """

    rate: float
    median: float
    p99: float
    cost: float
    learning_cost: float
    shares: dict[str, float]


def main() -> None:
    """Print rates, costs and shares, and their ratios to a baseline."""
    baseline = os.environ.get("ZOOSIM_BASELINE")
    checkouts = {"baseline": Path(baseline), "this": HERE} if baseline else {"this": HERE}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        model = make_model(folder, POLICY)
        for kind, bodies in {"by ids": by_ids(), "with features": _with_features()}.items():
            turns: dict[str, list[Turn]] = {checkout: [] for checkout in checkouts}
            for number in range(ROUNDS):
                for what, checkout in checkouts.items():
                    store = folder / f"{kind}-{number}-{what}"
                    turns[what].append(_turn(checkout, store, model, bodies))
            for what, of_checkout in turns.items():
                _report(f"S31 {POLICY} {kind}, {what}", of_checkout, turns.get("baseline"))


def by_ids() -> list[bytes]:
    """Return requests whose candidates are named by their ids."""
    return [body for body, _ in requests(DIFFERENT)]


def _with_features() -> list[bytes]:
    bodies = []
    for body, _ in requests(DIFFERENT):
        request = msgspec.json.decode(body)
        names = request["candidates"]
        request["candidates"] = [{"id": name, "category": f"c{category_of(name)}"} for name in names]
        bodies.append(msgspec.json.encode(request))
    return bodies


def _turn(checkout: Path, store: Path, model: Path, bodies: list[bytes]) -> Turn:
    profile = store.with_suffix(".json")
    program = [profiled_service.__file__, str(store), str(model), str(profile)]  # it writes the profile when it ends
    with running(checkout, program, store.with_suffix(".out")) as (url, process):
        asyncio.run(send_one_by_one(url, bodies, WARM_UP))
        process.send_signal(signal.SIGUSR1)
        learner = find_learner(process.pid)
        before = processor_seconds(process.pid), processor_seconds(learner)
        latencies = asyncio.run(send_one_by_one(url, bodies, SECONDS))
        after = processor_seconds(process.pid), processor_seconds(learner)
    seconds = json.loads(profile.read_text())
    total = sum(seconds.values())
    median, p99 = np.quantile(np.array(latencies) * 1e3, (0.5, 0.99))
    cost, learning_cost = (1e3 * (now - then) / len(latencies) for now, then in zip(after, before, strict=True))
    shares = {step: spent / total for step, spent in seconds.items()}
    return Turn(len(latencies) / SECONDS, float(median), float(p99), cost, learning_cost, shares)


@contextlib.contextmanager
def running(
    checkout: Path, program: Sequence[str], output_file: Path, **settings: str
) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Run the service of a checkout, and stop it when the block ends.

    Args:
        checkout: Its folder.
        program: What Python is to run.
        output_file: Where its output goes.
        **settings: Variables of its environment.

    Yields:
        Its address, and its process.
    """
    environment = {**os.environ, **settings, "PYTHONPATH": str(checkout)}
    with output_file.open("wb") as output:
        command = [sys.executable, *program]
        process = subprocess.Popen(command, cwd=checkout, env=environment, stdout=output, stderr=output)

    def url() -> str | None:
        match = re.search(r"serving on (http://\S+?),", output_file.read_text())
        assert process.poll() is None, output_file.read_text()
        return match[1] if match else None

    try:
        eventually(lambda: url() is not None, LARGEST_START)
        yield str(url()), process
        process.send_signal(signal.SIGTERM)
        process.wait(LARGEST_START)
    finally:
        process.kill()
        process.wait()


async def send_one_by_one(
    url: str, bodies: Sequence[bytes], seconds: float, connections: int = CONNECTIONS
) -> list[float]:
    """Return how many seconds each decision took, of requests that are sent when the one before was answered.

    Args:
        url: Where the service listens.
        bodies: The requests, in turns.
        seconds: For how long they are sent.
        connections: Over how many connections at once.
    """
    import aiohttp

    latencies: list[float] = []
    end = time.monotonic() + seconds
    number = 0
    async with aiohttp.ClientSession(url, headers={"Content-Type": "application/json"}) as client:

        async def visit() -> None:
            nonlocal number
            while time.monotonic() < end:
                body = bodies[number % len(bodies)]
                number += 1
                began = time.perf_counter()
                async with client.post("/v1/decisions", data=body) as answer:
                    content = await answer.read()
                latencies.append(time.perf_counter() - began)
                assert answer.status == 200, content

        await asyncio.gather(*(visit() for _ in range(connections)))
    return latencies


def _report(name: str, turns: list[Turn], baseline: list[Turn] | None) -> None:
    rate, median, p99, cost, learning_cost = np.median([turn[:5] for turn in turns], axis=0)
    print(
        f"{name}: {rate:,.0f} decisions per second, p50 {median:.1f} ms, p99 {p99:.1f} ms; processor time per decision "
        f"{cost:.3f} ms, of the learner {learning_cost:.3f} ms{_ratios(turns, baseline)}"
    )
    shares = sorted(turns[-1].shares.items(), key=lambda item: -item[1])
    print("    " + ", ".join(f"{step} {share:.0%}" for step, share in shares if share >= 0.005))


def _ratios(turns: list[Turn], baseline: list[Turn] | None) -> str:
    """Return the medians of the ratios of neighbouring turns."""
    if baseline is None or turns is baseline:
        return ""
    pairs = zip(turns, baseline, strict=True)
    rate, cost = np.median([(turn.rate / other.rate, turn.cost / other.cost) for turn, other in pairs], axis=0)
    return f"; times the baseline: rate {rate:.2f}, processor time {cost:.2f}"
