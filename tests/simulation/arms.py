"""Who decides, and which changes make it so, by a second account of a day's log."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.simulation.day import Day
from tests.simulation.products import Catalogues, candidates_of
from zoosim.core.digests import hashed_share
from zoosim.serving.bodies import DecisionAnswer, DeploymentBody
from zoosim.serving.events import CHAMPION, HOLDBACK, PREVIOUS, Arm, Kind, ProductDecision, Row, Start, decision_of


class _Arm(NamedTuple):
    """What an arm is, but for its name."""

    model: str
    share: float
    role: str
    turn: int


class _Starts:
    """The starts of a log, and who may have decided by them.

    Attributes:
        starts: The starts, each behind the position of its row.
    """

    def __init__(self, catalogues: Catalogues, records: Mapping[int, Any]) -> None:
        self.starts: list[tuple[int, Start]] = []
        self._catalogues = catalogues
        self._records = records

    def may_decide(self, row: Row, decision: ProductDecision, first: int = 0) -> bool:
        """Return whether one of the starts, from number `first` on, has an arm decide that did: in a turn of its own.

        That is the arm that it draws for the visitor; or the champion, where that arm can show no candidate.
        """
        return any(
            self._may_decide_by(start, seq, row, decision)
            for seq, start in reversed(self.starts)
            if start.number >= first and seq < row.seq
        )

    def _may_decide_by(self, start: Start, seq: int, row: Row, decision: ProductDecision) -> bool:
        own = start.by_arm().get(decision.arm)
        if own is None or own.origin != decision.origin:
            return False
        drawn = drawn_arm(start, decision.visitor_id, decision_of(row))
        if drawn == decision.arm:
            return True
        # Its policy may be ahead of the products that the service has read of, while it reads the log.
        candidates = candidates_of(decision, self._records)
        return decision.arm == CHAMPION and self._catalogues.can_not_decide(drawn, candidates, seq, row.seq)


def flaws_of_arms(day: Day, rows: list[Row], records: Mapping[int, Any], catalogues: Catalogues) -> Iterator[str]:
    """Yield which decisions were made by an arm that nobody drew, and which changes are not those asked for."""
    starts = _Starts(catalogues, records)
    for row in rows:
        record: Any = records.get(row.seq)
        if row.kind is Kind.START:
            yield from _flaws_of_start(day, [start for _, start in starts.starts], record)
            starts.starts.append((row.seq, record))
        elif row.kind is Kind.DECISION and not starts.may_decide(row, record):
            yield f"row {row.seq}: arm {record.arm} decided, which no start draws for visitor {record.visitor_id!r}"
    if not day.log.lost:
        yield from _flaws_of_answers(day, starts, rows, records)


def drawn_arm(start: Start, visitor_id: str, decision_id: str) -> str:
    """Return the arm that decides: holdbacks draw first, then arms by age, each its share of all."""
    who = f"/visitor/{visitor_id}" if visitor_id else f"/decision/{decision_id}"
    left = 1.0
    for arm in sorted(start.arms, key=lambda arm: (arm.role != HOLDBACK, arm.turn)):
        if arm.share <= 0.0:
            continue
        key = arm.name if arm.role == HOLDBACK else f"{arm.name}/{arm.turn}"
        chance = min(arm.share / left, 1.0) if left > 0.0 else 1.0
        if hashed_share((key + who).encode(), start.salt) < chance:
            return arm.name
        left -= arm.share
    return CHAMPION


def _flaws_of_answers(day: Day, starts: _Starts, rows: list[Row], records: Mapping[int, Any]) -> Iterator[str]:
    """Yield which changes were answered, and are not made; and who decides by a start before one that it made."""
    number_of: dict[str, int] = {}
    for _, start in starts.starts:
        for change_id, _ in json.loads(start.changes).get("made", []):
            number_of.setdefault(change_id, start.number)
    decisions = {decision_of(row): row for row in rows if row.kind is Kind.DECISION}
    asked = Counter(operation.id for operation in day.clients.history if operation.kind == "decide")
    for change in day.clients.history:
        if change.kind != "deploy" or not isinstance(change.answer, dict):
            continue
        if change.id not in number_of:
            yield f"{change.id} was answered, and is not in the log"
            continue
        for operation in day.clients.history:
            is_behind = operation.host == change.host and operation.start > change.end
            # What was asked twice may have been decided before.
            if not is_behind or asked[operation.id] != 1 or not isinstance(operation.answer, DecisionAnswer):
                continue
            row = decisions[operation.id]
            if not starts.may_decide(row, records[row.seq], number_of[change.id]):
                yield f"{operation.id}: arm {operation.answer.arm} decided behind {change.id}"


def _flaws_of_start(day: Day, before: list[Start], start: Start) -> Iterator[str]:
    """Yield where a start has other arms than the change comes to that made it."""
    if not before:
        return
    old = before[-1]
    ids = [change_id for change_id, _ in json.loads(old.changes).get("made", [])]
    new_ids = [change_id for change_id, _ in json.loads(start.changes).get("made", []) if change_id not in ids]
    arms, model = _arms_in(start), (start.model, start.turn)
    if start.number != old.number + 1:
        yield f"start {start.number} follows start {old.number}"
    if len(new_ids) > 1:
        yield f"start {start.number} makes changes {new_ids} at once"
    elif new_ids:
        expected = {str(_after(old, start, body)) for body in day.deployments.bodies[new_ids[0]] if _may_be(old, body)}
        if str((arms, model)) not in expected:
            yield f"start {start.number}, {new_ids[0]}: got {arms, model}, expected one of {expected}"
    elif start.who == "launch":
        yield from _flaws_of_move(old, start)
    elif start.why not in ("a start of the service", "another model") and (arms, model) != (
        _arms_in(old),
        (old.model, old.turn),
    ):
        yield f"start {start.number}: arms changed, and nobody asked for that ({start.who}, {start.why})"


def _flaws_of_move(old: Start, start: Start) -> Iterator[str]:
    """Yield where a launch that moved by itself gave a share that its plan does not have, or shipped another arm."""
    before = json.loads(old.changes)["launch"]
    launch = json.loads(start.changes)["launch"]
    name = launch["arm"]
    arms = _arms_in(old)
    arm = arms[name]
    expected = dict(arms)
    if launch["state"] == "completed":
        expected = _promoted(old, name)
        if (start.model, start.turn) != (arm.model, arm.turn):
            yield f"start {start.number}: {name} shipped, and {start.model}/{start.turn} is the champion"
    elif launch["state"] == "rolled back":
        expected[name] = arm._replace(share=0.0)
    elif launch["step"] != before["step"]:
        if launch["step"] != before["step"] + 1 or launch["since"] <= before["since"]:
            yield f"start {start.number}: step {launch['step']} follows {before['step']}"
        others = sum(other.share for other_name, other in arms.items() if other_name != name)
        expected[name] = arm._replace(share=launch["plan"]["steps"][launch["step"]] * (1.0 - others))
    if _arms_in(start) != expected:
        yield f"start {start.number}, {start.why}: got {_arms_in(start)}, expected {expected}"


def _may_be(old: Start, body: DeploymentBody) -> bool:
    """Return whether a change is about an arm that there is, or a new one."""
    name = body.arm or (PREVIOUS if body.action == "rollback" else "")
    return body.action in ("launch", "pause", "resume") or not name or name in _arms_in(old)


def _after(old: Start, start: Start, body: DeploymentBody) -> Any:
    """Return the arms and the champion that a change comes to, in plain words."""
    arms = _arms_in(old)
    model = (old.model, old.turn)
    name = body.arm
    if body.action == "launch":
        is_planned = body.role == "challenger" and body.share is None
        plan = body.plan or {}
        arms.pop(name, None)
        # The digest of what was sent, and of what the holdback keeps, are known to the service alone.
        digests = {arm.name: arm.model for arm in start.arms}
        arms[name] = _Arm(digests.get(name, ""), body.share or 0.0, body.role, old.number + 1)
        if is_planned and plan["holdback"] and all(arm.role != HOLDBACK for arm in arms.values()):
            held = _Arm(digests.get(HOLDBACK, ""), plan["holdback"], HOLDBACK, old.number + 1)
            arms = {HOLDBACK: held, **arms}
        if is_planned:
            others = sum(arm.share for other, arm in arms.items() if other != name)
            arms[name] = arms[name]._replace(share=plan["steps"][0] * (1.0 - others))
    elif body.action == "share":
        arms[name] = arms[name]._replace(share=body.share or 0.0)
    elif body.action == "retire":
        del arms[name]
    elif body.action in ("freeze", "unfreeze") and name:
        arms[name] = arms[name]._replace(role=HOLDBACK if body.action == "freeze" else "challenger")
    elif body.action == "rollback" and name:
        arms[name] = arms[name]._replace(share=0.0)
    elif body.action in ("promote", "rollback"):
        shipped = name or PREVIOUS
        model = (arms[shipped].model, arms[shipped].turn)
        arms = _promoted(old, shipped)
    return arms, model


def _promoted(old: Start, name: str) -> dict[str, _Arm]:
    arms = {other: arm for other, arm in _arms_in(old).items() if other != name and arm.role != PREVIOUS}
    return {**arms, PREVIOUS: _Arm(old.model, 0.0, PREVIOUS, old.turn)}


def _arms_in(start: Start) -> dict[str, _Arm]:
    return {arm.name: _arm(arm) for arm in start.arms}


def _arm(arm: Arm) -> _Arm:
    return _Arm(arm.model, arm.share, arm.role, arm.turn)
