"""A service's damaged log.db: one line that names it, or the same visits to the bit."""

import asyncio
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.fault.mutations import bit_flips, truncations
from tests.fault.runs import Outcome, count_outcomes
from tests.serving.shop import COUNTRIES, PRODUCTS, make_model, running
from zoosim.serving.bodies import DecideBody, FeedbackBody
from zoosim.serving.served_log import read_served_log

WAIT = 0.2
VISITS = 30


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Let a service decide and hear of it; return its folder."""
    folder = tmp_path_factory.mktemp("served")
    model = make_model(tmp_path_factory.mktemp("shop"))

    async def serve() -> None:
        async with running(folder, model, wait=WAIT) as service:
            for number in range(VISITS):
                visitor: dict[str, Any] = {"country": COUNTRIES[number % len(COUNTRIES)]}
                body = DecideBody(visitor, candidates=list(PRODUCTS[:3]), visitor_id=f"v{number % 7}")
                answer = await service.decide(body)
                if number % 2:
                    await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
            await asyncio.sleep(2 * WAIT)
            assert await service.upkeep.check_writing() == ""

    asyncio.run(serve())
    return folder


@pytest.mark.parametrize(
    ("flips", "every"),
    [
        pytest.param(150, 200, id="short"),
        pytest.param(10_000, 1, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(3_000)]),
    ],
)
def test_no_damaged_log_of_a_service_passes(flips: int, every: int, sound: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(sound, tmp_path / "service"))
    path = folder / "log.db"
    content = path.read_bytes()

    def read() -> Any:
        for name in ("log.db-wal", "log.db-shm"):
            (folder / name).unlink(missing_ok=True)
        served = read_served_log(folder)
        log = served.log
        arrays = [log.actions, log.propensities, log.rewards, log.features, log.user_ids, log.times]
        return served.decision_ids, [None if array is None else array.tolist() for array in arrays], log.skipped

    copies = [*bit_flips(content, flips, seed=0), *islice(truncations(content, 500, seed=0), 0, None, every)]
    counts, faults = count_outcomes(path, copies, read)
    print(f"\nlog.db: {counts.total():,} copies, {dict(counts)}")
    assert counts[Outcome.DETECTED] > 0
    assert not faults, faults[:5]
