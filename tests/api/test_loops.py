"""`zoosim.loops`: what it refuses before anything is sent, and by a service that has one loop."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

import zoosim
from tests.serving.shop import make_model, running
from zoosim.core.errors import ConfigError, DataError
from zoosim.serving.application import Application


@pytest.mark.parametrize(
    ("action", "options", "reason"),
    [
        ("ad", {}, "did you mean add"),
        ("list", {"name": "home"}, "expected no name"),
        ("add", {}, "expected that of a loop"),
        ("remove", {"name": "home", "model": "home.zoosim"}, "a new loop alone has"),
        ("add", {"name": "home", "settings": {"port": 1}}, "of the whole service"),
        ("add", {"name": "home", "settings": {"wait": "long"}}, "wait"),
    ],
)
def test_what_cannot_be_is_refused(action: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        zoosim.loops(action, **options)


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name the file of a model"):
        zoosim.loops("add", "home", model=tmp_path / "none.zoosim")


def test_a_service_of_one_loop_says_how_to_have_several(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path / "service", make_model(tmp_path)) as service:
            transport = httpx2.ASGITransport(app=Application(service).starlette())
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                for method, path in (("GET", "/v1/loops"), ("POST", "/v1/loops"), ("DELETE", "/v1/loops/home")):
                    answer = await client.request(method, path)
                    assert (answer.status_code, "--loops DIR" in answer.json()["error"]) == (404, True)

    asyncio.run(run())
