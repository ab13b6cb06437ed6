"""Models are launched, promoted and taken back while a service runs: nothing that was decided or learned is lost."""

import asyncio
import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import numpy as np
import pytest

import zoosim
from tests.commands import Ended, Started
from tests.serving.process import serving
from tests.serving.shop import PRODUCTS, make_boost_model, make_model, running, with_service
from tests.serving.test_service import check_resumed, replayed, visit
from tests.serving.valkey import valkey_server
from tests.waiting import eventually
from zoosim.core.errors import ConfigError, StoreError
from zoosim.policies.base import Policy
from zoosim.policies.persistence import packed_state
from zoosim.serving import folder
from zoosim.serving.arm_replica import ArmReplica
from zoosim.serving.arms import Assignment
from zoosim.serving.bodies import DecideBody, DeploymentBody, FeedbackBody, ProductBody
from zoosim.serving.client import ServiceError
from zoosim.serving.current import Current
from zoosim.serving.deployment import deployed, models_in
from zoosim.serving.events import CHAMPION, PREVIOUS, Arm, Kind, NewRow, Start, pack, start_key
from zoosim.serving.publishing import News, Publisher, decode, encode
from zoosim.serving.refusals import Conflict
from zoosim.serving.rules import Rules
from zoosim.serving.served_log import read_served_log
from zoosim.serving.service import Service
from zoosim.serving.writer import Writer

KEY = "k" * 20
START = Start("a" * 32, Rules().model_dump_json().encode(), number=7, salt=b"salt")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def rival(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("rival"), "linucb")


def learned_by(arm: ArmReplica) -> dict[str, bytes]:
    """Return what the policy of an arm has learned."""
    return learned_arrays(arm.model.policy)


def learned_arrays(policy: Policy) -> dict[str, bytes]:
    """Return what a policy has learned."""
    return {name: np.ascontiguousarray(array).tobytes() for name, array in packed_state(policy)[1].items()}


def deploy_by_command(folder: Path, *words: str) -> Ended:
    with Started("deploy", *words, cwd=folder, environment={"ZOOSIM_SERVE_KEY": KEY}) as started:
        return started.end()


def changed(start: Start, action: Any, **fields: Any) -> Start:
    """Return the start after a change, as the log would hold it."""
    return msgspec.structs.replace(deployed(start, DeploymentBody(action, **fields)), number=start.number + 1)


def test_a_launch_is_promoted_and_taken_back_by_names_and_shares_alone() -> None:
    launched = changed(START, "launch", arm="new", model="b" * 32, share=0.05, who="ann", why="it won the trial")
    assert launched.arms == [Arm("new", "b" * 32, 0.05, "challenger", 8)]
    assert (launched.who, launched.why) == ("ann", "it won the trial")
    grown = changed(launched, "share", arm="new", share=0.5)
    promoted = changed(grown, "promote", arm="new")
    assert (promoted.model, promoted.turn) == ("b" * 32, 8)
    assert promoted.arms == [Arm(PREVIOUS, "a" * 32, 0.0, PREVIOUS, 0)]
    assert promoted.why == "promote new"
    back = changed(promoted, "rollback")
    assert (back.model, back.turn) == (START.model, START.turn)
    assert back.arms == [Arm(PREVIOUS, "b" * 32, 0.0, PREVIOUS, 8)]
    assert changed(grown, "rollback", arm="new").arms == [Arm("new", "b" * 32, 0.0, "challenger", 8)]
    assert changed(grown, "freeze", arm="new").arms == [Arm("new", "b" * 32, 0.5, "holdback", 8)]
    assert not changed(grown, "retire", arm="new").arms


@pytest.mark.parametrize(
    ("action", "fields", "message"),
    [
        ("launch", {"arm": "new"}, "model: got none"),
        ("launch", {"arm": "old", "model": "b"}, "'old', which is there already"),
        ("launch", {"arm": CHAMPION, "model": "b"}, "'champion', which is there already"),
        ("launch", {"arm": "new", "model": "b", "share": 0.8}, "add up to 1.1, expected at most 1"),
        ("share", {"arm": "old"}, "share: got none"),
        ("share", {"arm": "odl", "share": 0.1}, "unknown 'odl' .did you mean old"),
        ("promote", {"arm": ""}, "arm: unknown ''"),
        ("rollback", {}, "there is no champion of before; name the challenger"),
    ],
)
def test_a_change_that_cannot_be_is_refused_in_one_line(action: str, fields: dict[str, Any], message: str) -> None:
    start = msgspec.structs.replace(START, arms=[Arm("old", "c", 0.3, "challenger", 1)])
    with pytest.raises(ConfigError, match=message) as refused:
        changed(start, action, **fields)
    assert "\n" not in str(refused.value)


def test_a_change_that_is_sent_again_is_made_once() -> None:
    promoted = changed(changed(START, "launch", arm="new", model="b"), "promote", arm="new")
    back = changed(promoted, "rollback", change_id="1")
    assert deployed(back, DeploymentBody("rollback", change_id="1")) == back
    assert deployed(back, DeploymentBody("rollback", change_id="2")).model == "b"
    again = changed(back, "rollback", change_id="2")
    assert deployed(again, DeploymentBody("rollback", change_id="1")) == again
    with pytest.raises(Conflict, match="change_id: got '1', which another change has"):
        deployed(again, DeploymentBody("freeze", change_id="1"))
    for number in range(100):
        again = changed(again, "freeze", change_id=f"{number} again")
    assert len(again.changes) < 2_000


def test_a_service_launches_a_model_that_another_one_of_its_log_got(tmp_path: Path, model: Path, rival: Path) -> None:
    async def use() -> None:
        with valkey_server(tmp_path / "valkey") as server:
            stores = [server.store("shop", tmp_path / name) for name in ("a", "b")]
            async with (
                running(tmp_path / "a", model, store=stores[0]) as first,
                running(tmp_path / "b", model, store=stores[1]) as second,
            ):
                digest = await asyncio.to_thread(first.keep_model_content, rival.read_bytes())
                await second.deploy(DeploymentBody("launch", "new", digest, 0.1))
                assert second.deployment()["arms"]["new"]["policy"] == "linucb"

    asyncio.run(use())


def test_a_model_for_which_there_is_no_room_is_refused_in_one_line(
    tmp_path: Path, model: Path, rival: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def use(service: Service) -> None:
        monkeypatch.setattr(folder, "_write_model", fail)
        with pytest.raises(StoreError, match=r"model: cannot be kept .No space left on device.; make room"):
            service.keep_model_content(rival.read_bytes())

    with_service(tmp_path, model, use)


def test_a_holdback_keeps_its_visitors_while_challengers_come_and_go() -> None:
    """Each change moves visitors between the champion and the arm that changes alone."""
    held = changed(START, "launch", arm="old", model="c", share=0.1, role="holdback")
    tried = changed(held, "launch", arm="new", model="b", share=0.1)
    grown = changed(tried, "share", arm="new", share=0.5)
    again = changed(changed(grown, "retire", arm="new"), "launch", arm="new", model="d", share=0.1)
    before, after, most, other = (
        [Assignment(start).arm_for(f"v{number}", "") for number in range(5_000)]
        for start in (held, tried, grown, again)
    )
    moves = {pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]}
    assert moves == {(CHAMPION, "new")}
    assert {pair for pair in zip(after, most, strict=True) if pair[0] != pair[1]} == {(CHAMPION, "new")}
    both = sum(first == second == "new" for first, second in zip(after, other, strict=True))
    assert both < 100, "another model is met by other visitors first: 50 of 5,000 are expected in both"


def test_what_is_open_is_learned_by_the_arm_that_decided(tmp_path: Path, model: Path, rival: Path) -> None:
    """The challenger goes on as the champion with what it learned, and what it decided before is learned later."""

    async def use(service: Service) -> None:
        digest = service.keep_model(rival)
        await service.deploy(DeploymentBody("launch", "new", digest, 0.4, who="ann"))
        answers = []
        for number in range(60):
            body = DecideBody({"country": "de"}, [*PRODUCTS[:5]], visitor_id=f"v{number}")
            answers.append(await service.decide(body))
        await service.deploy(DeploymentBody("promote", "new"))
        assert service.start.model == digest
        assert {answer.arm for answer in answers} == {CHAMPION, "new"}
        for answer in answers:
            outcome = await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
            assert outcome.status == "accepted"
            assert len((await service.answer(answer.decision_id)).propensities) == 5
        await service.tick()
        for number in range(60):
            await visit(service, number, f"v{number}")
        made = {arm: sum(answer.arm == arm for answer in answers) for arm in (CHAMPION, "new")}
        middle = replayed(tmp_path)
        assert middle.arms[CHAMPION].counts["learned"] >= made["new"]
        assert middle.arms[PREVIOUS].counts["learned"] == made[CHAMPION]
        await service.deploy(DeploymentBody("rollback", who="bob", why="fewer orders"))
        whole = replayed(tmp_path)
        assert learned_by(whole.arms[CHAMPION]) == learned_by(middle.arms[PREVIOUS])
        assert [change["who"] for change in (await service.history())] == ["bob", "", "ann", ""]
        assert (await service.history())[0]["why"] == "fewer orders"
        for _ in range(2):
            await service.change_settings({"exploration": 0.2})
        newest, before, *_ = await service.history()
        assert (newest["who"], newest["why"]) == ("", "settings changed")
        assert before["who"] == "bob"
        assert service.deployment()["models"][digest]["state"] == PREVIOUS

    with_service(tmp_path, model, use, per_visitor=0)
    check_resumed(tmp_path, replayed(tmp_path, stop=100), replayed(tmp_path))


def test_decisions_before_and_after_a_promotion_are_judged_in_one_log(tmp_path: Path, model: Path, rival: Path) -> None:
    async def use(service: Service) -> None:
        await service.deploy(DeploymentBody("launch", "new", service.keep_model(rival), 0.5))
        for number in range(40):
            body = DecideBody({"country": "fr"}, [*PRODUCTS[:4], {"id": f"fresh {number % 3}", "category": "c1"}])
            await service.decide(body)
            if number == 20:
                await service.deploy(DeploymentBody("promote", "new"))
        await asyncio.sleep(0.2)
        await service.tick()

    with_service(tmp_path, model, use, wait=0.1)
    assert len(read_served_log(tmp_path).log) == 40


def test_nothing_is_learned_while_learning_is_frozen(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        early = await service.decide(DecideBody({"country": "de"}, [*PRODUCTS[:4]]))
        await service.deploy(DeploymentBody("freeze"))
        assert service.settings.frozen
        await service.give_feedback(early.decision_id, FeedbackBody({"click": 1.0}))
        frozen = await service.decide(DecideBody({"country": "de"}, [*PRODUCTS[:4]]))
        await service.tick()
        await service.deploy(DeploymentBody("unfreeze"))
        await service.give_feedback(frozen.decision_id, FeedbackBody({"click": 1.0}))
        late = await service.decide(DecideBody({"country": "de"}, [*PRODUCTS[:4]]))
        await service.give_feedback(late.decision_id, FeedbackBody({"click": 1.0}))
        await service.tick()

    with_service(tmp_path, model, use)
    counts = replayed(tmp_path).champion.counts
    assert (counts["learned"], counts["while learning was frozen"]) == (1, 2)

    async def again(service: Service) -> None:
        assert not service.settings.frozen

    with_service(tmp_path, model, again)


def test_an_arm_that_becomes_a_holdback_learns_nothing_of_what_was_open(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        await service.deploy(DeploymentBody("launch", "new", service.keep_model(model), 1.0))
        answer = await service.decide(DecideBody({"country": "de"}, [*PRODUCTS[:4]]))
        await service.deploy(DeploymentBody("freeze", "new"))
        await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
        await service.tick()

    with_service(tmp_path, model, use)
    counts = replayed(tmp_path).arms["new"].counts
    assert (counts["learned"], counts["while learning was frozen"]) == (0, 1)


def test_what_an_arm_learned_is_taken_though_it_has_another_name_by_then(
    tmp_path: Path, model: Path, rival: Path
) -> None:
    """The learner may have read that it was promoted before the service has, and tells differences from then on."""

    async def use(service: Service) -> None:
        await service.deploy(DeploymentBody("launch", "new", service.keep_model(rival), 0.5))
        arm = service.current.arms["new"]
        learned: Any = zoosim.load(rival).policy
        publishers = {"new": Publisher(), CHAMPION: Publisher()}
        for name, part in (("new", "ridge.b"), (CHAMPION, "ridge.gram"), (CHAMPION, "ridge.theta")):
            learned.change_state(lambda arrays, part=part: arrays[part].fill(0.5))
            news = News(0, 0, arm.origin, arm=name)
            service.current.take(decode(encode(publishers[name].message(learned, news))))
            assert learned_arrays(arm.model.policy) == learned_arrays(learned)

    with_service(tmp_path, model, use)


def test_an_arm_that_begins_while_a_product_is_stored_knows_it_as_the_log_says(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start stands behind the product's row: learners, who read the log, know the arm without it."""
    append = Writer.append

    async def use(service: Service) -> None:
        async def append_and_launch(writer: Writer, rows: list[NewRow], durable: bool = False) -> Any:
            positions = await append(writer, rows, durable)
            if rows[0].kind is Kind.PRODUCT and "new" not in service.current.arms:
                await service.deploy(DeploymentBody("launch", "new", service.keep_model(model), 0.0))
            return positions

        monkeypatch.setattr(Writer, "append", append_and_launch)
        await service.decide(DecideBody({"country": "de"}, [{"id": "q1", "category": "c1"}, "p1"]))
        check_products(service, tmp_path)
        assert ["q1" in arm.catalogue.names() for arm in service.current.arms.values()] == [True, False]

    with_service(tmp_path, model, use)


def test_a_product_is_hidden_from_a_model_that_another_service_switched_to_just_before(
    tmp_path: Path, model: Path, rival: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Writer.append

    async def use(service: Service) -> None:
        digest = service.keep_model(rival)

        async def switch_before(writer: Writer, rows: list[NewRow], durable: bool = False) -> Any:
            start = service.current.start
            if rows[0].kind is Kind.PRODUCT and start.number == 1:
                start = msgspec.structs.replace(start, model=digest, turn=2, number=2)
                await append(writer, [NewRow(rows[0].time, Kind.START, start_key(2), pack(start))])
            return await append(writer, rows, durable)

        monkeypatch.setattr(Writer, "append", switch_before)
        await service.change_product("p1", ProductBody(available=False))
        check_products(service, tmp_path)
        assert service.current.start.model == digest
        assert service.current.catalogue.hidden() == ["p1"]

    with_service(tmp_path, model, use)


def test_an_arm_that_ends_while_its_product_is_stored_leaves_the_decision_to_others(
    tmp_path: Path, model: Path, rival: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Writer.append

    async def use(service: Service) -> None:
        digest = service.keep_model(rival)
        await service.deploy(DeploymentBody("launch", "new", digest, 0.5))

        async def append_and_retire(writer: Writer, rows: list[NewRow], durable: bool = False) -> Any:
            positions = await append(writer, rows, durable)
            if rows[0].kind is Kind.PRODUCT and digest.encode() in rows[0].body:
                await service.deploy(DeploymentBody("retire", "new"))
            return positions

        monkeypatch.setattr(Writer, "append", append_and_retire)
        answer = await service.decide(DecideBody({"country": "de"}, [{"id": "q1", "category": "c1"}, "p1"]))
        assert answer.propensities.keys() == {"q1", "p1"}
        assert list(service.current.arms) == [CHAMPION]
        check_products(service, tmp_path)

    with_service(tmp_path, model, use)


def test_a_start_that_is_read_while_another_one_is_prepared_is_not_undone(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where another service of the log was faster, and the learner tells of that meanwhile."""
    prepare = Current._prepare

    async def use(service: Service) -> None:
        current = service.current
        others = [msgspec.structs.replace(current.start, number=2, who="ann", changes=b'{"other": 1}')]

        async def prepare_and_read(current: Current, start: Start) -> None:
            await prepare(current, start)
            if others:
                content = pack(others.pop())
                await service._writer.append([NewRow(service.clock.now(), Kind.START, start_key(2), content)])
                await current.catch_up()

        monkeypatch.setattr(Current, "_prepare", prepare_and_read)
        await service.change_settings({"exploration": 0.25})
        assert current.start.number == 3
        assert current.changes["other"] == 1
        assert current.settings.exploration == 0.25

    with_service(tmp_path, model, use)


def check_products(service: Service, folder: Path) -> None:
    """Check that a service knows the products of its arms as its log says."""
    expected = {name: arm.catalogue.state()[0] for name, arm in replayed(folder).arms.items()}
    assert {name: arm.catalogue.state()[0] for name, arm in service.current.arms.items()} == expected


def test_a_product_that_waits_while_its_arm_gets_another_model_is_encoded_by_that(
    tmp_path: Path, model: Path, rival: Path
) -> None:
    """Learners, who read the log, know of the other model what the log says of it."""

    async def use(service: Service) -> None:
        await service.deploy(DeploymentBody("launch", "new", service.keep_model(model), 0.0))
        async with service._endpoints.current._products._storing:  # type: ignore[attr-defined]
            changing = asyncio.create_task(service.change_product("p5", ProductBody(available=False)))
            await asyncio.sleep(0)
            await service.deploy(DeploymentBody("launch", "new", service.keep_model(rival), 0.3))
        await changing
        expected = {name: arm.catalogue.state()[0] for name, arm in replayed(tmp_path).arms.items()}
        assert {name: arm.catalogue.state()[0] for name, arm in service.current.arms.items()} == expected
        assert [arm["names"] for arm in expected.values()] == [["p5"], ["p5"]]
        assert all(arm["hidden"] == ["p5"] for arm in expected.values())

    with_service(tmp_path, model, use)


def test_a_model_of_another_kind_is_not_launched(tmp_path: Path, model: Path) -> None:
    other = make_model(tmp_path / "other", countries=("de", "at"))
    boosts = make_boost_model(tmp_path / "boosts")

    async def use(service: Service) -> None:
        before = service.start
        for wrong, message in ((other, "another schema"), (boosts, "a model of boosts")):
            with pytest.raises(ConfigError, match=message):
                await service.deploy(DeploymentBody("launch", "new", service.keep_model(wrong), 0.1))
        with pytest.raises(zoosim.ZoosimError, match="not kept here; send its file"):
            await service.deploy(DeploymentBody("launch", "new", "f" * 32, 0.1))
        assert service.start == before

    with_service(tmp_path / "service", model, use)


def test_the_registry_keeps_where_a_model_came_from(tmp_path: Path, model: Path, rival: Path) -> None:
    async def use(service: Service) -> None:
        digest = service.keep_model(rival)
        champion = service.start.model
        for name in ("a", "b"):
            await service.deploy(DeploymentBody("launch", name, digest, 0.1, who=name))
        entry = models_in(service.start)[digest]
        assert (entry["policy"], entry["parent"], entry["who"]) == ("linucb", champion, "a")
        assert entry["rows"] > 0
        for name in ("a", "b"):
            await service.deploy(DeploymentBody("retire", name))
        assert models_in(service.start)[digest]["state"] == "retired"

    with_service(tmp_path, model, use)


def test_a_model_is_launched_promoted_and_taken_back_over_http(
    tmp_path: Path, model: Path, rival: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests go on all the time, and none is dropped; what decides changes as soon as the change is answered."""
    monkeypatch.setenv("ZOOSIM_SERVE_KEY", KEY)
    stop = threading.Event()
    statuses: list[int] = []

    def keep_asking(url: str) -> None:
        with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=30.0) as client:
            while not stop.is_set():
                body = {"visitor": {"country": "de"}, "candidates": PRODUCTS[:4]}
                statuses.append(client.post("/v1/decisions", json=body).status_code)
                time.sleep(0.002)

    with serving(tmp_path / "service", model, key=KEY) as service:
        asking = threading.Thread(target=keep_asking, args=(service.url,))
        asking.start()
        try:
            eventually(lambda: len(statuses) > 5)
            zoosim.deploy("launch", rival, url=service.url, arm="new", share=0.2, who="ann", why="trial")
            told = zoosim.deploy(url=service.url)
            assert {name: arm["share"] for name, arm in told["arms"].items()} == {CHAMPION: 0.8, "new": 0.2}
            with pytest.raises(ServiceError, match=r"unknown 'nwe' .did you mean new"):
                zoosim.deploy("promote", "nwe", url=service.url)
            promoted = zoosim.deploy("promote", "new", url=service.url)
            assert promoted["arms"][CHAMPION]["policy"] == "linucb"
            words = ("rollback", "--url", service.url, "--why", "fewer orders", "--who", "bob")
            printed = deploy_by_command(tmp_path, *words)
            assert printed.code == 0
            assert "adaptive" in printed.out
            assert "by bob: fewer orders" in printed.out
            seen = len(statuses)
            eventually(lambda: len(statuses) > seen + 5)
        finally:
            stop.set()
            asking.join()
        assert set(statuses) == {200}
        for name, content, message in (("none", None, "cannot be read"), ("bad", b"nothing", "is no model")):
            file = tmp_path / f"{name}.zoosim"
            if content is not None:
                file.write_bytes(content)
            refused = deploy_by_command(tmp_path, "launch", str(file), "--url", service.url)
            assert refused.code == 2
            assert message in refused.line
        assert service.stop() == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--url", "http://[::1"), "url: got 'http://[::1', expected that of a service"),
        (("--url", "ftp://shop"), "url: got 'ftp://shop', expected that of a service"),
        (("share", "new", "--share", "nan"), "got what JSON cannot hold"),
        (("launch", "new.zoosim", "--plan", "plan.yaml"), "plan.yaml.hours.float: got nan, expected a finite number"),
        (("promote", "new", "--plan", "plan.yaml"), "promote: got a value of plan, which a launch alone has"),
        (("share", "new", "--sticky", "event"), "share: got a value of sticky, which a launch alone has"),
        (("launch", "new.zoosim", "--sticky", "evnt"), "sticky: unknown 'evnt' (did you mean event?)"),
        (("promote", "new", "--arm", "old"), "promote: got 'new' and 'old', expected one name of an arm"),
        (("status", "new"), "status: got 'new', expected none"),
        (("launch", "/dev/zero"), "/dev/zero: cannot be read"),
    ],
)
def test_a_command_that_cannot_be_is_refused_before_a_service_is_asked(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "plan.yaml").write_text("hours: .nan\n")
    refused = deploy_by_command(tmp_path, *words)
    assert refused.code == 2
    assert message in refused.line


def test_a_key_that_cannot_be_sent_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="key: got one with characters other than printable ASCII"):
        zoosim.Client("http://127.0.0.1:9", "ключ")


def test_a_file_of_rules_that_cannot_be_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("most_shwon: 3\n")
    with pytest.raises(ConfigError, match=r"rules.yaml: unknown key 'most_shwon' .did you mean most_shown"):
        zoosim.deploy("rules", rules)
    rules.write_text("")
    with pytest.raises(ConfigError, match=r"rules.yaml: is empty, expected the rules of the shop, or \{\} to end them"):
        zoosim.deploy("rules", rules)
    with pytest.raises(ConfigError, match="rules: got no file"):
        zoosim.deploy("rules")
