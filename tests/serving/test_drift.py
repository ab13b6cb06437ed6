"""What a service, a command and a call say of changes against the first period of a service's log."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

import zoosim
from tests.serving.shop import PRODUCTS, make_model, running
from zoosim.cli import app
from zoosim.serving.application import Application
from zoosim.serving.bodies import DecideBody


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service of 600 decisions, of which those from the 200th on are for visitors of another country."""
    folder = tmp_path_factory.mktemp("shop")

    async def run() -> None:
        async with running(folder / "service", make_model(folder), wait=0.1, mode="logging-only") as service:
            answers: dict[str, Any] = {}
            transport = httpx2.ASGITransport(app=Application(service).starlette())
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                for number in range(600):
                    if number == 50:
                        await asyncio.sleep(0.2)
                        await service.tick()
                        answers["too few"] = (await client.get("/v1/drift")).json()
                    country = "fr" if number >= 200 else "de"
                    body = DecideBody({"country": country}, PRODUCTS[:3], visitor_id=f"v{number}")  # type: ignore[arg-type]
                    await service.decide(body)
                await asyncio.sleep(0.2)
                await service.tick()
                answers["changed"] = (await client.get("/v1/drift", params={"window": 200})).json()
                for wrong in ("-1", "1e3", "9" * 20):
                    refusal = await client.get("/v1/drift", params={"window": wrong})
                    assert refusal.status_code == 400, wrong
                    assert refusal.json()["error"].startswith("window: got ")
            (folder / "answers.json").write_text(json.dumps(answers))

    asyncio.run(run())
    return folder


def test_a_service_says_what_changed_or_why_it_cannot(folder: Path) -> None:
    answers = json.loads((folder / "answers.json").read_text())
    assert answers["too few"]["findings"] == []
    assert "has 50 decisions, expected at least 4,000" in answers["too few"]["note"]
    (finding,) = answers["changed"]["findings"]
    assert finding["name"] == "country"
    assert (
        "in 100.0% of visits, 0.0% before" in finding["what"] or "in 0.0% of visits, 100.0% before" in finding["what"]
    )


def test_the_command_and_the_call_say_the_same(folder: Path) -> None:
    drift = zoosim.drift(folder / "service", window=200)
    answers = json.loads((folder / "answers.json").read_text())
    assert json.loads(json.dumps(drift.as_dict())) == answers["changed"]
    options = ["drift", str(folder / "service"), "--window", "200"]
    printed = CliRunner().invoke(app, options)
    assert printed.exit_code == 0
    assert printed.output.splitlines() == drift.sentences
    assert json.loads(CliRunner().invoke(app, [*options, "--json"]).output) == answers["changed"]
