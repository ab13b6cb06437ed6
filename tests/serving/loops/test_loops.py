"""Loops of one process: each stands alone, they come and go, and what fails in one is no concern of the others."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from tests.serving.loops.several import NoLearners, served
from tests.serving.shop import make_boost_model, make_model
from zoosim.core.errors import StoreError
from zoosim.serving.events import decision_key
from zoosim.serving.folder import LOCK
from zoosim.serving.loops.folder import LOOP_FILE, REMOVED, LoopsFolder
from zoosim.serving.loops.loops import Loops
from zoosim.serving.service import Service
from zoosim.serving.store.address import LOG, Address, open_store


def test_loops_of_different_kinds_stand_alone_and_are_there_after_a_restart(tmp_path: Path) -> None:
    products = make_model(tmp_path / "products")
    boosts = make_boost_model(tmp_path / "boosts")

    async def run() -> None:
        async with served(tmp_path / "loops") as service:
            assert (await service.add("home", products, wait=60.0)).status_code == 201
            assert (await service.add("search", boosts)).status_code == 201
            one = await service.decide("home", decision_id="one")
            assert one.status_code == 200
            again = {"visitor": {"segment": "savers", "query_type": "exact"}, "candidates": {"SKU-0001": 1.0}}
            ranked = await service.client.post("/loops/search/v1/searches", json={**again, "decision_id": "one"})
            assert ranked.status_code == 200, ranked.text
            model = (await service.client.get("/loops/home/v1/model")).json()
            assert model["rules"]["wait"] == 60.0
            assert (await service.client.get("/loops/search/v1/decisions/one")).json()["ranking"] == ["SKU-0001"]
        async with served(tmp_path / "loops") as service:
            assert await service.states() == {"home": "running", "search": "running"}
            kept = (await service.client.get("/loops/home/v1/decisions/one")).json()
            assert kept["propensities"] == one.json()["propensities"]

    asyncio.run(run())


def test_a_loop_that_is_added_again_is_there_once_and_another_one_is_refused(tmp_path: Path) -> None:
    model = make_model(tmp_path)

    async def run() -> None:
        async with served(tmp_path / "loops") as service:
            assert (await service.add("home", model, wait=60.0)).status_code == 201
            assert (await service.add("home", model, wait=60.0)).status_code == 200  # its answer was lost
            refused = await service.add("home", model, wait=61.0)
            assert (refused.status_code, "is there already" in refused.json()["error"]) == (409, True)
            for body, reason in (
                ({"name": "models"}, "expected 1 to 40 letters"),
                ({"name": "x", "settings": {"port": 1}}, "of the whole service"),
                ({"name": "x", "settings": {"wait": -1}}, "wait"),
                ({"name": "x", "model": "0" * 32}, "is not kept here"),
                ({"name": "x", "model": "../../secret"}, "is not kept here"),
                ({"name": "x", "more": 1}, "more"),
            ):
                answer = await service.client.post("/v1/loops", json=body)
                assert (answer.status_code, reason in answer.json()["error"]) == (400, True), answer.text
            assert (await service.client.post("/v1/models", content=b"no model")).status_code == 400
            assert await service.states() == {"home": "running"}
            assert not service.loops.folder.folder("x").exists()

    asyncio.run(run())


def test_a_removed_loop_has_answered_and_kept_everything(tmp_path: Path) -> None:
    model = make_model(tmp_path)

    async def run() -> None:
        async with served(tmp_path / "loops") as service:
            await service.add("home", model)
            await service.add("basket", model)
            asked = [asyncio.create_task(service.decide("basket", decision_id=f"d{number}")) for number in range(20)]
            await asyncio.sleep(0)  # they have begun
            removed = await service.client.delete("/v1/loops/basket")
            answers = await asyncio.gather(*asked)
            assert {answer.status_code for answer in answers} == {200}
            assert service.learners.by_folder["basket"].was_stopped.is_set()
            missing = await service.decide("basket")
            assert (missing.status_code, "expected one of: home" in missing.json()["error"]) == (404, True)
            assert (await service.client.delete("/v1/loops/basket")).status_code == 404
            assert (await service.decide("home")).status_code == 200
            log = Path(removed.json()["log"])
            assert log.parent == tmp_path / "loops" / REMOVED
            store = open_store(Address(log), read_only=True)
            rows = [store.find(decision_key(f"d{number}")) for number in range(20)]
            store.close()
            assert None not in rows
            # A new one of that name is another loop; moved back, the old one is taken up.
            await service.add("basket", model)
            assert (await service.client.get("/loops/basket/v1/decisions/d0")).status_code == 404
            await service.client.delete("/v1/loops/basket")
            log.rename(tmp_path / "loops" / "basket")
            assert (await service.add("basket")).status_code == 201
            assert (await service.client.get("/loops/basket/v1/decisions/d0")).status_code == 200

    asyncio.run(run())


def test_a_loop_that_cannot_be_opened_stops_no_other(tmp_path: Path) -> None:
    model = make_model(tmp_path)
    loops = tmp_path / "loops"

    async def run() -> None:
        async with served(loops) as service:
            for name in ("home", "basket", "search"):
                await service.add(name, model)
        (loops / "basket" / LOG).write_bytes(b"this is no log" * 100)
        (loops / "search" / LOOP_FILE).write_text("waiting: 1\n")
        async with served(loops) as service:
            assert await service.states() == {"home": "running", "basket": "failed", "search": "failed"}
            assert (await service.decide("home")).status_code == 200
            answer = await service.decide("basket")
            assert (answer.status_code, "loop basket: cannot be opened" in answer.json()["error"]) == (503, True)
            ready = await service.client.get("/readyz")
            assert (ready.status_code, "loop search" in ready.json()["error"]) == (503, True)
            metrics = (await service.client.get("/metrics")).text
            assert 'zoosim_loop_up{loop="basket"} 0.0' in metrics
            assert (await service.client.delete("/v1/loops/basket")).status_code == 200
            assert await service.states() == {"home": "running", "search": "failed"}

    asyncio.run(run())


def test_a_loop_whose_folder_cannot_be_moved_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(tmp_path)

    def fail(folder: LoopsFolder, name: str, now: object) -> Path:
        raise StoreError(f"loop {name}: cannot be moved")

    async def run() -> None:
        async with served(tmp_path / "loops") as service:
            await service.add("home", model)
            monkeypatch.setattr(LoopsFolder, "remove", fail)
            assert (await service.client.delete("/v1/loops/home")).status_code == 503
            assert (await service.decide("home")).status_code == 200

    asyncio.run(run())


def test_a_loop_that_fails_to_open_when_it_is_added_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(tmp_path)

    async def fail(loops: Loops, name: str) -> None:
        raise StoreError("the disk is full")

    async def run() -> None:
        async with served(tmp_path / "loops") as service:
            with monkeypatch.context() as patches:
                patches.setattr(Loops, "_open", fail)
                assert (await service.add("home", model)).status_code == 503
            assert await service.states() == {}
            assert {path.name for path in (tmp_path / "loops").iterdir()} == {LOCK, "models", REMOVED}
            assert (await service.add("home", model)).status_code == 201

    asyncio.run(run())


def test_a_loop_whose_learner_cannot_be_started_is_not_added_and_can_be_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(tmp_path)

    def fail(learners: NoLearners, service: Service) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    async def run() -> None:
        async with served(tmp_path / "loops") as service:
            with monkeypatch.context() as patches:
                patches.setattr(NoLearners, "learn", fail)
                refused = await service.add("home", model)
            assert (refused.status_code, "its learner cannot be started" in refused.json()["error"]) == (503, True)
            assert (await service.add("home", model)).status_code == 201  # its folder is nobody's

    asyncio.run(run())


def test_an_addition_goes_on_when_whoever_asked_is_gone_and_the_service_waits_for_it(tmp_path: Path) -> None:
    model = make_model(tmp_path)

    async def run() -> None:
        async with served(tmp_path / "loops") as service:
            digest = await service.keep(model)
            adding = asyncio.create_task(service.loops.add("home", digest, {}))
            await asyncio.sleep(0.05)
            adding.cancel()
        async with served(tmp_path / "loops") as service:
            assert await service.states() == {"home": "running"}

    asyncio.run(run())
