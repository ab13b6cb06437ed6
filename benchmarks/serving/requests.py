"""Requests that nobody should send: each is answered below 500, and what is refused teaches nothing."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies

from tests.serving.personalizer.conftest import KEY
from tests.serving.personalizer.requests import rank_request, service_configuration, slots_request
from tests.serving.personalizer.test_hostile import send_damaged
from tests.serving.process import serving
from tests.serving.shop import PRODUCTS, make_boost_model, make_model
from tests.serving.test_hostile import REQUESTS, SEARCHES, ask, check

TOGETHER, PER_SERVICE = 40, 10_000
"""Requests of one example, which a new service answers; requests at random to one service."""

SEED = 0
PERSONALIZER = "/personalizer/v1.1"
SOUND: list[tuple[str, str, Any]] = [
    ("POST", "/v1/decisions", {"visitor": {"country": "de"}, "candidates": [*PRODUCTS], "count": 2}),
    ("POST", "/v1/decisions", {"candidates": [{"id": "p1", "category": "c2"}, {"id": "new", "category": "c1"}]}),
    ("POST", "/v1/decisions/known/feedback", {"rewards": {"click": 1.0}, "feedback_id": "f1"}),
    ("POST", "/v1/decisions/known/activation", {}),
    ("POST", "/v1/searches", {"visitor": {"segment": "savers", "query_type": "exact"}, "candidates": {"p1": 0.5}}),
    ("PUT", "/v1/products/p2", {"features": {"category": "c0"}, "available": True}),
    ("POST", f"{PERSONALIZER}/rank", rank_request(eventId="known")),
    ("POST", f"{PERSONALIZER}/multislot/rank", slots_request(eventId="slots")),
    ("POST", f"{PERSONALIZER}/events/known/reward", {"value": 1.0}),
    ("POST", f"{PERSONALIZER}/events/known/activate", {}),
    ("PUT", f"{PERSONALIZER}/configurations/service", service_configuration()),
    ("PUT", f"{PERSONALIZER}/model", {}),
]


def of_the_right_form(count: int, folder: Path) -> None:
    """Send requests that hypothesis makes by the schemas, half of them for products, a quarter for searches.

    Another quarter is for the API of Personalizer: sound requests of which parts are gone, double or something else.
    """
    statuses: Counter[int] = Counter()
    model = make_model(folder)
    boost_model = make_boost_model(folder)
    for name, strategy, file, size in (
        ("products", REQUESTS, model, count // 2),
        ("searches", SEARCHES, boost_model, count // 4),
    ):
        for number, requests in enumerate(examples(strategy, size)):
            store = folder / f"{name}{number}"
            answers = ask(store, file, [(method, path, json.dumps(body).encode()) for method, path, body in requests])
            check(store, answers)
            statuses.update(answer.status_code for answer in answers)
    with serving(folder / "fresh", None, key=KEY, most_delay=10.0) as service:
        statuses += send_damaged(service.url, count - count // 2 - count // 4, SEED)
        assert service.stop() == 0
    check(folder / "fresh", [], lowest=-1.0)
    report(statuses)


def examples(strategy: strategies.SearchStrategy[Any], count: int) -> list[list[Any]]:
    """Return examples of `TOGETHER` requests each."""
    made: list[list[Any]] = []

    @hypothesis.settings(
        max_examples=-(-count // TOGETHER),
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.seed(SEED)
    @hypothesis.given(strategies.lists(strategy, min_size=TOGETHER, max_size=TOGETHER))
    def make(requests: list[Any]) -> None:
        made.append(requests)

    make()
    return made


def at_random(count: int, folder: Path) -> None:
    """Send random bytes, and sound requests of which bytes are others, to services with and without a model."""
    statuses: Counter[int] = Counter()
    rng = np.random.default_rng(SEED)
    model = make_model(folder)
    for start in range(0, count, PER_SERVICE):
        has_model = start // PER_SERVICE % 2 == 0
        store = folder / f"{start}"
        requests = [random_request(rng) for _ in range(min(PER_SERVICE, count - start))]
        answers = ask(store, model if has_model else None, requests)
        check(store, answers, lowest=0.0 if has_model else -1.0)
        statuses.update(answer.status_code for answer in answers)
        print(f"{start + len(requests):,} requests", flush=True)
    report(statuses)


def random_request(rng: np.random.Generator) -> tuple[str, str, bytes]:
    """Return a request whose body is random bytes, or a sound one of which some bytes are others."""
    method, path, body = SOUND[rng.integers(len(SOUND))]
    if rng.random() < 0.5:
        return method, path, rng.bytes(int(rng.integers(200)))
    content = bytearray(json.dumps(body).encode())
    for place in rng.integers(len(content), size=rng.integers(1, 4)):
        content[place] = rng.integers(256)
    return method, path, bytes(content)


def report(statuses: Counter[int]) -> None:
    by_status = ", ".join(f"{times:,} x {status}" for status, times in sorted(statuses.items()))
    print(
        f"{statuses.total():,} requests: {by_status}; the log holds finite numbers in range, and no row to learn from "
        "of a request that was refused"
    )
