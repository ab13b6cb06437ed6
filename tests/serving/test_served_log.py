"""The log of a service as a log of visits: what is one, what it earned, and that other policies are judged rightly."""

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import polars as pl
import pytest

import zoosim
from tests.serving.mock_time import MockTime
from tests.serving.shop import COUNTRIES, PRODUCTS, make_model, running
from tests.serving.valkey import valkey_server
from zoosim.api.served import export_log
from zoosim.core.errors import ConfigError, DataError, StoreError
from zoosim.logs.log import Log
from zoosim.logs.parse import read_log
from zoosim.off_policy.evaluate import evaluate
from zoosim.serving.arm_replica import ArmReplica
from zoosim.serving.bodies import DecideBody, DecisionAnswer, FeedbackBody, ProductBody, SlotBody
from zoosim.serving.events import Kind, NewRow
from zoosim.serving.folder import load_served_model
from zoosim.serving.join import Closing
from zoosim.serving.replica import Replica
from zoosim.serving.served_log import read_served_log
from zoosim.serving.service import Service
from zoosim.serving.snapshots import write_snapshot
from zoosim.serving.store.address import LOG, find_log, open_store, parse_address
from zoosim.serving.store.sqlite import SqliteStore

TIME = MockTime()
"""What services of these tests go by: a folder may be served several times, so it goes on."""

CLICK_RATES = np.linspace(0.1, 0.8, len(PRODUCTS))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


@pytest.fixture(params=["sqlite", "valkey"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a service keeps its log; its folder is `service`."""
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'service'}"
        return
    with valkey_server(tmp_path / "valkey") as server:
        yield server.store("shop", tmp_path / "service")


def source_of(store: str) -> str:
    """Return what tools are told of a log: a folder, or an address without the folder of a service."""
    return store.removeprefix("sqlite:").partition("&folder=")[0]


def serve(folder: Path, model: Path | None, use: Callable[[Service], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with running(folder, model, TIME.clock(), **settings) as service:
            await use(service)

    asyncio.run(run())


async def wait_over(service: Service) -> None:
    """Let the wait of what was decided pass, and say so in the log."""
    TIME.pass_by(service.settings.wait + 0.05)
    assert await service.upkeep.check_writing() == ""


def visitor(number: int) -> dict[str, Any]:
    return {"country": COUNTRIES[number % len(COUNTRIES)]}


def test_a_visit_is_what_was_decided_and_what_came_of_it(tmp_path: Path, model: Path) -> None:
    ids = []

    async def use(service: Service) -> None:
        for number in range(6):
            body = DecideBody(
                visitor(number), candidates=list(PRODUCTS[number : number + 3]), visitor_id=f"v{number % 2}"
            )
            answer = await service.decide(body)
            ids.append(answer)
            if number % 2:
                await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
        deferred = [await service.decide(DecideBody(defer=True)) for _ in range(3)]
        await service.activate(deferred[0].decision_id)
        await wait_over(service)
        await service.give_feedback(ids[0].decision_id, FeedbackBody({"click": 1.0}))  # late
        await service.change_product("p1", ProductBody(features={"category": "c2"}))
        await service.change_product("new", ProductBody(features={"category": "c1"}))
        open_ones = [await service.decide(DecideBody()) for _ in range(4)]
        await service.give_feedback(open_ones[0].decision_id, FeedbackBody({"click": 1.0}))

    serve(tmp_path, model, use, wait=0.3)
    served = read_served_log(tmp_path)
    log = served.log
    assert served.decision_ids[:6] == tuple(answer.decision_id for answer in ids)
    assert log.names == (*PRODUCTS, "new")
    assert [log.names[action] for action in log.actions[:6]] == [answer.shown[0].product for answer in ids]
    assert log.propensities[:6].tolist() == [answer.shown[0].propensity for answer in ids]
    assert log.rewards.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert log.rewards_by_name["click"].tolist() == log.rewards.tolist()
    assert [np.flatnonzero(row).tolist() for row in log.available(0, 3)] == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert log.user_ids is not None
    assert log.user_ids.tolist() == [0, 1, 0, 1, 0, 1, 2]
    assert log.times is not None
    assert (np.diff(log.times) >= 0).all()
    assert np.isfinite(served.delays).tolist() == [False, True, False, True, False, True, False]
    assert 0.0 <= np.nanmin(served.delays) <= np.nanmax(served.delays) < 10.0, "in seconds"
    known = zoosim.load(model)
    assert log.fitted == known.fitted
    np.testing.assert_array_equal(log.features[1], known.fitted.visitors.encode_one(visitor(1)))
    np.testing.assert_array_equal(log.products[1], known.product_features({"id": "p1", "category": "c2"}))
    counts = {reason.split("expected ")[1].split(",")[0]: count for reason, count in log.skipped.items()}
    assert counts == {"one whose wait for feedback is over": 4, "one that was activated in time": 2}


def test_an_export_says_which_policy_of_which_model_decided(tmp_path: Path, model: Path) -> None:
    """Two models and an apprentice; who reads the export takes nothing of it for a feature."""
    digests = []

    async def use(service: Service) -> None:
        digests.append(service.start.model)
        await service.decide(DecideBody(visitor(0)))
        await service.switch_model(service.keep(replace(zoosim.load(model), facts={"rows": 1})))
        digests.append(service.start.model)
        await service.decide(DecideBody(visitor(1)))
        await service.change_settings({"mode": "apprentice"})
        await service.decide(DecideBody(visitor(2)))
        await wait_over(service)

    serve(tmp_path / "service", model, use, wait=0.3)
    export_log(tmp_path / "service", tmp_path / "log.parquet")
    exported = pl.read_parquet(tmp_path / "log.parquet")
    assert exported["policy"].to_list() == ["adaptive", "adaptive", "baseline"]
    assert exported["policy_version"].to_list() == [*digests, digests[1]]
    assert digests[0] != digests[1]
    read = read_log(tmp_path / "log.parquet")
    np.testing.assert_array_equal(read.features, read_served_log(tmp_path / "service").log.features)


def test_of_slots_that_differ_the_first_counts_among_what_it_could_show(tmp_path: Path, model: Path) -> None:
    """Four candidates; the first slot excludes one, and the second needs another. The request's own visitor is "de"."""
    first = SlotBody("top", {"country": "fr"}, baseline="p2", excluded=["p0", "p0"])
    second = SlotBody("side", {"country": "it"}, baseline="p1", excluded=["p0", "p1", "p2"])
    answers: list[DecisionAnswer] = []

    async def use(service: Service) -> None:
        for _ in range(20):
            answers.append(await service.decide(DecideBody(visitor(0), list(PRODUCTS[:4])), slots=[first, second]))
            await service.give_value(answers[-1].decision_id, {0: 0.5, 1: 1.0})
        await wait_over(service)

    serve(tmp_path, model, use, wait=0.3, exploration=0.5)
    served = read_served_log(tmp_path)
    log = served.log
    could_stand_at_the_top = {name for name, chance in answers[0].propensities.items() if chance}
    assert could_stand_at_the_top == {"p1", "p2"}
    assert log.action_space == "products"
    assert {log.names[place] for place in np.flatnonzero(log.available(0, 1)[0])} == could_stand_at_the_top
    assert {log.names[place] for place in served.first_candidates} == {"p2"}
    assert [log.names[action] for action in log.actions] == [answer.shown[0].product for answer in answers]
    assert log.propensities.tolist() == [answer.shown[0].propensity for answer in answers]
    assert log.rewards.tolist() == [0.5] * 20
    encoded = zoosim.load(model).fitted.visitors.encode_one({"country": "fr"})
    assert (log.features == encoded).all()


@pytest.mark.parametrize("aggregation", ["earliest", "latest", "sum", "average", "median", "min", "max"])
def test_visits_earn_what_the_service_learns(
    tmp_path: Path, model: Path, aggregation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held against what the learner's own join comes to, row by row, for rankings with feedback to their slots."""

    async def use(service: Service) -> None:
        rng = np.random.default_rng(0)
        for number in range(40):
            answer = await service.decide(DecideBody(visitor(number), count=2, decision_id=f"visit {number}"))
            for shown in answer.shown:
                for _ in range(rng.integers(4)):
                    click = round(float(rng.random()), 2)
                    await service.give_feedback(answer.decision_id, FeedbackBody({"click": click}, shown.product))
            if number % 7 == 0:
                await service.tick()
        await wait_over(service)

    serve(tmp_path, model, use, wait=0.5, aggregation=aggregation, default_reward=0.25)
    learned: list[Closing] = []

    monkeypatch.setattr(ArmReplica, "_learn", lambda arm, closing, decision: learned.append(closing))
    store = SqliteStore(tmp_path / LOG, read_only=True)
    replica = Replica(lambda digest: load_served_model(tmp_path, digest), store.rows)
    for row in store.read(0, 10_000):
        replica.apply(row)
    expected = [closing.reward for closing in sorted(learned)]
    log = read_served_log(tmp_path).log
    assert log.action_space == "rankings"
    assert log.rewards.shape == log.propensities.shape == (40, 2)
    assert log.rewards.ravel().tolist() == expected
    top = read_served_log(tmp_path, action_space="products").log
    np.testing.assert_array_equal(top.rewards, log.rewards[:, 0])
    np.testing.assert_array_equal(top.actions, log.actions[:, 0])


@pytest.mark.parametrize(("services", "most"), [(10, 3), pytest.param(30, 6, marks=pytest.mark.slow)])
def test_the_log_of_one_policy_holds_the_value_of_another(services: int, most: int, tmp_path: Path) -> None:
    """Services of 200 visitors, with the click rates of products known: 95% intervals hold the truth nearly always.

    More than 6 misses of 30, or 3 of 10, have a chance of about .001 at a rate of .05. The broken version, which takes
    all candidates for equally likely, must fail: what is served has learned which products are clicked.
    """
    model = make_model(tmp_path, click_rates=CLICK_RATES)
    target = np.arange(1.0, len(PRODUCTS) + 1) / sum(range(len(PRODUCTS) + 1))
    truth = float(target @ CLICK_RATES)
    misses = {"ips": 0, "dr": 0}
    biased = []
    for run in range(services):
        folder = tmp_path / str(run)

        async def use(service: Service, run: int = run) -> None:
            rng = np.random.default_rng([1_000, run])
            for number in range(200):
                answer = await service.decide(DecideBody(visitor(number), decision_id=f"{run} {number}"))
                product = PRODUCTS.index(answer.shown[0].product)
                if rng.random() < CLICK_RATES[product]:
                    await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
            await wait_over(service)

        serve(folder, model, use, wait=0.1, exploration=0.5)
        log = read_served_log(folder).log
        in_order = target[[PRODUCTS.index(name) for name in log.names]]
        for result in evaluate(log, {"target": in_order}, estimators=list(misses), samples=200).results:
            assert result.low is not None
            assert result.high is not None
            misses[result.estimator] += not result.low <= truth <= result.high
        weights = in_order[log.actions] * len(PRODUCTS)
        biased.append(float((weights * log.rewards).mean()))
    assert max(misses.values()) <= most
    standard_error = np.std(biased) / np.sqrt(services)
    assert abs(np.mean(biased) - truth) > 4 * standard_error


def test_a_model_that_follows_adds_rows_where_its_schema_is_the_same(
    tmp_path: Path, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The second model is another policy of the same shop; the third one's visitors come from other countries."""

    async def use(service: Service) -> None:
        for number in range(5):
            await service.decide(DecideBody(visitor(number), candidates=list(PRODUCTS[3:6])))
        await service.change_product("p3", ProductBody(features={"category": "c0"}))
        await wait_over(service)

    folder = tmp_path_factory.mktemp("second")
    second = make_model(folder, "linucb")
    for file in (model, second):
        serve(tmp_path / "service", file, use, wait=0.1)
    log = read_served_log(tmp_path / "service").log
    assert (len(log), log.n_actions, log.skipped) == (10, len(PRODUCTS), {})
    third = make_model(tmp_path_factory.mktemp("third"), countries=("de", "es"))
    serve(tmp_path / "service", third, use, wait=0.1)
    log = read_served_log(tmp_path / "service").log
    assert (len(log), list(log.skipped.values())) == (5, [10])
    assert "schema of the newest" in next(iter(log.skipped))


def test_a_log_whose_first_rows_were_removed_is_read_by_a_snapshot(tmp_path: Path, model: Path, store: str) -> None:
    address = parse_address(store)

    async def use(service: Service) -> None:
        await service.change_product("new", ProductBody(features={"category": "c1"}))
        for number in range(8):
            await service.decide(DecideBody(visitor(number), candidates=["new", "p1"]))
        await wait_over(service)

    serve(address.folder, model, use, store=store, wait=0.1)
    whole = read_served_log(source_of(store)).log
    rows = open_store(address)
    replica = Replica(lambda digest: load_served_model(address.folder, digest), rows.rows)
    for row in rows.read(0, 100):
        replica.apply(row)
    rows.remove_before(2**62, 4)
    with pytest.raises(DataError, match="neither the first rows of its log nor a snapshot"):
        read_served_log(source_of(store))
    snapshot = write_snapshot(address.folder / "snapshots", replica)
    rows.share(address.folder, [f"snapshots/{snapshot.name}"])
    log = read_served_log(source_of(store)).log
    rows.close()
    assert (len(log), log.names) == (6, whole.names)
    np.testing.assert_array_equal(log.actions, whole.actions[2:])
    np.testing.assert_array_equal(log.products, whole.products)


def test_a_folder_without_visits_and_one_with_a_broken_row_are_refused(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        await service.decide(DecideBody())

    serve(tmp_path, model, use, wait=0.3)
    with pytest.raises(DataError, match=r"got no decision to judge by; 1 x decision: .*; serve visitors"):
        read_served_log(tmp_path)
    serve(tmp_path, None, wait_over, wait=0.3)
    with pytest.raises(ConfigError, match=r"boosts: got .* which shows products or rankings"):
        read_served_log(tmp_path, action_space="boosts")
    with apsw.Connection(str(tmp_path / LOG)) as connection:
        connection.execute("UPDATE log SET body = CAST(body || x'00' AS BLOB) WHERE kind = 2")
    with pytest.raises(DataError, match=r"log\.db: row 2 is broken"):
        zoosim.evaluate(tmp_path, ["random"])
    with apsw.Connection(str(tmp_path / LOG)) as connection:
        connection.execute("UPDATE log SET body = CAST(x'9aff' AS TEXT) WHERE kind = 2")
    with pytest.raises(DataError, match=r"log\.db: a row is broken"):
        zoosim.evaluate(tmp_path, ["random"])
    with apsw.Connection(str(tmp_path / LOG)) as connection:
        connection.execute("DELETE FROM log WHERE kind = 2")
    with pytest.raises(DataError, match=r"row 2 is missing"):
        zoosim.evaluate(tmp_path, ["random"])


def append_rows(path: Path, body: bytes, count: int) -> None:
    """Append decisions that are copies of one, from another process."""
    store = SqliteStore(path)
    newest = store.last()
    assert newest is not None
    for number in range(count):
        store.append([NewRow(newest.time + number, Kind.DECISION, f"dcopy {number}".encode(), body)])
    store.append([NewRow(newest.time + 10**9, Kind.TICK, None, b"")])
    store.close()


def test_a_log_is_read_while_another_process_appends_to_it(tmp_path: Path, model: Path) -> None:
    """Each reading holds all up to some row; the last one holds everything."""

    async def use(service: Service) -> None:
        await service.decide(DecideBody(visitor_id="somebody"))
        await wait_over(service)

    serve(tmp_path, model, use, wait=0.1)
    store = SqliteStore(tmp_path / LOG, read_only=True)
    row = store.row(2)
    store.close()
    assert row is not None
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=append_rows, args=(tmp_path / LOG, row.body, 600))
    writer.start()
    lengths = [1]
    while writer.is_alive():
        lengths.append(len(read_served_log(tmp_path).log))
    writer.join()
    assert writer.exitcode == 0
    assert lengths == sorted(lengths)
    assert len(read_served_log(tmp_path).log) == 601


def trained_log(folder: Path, model: Path, count: int, store: str = "") -> None:
    """Serve 300 visitors, of whom some click."""

    async def use(service: Service) -> None:
        rng = np.random.default_rng(5)
        for number in range(300):
            answer = await service.decide(DecideBody(visitor(number), count=count))
            if rng.random() < CLICK_RATES[PRODUCTS.index(answer.shown[0].product)]:
                await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
        await wait_over(service)

    serve(folder, model, use, store=store or f"sqlite:{folder}", wait=0.1, exploration=0.4)


def test_tools_take_a_service_where_they_expect_a_log(
    tmp_path: Path, model: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged and trained on its log, and on what was exported of it: the same to the last digit."""
    trained_log(tmp_path / "service", model, count=1, store=store)
    monkeypatch.chdir(tmp_path)
    files = sorted(tmp_path.iterdir())
    source = source_of(store)
    assert zoosim.export_log(source, tmp_path / "log.parquet") == {}
    results = []
    for log in (source, tmp_path / "log.parquet"):
        evaluation = zoosim.evaluate(log, ["shared-lin-ts"], train=True)
        training = zoosim.train(log, ["shared-lin-ts"], tmp_path / "new.zoosim")
        assert training.evaluation is not None
        results.append((evaluation.results, training.evaluation.results))
    assert results[0] == results[1]
    assert zoosim.load(tmp_path / "new.zoosim").fitted == zoosim.load(model).fitted
    served = zoosim.evaluate(source, [model])
    assert served.n == 300, "no row is one that the model was trained on"
    shop, _ = zoosim.fit_world(source, reward="click")
    assert shop.n_products == len(PRODUCTS)
    with pytest.raises(ConfigError, match="a_max: does not go with the log of a service"):
        zoosim.evaluate(source, [model], a_max=0.1)
    with pytest.raises(ConfigError, match="no column 'price'"):
        zoosim.fit_world(source, reward="price")
    written = {path.name for path in tmp_path.iterdir()} - {path.name for path in files}
    assert written == {"log.parquet", "new.zoosim", *(path.name for path in tmp_path.glob("catalogue-*"))}


def test_addresses_of_logs_are_shown_without_passwords() -> None:
    address = find_log("rediss://shop:secret@10.0.0.5:6380/2?name=shop&folder=/data")
    assert address is not None
    assert address.source == "rediss://10.0.0.5:6380/2?name=shop"
    assert find_log(address.source) == address._replace(
        folder=Path("zoosim-service"), server="rediss://10.0.0.5:6380/2"
    )
    with pytest.raises(ConfigError, match=r"store: got .* expected sqlite:FOLDER"):
        zoosim.evaluate("redis://", ["random"])
    with pytest.raises(StoreError, match="cannot be read"):
        zoosim.evaluate("redis://127.0.0.1:1/0", ["random"])


def test_rankings_are_exported_as_such(tmp_path: Path, model: Path) -> None:
    trained_log(tmp_path / "service", model, count=3)
    zoosim.export_log(tmp_path / "service", tmp_path / "log.parquet")
    direct = read_served_log(tmp_path / "service").log
    exported = read_log(tmp_path / "log.parquet", action_space="rankings")
    for name in ("actions", "propensities", "rewards", "features", "products", "user_ids", "times"):
        np.testing.assert_array_equal(getattr(exported, name), getattr(direct, name))
    assert (exported.names, exported.fitted) == (direct.names, direct.fitted)
    assert masks_of(exported) == masks_of(direct)
    with pytest.raises(DataError, match="expected the folder of a service"):
        zoosim.export_log(tmp_path, tmp_path / "log.parquet")


def masks_of(log: Log) -> bytes:
    return log.available(0, len(log)).tobytes()
