"""The HTTP API of several loops: prefixes, keys, figures and the page that lists them."""

import asyncio
from pathlib import Path

from tests.serving.loops.several import served
from tests.serving.shop import make_model
from zoosim.serving.console.sessions import SESSION

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
