"""S21: how long the first decision, and the first feedback, of a service take that has just become ready.

Each is compared with the median of those that come after it in the same start, over 20 starts of `zoosim serve` per
model: every other start is that of a new store, and the one after it goes on with what that left.
"""

import http.client
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

import zoosim
from benchmarks.speed.serving import make_model
from benchmarks.speed.shop import requests
from tests.logs.own_searches import write_searches
from tests.serving.process import serving
from zoosim.serving.bodies import DecideBody

STARTS = 20
LATER = 200
"""Decisions behind the first one, each with feedback, of which the median is taken."""

ROWS = 20_000
"""Rows that a model is trained on and judged by: enough for policies that are always sure to be judged at all."""

DECISIONS, SEARCHES = "/v1/decisions", "/v1/searches"


class Visit(NamedTuple):
    """A request for a decision, the path that it is sent to, and which rewards are given to what came first."""

    path: str
    body: bytes
    rewards: dict[str, float]


class Kind(NamedTuple):
    """A policy, and how many products each decision shows."""

    policy: str
    n_shown: int = 1

    @property
    def label(self) -> str:
        """What the printed line calls it."""
        return self.policy if self.n_shown == 1 else f"{self.policy}, {self.n_shown} shown"


KINDS = (
    Kind("adaptive"),
    Kind("adaptive", 5),
    Kind("mixed-effects"),
    Kind("linucb"),
    Kind("neural-linear"),
    Kind("item-critic"),
)
"""What is started: policies over products, and one over boosts, which ranks searches."""


class Times(NamedTuple):
    """Milliseconds that the decisions of a start took, and its feedback: the first, and the median of the others."""

    decision: float
    median_decision: float
    feedback: float
    median_feedback: float


def main(kinds: Sequence[Kind] = KINDS, starts: int = STARTS, later: int = LATER) -> None:
    """Print for each kind how many times as long the first decision takes as those after it, and the first feedback."""
    with tempfile.TemporaryDirectory() as name:
        for kind in kinds:
            folder = Path(name) / kind.label
            folder.mkdir()
            times = list(_measure(kind, folder, starts, later))
            decisions = [each.decision / each.median_decision for each in times]
            feedback = [each.feedback / each.median_feedback for each in times]
            first = np.median([each.decision for each in times])
            median = np.median([each.median_decision for each in times])
            print(
                f"S21 {kind.label}: the first decision takes {_range(decisions)} times as long as the median of the "
                f"{later} after it ({first:.1f} and {median:.1f} ms); the first feedback {_range(feedback)} times; "
                f"{starts} starts",
                flush=True,
            )


def _range(ratios: Sequence[float]) -> str:
    return f"{np.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"


def _measure(kind: Kind, folder: Path, starts: int, later: int) -> Iterator[Times]:
    """Yield what each start of a service took."""
    model = _train(kind, folder)
    for start in range(starts):
        store = folder / f"store-{start // 2}"  # every other start goes on with a store
        with serving(store, model) as service:
            times = _visits(int(service.url.rpartition(":")[2]), list(_requests(kind, later + 1)))
            service.stop()
        ratio = times.decision / times.median_decision
        print(f"S21 {kind.label}, start {start + 1} of {starts}: {ratio:.1f}", file=sys.stderr, flush=True)
        yield times


def _train(kind: Kind, folder: Path) -> Path:
    if kind.policy != "item-critic":
        return make_model(folder, kind.policy, ROWS)
    zoosim.train(write_searches(folder, 400), [kind.policy], folder / "boosts.zoosim")
    return folder / "boosts.zoosim"


def _requests(kind: Kind, count: int) -> Iterator[Visit]:
    """Yield requests for decisions among 50 products, or searches with 20 results."""
    if kind.policy == "item-critic":
        rng = np.random.default_rng(0)
        for _ in range(count):
            scores = {f"SKU-{number:04}": float(rng.normal()) for number in rng.choice(60, 20, replace=False)}
            visitor = {"segment": "savers", "query_type": "browse"}
            yield Visit(SEARCHES, msgspec.json.encode({"visitor": visitor, "candidates": scores}), {"click": 1.0})
        return
    for body, _ in requests(count):
        asked = msgspec.structs.replace(msgspec.json.decode(body, type=DecideBody), count=kind.n_shown)
        yield Visit(DECISIONS, msgspec.json.encode(asked), {"click": 1.0})


def _visits(port: int, visits: Sequence[Visit]) -> Times:
    """Send requests one after another, once the service says that it is ready, and feedback to each."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60.0)

    def timed(method: str, path: str, body: bytes | None = None) -> tuple[float, Any]:
        began = time.perf_counter()
        connection.request(method, path, body)
        response = connection.getresponse()
        content = response.read()
        taken = 1e3 * (time.perf_counter() - began)
        if response.status != 200:
            raise RuntimeError(f"{path}: got status {response.status}: {content!r}")
        return taken, msgspec.json.decode(content)

    timed("GET", "/readyz")
    decisions, feedback = [], []
    for visit in visits:
        taken, answer = timed("POST", visit.path, visit.body)
        decisions.append(taken)
        shown = answer["ranking"][0] if "ranking" in answer else answer["shown"][0]["product"]
        earned = msgspec.json.encode({"rewards": visit.rewards, "product": shown})
        taken, _ = timed("POST", f"/v1/decisions/{answer['decision_id']}/feedback", earned)
        feedback.append(taken)
    connection.close()
    return Times(decisions[0], float(np.median(decisions[1:])), feedback[0], float(np.median(feedback[1:])))
