"""A model that checks a simulated day: what was acknowledged is in the log, and all states are what this comes to."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from msgspec import structs

from tests.serving.state_digest import state_digest
from tests.simulation.arms import flaws_of_arms
from tests.simulation.clients import Operation
from tests.simulation.closings import Closed, expected_closings
from tests.simulation.day import Day
from tests.simulation.launches import flaws_of_launches
from tests.simulation.looks import flaws_of_looks
from tests.simulation.products import Catalogues, flaws_of_products
from tests.simulation.store import MemoryLog
from zoosim.core.types import Context
from zoosim.policies.persistence import packed_state
from zoosim.policies.requests import dense_propensities
from zoosim.serving.arm_replica import ArmReplica
from zoosim.serving.bodies import DecisionAnswer, FeedbackBody, hash_of
from zoosim.serving.catalogue import ServedCatalogue
from zoosim.serving.events import (
    Feedback,
    Kind,
    ProductDecision,
    Row,
    activation_key,
    decision_key,
    feedback_key,
    unpack,
    unpack_floats,
    unpack_whole,
)
from zoosim.serving.folder import MODELS, load_served_model
from zoosim.serving.ids import user_id_of
from zoosim.serving.recorded import context_of
from zoosim.serving.refusals import Acknowledgement, Conflict, NotFound
from zoosim.serving.replica import Replica

ASKED_AGAIN = 10
"""Decisions of a day whose probabilities are computed anew."""


def violations_of(day: Day, folder: Path) -> Iterator[str]:
    """Yield what must not happen and did in a day; `folder` is a new one for models."""
    yield from day.violations
    yield from day.loop.failures
    rows = [row for _, row in sorted(day.log.archive.items())]
    records = {row.seq: unpack(row) for row in rows if row.body}
    yield from _flaws_of_log(day.log, rows, records)
    yield from _flaws_of_history(day, records)
    catalogues = Catalogues()
    for row in rows:
        catalogues.apply(row, records.get(row.seq))
    yield from flaws_of_arms(day, rows, records, catalogues)
    yield from flaws_of_launches(day, rows, records)
    yield from flaws_of_looks(day.looks, rows, records)
    yield from _flaws_of_states(day, rows, records, catalogues, folder)
    idle_rows = [row for row in rows if row.seq > day.newest_before_idle]
    # Launches may be over, and learning frozen, as time passes; each of which is a start, behind a tick.
    starts = [row for row in idle_rows if row.kind is Kind.START and records[row.seq].who in ("launch", "checks")]
    if len(idle_rows) > 2 * len(starts):
        yield f"idle services wrote {len(idle_rows)} rows, {len(starts)} of them starts"


def _flaws_of_log(log: MemoryLog, rows: list[Row], records: Mapping[int, Any]) -> Iterator[str]:
    """Yield what is wrong with the log by itself."""
    has_lost = bool(log.lost)
    if [row.seq for row in rows] != list(range(1, len(rows) + 1)):
        yield "positions do not follow one another"
    if any(row.time < before.time for before, row in pairwise(rows)):
        yield "time goes back"
    for key, own in _by_key(rows).items():
        # What was removed nobody knows of any more: who comes again is somebody new.
        if not all(log.was_removed(before.seq, row.seq) for before, row in pairwise(own)):
            yield f"key {key!r} comes {len(own)} times"
    kinds = {row.seq: row.kind for row in rows}
    for seq, record in records.items():
        if isinstance(record, ProductDecision):
            propensities = unpack_floats(record.propensities)
            if abs(propensities.sum() - 1.0) > 1e-9 or record.chances[0] != propensities[record.shown[0]]:
                yield f"row {seq}: its probabilities are none"
            if not has_lost and not all(
                version < 0 or kinds.get(version) is Kind.PRODUCT for version in unpack_whole(record.versions)
            ):
                yield f"row {seq}: rests on products that are not in the log"
            # Who has read rows that are lost goes by them until its learner notices.
            if not has_lost and max(record.state, *unpack_whole(record.versions)) >= seq:
                yield f"row {seq}: rests on rows behind it"


def _by_key(rows: Iterable[Row]) -> dict[bytes, list[Row]]:
    """Return the rows that have each key, in their order: several where all but the last one were removed."""
    by_key = defaultdict(list)
    for row in rows:
        if row.key is not None:
            by_key[row.key].append(row)
    return by_key


class _Known(NamedTuple):
    """What the log holds at the end, and held, by key."""

    rows: dict[bytes, list[Row]]
    lost: frozenset[bytes]
    first: int

    def newest(self, key: bytes) -> Row | None:
        """Return the newest row that has a key."""
        rows = self.rows.get(key, [])
        return rows[-1] if rows else None


def _flaws_of_history(day: Day, records: Mapping[int, Any]) -> Iterator[str]:
    """Yield which answers are not what the log says."""
    known = _Known(
        _by_key(row for _, row in sorted(day.log.archive.items())),
        frozenset(row.key for row in day.log.lost if row.key is not None),
        day.log.rows[0].seq,
    )
    answered: dict[str, DecisionAnswer] = {}
    acknowledged: dict[str, float] = {}
    accepted = Counter[bytes]()
    for operation in sorted(day.clients.history, key=lambda operation: operation.end):
        answer = operation.answer
        if isinstance(answer, DecisionAnswer):
            before = answered.setdefault(operation.id, answer)
            key = decision_key(operation.id)
            is_known_once = key not in known.lost and len(known.rows.get(key, [])) < 2
            if operation.id and not _is_repeated(before, answer) and is_known_once:
                yield f"{operation.id}: answered {before}, then {answer}"
            acknowledged.setdefault(operation.id, operation.end)
            if operation.id:
                yield from _flaws_of_answer(day, operation, known, records)
        elif isinstance(answer, Conflict) and operation.kind != "deploy":
            yield from _flaws_of_conflict(operation, known, records)
        elif isinstance(answer, NotFound) and operation.kind in ("feedback", "activate"):
            row = known.newest(decision_key(operation.id))
            was_known = acknowledged.get(operation.id, operation.start) < operation.start
            if (
                was_known
                and row is not None
                and row.seq >= known.first
                and decision_key(operation.id) not in known.lost
            ):
                yield f"{operation.id}: was not found, and is in the log"
        for key in _keys_of(operation):
            if _is_acknowledged(answer, operation):
                if key not in known.rows:
                    yield f"{operation.kind} {operation.id} was acknowledged, and is not in the log"
                elif operation.kind == "feedback" and not any(
                    _is_body(operation, row, records) for row in known.rows[key]
                ):
                    yield f"{operation.id}: feedback was acknowledged, and the log holds another one"
            if isinstance(answer, Acknowledgement) and answer.status != "duplicate":
                accepted[key] += 1
    for key, count in accepted.items():
        if count > max(len(known.rows.get(key, [])), 1):
            yield f"feedback {key!r} was accepted {count} times"
    yield from _flaws_of_progress(day, known, records)


def _is_repeated(before: DecisionAnswer, answer: DecisionAnswer) -> bool:
    """Return whether an answer is that of before; candidates that the model does not know any more may lack in it."""
    own, other = before.propensities.items(), answer.propensities.items()
    return (own <= other or other <= own) and structs.replace(before, propensities=answer.propensities) == answer


def _flaws_of_answer(day: Day, operation: Operation, known: _Known, records: Mapping[int, Any]) -> Iterator[str]:
    """Yield how an answer to a request for a decision differs from the log."""
    key = decision_key(operation.id)
    rows = known.rows.get(key, [])
    if not rows and (key not in known.lost or day.sync_all):
        yield f"{operation.id} was answered, and is not in the log"
    if not rows or key in known.lost:
        return
    flaws = [list(_differences(operation, records[row.seq])) for row in rows]
    yield from min(flaws, key=len)


def _differences(operation: Operation, record: ProductDecision) -> Iterator[str]:
    """Yield how an answer to a request for a decision differs from a record."""
    if record.request != hash_of(operation.body):
        yield f"{operation.id}: answered, and the log holds another request"
    answer = operation.answer
    shown = [(each.product, each.propensity) for each in answer.shown]
    if shown != list(zip(record.products, record.chances, strict=True)):
        yield f"{operation.id}: shown was {shown}, the log says otherwise"
    if not set(answer.propensities.values()) <= set(unpack_floats(record.propensities).tolist()):
        yield f"{operation.id}: answered other probabilities than the log holds"
    if (answer.model, answer.state, answer.arm) != (record.model, record.state, record.arm):
        yield f"{operation.id}: answered another state than the log holds"


def _flaws_of_conflict(operation: Operation, known: _Known, records: Mapping[int, Any]) -> Iterator[str]:
    key = decision_key(operation.id) if operation.kind == "decide" else _keys_of(operation)[0]
    if key in known.lost:
        return
    rows = known.rows.get(key, [])
    is_same = [
        records[row.seq].request == hash_of(operation.body)
        if operation.kind == "decide"
        else _is_body(operation, row, records)
        for row in rows
    ]
    if all(is_same):
        yield f"{operation.kind} {operation.id}: refused as another one, and there is none"


def _flaws_of_progress(day: Day, known: _Known, records: Mapping[int, Any]) -> Iterator[str]:
    """Yield where a service went back to an earlier state of one policy."""
    asked = Counter(operation.id for operation in day.clients.history if operation.kind == "decide")
    states: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for operation in day.clients.history:
        row = known.newest(decision_key(operation.id))
        if operation.kind == "decide" and asked[operation.id] == 1 and row is not None:
            record = records[row.seq]
            states[operation.host, record.arm, record.origin].append((row.seq, record.state))
    for (host, arm, _), moments in states.items():
        moments.sort()
        for (_, before), (seq, after) in pairwise(moments):
            if after < before:
                yield f"{host}: arm {arm} went back from state {before} to {after} at row {seq}"


def _keys_of(operation: Operation) -> list[bytes]:
    """Return the keys of the rows that an operation writes, but for decisions."""
    if operation.kind == "activate":
        return [activation_key(operation.id)]
    if operation.kind == "values":
        return [feedback_key(operation.id, f"values/{slot}") for slot in operation.body]
    if operation.kind == "feedback":
        body: FeedbackBody = operation.body
        return [feedback_key(operation.id, body.feedback_id or f"content {hash_of(body).hex()}")]
    return []


def _is_acknowledged(answer: Any, operation: Operation) -> bool:
    return isinstance(answer, Acknowledgement) or (operation.kind == "values" and answer == "done")


def _is_body(operation: Operation, row: Row, records: Mapping[int, Any]) -> bool:
    feedback: Feedback = records[row.seq]
    return bool(feedback.rewards == operation.body.rewards)


def _flaws_of_states(
    day: Day, rows: list[Row], records: Mapping[int, Any], catalogues: Catalogues, folder: Path
) -> Iterator[str]:
    """Yield whose state is not what the rows come to, and where that is not what they should come to."""
    (folder / MODELS).mkdir(parents=True)
    for name, content in day.log.files.items():
        if name.startswith(MODELS):
            (folder / name).write_bytes(content)
    closed: list[Closed] = []
    bounded: set[int] = set()
    is_within_bound = ArmReplica.is_within_bound
    teach = ArmReplica._teach

    def note_bound(arm: ArmReplica, row: Row, choice: Any) -> bool:
        is_within = is_within_bound(arm, row, choice)
        if not is_within:
            bounded.add(row.seq)
        return is_within

    def note_closing(arm: ArmReplica, choice: Any, closing: Any) -> None:
        closed.append(Closed(arm.name, closing.seq, closing.slot, closing.reward, closing.parts))
        teach(arm, choice, closing)

    archive = day.log.archive
    replica = Replica(
        partial(load_served_model, folder), lambda seqs: {seq: archive[seq] for seq in seqs if seq in archive}
    )
    asked = _decisions_to_ask(day, records)
    with patch.object(ArmReplica, "is_within_bound", note_bound), patch.object(ArmReplica, "_teach", note_closing):
        for row in rows:
            replica.apply(row)
            for decision in asked.get(row.seq, ()):
                yield from _flaws_of_propensities(day, replica, decision)
    expected = list(expected_closings(rows, records, bounded))
    if closed != expected:
        places = [place for place, pair in enumerate(zip(closed, expected, strict=False)) if pair[0] != pair[1]]
        place = places[0] if places else min(len(closed), len(expected))
        yield f"closed {closed[place : place + 1]}, expected {expected[place : place + 1]}"
    yield from flaws_of_products(catalogues, replica.arms)
    yield from _flaws_of_hosts(day, replica)


def _flaws_of_hosts(day: Day, replica: Replica) -> Iterator[str]:
    """Yield what a service or a learner knows that the replay of the log does not, and the other way round."""
    digest = state_digest(replica)
    if any(len(arm.join) for arm in replica.arms.values()):
        yield "a decision whose wait is over is open"
    if sum(host.service is not None and host.service._store.leads for host in day.hosts) != 1:
        yield "not exactly one service leads"
    for host in day.hosts:
        if host.service is None or host.learner is None or host.learner.learner is None:
            yield f"{host.name}: does not run"
            continue
        if host.service.waiting or host.service.lag():
            yield f"{host.name}: {host.service.waiting} requests wait, and {host.service.lag()} rows are not learned"
        own = host.learner.learner._replica
        if own.position != replica.position:
            yield f"{host.name}: its learner stands at row {own.position}, the log ends at {replica.position}"
        elif state_digest(own) != digest:
            yield f"{host.name}: its learner's state is not that of the log"
        elif [arm.counts for arm in own.arms.values()] != [arm.counts for arm in replica.arms.values()]:
            yield f"{host.name}: its learner counted otherwise than the log comes to"
        current = host.service.current
        if current.start != replica.start:
            yield f"{host.name}: goes by start {current.start.number}, the log's is {replica.start}"
        if current.due is not None:
            yield f"{host.name}: waits for a tick that nobody needs"
        for name, arm in replica.arms.items():
            decides = current.arms[name]
            if _products_of(decides.catalogue) != _products_of(arm.catalogue):
                yield f"{host.name}: arm {name} knows other products than the log"
            if _bits_of(decides.model.policy) != _bits_of(arm.model.policy):
                yield f"{host.name}: arm {name} decides by another state than that of the log"


def _products_of(catalogue: ServedCatalogue) -> Any:
    """Return all versions of products, in whichever order they were read, and what may be shown."""
    state, _ = catalogue.state()
    return sorted(zip(state["versions"], state["names"], strict=True)), sorted(state["hidden"])


def _bits_of(policy: Any) -> Any:
    state, arrays = packed_state(policy)
    return json.dumps(state), {name: array.tobytes() for name, array in arrays.items()}


def _decisions_to_ask(day: Day, records: Mapping[int, Any]) -> dict[int, list[ProductDecision]]:
    """Return some decisions by the state that they were made by."""
    by_state = defaultdict(list)
    if not day.has_clocks and not day.log.lost:
        decisions = [record for record in records.values() if isinstance(record, ProductDecision)]
        for record in decisions[:: len(decisions) // ASKED_AGAIN + 1]:
            by_state[record.state].append(record)
    return by_state


def _flaws_of_propensities(day: Day, replica: Replica, decision: ProductDecision) -> Iterator[str]:
    """Yield whether the policy of a decision's state would have decided by other probabilities."""
    arm = replica.arms.get(decision.arm)
    versions = unpack_whole(decision.versions).tolist()
    if arm is None or arm.origin != decision.origin or not arm.catalogue.has_all(versions):
        return
    candidates = arm.catalogue.candidates(versions)
    context = context_of(user_id_of(decision.visitor_id), unpack_floats(decision.visitor), candidates)
    own = dense_propensities(arm.model.policy, Context({**context, "available": candidates.available}))
    logged = unpack_floats(decision.propensities)
    even = 1.0 / len(own)
    shares = day.troubles.explorations
    if not any(np.allclose((1.0 - share) * own + share * even, logged, atol=1e-12) for share in shares):
        yield f"probabilities {logged} were not those of state {decision.state}: {own}"
