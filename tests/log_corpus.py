"""Logs of services that are kept with what they came to, so that each later release decides and learns by them alike.

`python -m tests.log_corpus tests/data/logs/NAME.tar.xz` adds one, written by today's release. A file that is there is
never written again: it says what an earlier release did.
"""

import argparse
import asyncio
import json
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.serving.mock_time import MockTime
from tests.serving.shop import COUNTRIES, PRODUCTS, make_model, running
from zoosim.core.digests import short_digest
from zoosim.policies.persistence import packed_state
from zoosim.serving.arm_replica import ArmReplica
from zoosim.serving.bodies import DecideBody, DeploymentBody, FeedbackBody, ProductBody
from zoosim.serving.events import Kind, ProductDecision, Row, decision_of, unpack, unpack_floats, unpack_whole
from zoosim.serving.folder import SECRET, load_served_model
from zoosim.serving.ids import user_id_of
from zoosim.serving.learner import LearnerJob, LogLearner
from zoosim.serving.machine import Machine
from zoosim.serving.places import Slot
from zoosim.serving.publishing import decode
from zoosim.serving.ranker import Drawn, Units, draw
from zoosim.serving.replica import Replica
from zoosim.serving.service import Service

ROWS, STATES = "rows.jsonl", "states.json"
"""The rows of a log, a JSON list each; and what arms had learned at some of them."""

VISITS = 60
SECONDS_PER_VISIT = 5.0
WAIT = 20.0
ROWS_PER_STATE = 20

POLICIES = ("linucb", "adaptive", "shared-lin-ts")
"""Compiled ones: they compute the same bits on every x86 processor."""


class _Told:
    """A service that is told at once what a learner says."""

    wants_whole = False

    def __init__(self, service: Service) -> None:
        self._service = service

    def send(self, content: bytes) -> None:
        self._service.current.take(decode(content))

    def wants_stop(self) -> bool:
        return False

    def wait(self, seconds: float) -> None: ...


def write_corpus(archive: Path) -> None:
    """Write a log, its models, and what it came to."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "service"
        rows = asyncio.run(_live(folder, Path(temporary)))
        lines = [json.dumps([row.seq, row.time, int(row.kind), (row.key or b"").hex(), row.body.hex()]) for row in rows]
        (folder / ROWS).write_text("\n".join(lines) + "\n")
        states = dict(states_of(folder, rows))
        (folder / STATES).write_text(json.dumps(states, indent=1, sort_keys=True) + "\n")
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "x:xz") as packed:
            for name in (ROWS, STATES, SECRET, "models"):
                packed.add(folder / name, name)


async def _live(folder: Path, temporary: Path) -> list[Row]:
    """Run a service for some visits, deployments included, and return its log."""
    models = [make_model(temporary / policy, policy) for policy in POLICIES]
    time = MockTime()
    rng = Random(0)
    async with running(folder, models[0], time.clock(), wait=WAIT, per_visitor=3, aggregation="sum") as service:
        learner = LogLearner(LearnerJob(service.address, 1e9), _Told(service), Machine(time.clock()))
        learner.begin()
        learner.step()
        changes = _changes(service, models)
        for number in range(VISITS):
            if number in changes:
                await changes[number]()
                time.pass_by(SECONDS_PER_VISIT)
                learner.step()  # so that the state of the next decision is that behind the change
            await _visit(service, rng, number)
            time.pass_by(SECONDS_PER_VISIT)
            await service.tick()
            learner.step()
        time.pass_by(2 * WAIT)
        await service.tick()
        return list(service._reader.read(0, 100_000))


def _changes(service: Service, models: list[Path]) -> dict[int, Callable[[], Any]]:
    """Return what is changed before which visits."""

    def deploy(action: Any, arm: str, **fields: Any) -> Callable[[], Any]:
        return lambda: service.deploy(DeploymentBody(action, arm, **fields))

    digests = [service.keep_model(model) for model in models]
    return {
        10: deploy("launch", "new", model=digests[1], share=0.4),
        20: deploy("launch", "held", model=digests[2], share=0.2, role="holdback"),
        25: lambda: service.change_product("p1", ProductBody(available=False)),
        30: deploy("promote", "new"),
        40: deploy("unfreeze", "held"),
        45: lambda: service.change_product("p1", ProductBody({"category": "c2"}, True)),
        50: deploy("rollback", ""),
    }


async def _visit(service: Service, rng: Random, number: int) -> None:
    body = DecideBody(
        {"country": rng.choice(COUNTRIES)},
        [*rng.sample(PRODUCTS, rng.randrange(3, 6))],
        count=rng.randrange(1, 3),
        decision_id=f"visit {number}",
        visitor_id=f"visitor {rng.randrange(20)}",
        defer=rng.random() < 0.2,
    )
    answer = await service.decide(body)
    if body.defer and rng.random() < 0.7:
        await service.activate(answer.decision_id)
    for _ in range(rng.randrange(3)):
        product = rng.choice(answer.shown).product
        feedback = FeedbackBody({"click": float(rng.randrange(2))}, product, f"{rng.random()}")
        await service.give_feedback(answer.decision_id, feedback)


def read_corpus(folder: Path) -> list[Row]:
    """Return the rows of a log that is kept."""
    rows = []
    for line in (folder / ROWS).read_text().splitlines():
        seq, time, kind, key, body = json.loads(line)
        rows.append(Row(seq, time, Kind(kind), bytes.fromhex(key) or None, bytes.fromhex(body)))
    return rows


def states_of(folder: Path, rows: list[Row]) -> Iterator[tuple[str, Any]]:
    """Yield what arms had learned at some rows of a log, by row and arm: digests of arrays, and counts."""
    for row, replica in replayed(folder, rows):
        if row.seq % ROWS_PER_STATE == 0 or row is rows[-1]:
            yield f"{row.seq}", {name: _state_of(arm) for name, arm in replica.arms.items()}


def _state_of(arm: ArmReplica) -> dict[str, Any]:
    _, arrays = packed_state(arm.model.policy)
    digests = {name: short_digest(np.ascontiguousarray(array).tobytes()) for name, array in arrays.items()}
    return {"arrays": digests, "counts": dict(arm.counts), "joined": dict(arm.join.counts), "open": len(arm.join)}


def replayed(folder: Path, rows: list[Row]) -> Iterator[tuple[Row, Replica]]:
    """Yield each row of a log, and what it has come to by then."""
    by_seq = {row.seq: row for row in rows}
    replica = Replica(lambda digest: load_served_model(folder, digest), lambda seqs: {seq: by_seq[seq] for seq in seqs})
    for row in rows:
        replica.apply(row)
        yield row, replica


def redrawn(folder: Path, rows: list[Row], exploration: float) -> Iterator[tuple[ProductDecision, Drawn]]:
    """Yield decisions of a log, and what is drawn today from the state that each was made by."""
    secret = (folder / SECRET).read_bytes()
    by_state: dict[int, list[Row]] = {}
    for row in rows:
        if row.kind is Kind.DECISION:
            by_state.setdefault(unpack(row).state, []).append(row)
    for position, replica in replayed(folder, rows):
        for row in by_state.get(position.seq, ()):
            decision: ProductDecision = unpack(row)
            arm = replica.arms[decision.arm]
            candidates = arm.catalogue.candidates(unpack_whole(decision.versions).tolist())
            available = np.ones(len(candidates.names), bool)
            available[decision.excluded] = False
            slot = Slot(unpack_floats(decision.visitor), user_id=user_id_of(decision.visitor_id))
            yield (
                decision,
                draw(
                    arm.model.policy,
                    [slot] * len(decision.shown),
                    candidates.among(available),
                    exploration,
                    Units(secret, decision_of(row)),
                ),
            )


def main() -> None:
    """Add a log."""
    parser = argparse.ArgumentParser(prog="python -m tests.log_corpus", description=__doc__)
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    if file.exists():
        sys.exit(f"{file}: is kept as an earlier release wrote it; give another name")
    write_corpus(file)


if __name__ == "__main__":
    main()
