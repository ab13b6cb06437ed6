"""A shop drives a running service over HTTP: in simulated time, through a broken pixel and killed processes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import eventually
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import DataError
from zoosim.playground.service import ServiceProcess
from zoosim.playground.shop import HOUR, Shop
from zoosim.playground.visitors import draw_visitors
from zoosim.playground.world import appeal_of, liking, rival_picks, small_shop, teach
from zoosim.serving.client import Client
from zoosim.serving.events import CHAMPION, Kind
from zoosim.serving.projection import rows_of
from zoosim.serving.store.address import find_log, open_store

WORLD = small_shop(draw_visitors(3, days=2), 6.0 * appeal_of(0.0, 0.05), 3)
"""In which 30% of the visitors click."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    return [teach(liking(picks), folder / f"{place}.zoosim") for place, picks in enumerate(rival_picks())]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, models: list[Path]) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("playground"), models[0], {"most_delay": 30.0}) as process:
        yield process


def let_in(shop: Shop, count: int) -> None:
    """Let so many more visitors come."""
    until = len(shop.visits) + count
    shop.visit(lambda shop: len(shop.visits) >= until)


def kinds_since(service: ServiceProcess, time: int) -> Counter[Kind]:
    """Return how many rows of each kind the log has since a time."""
    address = find_log(service.store)
    assert address is not None
    store = open_store(address, True)
    kinds = Counter(row.kind for row in rows_of(store) if row.time > time)
    store.close()
    return kinds


def test_visitors_and_their_clicks_come_in_simulated_time(service: ServiceProcess, models: list[Path]) -> None:
    begin = service.time.now()
    shop = Shop(WORLD, service.url, service.time)
    with Client(service.url) as client:
        client.deploy("launch", arm="new", model=client.keep_model(models[1].read_bytes()), share=0.5)
        let_in(shop, 300)
        hours = WORLD.visitors.hour[max(visit.visitor for visit in shop.visits)]
        assert shop.hours == pytest.approx(hours, abs=0.02)
        assert {visit.arm for visit in shop.visits} == {CHAMPION, "new"}
        assert all(visit.is_clicked == WORLD.clicks(visit.visitor, visit.product) for visit in shop.visits)
        assert not shop.refused
        kinds = kinds_since(service, begin)
        clicks = sum(visit.is_clicked for visit in shop.visits)
        assert kinds[Kind.DECISION] == len(shop.visits)
        assert 0.5 * clicks < kinds[Kind.FEEDBACK] <= clicks, "the others are on their way"
        change = client.deploy("rollback", arm="new")
        assert change["arms"]["new"]["share"] == 0.0
        newest = client.deployment()["history"][0]
        assert newest["time"] * MICROSECONDS == pytest.approx(service.time.now(), abs=HOUR / 10)


def test_a_broken_pixel_tells_nothing_until_it_is_mended(service: ServiceProcess) -> None:
    shop = Shop(WORLD, service.url, service.time, first=1_000)
    shop.break_pixel()
    begin = service.time.now()
    let_in(shop, 100)
    assert kinds_since(service, begin)[Kind.FEEDBACK] == 0
    shop.mend_pixel()
    let_in(shop, 100)
    assert kinds_since(service, begin)[Kind.FEEDBACK] > 0


def test_ten_times_the_traffic_comes_in_a_tenth_of_the_time(service: ServiceProcess) -> None:
    shop = Shop(WORLD, service.url, service.time, first=2_000)
    let_in(shop, 50)
    hours = shop.hours
    numbers = [max(visit.visitor for visit in shop.visits)]
    shop.traffic = 10.0
    let_in(shop, 200)
    numbers.append(max(visit.visitor for visit in shop.visits))
    begin, end = WORLD.visitors.hour[numbers]
    assert shop.hours - hours == pytest.approx((end - begin) / 10.0, abs=0.02)


def test_a_shop_may_be_slow_enough_to_be_watched(service: ServiceProcess) -> None:
    """At a million simulated seconds in one, fifty visitors take some four minutes of simulated time."""
    shop = Shop(WORLD, service.url, service.time, first=3_000, speed=1_000_000.0)
    let_in(shop, 50)
    assert len(shop.visits) >= 50


def test_a_killed_learner_and_a_killed_service_start_again(service: ServiceProcess) -> None:
    shop = Shop(WORLD, service.url, service.time, first=4_000)
    assert service.kill_learner()
    let_in(shop, 50)
    assert not shop.refused
    eventually(service.kill_learner, 60.0)
    service.kill()
    shop.visit(lambda shop: sum(shop.refused.values()) >= 20)
    visits = len(shop.visits)
    service.start()
    let_in(shop, 20)
    assert len(shop.visits) >= visits + 20


def test_a_service_ends_with_the_process_that_started_it(service: ServiceProcess) -> None:
    """Whose end of the pipe is closed then, however it ended."""
    assert service.is_running
    assert service._process.stdin is not None
    service._process.stdin.close()
    eventually(lambda: not service.is_running)


def test_a_service_that_cannot_start_says_where_the_reason_stands(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"did not start; .*output.txt says why"):
        ServiceProcess(tmp_path, None, {"port": 70_000})
    assert "port" in (tmp_path / "output.txt").read_text()
