"""What happened to a shop is told to its service, logged once, and marked on the console."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

import zoosim
from tests.serving.console.rows import TIME, Log
from tests.serving.mock_time import MockTime
from tests.serving.shop import make_model, running
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import ConfigError
from zoosim.serving.application import Application
from zoosim.serving.bodies import AnnotationBody
from zoosim.serving.console.series import MOST_CHANGES, SeriesProjection
from zoosim.serving.console.view import earned_curve, entries, history
from zoosim.serving.events import ROW_KINDS, Annotation, Kind, Row, annotation_key, pack
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


def annotations_in(folder: Path) -> list[Annotation]:
    store = SqliteStore(folder / LOG, read_only=True)
    try:
        return [row.record for row in store.read(0, 100) if row.kind is Kind.ANNOTATION]
    finally:
        store.close()


def test_what_happened_is_a_row_of_the_log_and_logged_once(tmp_path: Path, model: Path) -> None:
    async def run() -> None:
        time = MockTime()
        async with running(tmp_path, model, time.clock()) as service:
            body = AnnotationBody("a campaign", who="ann", why="ten days", annotation_id="c1")
            assert (await service.annotate(body)).status == "accepted"
            assert (await service.annotate(body)).status == "duplicate"
            before = AnnotationBody("an outage", time="1970-01-01T00:00:05+01:00".replace("1970", "1971"))
            assert (await service.annotate(before)).status == "accepted"
            for wrong in ("yesterday", "2026-11-29T14:05", "9999-01-01T00:00:00+00:00", "0001-01-01T00:00:00+00:00"):
                with pytest.raises(ConfigError, match="expected a time that has come, with its zone"):
                    await service.annotate(AnnotationBody("an outage", time=wrong))

    asyncio.run(run())
    first, second = annotations_in(tmp_path)
    assert (first.what, first.who, first.why) == ("a campaign", "ann", "ten days")
    assert second.time == (365 * 86_400 - 3_600 + 5) * MICROSECONDS


def test_it_is_told_over_http(tmp_path: Path, model: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, model, MockTime().clock()) as service:
            transport = httpx2.ASGITransport(app=Application(service).starlette())
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                answer = await client.post("/v1/annotations", json={"what": "a campaign", "who": "ann"})
                assert (answer.status_code, answer.json()) == (200, {"status": "accepted"})
                bodies: list[dict[str, Any]] = [{}, {"what": ""}, {"what": "a" * 201}, {"what": "a", "moon": 1}]
                for body in bodies:
                    assert (await client.post("/v1/annotations", json=body)).status_code == 400, body
                described = (await client.get("/openapi.json")).json()
                assert "AnnotationBody" in described["components"]["schemas"]
                assert "/v1/annotations" in described["paths"]

    asyncio.run(run())
    assert [each.what for each in annotations_in(tmp_path)] == ["a campaign"]


def test_the_console_marks_it_where_it_happened() -> None:
    log = Log()
    projection = SeriesProjection()
    log.start()
    for number in range(40):
        log.decide(f"{number}")
        log.wait(10.0)
    happened = Annotation(TIME + 100 * MICROSECONDS, "a campaign", "ann", "ten days")
    log.rows.append(
        Row(len(log.rows) + 1, TIME + 400 * MICROSECONDS, Kind.ANNOTATION, annotation_key("a"), pack(happened))
    )
    for row in log.rows:
        projection.apply(row)
    series = projection.series
    assert [(each.number, each.what) for each in entries(series)] == [(1, "a start"), (2, "a campaign")]
    newest = history(series)[0]
    assert newest[2:] == ["ann", "a campaign", "ten days"]
    chart = earned_curve(series, {"click": 1.0}, {"champion": 0}).charts[0]
    start, campaign = chart.marks
    assert campaign.number == 2
    # The chart goes from 0 to 390 seconds, and the campaign began after 100.
    assert campaign.x == pytest.approx(chart.left + (chart.right - chart.left) * 100 / 390, abs=0.1)
    assert start.x == chart.left


def test_the_newest_are_kept() -> None:
    projection = SeriesProjection()
    for number in range(MOST_CHANGES + 5):
        projection.apply(Row(number + 1, number, Kind.ANNOTATION, None, pack(Annotation(number, f"{number}"))))
    assert [each.what for each in projection.series.annotations] == [f"{n}" for n in range(5, MOST_CHANGES + 5)]
    assert ROW_KINDS[Kind.ANNOTATION].handler == "on_annotation"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"what": None}, "annotate: got nothing, expected what happened"),
        ({"what": " "}, "annotate: got nothing, expected what happened"),
        ({"what": "a campaign", "share": 0.1}, "a share or a role, which arms alone have"),
        ({"what": "a campaign", "time": "noon"}, "time: got 'noon', expected one such as"),
        ({"what": "a campaign", "plan": {}}, "which a launch alone has"),
    ],
)
def test_the_command_refuses_what_says_nothing(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        zoosim.deploy("annotate", **arguments)
    with pytest.raises(ConfigError, match="which an annotation alone has"):
        zoosim.deploy("promote", "new", time="2026-11-29T14:05")
