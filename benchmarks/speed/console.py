"""S32: the console of a service behind which lie 1,000,000 decisions: its first paint, and what it adds to memory.

The log is made of the decisions and rewards of a short while, copied with other ids over two weeks. Its policy learns
from logs alone. Once a learner has read it, it is served again, and a copy of it by a program without the console's
routes and periods; the ledger of forecasts and the test of the holdback, which `/metrics` has, too, stay.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
import msgspec
import numpy as np

import zoosim
from benchmarks.speed.memory import most_memory
from tests.report.browser import started
from tests.serving.process import serving
from tests.serving.shop import PRODUCTS, make_model
from zoosim.core.durations import DAY
from zoosim.playground.service import find_learner
from zoosim.serving.events import (
    Kind,
    NewRow,
    ProductDecision,
    Row,
    decision_of,
    feedback_id_of,
    pack,
    renamed_key,
)
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore

DECISIONS = 1_000_000
ASKED, REWARDED = 2_000, 0.1
"""Decisions that are asked for, of which the others are copies, and the share that earns something."""

DAYS, WAIT_SECONDS = 14, 600
LOOKS = 20
WIDTH = 1_400
STARTING, READING = 300.0, 3_600.0
"""Seconds that a start, and the learner for the whole log, may take."""

WATCHED = 10.0
"""Seconds for which a page stays open while memory is looked at."""

PROGRAMS = {"with": "zoosim", "without": "benchmarks.speed.without_console"}
"""The modules that serve the log with the console, and without one."""

PAINTED = """
new Promise(done => {
  const look = () => {
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    paint ? done(paint.startTime) : requestAnimationFrame(look);
  };
  look();
})
"""
"""Milliseconds from the beginning of the navigation to the first paint, once there is one."""


class Memory(NamedTuple):
    """The most memory of the process that decides, and of the learner, in MB."""

    service: float
    learner: float


def main() -> None:
    """Print how soon the console is painted, and what it adds to the memory of a service."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        folder = Path(name)
        began = time.perf_counter()
        rows = make_log(folder, folder / "with")
        print(
            f"S32 a log of {rows:,} rows, {DECISIONS:,} of them decisions, made in {time.perf_counter() - began:.0f} s"
        )
        began = time.perf_counter()
        with served(PROGRAMS["with"], folder / "with") as (process, url):
            _wait_for_learner(url)
            taken = time.perf_counter() - began
            print(f"S32 read by the learner in {taken:.0f} s: {_in_words(_memory_of(process))}", flush=True)
        shutil.copytree(folder / "with", folder / "without")
        services = {which: opened.enter_context(served(module, folder / which)) for which, module in PROGRAMS.items()}
        for _, url in services.values():
            _wait_for_learner(url)
        _, url = services["with"]
        print(f"S32 the page by HTTP: {page_times(url)}")
        print(f"S32 first paint in Chromium: {paint_times(url, folder)}", flush=True)
        memory = {which: _memory_of(process) for which, (process, _) in services.items()}
        for which, most in memory.items():
            print(f"S32 {which} the console, started again: {_in_words(most)}")
        more = Memory(*(high - low for high, low in zip(memory["with"], memory["without"], strict=True)))
        print(f"S32 the console adds {sum(more):.0f} MB: {_in_words(more)}")


def _memory_of(process: int) -> Memory:
    return Memory(1e3 * most_memory(process), 1e3 * most_memory(find_learner(process)))


def _in_words(memory: Memory) -> str:
    return f"the process that decides {memory.service:.0f} MB, the learner {memory.learner:.0f} MB"


def make_log(folder: Path, store: Path) -> int:
    """Write the log of a service with two arms; return its number of rows."""
    model = make_model(folder, "linear")
    with serving(store, model, wait=WAIT_SECONDS) as service:
        zoosim.deploy("launch", model, url=service.url, arm="new", share=0.2)
        _ask(service.url)
        service.wait_for_learner()
        service.stop()
    shutil.rmtree(store / "snapshots", ignore_errors=True)
    log = SqliteStore(store / LOG)
    templates = [row for row in log.read(0, 10 * ASKED) if row.kind in (Kind.DECISION, Kind.FEEDBACK)]
    last = log.last()
    assert last is not None
    copies = DECISIONS // ASKED - 1
    step = DAYS * DAY // (copies * len(templates))
    position = last.seq
    for copy in range(1, copies + 1):
        rows = [
            _copied(row, copy, last.time + step * (place + copy * len(templates)))
            for place, row in enumerate(templates)
        ]
        # A tick behind them: what is over by the time of the log is learned there.
        rows.append(NewRow(rows[-1].time, Kind.TICK, None, b""))
        log.append(rows)
        log.sync()  # which empties the write-ahead log
        position += len(rows)
    log.close()
    return position


def _ask(url: str) -> None:
    rng = np.random.default_rng(0)
    with zoosim.Client(url) as shop:
        for number in range(ASKED):
            decision = shop.decide({"country": "de"}, PRODUCTS, visitor_id=f"v{number}")
            if rng.random() < REWARDED:
                shop.give_feedback(decision.id, {"click": float(rng.random() < 0.5)})


def _copied(row: Row, copy: int, at: int) -> NewRow:
    """Return a row as of another decision, visitor and time."""
    decision_id = f"{decision_of(row)}-{copy}"
    feedback_id = feedback_id_of(row) if row.kind is Kind.FEEDBACK else ""
    body = row.body
    if row.kind is Kind.DECISION:
        decision = msgspec.msgpack.decode(body, type=ProductDecision)
        body = pack(msgspec.structs.replace(decision, visitor_id=f"{decision.visitor_id}-{copy}"))
    return NewRow(at, row.kind, renamed_key(row, decision_id, feedback_id), body)


@contextmanager
def served(module: str, store: Path) -> Iterator[tuple[int, str]]:
    """Serve a store by a program until the block ends: the id of its process, and its address."""
    command = [sys.executable, "-m", module, "serve", "--store", f"sqlite:{store}", "--port", "0"]
    output = store.parent / f"{store.name}.out"
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "ZOOSIM_SERVE_WAIT": f"{WAIT_SECONDS}"}
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
    try:
        yield process.pid, _address_in(output, process)
    finally:
        process.terminate()
        process.wait()


def _address_in(output: Path, process: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + STARTING
    while True:
        match = re.search(r"serving on (http://127\.0\.0\.1:\d+)", output.read_text())
        if match:
            return match[1]
        assert process.poll() is None, output.read_text()
        assert time.monotonic() < deadline, "the service did not start"
        time.sleep(0.2)


def _wait_for_learner(url: str) -> None:
    """Wait until the learner has read the whole log."""
    deadline = time.monotonic() + READING
    with httpx2.Client(base_url=url, timeout=30.0) as client:
        while "zoosim_learner_lag_rows 0.0" not in client.get("/metrics").text:
            assert time.monotonic() < deadline, "the learner did not read the log"
            time.sleep(1.0)


def page_times(url: str) -> str:
    """Return how long the page takes, and how long it is, in words."""
    seconds = []
    with httpx2.Client() as client:
        for _ in range(LOOKS):
            began = time.perf_counter()
            size = len(client.get(url).raise_for_status().content)
            seconds.append(time.perf_counter() - began)
    return f"{_quantiles(seconds)}, {size / 1e3:.0f} kB"


def paint_times(url: str, folder: Path) -> str:
    """Return how long after an address was typed its page is painted, in words; it stays open for a while."""
    program = shutil.which("chromium")
    if program is None:
        return "not measured, as there is no Chromium"
    with started(program, folder / "profile") as browser:
        seconds = []
        for _ in range(LOOKS):
            browser.open(url, WIDTH)
            seconds.append(browser.run(PAINTED) / 1e3)
        time.sleep(WATCHED)
    return _quantiles(seconds)


def _quantiles(seconds: Sequence[float]) -> str:
    return f"median {1e3 * np.median(seconds):.0f} ms, longest of {len(seconds)} {1e3 * max(seconds):.0f} ms"
