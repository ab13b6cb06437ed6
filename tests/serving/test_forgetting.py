"""A visitor is forgotten: nothing of who came is left in the files, and all else goes on."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving.shop import COUNTRIES, make_model, running
from tests.serving.traces import check_traces, traces
from tests.serving.valkey import valkey_server
from zoosim.api.served import forget_visitor
from zoosim.core.errors import ConfigError, DataError
from zoosim.policies.model import load_model
from zoosim.serving.bodies import DecideBody, FeedbackBody
from zoosim.serving.events import ProductDecision, pack_floats, unpack
from zoosim.serving.folder import load_served_model
from zoosim.serving.replica import Replica
from zoosim.serving.served_log import read_served_log
from zoosim.serving.service import Service
from zoosim.serving.snapshots import newest_replica, write_snapshot
from zoosim.serving.store.address import LOG, Address, open_store, parse_address

SOMEBODY = "somebody@example.com"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


@pytest.fixture(params=["sqlite", "valkey"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The store of a service, and the folder with the files of its log."""
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'service'}", tmp_path / "service"
        return
    with valkey_server(tmp_path / "valkey") as server:
        yield server.store("shop", tmp_path / "service"), tmp_path / "valkey"


def replayed(address: Address) -> Replica:
    store = open_store(address, read_only=True)
    replica = Replica(lambda digest: load_served_model(address.folder, digest), store.rows)
    for row in store.read(0, 10_000):
        replica.apply(row)
    store.close()
    return replica


@pytest.mark.parametrize("while_it_runs", [True, False])
def test_a_visitor_is_forgotten(place: tuple[str, Path], model: Path, while_it_runs: bool) -> None:
    """One of four visitors, the only one from France; 40 decisions, all with feedback, and a late one for each."""

    store, files = place
    address = parse_address(store)
    source = store if address.server else address.folder

    async def use() -> None:
        async with running(address.folder, model, store=store, wait=0.4, per_visitor=0) as service:
            answers = []
            for number in range(40):
                visitor_id = SOMEBODY if number % 4 == 0 else f"{SOMEBODY[:-1]} {number % 4}"
                body = DecideBody({"country": COUNTRIES[number % 4 == 0]}, visitor_id=visitor_id)
                answers.append(await service.decide(body))
                await service.give_feedback(answers[-1].decision_id, FeedbackBody({"click": 1.0}))
            if while_it_runs:
                assert await asyncio.to_thread(forget_visitor, source, SOMEBODY) == 10
                assert await service.answer(answers[0].decision_id) == answers[0]
                await service.give_feedback(answers[0].decision_id, FeedbackBody({"click": 0.5}))
            await asyncio.sleep(0.45)
            assert await service.upkeep.check_writing() == ""

    asyncio.run(use())
    if not while_it_runs:
        assert replayed(address).champion.counts["learned"] == 40
        assert forget_visitor(source, SOMEBODY) == 10
    assert forget_visitor(source, SOMEBODY) == 0

    france = load_model(model).fitted.visitors.encode_one({"country": COUNTRIES[1]})
    names = files.glob("appendonlydir/*") if address.server else files.glob(f"{LOG}*")
    content = b"".join(path.read_bytes() for path in names)
    assert SOMEBODY.encode() + b"\xc4" not in content
    assert SOMEBODY[:-1].encode() + b" 1" in content
    log_store = open_store(address, read_only=True)
    rows = log_store.read(0, 1_000)
    log_store.close()
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    decisions = [record for row in rows if row.body and isinstance(record := unpack(row), ProductDecision)]
    assert sum(decision.is_forgotten for decision in decisions) == 10
    assert all(decision.visitor != pack_floats(france) for decision in decisions)
    assert SOMEBODY not in {decision.visitor_id for decision in decisions}

    assert replayed(address).champion.counts["learned"] == 30
    log = read_served_log(source).log
    assert (len(log), list(log.skipped.values())) == (30, [10])
    assert not (log.features == france).all(axis=1).any()
    assert np.array_equal(log.rewards, np.ones(30))

    async def go_on() -> None:
        async with running(address.folder, None, store=store, wait=0.4) as service:
            await service.decide(DecideBody({"country": "fr"}, visitor_id=SOMEBODY))

    asyncio.run(go_on())


def test_how_often_a_forgotten_visitor_decided_is_in_no_later_snapshot(tmp_path: Path, model: Path) -> None:
    """Snapshots name the rows of visitors' newest decisions alone, of which the log says whose they are."""
    visitors = (SOMEBODY, "another", SOMEBODY, SOMEBODY, "a third")

    async def use() -> None:
        async with running(tmp_path, model) as service:
            for visitor_id in visitors:
                await service.decide(DecideBody({"country": "fr"}, visitor_id=visitor_id))

    asyncio.run(use())
    with closing(open_store(Address(tmp_path), read_only=True)) as store:
        folder = tmp_path / "copies"
        folder.mkdir()
        before = Replica(lambda digest: load_served_model(tmp_path, digest), store.rows)
        for row in store.read(0, 1_000):
            before.apply(row)
        assert counted_in(before) == {SOMEBODY: 3, "another": 1, "a third": 1}
        write_snapshot(folder, before)

        assert forget_visitor(tmp_path, SOMEBODY) == 3
        resumed = newest_replica(folder, lambda digest: load_served_model(tmp_path, digest), store.rows, pytest.fail)
        row_of_another = next(
            row.seq for row in store.read(0, 1_000) if resumed.champion.visitor_at(row.seq) == "another"
        )
        resumed.champion.visitors.admits(row_of_another, 1, "another", 3)
        assert counted_in(resumed) == {"another": 2, "a third": 1}


def counted_in(replica: Replica) -> dict[str, int]:
    """Return how many decisions of each visitor a replica's state counts, by what the log says of their rows."""
    rows, decisions, _ = replica.champion.visitors.state()[1].values()
    return dict(zip(map(replica.champion.visitor_at, rows.tolist()), decisions.tolist(), strict=True))


def test_what_cannot_be_forgotten_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="empty visitor_id"):
        forget_visitor(tmp_path, "")
    with pytest.raises(DataError, match="expected the folder of a service"):
        forget_visitor(tmp_path, SOMEBODY)
    assert not list(tmp_path.iterdir())


def test_the_scan_sees_what_is_left(tmp_path: Path) -> None:
    check_traces(tmp_path)


@pytest.mark.slow
def test_no_value_that_few_visitors_had_is_left(tmp_path: Path) -> None:
    """200 visitors of a service that grew its schema twice; 11 are forgotten, one of them the last who came.

    Of values that fewer than 20 had, those of the forgotten ones are in no file, and the others' in no model or
    snapshot.
    """
    visitors = [Somebody(number) for number in range(200)]

    async def use() -> None:
        async with running(tmp_path, None, wait=60.0) as service:
            for growths, visits in ((1, visitors), (2, visitors)):
                for visitor in visits:
                    await visitor.visit(service, growths)
                await service.tick()
                while service.start.turn < growths:
                    await service.tick()
                    await asyncio.sleep(0.02)
            names = service.model.fitted.visitors.names
            assert {"segment", "device"} <= set(names)
            assert not {"mail", "note", "device id"} & set(names)
            await service.tick()

    asyncio.run(use())
    write_snapshot(tmp_path / "snapshots", replayed(Address(tmp_path)))
    reader = open_store(Address(tmp_path), read_only=True)
    gone = [*visitors[:10], visitors[-1]]  # all of one town, and one of another
    for visitor in gone:
        assert forget_visitor(tmp_path, visitor.id) == 2
    write_snapshot(tmp_path / "snapshots", replayed(Address(tmp_path)))
    reader.close()
    assert traces(tmp_path, [text for visitor in gone for text in visitor.texts]) == {}
    everybody = [text for visitor in visitors for text in (*visitor.texts, visitor.town)]
    for part in ("models", "snapshots"):
        assert traces(tmp_path / part, everybody) == {}
    assert visitors[50].id in traces(tmp_path, [visitors[50].id])  # of whom nobody asked to be forgotten


class Somebody:
    """A visitor whose id, mail and the like nobody else has, and whose town 9 others share."""

    def __init__(self, number: int) -> None:
        rng = np.random.default_rng(number)
        self.number = number
        self.id = f"visitor-{rng.integers(10**12):012}"
        self.mail = f"{rng.integers(10**12):012}@example.com"
        self.income = round(float(rng.lognormal(10.0, 1.0)), 2)
        self.town = f"Town of {number // 10:02}"
        self.device = f"device {rng.integers(10**12):012}"
        self.texts = (self.id, self.mail, self.device, f"{self.income:.2f}", f"greets {self.mail}")

    async def visit(self, service: Service, turn: int) -> None:
        """Come in a turn, and send feedback; in the second turn the visitor's device is known, too."""
        values: dict[str, Any] = {"segment": f"s{self.number % 2}", "mail": self.mail, "income": self.income}
        values |= {"town": self.town, "note": f"greets {self.mail}"}
        if turn == 2:
            values |= {"device": ["app", "web"][self.number % 2], "device id": self.device}
        candidates: list[Any] = [{"id": name, "greeting": f"greets {self.mail}"} for name in ("a", "b")]
        decision_id = f"{self.mail} {turn}" if self.number % 2 else f"visit {self.number} {turn}"
        answer = await service.decide(DecideBody(values, candidates, decision_id=decision_id, visitor_id=self.id))
        feedback_id = f"{self.id} clicked" if self.number % 3 else None
        await service.give_feedback(answer.decision_id, FeedbackBody({"reward": 1.0}, feedback_id=feedback_id))
