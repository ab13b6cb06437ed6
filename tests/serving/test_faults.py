"""A service that is killed: what it acknowledged is there, once, and its state is that of its log."""

import random
import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx2
import pytest

from tests.serving.process import ServiceProcess, serving
from tests.serving.shop import PRODUCTS, make_model
from tests.serving.state_digest import state_digest
from tests.serving.test_service import replayed
from tests.serving.valkey import valkey_server
from zoosim.serving.client import PASSING, Client, ServiceError
from zoosim.serving.events import Kind, decision_key, decision_of, feedback_key
from zoosim.serving.folder import SNAPSHOTS, load_served_model
from zoosim.serving.snapshots import newest_replica
from zoosim.serving.store.address import LOG, Address, open_store, parse_address


class Shop(threading.Thread):
    """Visitors of a service, each of whose requests is sent up to `sends` times; remembers what was acknowledged.

    `mistakes` are refusals that a restart does not explain, and second answers that differ from the first.
    """

    def __init__(self, url: str, seed: int, stop: threading.Event, sends: int = 3) -> None:
        super().__init__()
        self._url = url
        self._sends = sends
        self._rng = random.Random(seed)
        self._stop_event = stop
        self.decisions: dict[str, str] = {}
        self.feedback: set[tuple[str, str]] = set()
        self.mistakes: list[str] = []

    def run(self) -> None:
        """Visit until told to stop."""
        with Client(self._url, timeout=2.0) as client:
            while not self._stop_event.wait(0.01):
                try:
                    self._visit(client, f"{self._rng.getrandbits(64):x}")
                except ServiceError as error:
                    if error.status not in (0, *PASSING):
                        self.mistakes.append(str(error))
                    time.sleep(0.05)

    def _visit(self, client: Client, name: str) -> None:
        candidates = self._rng.sample(PRODUCTS, 5)
        for _ in range(self._rng.randint(1, self._sends)):
            decision = client.decide({"country": "de"}, candidates, decision_id=name)
            if self.decisions.setdefault(name, decision.product) != decision.product:
                self.mistakes.append(f"{name}: answered twice")
        if self._rng.random() < 0.6:
            for _ in range(self._rng.randint(1, self._sends)):
                client.give_feedback(name, {"click": 1.0}, feedback_id="only")
                self.feedback.add((name, "only"))


def restart(service: ServiceProcess) -> None:
    """Kill a service, and start it again."""
    service.kill()
    service.start()


def disturbed(
    service: ServiceProcess,
    kills: Sequence[Callable[[], None]],
    seed: int,
    clients: int = 4,
    sends: int = 3,
    longest: float = 1.0,
) -> list[Shop]:
    """Let clients visit while things are killed, up to `longest` seconds apart; return what was acknowledged."""
    rng = random.Random(seed)
    stop = threading.Event()
    shops = [Shop(service.url, number, stop, sends) for number in range(clients)]
    for shop in shops:
        shop.start()
    for kill in kills:
        time.sleep(rng.uniform(0.2, longest))
        kill()
    time.sleep(0.5)
    assert all(shop.is_alive() for shop in shops)
    stop.set()
    for shop in shops:
        shop.join()
    service.wait_for_learner()
    return shops


def check_nothing_is_lost(address: Address, shops: list[Shop]) -> int:
    """Compare what was acknowledged with the log, and the last snapshot with the log read anew; return its length."""
    folder = address.folder
    store = open_store(address, read_only=True)
    for shop in shops:
        assert not shop.mistakes
        for name in shop.decisions:
            assert store.find(decision_key(name)) is not None
        for name, feedback_id in shop.feedback:
            assert store.find(feedback_key(name, feedback_id)) is not None
    rows = store.read(0, 10_000_000)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    closed = [decision_of(row) for row in rows if row.kind is Kind.FEEDBACK]
    assert len(closed) == len(set(closed))
    kept = newest_replica(folder / SNAPSHOTS, lambda digest: load_served_model(folder, digest), store.rows, pytest.fail)
    undisturbed = replayed(folder, address=address)
    assert kept.position == undisturbed.position
    assert state_digest(kept) == state_digest(undisturbed)
    assert undisturbed.champion.join.counts["joined"] == len(closed)
    return len(rows)


@pytest.mark.timeout(280)
@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_nothing_acknowledged_is_lost_when_processes_are_killed(times: int, tmp_path: Path) -> None:
    with serving(tmp_path / "service", make_model(tmp_path), wait=600.0, snapshot=0.3) as service:
        kills = [lambda: restart(service), service.kill_learner]
        shops = disturbed(service, kills * times, seed=0)
        assert service.stop() == 0
    assert sum(len(shop.feedback) for shop in shops) > 10
    check_nothing_is_lost(Address(tmp_path / "service"), shops)


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_nothing_acknowledged_is_lost_when_the_server_of_the_log_is_killed(tmp_path: Path) -> None:
    with valkey_server(tmp_path / "valkey") as server:
        store = server.store("loop", tmp_path / "service")
        with serving(tmp_path / "service", make_model(tmp_path), store, wait=600.0, snapshot=0.3) as service:
            kills = [server.restart, service.kill_learner, server.restart, lambda: restart(service), server.restart]
            shops = disturbed(service, kills, seed=1)
            assert service.stop() == 0
        assert sum(len(shop.feedback) for shop in shops) > 10
        assert "Traceback" not in service.output
        check_nothing_is_lost(parse_address(store), shops)


@pytest.mark.timeout(280)
def test_broken_snapshots_are_not_served(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    with serving(folder, make_model(tmp_path), wait=600.0, snapshot=0.2) as service:
        with Client(service.url) as client:
            for number in range(30):
                client.give_feedback(client.decide({}, decision_id=f"{number}").id, {"click": 1.0})
                time.sleep(0.02)
        service.wait_for_learner()
        assert service.stop() == 0
        *_, newest = sorted((folder / SNAPSHOTS).iterdir())
        content = bytearray(newest.read_bytes())
        content[len(content) // 2] ^= 4
        newest.write_bytes(content)
        service.start()
        assert f"{newest.name}: is no snapshot" in service.output
        service.wait_for_learner()
        assert service.stop() == 0
    check_nothing_is_lost(Address(folder), [])


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_feedback_is_on_the_disk_before_it_is_acknowledged(tmp_path: Path) -> None:
    """By the system's own account, since killing a process proves nothing about power cuts."""
    trace = tmp_path / "trace"
    with serving(tmp_path / "service", make_model(tmp_path)) as service, Client(service.url) as client:
        decision = client.decide({})
        calls = "trace=fdatasync,fsync,pwrite64,sendto,sendmsg,write,writev"
        command = ["strace", "-f", "-y", "-s", "5000", "-e", calls, "-o", str(trace), "-p", f"{service.pid}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as tracer:
            assert tracer.stderr is not None
            if b"attached" not in tracer.stderr.readline():
                pytest.skip("strace may not attach to processes here")
            client.give_feedback(decision.id, {"click": 1.0}, feedback_id="traced")
            tracer.terminate()
    lines = trace.read_text().splitlines()
    acknowledged = next(number for number, line in enumerate(lines) if "accepted" in line)
    of_log = [(number, line) for number, line in enumerate(lines[:acknowledged]) if "log.db-wal" in line]
    synced = [number for number, line in of_log if "sync(" in line]
    with_feedback = [number for number, line in of_log if "pwrite64" in line and "traced" in line]
    _, of_index, *_ = with_feedback  # the page of its row, and of its key; commits that follow may write them again
    assert any(number > of_index for number in synced)


def test_a_full_disk_refuses_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # no module may be cut, either
    with serving(tmp_path / "service", make_model(tmp_path)) as service, Client(service.url) as client:
        before = client.decide({}, decision_id="before")
        unlimited = resource.prlimit(service.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (1, unlimited[1]))
        for _ in range(2):
            answer = httpx2.post(f"{service.url}/v1/decisions", json={"decision_id": "during"})
            assert answer.status_code == 503
            assert "cannot be read or written" in answer.json()["error"]
        feedback = httpx2.post(f"{service.url}/v1/decisions/before/feedback", json={"rewards": {"click": 1}})
        ready = httpx2.get(f"{service.url}/readyz")
        assert (feedback.status_code, ready.status_code) == (503, 503)
        assert httpx2.get(f"{service.url}/livez").status_code == 200
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, unlimited)
        assert httpx2.get(f"{service.url}/readyz").status_code == 200
        assert client.decide({}, decision_id="before") == before
        assert client.give_feedback("before", {"click": 1.0}) == "accepted"
        client.decide({}, decision_id="during")
        service.wait_for_learner()
        assert service.stop() == 0
    store = open_store(Address(tmp_path / "service"), read_only=True)
    kinds = [row.kind for row in store.read(0, 1_000) if row.kind is not Kind.TICK]
    assert kinds == [Kind.START, Kind.DECISION, Kind.FEEDBACK, Kind.DECISION]
    check_nothing_is_lost(Address(tmp_path / "service"), [])


def test_a_log_that_was_moved_away_refuses_until_it_is_back(tmp_path: Path) -> None:
    log = tmp_path / "service" / LOG
    with serving(tmp_path / "service", make_model(tmp_path)) as service, Client(service.url) as client:
        before = client.decide({}, decision_id="before")
        log.rename(tmp_path / "away")
        for _ in range(2):
            answer = httpx2.post(f"{service.url}/v1/decisions", json={"decision_id": "during"})
            assert answer.status_code == 503
            assert "log.db: was removed or replaced; put it back" in answer.json()["error"]
        assert httpx2.get(f"{service.url}/readyz").status_code == 503
        (tmp_path / "away").rename(log)
        assert httpx2.get(f"{service.url}/readyz").status_code == 200
        assert client.decide({}, decision_id="before") == before
        client.give_feedback(client.decide({}, decision_id="during").id, {"click": 1.0})
        service.wait_for_learner()
        assert service.stop() == 0
    check_nothing_is_lost(Address(tmp_path / "service"), [])
