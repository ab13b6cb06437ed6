"""The console over HTTP: what it shows, to whom, and that nothing it shows can run."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.serving.shop import make_model, running
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import StoreError
from zoosim.monitoring.launch import Verdict
from zoosim.serving import logged
from zoosim.serving.application import Application
from zoosim.serving.bodies import DecideBody, DeploymentBody
from zoosim.serving.console.series import ArmPeriod, Change, Period, Series
from zoosim.serving.console.sessions import MOST_SESSIONS, SESSION
from zoosim.serving.events import CHAMPION, decision_of
from zoosim.serving.launches.report import LaunchReport, MetricReport
from zoosim.serving.service import Service

KEY, DECIDE_KEY = "opens everything there is", "opens decisions alone"
HOSTILE = "<script>alert(1)</script>"
TIME = 1_700_000_000 * MICROSECONDS


def asked(
    folder: Path, use: Callable[[Service, httpx2.AsyncClient], Awaitable[None]], model: Path, **settings: Any
) -> None:
    """Use a service and a client of its application."""

    async def run() -> None:
        async with running(folder, model, **settings) as service:
            transport = httpx2.ASGITransport(app=Application(service).starlette())
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                await use(service, client)

    asyncio.run(run())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


def a_series() -> Series:
    """Return a series of two periods with two arms, and texts that somebody made on purpose."""
    arms = {CHAMPION: ArmPeriod(100, 30, {"click": 30.0}), "challenger": ArmPeriod(50, 20, {"click": 20.0})}
    return Series(
        position=1,
        periods=[Period(TIME, arms), Period(TIME + 10 * MICROSECONDS, arms)],
        products={HOSTILE: 7, "p1": 3},
        weights=10.0,
        squares=20.0,
        changes=[Change(TIME, HOSTILE, HOSTILE, {"challenger": 0.2})],
    )


def test_the_page_says_what_decides_and_what_it_earns(tmp_path: Path, model: Path) -> None:
    async def use(service: Service, client: httpx2.AsyncClient) -> None:
        digest = service.keep_model(model)
        await service.deploy(DeploymentBody("launch", model=digest, who="maya", plan={"steps": [0.2, 0.5]}))
        metric = MetricReport("objective", "success", 0.01, -0.02, 0.04, 0.3, 0.006)
        number = service.start.number
        words = "Cannot tell yet: about 9,000 more decisions."
        service.current.launch_report = LaunchReport(
            number, 0, Verdict.CANNOT_TELL, words, 9_000, 120, 120, [metric], []
        )
        service.current.figures.series = a_series()
        answer = await client.get("/")
        assert answer.status_code == 200
        page = answer.text
        assert "Arm challenger decides for 19% of the visitors: cannot tell yet: about 9,000 more decisions." in page
        assert "\u22120.02 to +0.04 per visitor" in page
        assert "<td>200</td>" in page  # decisions of the champion
        assert 'aria-current="step">20%' in page
        assert page.count("<polyline") == 4  # two arms, for wide and for narrow screens
        assert "as well as 5 decisions at random" in page
        assert "Rewards and guardrails of the launch of challenger" in page
        await service.deploy(DeploymentBody("rollback", arm="challenger", who="maya", why="fewer orders"))
        over = (await client.get("/")).text
        assert "The last launch, of challenger: rolled back" in over
        assert 'class="steps"' not in over

    asked(tmp_path, use, model)


def test_nothing_that_came_from_outside_can_run(tmp_path: Path, model: Path) -> None:
    async def use(service: Service, client: httpx2.AsyncClient) -> None:
        service.current.figures.series = a_series()
        await service.decide(DecideBody(decision_id=HOSTILE, visitor_id=HOSTILE, visitor={"country": HOSTILE}))
        paths = [f"/console/{path}={HOSTILE}" for path in ("decision?id", "decisions?visitor", "decisions?visitor=2")]
        for path in ("/", f"/console/decision?id={HOSTILE}2", "/console/decisions", *paths):
            answer = await client.get(path)
            assert HOSTILE not in answer.text
            assert "&lt;script&gt;alert(1)" in answer.text
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy

    asked(tmp_path, use, model)


def fail(*_: object) -> None:
    raise StoreError("the log cannot be read")


def test_a_decision_is_shown_by_its_id(tmp_path: Path, model: Path) -> None:
    async def use(service: Service, client: httpx2.AsyncClient) -> None:
        answer = await service.decide(DecideBody(decision_id="one", visitor_id="anna", visitor={"country": "de"}))
        page = (await client.get("/console/decision", params={"id": "one"})).text
        assert f"The champion showed {answer.shown[0].product}" in page
        assert "anna" in page
        assert page.count("<tr>") == 1 + len(answer.propensities)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service._reader, "find", fail)
            unread = await client.get("/console/decision", params={"id": "one"})
            assert (unread.status_code, "the log cannot be read" in unread.text) == (503, True)
        missing = await client.get("/console/decision", params={"id": "two"})
        assert (missing.status_code, "No such decision" in missing.text) == (404, True)

    asked(tmp_path, use, model)


def test_the_newest_decisions_lead_to_each(tmp_path: Path, model: Path) -> None:
    async def use(service: Service, client: httpx2.AsyncClient) -> None:
        assert "No decision is among" in (await client.get("/console/decisions")).text
        for number, visitor in enumerate(["anna", "bert", "anna", "", "ann"]):
            await service.decide(DecideBody(decision_id=f"d/{number}", visitor_id=visitor))
        page = (await client.get("/console/decisions")).text
        places = [page.index(f'href="../console/decision?id=d/{number}"') for number in (4, 3, 2, 1, 0)]
        assert places == sorted(places)
        for path in ("/console/decisions?visitor=anna", "/console/decision?id=anna"):
            page = (await client.get(path)).text
            assert "The newest 2 decisions of visitor anna" in page
            assert re.findall(r"decision\?id=(d/.)", page) == ["d/2", "d/0"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service._reader, "last", fail)
            unread = await client.get("/console/decisions")
            assert (unread.status_code, "the log cannot be read" in unread.text) == (503, True)

    asked(tmp_path, use, model)


def test_decisions_are_looked_for_among_the_newest_rows(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged, "MOST_SEARCHED", 8)
    monkeypatch.setattr(logged, "SEARCHED_AT_ONCE", 3)

    async def use(service: Service, client: httpx2.AsyncClient) -> None:
        for number in range(20):
            await service.decide(DecideBody(decision_id=f"{number}", visitor_id="anna" if number < 14 else "bert"))

        async def ids(most: int, visitor: str = "") -> list[str]:
            return [decision_of(row) for row, _ in await service.logged.newest(most, visitor)]

        assert await ids(4) == ["19", "18", "17", "16"]
        assert await ids(20) == [f"{number}" for number in range(19, 11, -1)]
        assert await ids(20, "anna") == ["13", "12"]

    asked(tmp_path, use, model)


def test_events_come_until_the_service_stops(tmp_path: Path, model: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, model) as service:
            stopping = asyncio.Event()
            console = Application(service, stopping)._console
            events = console.panels.events()
            first = await anext(events)
            assert first.startswith(b'event: panels\ndata: {"now":')
            assert first.endswith(b"\n\n")
            assert b"adaptive decides for 100% of the visitors" in first
            assert await anext(console.panels.events()) is first, "rendered once for all who look"
            stopping.set()
            assert [event async for event in events] == []

    asyncio.run(run())


def test_a_service_with_keys_asks_to_sign_in(tmp_path: Path, model: Path) -> None:
    async def use(service: Service, client: httpx2.AsyncClient) -> None:
        for path in ("/", "/console/events", "/console/decision?id=one", "/console/decisions"):
            answer = await client.get(path)
            assert answer.status_code == 401
            assert "adaptive" not in answer.text
        assert (await client.post("/console/session", data={"key": "wrong"})).status_code == 401
        assert (await client.post("/console/session", data={"key": DECIDE_KEY})).status_code == 401  # it decides alone
        assert (await client.post("/console/session", content=b"key=" + b"x" * 20_000)).status_code == 401
        assert (await client.get("/")).status_code == 401
        answer = await client.post("/console/session", data={"key": KEY})
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "adaptive decides" in (await client.get("/")).text
        assert (await client.get("/", headers={"Cookie": f"{SESSION}=guessed"})).status_code == 401

    asked(tmp_path, use, model, key=KEY, decide_key=DECIDE_KEY)


def test_a_bearer_key_opens_the_console_and_old_sessions_end(tmp_path: Path, model: Path) -> None:
    async def use(service: Service, client: httpx2.AsyncClient) -> None:
        assert (await client.get("/", headers={"Authorization": f"Bearer {KEY}"})).status_code == 200
        await client.post("/console/session", data={"key": KEY})
        first = client.cookies[SESSION]
        for _ in range(MOST_SESSIONS):
            await client.post("/console/session", data={"key": KEY})
        assert (await client.get("/")).status_code == 200
        client.cookies.clear()
        assert (await client.get("/", headers={"Cookie": f"{SESSION}={first}"})).status_code == 401

    asked(tmp_path, use, model, key=KEY)


def test_files_of_the_page_are_there(tmp_path: Path, model: Path) -> None:
    async def use(service: Service, client: httpx2.AsyncClient) -> None:
        for name, media_type in (("style.css", "text/css"), ("script.js", "text/javascript")):
            answer = await client.get(f"/console/{name}")
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith(media_type)
            assert "http" not in answer.text  # nothing is asked of anybody else

    asked(tmp_path, use, model)
