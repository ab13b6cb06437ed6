"""Changes while a service runs: of its rules, its model and its log. All of them follow from the log, or outlast it."""

from pathlib import Path

import pytest

from tests.serving.mock_time import MockTime
from tests.serving.shop import PRODUCTS, full_disk, make_model, with_service
from tests.serving.state_digest import state_digest
from tests.serving.test_service import replayed
from zoosim.core.errors import ConfigError, StoreError
from zoosim.serving.bodies import DecideBody, FeedbackBody, ProductBody, SlotBody
from zoosim.serving.folder import load_served_model
from zoosim.serving.publishing import News, StateChanges
from zoosim.serving.service import Service
from zoosim.serving.snapshots import newest_replica, write_snapshot
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


async def visits(service: Service, first: int, stop: int) -> None:
    """Fill three slots that differ for each visitor; the second earns something in every other visit."""
    slots = [
        SlotBody("top", {"country": "fr"}, PRODUCTS[0], []),
        SlotBody("middle", {}, PRODUCTS[1], [PRODUCTS[2]]),
        SlotBody("bottom", {"country": "it"}, PRODUCTS[2], [PRODUCTS[0]]),
    ]
    for number in range(first, stop):
        body = DecideBody(visitor={"country": "de"}, candidates=list(PRODUCTS[:4]), decision_id=f"visit {number}")
        answer = await service.decide(body, slots=slots)
        assert len({shown.product for shown in answer.shown}) == 3
        assert answer.shown[1].product != PRODUCTS[2]
        assert answer.shown[2].product != PRODUCTS[0]
        await service.give_value(answer.decision_id, {1: float(number % 2)})
        await service.tick()


def test_the_state_follows_from_a_log_with_other_rules_and_models(tmp_path: Path, model: Path) -> None:
    time = MockTime()

    async def use(service: Service) -> None:
        await visits(service, 0, 10)
        await service.change_settings({"wait": 0.2, "aggregation": "sum", "lowest": -1.0})
        await visits(service, 10, 20)
        time.pass_by(0.3)
        await service.tick()
        assert service.start.turn == 0
        await service.switch_model(service.start.model)
        assert service.start.turn == service.start.number
        await visits(service, 20, 30)
        time.pass_by(0.3)
        await service.tick()

    with_service(tmp_path, model, use, time.clock())
    whole = replayed(tmp_path)
    # Of each of the first ten visits two slots were still open when the model began anew.
    assert whole.champion.counts["learned"] == 10 + 30 + 30
    store = SqliteStore(tmp_path / LOG, read_only=True)
    for middle in range(5, whole.position, 17):
        folder = tmp_path / f"{middle}"
        folder.mkdir()
        write_snapshot(folder, replayed(tmp_path, stop=middle))
        resumed = newest_replica(folder, lambda digest: load_served_model(tmp_path, digest), store.rows, pytest.fail)
        for row in store.read(resumed.position, 1_000_000):
            resumed.apply(row)
        assert state_digest(resumed) == state_digest(whole)


def test_changed_settings_outlast_a_restart_and_win_over_others(tmp_path: Path, model: Path) -> None:
    async def change(service: Service) -> None:
        with pytest.raises(ConfigError, match="exploration"):
            await service.change_settings({"exploration": 2.0})
        await service.change_settings({"exploration": 0.5, "wait": 7.0})
        assert service.settings.exploration == 0.5

    async def look(service: Service) -> None:
        assert (service.settings.exploration, service.settings.wait) == (0.5, 7.0)
        assert b'"wait":7.0' in service.start.rules

    with_service(tmp_path, model, change)
    with_service(tmp_path, None, look)


def test_a_file_that_a_service_was_started_with_before_changes_nothing(
    tmp_path: Path, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other, third = (
        make_model(tmp_path_factory.mktemp("other"), names=[f"{letter}{number}" for number in range(8)])
        for letter in "qr"
    )
    digests: list[str] = []

    async def switch(service: Service) -> None:
        digests.append(service.start.model)
        await service.switch_model(service.keep_model(other))
        digests.append(service.start.model)

    async def look(service: Service) -> None:
        digests.append(service.start.model)

    with_service(tmp_path, model, switch)
    for file in (model, None, third, model):
        with_service(tmp_path, file, look)
    first, switched = digests[:2]
    assert digests[2:4] == [switched, switched]
    assert digests[4] not in (first, switched)
    assert digests[5] == first


def test_a_switch_that_cannot_be_stored_is_none(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        before = service.start
        for switch in (service.switch_model(before.model), service.change_settings({"wait": 9.0})):
            with full_disk(service), pytest.raises(StoreError, match="disk full"):
                await switch
            await service.tick()
            assert service.start == before
            assert service.settings.wait == 1.0
        asked: list[bool] = []
        service.current.ask_learner = lambda: asked.append(True)
        for _ in range(2):
            service.current.take(StateChanges(News(0, 9, service.start.origin), {}))
        assert asked == [True]
        await visits(service, 0, 3)

    with_service(tmp_path, model, use)
    assert replayed(tmp_path).start is not None


def test_a_deleted_log_is_gone_for_readers_at_once(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        assert await service.upkeep.log_reach() is None
        await visits(service, 0, 2)
        first, last = await service.upkeep.log_reach() or (0.0, 0.0)
        assert 0.0 < first <= last
        await service.upkeep.delete_log()
        assert await service.upkeep.log_reach() is None
        await visits(service, 2, 3)
        later, _ = await service.upkeep.log_reach() or (0.0, 0.0)
        assert later > first

    with_service(tmp_path, model, use)


def test_values_without_an_id_count_once_for_a_while(tmp_path: Path, model: Path) -> None:
    time = MockTime()

    async def use(service: Service) -> None:
        await visits(service, 0, 1)
        for passed, expected in ((0, 2), (100, 2), (100, 3), (100, 3), (100, 4)):
            time.pass_by(passed)
            await service.give_value("visit 0", {0: 1.0})
            assert service.counts["feedback accepted"] == expected

    with_service(tmp_path, model, use, time.clock())


def test_products_stay_hidden_whoever_names_them(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        await service.change_product("p1", ProductBody(available=False))
        described = DecideBody(candidates=[{"id": "p1", "category": "c2"}, "p2"])
        assert (await service.decide(described)).propensities == {"p2": 1.0}
        await service.switch_model(service.start.model)
        assert (await service.decide(described)).propensities == {"p2": 1.0}
        assert "p1" not in (await service.decide(DecideBody())).propensities

    with_service(tmp_path, model, use)
    with_service(tmp_path, None, use_without_p1)


async def use_without_p1(service: Service) -> None:
    """A restart shows it as little."""
    assert "p1" not in (await service.decide(DecideBody())).propensities


def test_decisions_of_an_earlier_model_keep_their_names(
    tmp_path: Path, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = make_model(tmp_path_factory.mktemp("other"), names=[f"q{number}" for number in range(8)])

    async def use(service: Service) -> None:
        body = DecideBody(visitor={"country": "de"}, decision_id="d", count=3)
        first = await service.decide(body)
        await service.switch_model(service.keep_model(other))
        again = await service.decide(body)
        assert again.shown == first.shown
        assert again.propensities == {each.product: first.propensities[each.product] for each in first.shown}
        feedback = FeedbackBody({"click": 1.0}, product=first.shown[1].product)
        assert (await service.give_feedback("d", feedback)).status == "late"
        assert {name[0] for name in (await service.decide(DecideBody())).propensities} == {"q"}

    with_service(tmp_path, model, use)


def test_decisions_after_a_restart_name_the_state_that_they_are_made_by(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        await visits(service, 0, 3)
        await service.change_product("new", ProductBody(features={"category": "c1"}))

    async def restarted(service: Service) -> None:
        assert (await service.decide(DecideBody())).state == 0

    with_service(tmp_path, model, use)
    with_service(tmp_path, None, restarted)


def test_readiness_asked_often_is_written_once_a_second(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        for _ in range(50):
            assert await service.upkeep.check_writing() == ""
        newest = service._reader.last()
        assert newest is not None
        assert newest.seq <= 3

    with_service(tmp_path, model, use)
