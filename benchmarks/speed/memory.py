"""S14 and S25: the most memory that policies take in a large shop, and a service whose visitors have long embeddings.

S14: a shop of 100,000 products with 64 features. Each policy runs in a process of its own. It decides 5 requests that
offer all products in new arrays, is asked for propensities, and then learns of 9,000 different products, so that those
with a model per product reach their bound.

S25: a service without a model, whose first visitors each have an embedding of 768 numbers and a segment. Its schema
grows, and it learns, until it has told what it learned of all of them.
"""

import multiprocessing
import re
import resource
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import numpy as np

from tests.serving.process import ServiceProcess, serving
from zoosim.core.errors import ConfigError
from zoosim.core.rng import stream
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.policies.kernel import DrawingPolicy
from zoosim.policies.registry import BUILT_IN, find_class, make_entry
from zoosim.serving.fresh import FIRST_REQUESTS

PRODUCTS, HALF, USERS = 100_000, 32, 100
REQUESTS, LEARNED, PAST = 5, 9_000, 5_000
NUMBERS, VISITORS = 768, 320
"""Numbers of an embedding, and visitors who have one."""

GROWING = 120.0
"""Seconds that a schema may take to grow."""


def main() -> None:
    """Print the peak memory of each policy over products, that of the task itself included."""
    spawn = multiprocessing.get_context("spawn")
    for name in BUILT_IN:
        cls = find_class(name)
        if "products" in cls.chooses and not name.startswith("template"):
            with ProcessPoolExecutor(1, mp_context=spawn) as pool:
                answer = pool.submit(peak_memory, name).result()
            print(f"S14 {name}: {PRODUCTS:,} products, d = {2 * HALF}: {answer}", flush=True)


def peak_memory(name: str) -> str:
    """Return the largest resident set of this process in words, or that the policy refuses so many products."""
    try:
        _play(name)
    except ConfigError as error:
        return f"refused ({error})"
    return f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9:.2f} GB"


def wide_embeddings() -> None:
    """Print the most memory of a service's two processes, once kernels are compiled, which takes some more."""
    for is_compiled in (False, True):
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "service", None, wait=60.0) as service:
            _visit(service)
            decides, learns = most_memory(service.pid), most_memory(service.learner())
        if is_compiled:
            print(
                f"S25 a service without a model, {VISITORS} visitors with embeddings of {NUMBERS} numbers: the process "
                f"that decides takes at most {decides:.2f} GB, the learner {learns:.2f} GB"
            )


def _visit(service: ServiceProcess) -> None:
    """Let visitors come who have an embedding, and a segment, which alone decides what they like."""
    rng = np.random.default_rng(0)
    with httpx2.Client(base_url=service.url, timeout=60.0) as client:
        for number in range(VISITORS):
            embedding = rng.normal(size=NUMBERS).round(3).tolist()
            visitor = {"text": embedding, "segment": f"s{number % 3}"}
            body = {"visitor": visitor, "visitor_id": f"v{number}", "candidates": [{"id": name} for name in "abc"]}
            answer = client.post("/v1/decisions", json=body).raise_for_status().json()
            reward = float(answer["shown"][0]["product"] == "abc"[number % 3])
            path = f"/v1/decisions/{answer['decision_id']}/feedback"
            client.post(path, json={"rewards": {"reward": reward}}).raise_for_status()
            deadline = time.monotonic() + GROWING
            while number == FIRST_REQUESTS + 10 and "the schema grew" not in service.output:
                assert time.monotonic() < deadline
                time.sleep(0.1)
    service.wait_for_learner()


def most_memory(process: int) -> float:
    """Return the largest resident set of a process so far, in gigabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024 / 1e9


def _play(name: str) -> None:
    """Let a policy decide and learn."""
    warnings.simplefilter("ignore", RuntimeWarning)  # of 5,000 rows for 100,000 products
    rng = np.random.default_rng(0)
    policy = make_entry(name).make(PolicySpec(user_dim=HALF, product_dim=HALF, n_users=USERS), stream(0, "policy"))
    if policy.past_visits or not isinstance(policy, DrawingPolicy):
        policy.fit(Past.drawn(rng))
    for _ in range(REQUESTS):
        context = _context(rng)
        policy.update(context, policy.select_action(context), 1.0)
    policy.propensities(context)
    for action in range(LEARNED):
        policy.update(context, action, float(action % 2))


def _context(rng: np.random.Generator) -> Context:
    """Return a request that offers all products, in new arrays that nobody can change."""
    ids, products = np.arange(PRODUCTS), rng.normal(size=(PRODUCTS, HALF))
    ids.flags.writeable = products.flags.writeable = False
    user_id = int(rng.integers(USERS))
    available = np.ones(PRODUCTS, bool)
    return Context(user_id=user_id, user=rng.normal(size=HALF), product_ids=ids, products=products, available=available)


@dataclass(frozen=True)
class Past:
    """A log of uniformly random choices among all products."""

    actions: IntArray
    features: FloatArray
    user_ids: IntArray
    products: FloatArray
    product_ids: IntArray = field(default_factory=lambda: np.arange(PRODUCTS))

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> "Past":
        """Draw a log."""
        actions, user_ids = rng.integers(0, PRODUCTS, PAST), rng.integers(0, USERS, PAST)
        return cls(actions, rng.normal(size=(PAST, HALF)), user_ids, rng.normal(size=(PRODUCTS, HALF)))

    @property
    def rewards(self) -> FloatArray:
        """Return a click for every other choice."""
        return (self.actions % 2).astype(np.float64)

    @property
    def propensities(self) -> FloatArray:
        """Return the probability of each logged choice."""
        return np.full(PAST, 1 / PRODUCTS)

    def __len__(self) -> int:
        return len(self.actions)

    def available(self, start: int, stop: int) -> BoolArray:
        """Return what could be shown in rows `start` to `stop - 1`: everything."""
        return np.ones((stop - start, PRODUCTS), bool)
