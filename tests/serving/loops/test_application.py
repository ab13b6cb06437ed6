"""The HTTP API of several loops: prefixes, keys, figures and the page that lists them."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from starlette.types import Message, Scope

from tests.serving.loops.several import served
from tests.serving.shop import make_model
from zoosim.serving.access import Access
from zoosim.serving.console.sessions import SESSION, Sessions
from zoosim.serving.loops.application import LoopsApplication

KEY, DECIDE_KEY = "everything-0123456789", "decide-0123456789abc"


def test_all_that_one_loop_answers_is_answered_below_its_prefix(tmp_path: Path) -> None:
    model = make_model(tmp_path)

    async def run() -> None:
        async with served(tmp_path / "loops") as service:
            await service.add("home", model)
            client = service.client
            for path in ("v1/products", "v1/deployment", "metrics", "livez", "readyz", "openapi.json", "zoosim.mjs"):
                answer = await client.get(f"/loops/home/{path}")
                assert answer.status_code == 200, path
            assert (await client.get("/zoosim.mjs")).headers["content-type"].startswith("text/javascript")
            decision = (await service.decide("home")).json()
            path = f"/loops/home/v1/decisions/{decision['decision_id']}/feedback"
            assert (await client.post(path, json={"rewards": {"click": 1.0}})).json() == {"status": "accepted"}
            ranked = await client.post(
                "/loops/home/personalizer/v1.0/rank",
                json={
                    "contextFeatures": [{"country": "de"}],
                    "actions": [{"id": "p1", "features": [{"category": "c1"}]}],
                },
            )
            assert ranked.status_code == 201, ranked.text
            assert (await client.get("/loops/home")).headers["location"] == "home/"
            for where in ("/v1/decisions", "/v1/model"):
                answer = await client.request("POST" if "decisions" in where else "GET", where)
                assert (answer.status_code, f"/loops/NAME{where}" in answer.json()["error"]) == (404, True)
            described = (await client.get("/openapi.json")).json()
            assert set(described["paths"]["/v1/loops"]) == {"get", "post"}

    asyncio.run(run())


def test_decisions_and_feedback_of_loops_are_answered_directly_and_nothing_else(tmp_path: Path) -> None:
    model = make_model(tmp_path)

    async def run() -> None:
        async with served(tmp_path / "loops", decide_key=DECIDE_KEY, feedback_key=KEY) as service:
            application = LoopsApplication(service.loops, Sessions(Access({}, 0.0), time.monotonic), asyncio.Event())
            await service.loops.add("home", service.loops.keep_model(model.read_bytes()), {})

            async def ask(path: str, body: Any, key: str = "", method: str = "POST") -> tuple[int, Any] | None:
                async def receive() -> Message:
                    return {"type": "http.request", "body": json.dumps(body).encode()}

                headers = [(b"authorization", f"Bearer {key}".encode())]
                scope: Scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": headers}
                response = await application.answer_directly(scope, receive)
                return None if response is None else (response.status_code, json.loads(bytes(response.body)))

            decisions = "/loops/home/v1/decisions"
            decided = await ask(decisions, {"decision_id": "a/b"}, DECIDE_KEY)
            assert decided is not None
            assert (decided[0], decided[1]["decision_id"]) == (200, "a/b")
            rewards = {"rewards": {"click": 1}}
            assert await ask(f"{decisions}/a/b/feedback", rewards, KEY) == (200, {"status": "accepted"})
            for key, path in ((KEY, decisions), (DECIDE_KEY, f"{decisions}/a/b/feedback")):
                refused = await ask(path, {}, key)
                assert refused is not None
                assert refused[0] == 401
            for path in ("/v1/decisions", "/loops/other/v1/decisions", "/loops/home", f"{decisions}/a/b/activation"):
                assert await ask(path, {}, KEY) is None, path
            assert await ask(decisions, {}, KEY, method="GET") is None

    asyncio.run(run())


def test_figures_are_told_apart_by_loop(tmp_path: Path) -> None:
    model = make_model(tmp_path)

    async def run() -> None:
        async with served(tmp_path / "loops") as service:
            for name, decisions in (("home", 3), ("basket", 1)):
                await service.add(name, model)
                for _ in range(decisions):
                    await service.decide(name)
            text = (await service.client.get("/metrics")).text
            assert 'zoosim_events_total{event="decisions",loop="home"} 3.0' in text
            assert 'zoosim_events_total{event="decisions",loop="basket"} 1.0' in text
            assert 'zoosim_request_seconds_count{loop="home",request="decide"} 3.0' in text
            assert 'zoosim_loop_up{loop="home"} 1.0' in text
            assert text.count("# HELP zoosim_events_total ") == 1
            own = (await service.client.get("/loops/home/metrics")).text
            assert 'zoosim_events_total{event="decisions"} 3.0' in own

    asyncio.run(run())


def test_the_keys_protect_all_loops_and_one_session_opens_all_consoles(tmp_path: Path) -> None:
    model = make_model(tmp_path)

    async def run() -> None:
        async with served(tmp_path / "loops", key=KEY, decide_key=DECIDE_KEY) as service:
            client = service.client
            paths = ["/", "/v1/loops", "/metrics", "/console/events"]
            for path in paths:
                assert (await client.get(path)).status_code == 401, path
            assert (await service.add("home")).status_code == 401
            assert (await client.delete("/v1/loops/home")).status_code == 401
            client.headers["Authorization"] = f"Bearer {KEY}"
            await service.add("home", model)
            client.headers["Authorization"] = f"Bearer {DECIDE_KEY}"
            assert (await service.decide("home")).status_code == 200
            assert (await client.get("/loops/home/v1/model")).status_code == 401
            assert (await client.get("/v1/loops")).status_code == 401
            del client.headers["Authorization"]
            assert (await service.decide("home")).status_code == 401
            assert 'href="../console/style.css"' not in (await client.get("/loops/home/")).text  # beside the page
            assert (await client.get("/loops/home/console/events")).status_code == 401
            signed_in = await client.post("/loops/home/console/session", data={"key": KEY})
            assert (signed_in.status_code, signed_in.headers["location"]) == (303, "../")
            assert client.cookies[SESSION]
            for path in ("/", "/loops/home/"):
                assert (await client.get(path)).status_code == 200, path

    asyncio.run(run())


def test_the_page_lists_loops_with_a_sentence_and_leads_to_their_consoles(tmp_path: Path) -> None:
    model = make_model(tmp_path)

    async def run() -> None:
        async with served(tmp_path / "loops") as service:
            assert "zoosim loops add NAME" in (await service.client.get("/")).text
            await service.add("home", model)
            await service.add("basket")
            page = (await service.client.get("/")).text
            assert "2 loops running" in page
            assert '<a href="loops/home/">home</a>' in page
            assert "adaptive decides for 100% of the visitors" in page
            assert "one grows from the first 200 requests" in page
            assert "http" not in page  # nothing is asked of anybody else
            console = (await service.client.get("/loops/home/")).text
            assert "Console of home" in console
            assert '<a href="../../">All loops</a>' in console

    asyncio.run(run())
