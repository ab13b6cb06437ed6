"""`zoosim serve --loops` as a process: loops come and go under load, and it is killed while they do."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import httpx2
import pytest

import zoosim
from tests.serving.loops.several import decisions_in
from tests.serving.process import ServiceProcess, serving_loops
from tests.serving.shop import make_model
from zoosim.serving.client import ServiceError
from zoosim.serving.loops.client import LoopsClient


async def ask(url: str, loop: str, seconds_apart: float, is_over: asyncio.Event) -> Counter[int]:
    """Ask a loop again and again, and return how often each status came."""
    statuses: Counter[int] = Counter()
    async with httpx2.AsyncClient(base_url=f"{url}/loops/{loop}", timeout=60.0) as client:
        while not is_over.is_set():
            answer = await client.post("/v1/decisions", json={"visitor": {"country": "de"}})
            statuses[answer.status_code] += 1
            await asyncio.sleep(seconds_apart)
    return statuses


def test_loops_come_and_go_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    content = make_model(tmp_path).read_bytes()
    stay = ("home", "search")

    async def run(service: ServiceProcess) -> tuple[list[Counter[int]], list[tuple[int, Path]]]:
        client = LoopsClient(service.url, timeout=120.0)
        is_over = asyncio.Event()
        asking = [asyncio.create_task(ask(service.url, name, 0.02, is_over)) for name in stay]
        gone = []
        for _ in range(2):
            name = "sale"
            await asyncio.to_thread(client.add, name, content)
            closes = asyncio.Event()
            other = asyncio.create_task(ask(service.url, name, 0.02, closes))
            await asyncio.sleep(0.3)
            closes.set()
            statuses = await other
            gone.append((statuses[200], Path(await asyncio.to_thread(client.remove, name))))
            assert set(statuses) == {200}
        is_over.set()
        client.close()
        return await asyncio.gather(*asking), gone

    # What came together waits here until the machine of a test has time; nobody is turned away.
    with serving_loops(tmp_path / "loops", most_delay=60.0, most_waiting=10_000) as service:
        with LoopsClient(service.url, timeout=120.0) as client:
            for name in stay:
                client.add(name, content)
        statuses, gone = asyncio.run(run(service))
        assert service.stop() == 0
    for name, counts in zip(stay, statuses, strict=True):
        assert set(counts) == {200}
        assert decisions_in(tmp_path / "loops" / name) == counts[200] > 0
    for answered, log in gone:
        assert decisions_in(log) == answered > 0


def kill_in_the_midst(folder: Path, model: bytes, moments: int) -> Counter[str]:
    """Kill a service while loops are added and removed, again and again; return how changes stood afterwards."""
    rng = Random(5)
    ends: Counter[str] = Counter()
    there: set[str] = set()  # acknowledged
    with serving_loops(folder) as service:
        for moment in range(moments):
            name = f"l{moment % 3}"
            delay = rng.uniform(0.0, 1.5)
            with LoopsClient(service.url, timeout=120.0) as client, pytest.MonkeyPatch.context() as patches:
                patches.setattr("zoosim.serving.client.TRIES", 1)
                service.kill_after(delay)
                action = "remove" if name in there else "add"
                try:
                    if action == "add":
                        client.add(name, model)
                        there.add(name)
                    else:
                        client.remove(name)
                        there.discard(name)
                    is_done = True
                except ServiceError:
                    is_done = False
            service.wait_until_killed()
            service.start()
            with LoopsClient(service.url, timeout=120.0) as client:
                states = {loop["name"]: loop["state"] for loop in client.loops()}
                assert set(states.values()) <= {"running"}
                if is_done:
                    assert set(states) == there
                else:  # either state, and the others as they were
                    assert set(states) ^ there <= {name}
                there = set(states)
                for each in there:
                    with zoosim.Client(service.url, loop=each, timeout=60.0) as shop:
                        assert shop.decide({"country": "de"}).products
            ends[f"{action}: {'acknowledged' if is_done else 'there' if name in there else 'gone'}"] += 1
    return ends


def test_a_kill_in_the_midst_of_a_change_leaves_either_state(tmp_path: Path) -> None:
    kill_in_the_midst(tmp_path / "loops", make_model(tmp_path).read_bytes(), 2)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_kills_at_many_moments_of_changes_leave_either_state(tmp_path: Path) -> None:
    ends = kill_in_the_midst(tmp_path / "loops", make_model(tmp_path).read_bytes(), 40)
    print(f"\n{dict(ends)}")
    assert {"add: acknowledged", "remove: acknowledged"} <= set(ends)
