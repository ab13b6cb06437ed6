"""A visitor is forgotten: nothing of who came is left in the files, and all else goes on."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from tests.serving.shop import COUNTRIES, make_model, running
from zoosim.api.served import forget_visitor
from zoosim.core.errors import ConfigError, DataError
from zoosim.policies.model import load_model
from zoosim.serving.bodies import DecideBody, FeedbackBody
from zoosim.serving.events import Decision, pack_floats, unpack
from zoosim.serving.folder import load_served_model
from zoosim.serving.replica import Replica
from zoosim.serving.served_log import read_served_log
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore

SOMEBODY = "somebody@example.com"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


def replayed(folder: Path) -> Replica:
    store = SqliteStore(folder / LOG, read_only=True)
    replica = Replica(lambda digest: load_served_model(folder, digest), store.row)
    for row in store.read(0, 10_000):
        replica.apply(row)
    store.close()
    return replica


@pytest.mark.parametrize("while_it_runs", [True, False])
def test_a_visitor_is_forgotten(tmp_path: Path, model: Path, while_it_runs: bool) -> None:
    """One of four visitors, the only one from France; 40 decisions, all with feedback, and a late one for each."""

    async def use() -> None:
        async with running(tmp_path, model, wait=0.4) as service:
            answers = []
            for number in range(40):
                visitor_id = SOMEBODY if number % 4 == 0 else f"{SOMEBODY[:-1]} {number % 4}"
                body = DecideBody({"country": COUNTRIES[number % 4 == 0]}, visitor_id=visitor_id)
                answers.append(await service.decide(body))
                await service.give_feedback(answers[-1].decision_id, FeedbackBody({"click": 1.0}))
            if while_it_runs:
                assert await asyncio.to_thread(forget_visitor, tmp_path, SOMEBODY) == 10
                assert await service.answer(answers[0].decision_id) == answers[0]
                await service.give_feedback(answers[0].decision_id, FeedbackBody({"click": 0.5}))
            await asyncio.sleep(0.45)
            assert await service.upkeep.check_writing() == ""

    asyncio.run(use())
    if not while_it_runs:
        assert replayed(tmp_path).counts["learned"] == 40
        assert forget_visitor(tmp_path, SOMEBODY) == 10
    assert forget_visitor(tmp_path, SOMEBODY) == 0

    france = load_model(model).fitted.visitors.encode_one({"country": COUNTRIES[1]})
    files = b"".join(path.read_bytes() for path in tmp_path.glob(f"{LOG}*"))
    assert SOMEBODY.encode() + b"\xc4" not in files
    assert SOMEBODY[:-1].encode() + b" 1" in files
    store = SqliteStore(tmp_path / LOG, read_only=True)
    rows = store.read(0, 1_000)
    store.close()
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    decisions = [record for row in rows if row.body and isinstance(record := unpack(row), Decision)]
    assert sum(decision.is_forgotten for decision in decisions) == 10
    assert all(decision.visitor != pack_floats(france) for decision in decisions)
    assert SOMEBODY not in {decision.visitor_id for decision in decisions}

    assert replayed(tmp_path).counts["learned"] == 30
    log = read_served_log(tmp_path).log
    assert (len(log), list(log.skipped.values())) == (30, [10])
    assert not (log.features == france).all(axis=1).any()
    assert np.array_equal(log.rewards, np.ones(30))

    async def go_on() -> None:
        async with running(tmp_path, None, wait=0.4) as service:
            await service.decide(DecideBody({"country": "fr"}, visitor_id=SOMEBODY))

    asyncio.run(go_on())


def test_what_cannot_be_forgotten_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="empty visitor_id"):
        forget_visitor(tmp_path, "")
    with pytest.raises(DataError, match="expected the folder of a service"):
        forget_visitor(tmp_path, SOMEBODY)
    assert not list(tmp_path.iterdir())
