"""Requests of the compatible API that were damaged on their way: each is answered, or refused by an error body."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from tests.serving.personalizer.conftest import KEY
from tests.serving.personalizer.requests import MULTI_SLOT, rank_request, service_configuration, slots_request
from tests.serving.process import ServiceProcess
from tests.serving.shop import make_boost_model, running
from zoosim.serving.application import Application

ODD: list[Any] = [
    None,
    True,
    -1,
    1e308,
    10**25,
    "",
    " ",
    "NaN",
    "x" * 300,
    "\x00",
    [],
    ["a"],
    [None],
    {},
    {"": 1},
    {"id": 1},
    [[1]],
    {"a": {"b": [10**25, "x"]}},
]


def damaged(value: Any, rng: np.random.Generator, share: float) -> Any:
    """Return a body of which parts are gone, double or something else."""
    if rng.random() < share:
        return ODD[rng.integers(len(ODD))]
    if isinstance(value, dict):
        return {name: damaged(part, rng, share) for name, part in value.items() if rng.random() >= share}
    if isinstance(value, list):
        parts = [damaged(part, rng, share) for part in value]
        return parts + parts[:1] if rng.random() < share else parts
    return value


def request(rng: np.random.Generator) -> tuple[str, str, Any]:
    """Return one of the requests that change something."""
    everything = [
        ("POST", "/rank", rank_request()),
        ("POST", "/multislot/rank", slots_request()),
        ("POST", "/events/known/reward", {"value": float(rng.integers(-2, 3))}),
        ("POST", "/multislot/events/known/reward", {"reward": [{"slotId": "Main Article", "value": 1}]}),
        ("PUT", "/configurations/service", service_configuration()),
        ("PUT", "/configurations/policy", MULTI_SLOT),
        ("POST", "/evaluations", {"name": "x", "startTime": "2020-01-01", "endTime": "2020-02-01"}),
    ]
    return everything[rng.integers(len(everything))]


def send_damaged(url: str, count: int, seed: int) -> Counter[int]:
    """Send damaged requests; return how often each status came."""
    rng = np.random.default_rng(seed)
    statuses: Counter[int] = Counter()
    with httpx2.Client(base_url=url, headers={"Ocp-Apim-Subscription-Key": KEY}, timeout=30.0) as http:
        for _ in range(count):
            method, path, body = request(rng)
            content = bytearray(json.dumps(damaged(body, rng, float(rng.choice([0.01, 0.05, 0.2])))).encode())
            if rng.random() < 0.1:
                content[rng.integers(len(content))] ^= 1 << rng.integers(8)
            response = http.request(method, f"/personalizer/v1.1{path}", content=bytes(content))
            statuses[response.status_code] += 1
            assert response.status_code < 500, (path, bytes(content), response.text)
            if response.status_code >= 400:
                assert set(response.json()["error"]) == {"code", "message"}
        for path, body in (("service", service_configuration()), ("policy", None)):
            method = "PUT" if body else "DELETE"
            assert http.request(method, f"/personalizer/v1.1/configurations/{path}", json=body).status_code == 200
    return statuses


def test_damaged_requests_are_refused_and_never_fail(service: ServiceProcess) -> None:
    statuses = send_damaged(service.url, 250, seed=0)
    assert min(statuses[status] for status in (200, 201, 204, 400)) > 0


def test_a_model_that_ranks_searches_is_none_for_this_api(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path / "store", make_boost_model(tmp_path)) as service:
            transport = httpx2.ASGITransport(app=Application(service).starlette())
            async with httpx2.AsyncClient(transport=transport, base_url="http://shop/personalizer/v1.1") as http:
                model = (await http.get("/model")).content
                ranked = await http.post("/rank", json=rank_request())
                rewarded = await http.post("/events/e/reward", json={"value": 1})
                imported = await http.put("/model", content=model)
                assert [answer.status_code for answer in (ranked, rewarded, imported)] == [400] * 3
                assert "searches" in ranked.text
                assert "searches" in rewarded.text

    asyncio.run(run())
