"""S38: how many decisions a second a service makes, by policy and by connections that each send one request at a time.

S17's requests, candidates by ids. With ZOOSIM_BASELINE, the folder of another checkout, its service is loaded in turns
with this one, and this one then gets three times as many requests a second as that one made over 16 connections, each
sent at its time whatever was answered. Beside them: a plain handler, and Vowpal Wabbit behind such a handler.
"""

import asyncio
import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.speed.decision_steps import HERE, WARM_UP, by_ids, running, send_one_by_one
from benchmarks.speed.serving import PLAIN, make_model, send

POLICIES = tuple(os.environ.get("ZOOSIM_POLICIES", "adaptive,linucb,neural-linear").split(","))
CONNECTIONS = (1, 4, 16, 64)
MOST = 16
"""Connections of the rate that counts."""

ROUNDS = int(os.environ.get("ZOOSIM_ROUNDS", "3"))
SECONDS, TIMES = 5.0, 3
PORT = 8197


class Rate(NamedTuple):
    """Decisions per second, and the median and 99th percentile of what they take, in milliseconds."""

    rate: float
    median: float
    p99: float

    def __str__(self) -> str:
        return f"{self.rate:,.0f} a second, p50 {self.median:.1f} ms, p99 {self.p99:.1f} ms"


def main() -> None:
    """Print rates by connections, and their ratios to a baseline."""
    baseline = os.environ.get("ZOOSIM_BASELINE")
    checkouts = {"baseline": Path(baseline), "this": HERE} if baseline else {"this": HERE}
    bodies = by_ids()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "plain.py").write_text(PLAIN)
        _report("a plain handler", _handler([str(folder / "plain.py")], bodies))
        if importlib.util.find_spec("vowpalwabbit") is not None:
            _report("Vowpal Wabbit behind such a handler", _handler(["-m", "benchmarks.speed.vowpal_handler"], bodies))
        for policy in POLICIES:
            model = make_model(folder, policy)
            rates: dict[str, list[dict[int, Rate]]] = {what: [] for what in checkouts}
            for number in range(ROUNDS):
                for what, checkout in checkouts.items():
                    with _served(checkout, folder / f"{policy}-{number}-{what}", model) as url:
                        rates[what].append(_by_connections(url, bodies))
            for what, of_checkout in rates.items():
                _report(f"{policy}, {what}", _medians(of_checkout))
            if baseline:
                _compare(policy, rates, model, folder)


def _compare(policy: str, rates: dict[str, list[dict[int, Rate]]], model: Path, folder: Path) -> None:
    """Print how many times as many decisions are made, and what they take at three times the baseline's rate."""
    for connections in CONNECTIONS:
        pairs = zip(rates["this"], rates["baseline"], strict=True)
        ratio = np.median([this[connections].rate / other[connections].rate for this, other in pairs])
        print(f"S38 {policy}, {connections} connections: {ratio:.2f} times the baseline's decisions", flush=True)
    wanted = round(TIMES * _medians(rates["baseline"])[MOST].rate)
    with _served(HERE, folder / f"{policy}-rate", model) as url:
        asyncio.run(send(url, wanted // 2, 0, WARM_UP))
        load = asyncio.run(send(url, wanted, 0, 2 * SECONDS))
    print(f"S38 {policy}, {wanted:,} a second: {load.line('decide')}; statuses {dict(load.statuses)}", flush=True)


def _by_connections(url: str, bodies: Sequence[bytes]) -> dict[int, Rate]:
    asyncio.run(send_one_by_one(url, bodies, WARM_UP, MOST))
    rates = {}
    for connections in CONNECTIONS:
        taken = np.array(asyncio.run(send_one_by_one(url, bodies, SECONDS, connections))) * 1e3
        rates[connections] = Rate(len(taken) / SECONDS, *np.quantile(taken, (0.5, 0.99)))
    return rates


def _medians(rates: Sequence[dict[int, Rate]]) -> dict[int, Rate]:
    return {connections: Rate(*np.median([each[connections] for each in rates], axis=0)) for connections in CONNECTIONS}


def _report(what: str, rates: dict[int, Rate]) -> None:
    for connections, rate in rates.items():
        print(f"S38 {what}, {connections} connections: {rate}", flush=True)


@contextlib.contextmanager
def _served(checkout: Path, store: Path, model: Path) -> Iterator[str]:
    """Run the service of a checkout; yield its address."""
    # Nothing is turned away: what is measured is what a service can do.
    settings = {"ZOOSIM_SERVE_WAIT": "5", "ZOOSIM_SERVE_MOST_DELAY": "60", "PYTHONUNBUFFERED": "1"}
    program = ["-m", "zoosim", "serve", "--store", f"sqlite:{store}", "--port", "0", str(model)]
    with running(checkout, program, store.with_suffix(".out"), **settings) as (url, _):
        yield url


def _handler(program: Sequence[str], bodies: Sequence[bytes]) -> dict[int, Rate]:
    """Return the rates of another handler, which a program runs at the port that it is told."""
    server = subprocess.Popen([sys.executable, *program, str(PORT)], env={**os.environ, "PYTHONPATH": str(HERE)})
    try:
        time.sleep(5)
        return _by_connections(f"http://127.0.0.1:{PORT}", bodies)
    finally:
        server.kill()
        server.wait()
