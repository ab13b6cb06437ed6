"""The time of a service, on clocks that are set by a second, an hour or a hundred days, and back."""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime_ns, time_ns

import pytest

from tests.serving.mock_time import BEGIN, MockTime
from tests.serving.shop import PRODUCTS, make_model, running
from tests.serving.test_service import replayed
from tests.serving.valkey import valkey_server
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import DataError, StoreError
from zoosim.serving.bodies import DecideBody, FeedbackBody
from zoosim.serving.clock import SLEW, Clock, Gap
from zoosim.serving.folder import SNAPSHOTS, load_served_model
from zoosim.serving.replica import Replica
from zoosim.serving.retention import gaps_in
from zoosim.serving.service import Service
from zoosim.serving.snapshots import newest_replica, write_snapshot

DAY = 86_400.0
JUMPS = [seconds * sign for seconds in (1.0, 3_600.0, 100 * DAY) for sign in (1, -1)]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "zoosim.serving"]


@pytest.mark.parametrize("jump", JUMPS)
def test_time_goes_on_whatever_the_wall_clock_is_set_to(jump: float, caplog: pytest.LogCaptureFixture) -> None:
    time = MockTime()
    clock = time.clock()
    clock.begin(None, None)
    seen = [clock.now()]
    for step in range(600):
        time.pass_by(0.1)
        if step == 200:
            time.set_wall(jump)
        if step == 400:
            time.set_wall(-jump)
        clock.look()
        seen.append(clock.now())
    steps = [later - sooner for sooner, later in pairwise(seen)]
    least, most = 0.1 * (1 - 1 / SLEW), 0.1 * (1 + 1 / SLEW)
    assert least * MICROSECONDS - 2 <= min(steps) <= max(steps) <= most * MICROSECONDS + 2
    (line,) = said(caplog)  # the way back is told when a minute is over
    words = {1.0: "1.0 s", 3_600.0: "1.0 hours", 100 * DAY: "100.0 days"}[abs(jump)]
    assert f"jumped {words} {'forward' if jump > 0 else 'back'}" in line
    time.pass_by(60.0)
    clock.look()
    assert len(said(caplog)) == 2


def test_time_is_slewed_to_the_wall_clock_until_both_agree() -> None:
    time = MockTime()
    clock = time.clock()
    for jump in (1.0, -1.0):
        time.set_wall(jump)
        for _ in range(20 * 10 + 1):
            clock.look()
            time.pass_by(0.1)
        assert clock.ahead() == 0.0


def test_a_clock_that_is_set_all_the_time_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    time = MockTime()
    clock = time.clock()
    for _ in range(1_210):
        time.pass_by(0.1)
        time.set_wall(3_600.0)
        clock.look()
    assert len(said(caplog)) == 3
    assert "jumped 600 times, at last 1.0 hours forward" in said(caplog)[1]


@pytest.mark.parametrize(
    ("newest", "common", "begins", "gap", "line"),
    [
        (None, None, 0.0, 0.0, ""),
        (-200.0, None, 0.0, 0.0, ""),
        (-2.5 * DAY, None, 0.0, 2.5 * DAY, "the newest row of the log is 2.5 days old"),
        (100 * DAY, None, 100 * DAY, 0.0, "this machine's clock is 100.0 days behind the newest row of the log"),
        (-5.0, 100 * DAY, 100 * DAY, 0.0, "this machine's clock is 100.0 days behind that of the service that leads"),
        (-5.0, -100 * DAY, -5.0, 0.0, "this machine's clock is 5.0 s ahead of that of the service that leads"),
        (-5.0, 0.01, 0.01, 0.0, ""),
    ],
)
def test_where_time_begins(
    newest: float | None, common: float | None, begins: float, gap: float, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All seconds from the wall clock; a gap is what passed without a row, where nobody knows whether it did."""

    def at(seconds: float | None) -> int | None:
        return None if seconds is None else BEGIN + round(seconds * MICROSECONDS)

    clock = MockTime().clock()
    clock.begin(at(newest), at(common))
    assert clock.now() == at(begins)
    if gap:
        assert clock.gaps == [Gap(BEGIN - round(gap * MICROSECONDS), BEGIN)]
    else:
        assert clock.gaps == []
    assert said(caplog) == [] if not line else line in said(caplog)[0]


def test_time_follows_rows_that_are_ahead() -> None:
    clock = MockTime().clock()
    clock.note(BEGIN - 5)
    assert clock.now() == BEGIN
    clock.note(BEGIN + 5)
    assert (clock.now(), clock.gaps) == (BEGIN + 5, [])
    clock.note(BEGIN + 10**12)
    assert (clock.now(), clock.gaps) == (BEGIN + 10**12, [Gap(BEGIN + 5, BEGIN + 10**12)])
    clock.note(BEGIN + 2 * 10**12)
    assert clock.gaps[1:] == [Gap(BEGIN + 10**12, BEGIN + 2 * 10**12)]


def test_the_clocks_of_the_machine_are_asked_by_default() -> None:
    clock = Clock()
    assert abs(clock.ahead()) < 5.0
    assert clock.now() <= clock.now()


def test_time_goes_on_while_the_machine_sleeps(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of its clocks the monotonic one stands still, that since the boot and the wall clock go on."""
    slept = 0

    def clock_with_sleep(which: int) -> int:
        return clock_gettime_ns(which) + (slept if which == CLOCK_BOOTTIME else 0)

    monkeypatch.setattr("time.time_ns", lambda: time_ns() + slept)
    monkeypatch.setattr("time.clock_gettime_ns", clock_with_sleep)
    clock = Clock()
    before = clock.now()
    slept = 8 * 3_600 * 10**9
    clock.look()
    assert abs(clock.now() - before - 8 * 3_600 * MICROSECONDS) < 60 * MICROSECONDS
    assert abs(clock.ahead()) < 5.0
    assert said(caplog) == []


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


async def visit(service: Service, time: MockTime, clicks: bool = False) -> None:
    """Show something, let more than the wait pass, and do what a service does meanwhile."""
    answer = await service.decide(DecideBody({"country": "de"}, [*PRODUCTS]))
    if clicks:
        assert (await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))).status == "accepted"
    for _ in range(11):
        time.pass_by(0.1)
        await service.tick()


def test_gaps_wait_until_they_can_be_noted(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them, while the store refuses; then both are noted, beside one that another note brings meanwhile."""
    first, second, third = (Gap(BEGIN + begin * 10**12, BEGIN + (begin + 1) * 10**12) for begin in (1, 3, 5))
    time = MockTime()

    async def refuse(*values: object) -> None:
        raise StoreError("the disk is full")

    async def run() -> None:
        async with running(tmp_path, model, clock=time.clock()) as service:
            with monkeypatch.context() as patch:
                patch.setattr(service.current, "switch", refuse)
                for gap in (first, second):
                    service.clock.gaps.append(gap)
                    await service.tick()
            assert gaps_in(service.current.changes) == []
            service.clock.gaps.append(third)
            await asyncio.gather(service.tick(), service.note("part", {"kept": 1}), service.tick())
            assert gaps_in(service.current.changes) == [first, second, third]
            assert service.current.changes["part"] == {"kept": 1}
            assert service.clock.gaps == []

    asyncio.run(run())


@pytest.mark.parametrize("error", [DataError("a model is broken"), OSError(28, "No space left on device")])
def test_time_passes_in_the_log_although_a_gap_cannot_be_noted(
    error: Exception, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    time = MockTime()

    async def refuse(*values: object) -> None:
        raise error

    async def run() -> None:
        async with running(tmp_path, model, clock=time.clock()) as service:
            monkeypatch.setattr(service.current, "switch", refuse)
            service.clock.gaps.append(Gap(BEGIN - 10**12, BEGIN))
            await visit(service, time)

    asyncio.run(run())
    assert replayed(tmp_path).champion.join.counts["default"] == 1
    (line,) = said(caplog)
    assert line.startswith("a gap in the log's time is not noted for now: ")


async def clean(service: Service) -> int:
    """Remove what may be removed once two snapshots hold all rows; return how many it was."""
    for _ in range(2):
        await service.decide(DecideBody({"country": "de"}, [*PRODUCTS]))
        write_snapshot(service.folder / SNAPSHOTS, newest_replica_of(service))
    return await service.upkeep.clean()


def newest_replica_of(service: Service) -> Replica:
    """Return what the newest snapshot and the rows behind it come to: earlier ones may be removed."""
    folder = service.folder
    load = partial(load_served_model, folder)
    replica = newest_replica(folder / SNAPSHOTS, load, service._reader.rows, pytest.fail)
    for row in service._reader.read(replica.position, 1_000):
        replica.apply(row)
    return replica


@pytest.mark.parametrize("jump", JUMPS)
def test_no_clock_removes_a_row_or_keeps_a_wait_open(
    jump: float, tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is set while a service runs, and back; then between two starts, and back between two others."""
    time = MockTime()

    async def run(jumps: Sequence[float]) -> None:
        async with running(tmp_path, model, keep_days=1, clock=time.clock()) as service:
            await visit(service, time, clicks=True)
            for seconds in jumps:
                time.set_wall(seconds)
                await visit(service, time)
            assert await clean(service) == 0

    asyncio.run(run([jump, -jump]))
    assert len(said(caplog)) == 1
    for seconds in (jump, -jump):
        time.set_wall(seconds)
        asyncio.run(run([0.0]))
    replica = replayed(tmp_path)
    assert replica.champion.join.counts["default"] >= 4
    assert replica.champion.counts["learned"] >= 4 + 3
    assert not replica.champion.join.counts["late or unknown"]


def test_rows_are_removed_once_they_are_old_by_their_own_time(tmp_path: Path, model: Path) -> None:
    """What passed without a service counts nothing; a day with one does."""
    time = MockTime()

    async def run(days: float) -> int:
        async with running(tmp_path, model, keep_days=1, clock=time.clock()) as service:
            await visit(service, time, clicks=True)
            time.pass_by(days * DAY)
            return await clean(service)

    assert asyncio.run(run(0.0)) == 0
    time.pass_by(30 * DAY)
    assert asyncio.run(run(0.9)) == 0
    time.pass_by(30 * DAY)
    assert asyncio.run(run(0.2)) > 0


def test_a_service_that_joins_goes_by_the_time_of_the_one_that_leads(tmp_path: Path, model: Path) -> None:
    """Its own clock is a hundred days ahead; rows stay as close as they came, and no wait ends by it."""
    first, second = MockTime(), MockTime()
    second.set_wall(100 * DAY)

    async def run(store_of: dict[str, str]) -> None:
        async with running(tmp_path / "a", model, store=store_of["a"], clock=first.clock()) as leader:
            await leader.decide(DecideBody({"country": "de"}, decision_id="open"))
            async with running(tmp_path / "b", None, store=store_of["b"], clock=second.clock()) as other:
                await other.decide(DecideBody({"country": "de"}, decision_id="other"))
                assert (await other.give_feedback("open", FeedbackBody({"click": 1.0}))).status == "accepted"
                newest = other._reader.last()
                assert newest is not None
                assert abs(newest.time - BEGIN) < 60 * MICROSECONDS
                assert gaps_in(other.current.changes) == []

    with valkey_server(tmp_path / "valkey") as server:
        asyncio.run(run({name: server.store("joined", tmp_path / name) for name in "ab"}))
