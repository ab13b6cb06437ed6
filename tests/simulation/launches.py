"""How launches stand, and whether feedback comes, by a second account of a day's log: slow and plain."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.simulation.arms import drawn_arm
from tests.simulation.day import Day
from zoosim.monitoring import health
from zoosim.monitoring.difference import Reward
from zoosim.monitoring.launch import Metric, Role, new_tests
from zoosim.monitoring.split import SplitTest
from zoosim.serving.bodies import DeploymentBody
from zoosim.serving.events import CHAMPION, Kind, Row, Start, decision_of, unpack_floats
from zoosim.serving.launches import monitor
from zoosim.serving.launches.monitor import LaunchMonitor

ROWS_BETWEEN = 60
"""Rows between two reports that are compared."""

RUNNING = ("running", "cannot tell yet", "paused")
SECOND, DAY_LONG = 1_000_000, 86_400_000_000

WEIGHTS = {"click": 1.0}
"""Weights of the rewards of the shop."""


class _Visitor:
    """A visitor who counts: the arm and the chance of it, when the window is over, the decisions, and the clicks."""

    def __init__(self, is_new: bool, share: float, due: int) -> None:
        self.is_new = is_new
        self.share = share
        self.due = due
        self.decisions: set[str] = set()
        self.clicks = 0.0
        self.is_open = True


class Account:
    """What a launch comes to, and how long there was no feedback, after some rows of a log.

    Attributes:
        launch: The launch that splits traffic, as its plain values; None for none.
        step_visitors: Visitors who counted since its share began.
        counts: How many had counted, at each time at which some did.
        last_feedback: When feedback came last.
    """

    def __init__(self) -> None:
        self.launch: dict[str, Any] | None = None
        self.step_visitors = 0
        self.counts = {0}
        self.last_feedback = 0
        self._time = 0
        self._origin = ""
        self._decided = self._earned = self._rate = self._longest = 0.0
        self._since_last = 0

    def apply(self, row: Row, record: Any) -> None:
        """Read the next row."""
        self._time = row.time
        if row.kind is Kind.START:
            self._begin(record)
        elif row.kind is Kind.DECISION:
            self._decided += 1.0 - self._decided / monitor.FADING
            self._earned *= 1.0 - 1.0 / monitor.FADING
            self._longest *= 1.0 - 1.0 / monitor.FADING_OF_SILENCES
            self._since_last += 1
            if self.launch is not None:
                self._decide(row, record)
        elif row.kind is Kind.FEEDBACK:
            self._earned += 1.0
            self._rate = self._earned / max(self._decided, 1.0)
            self._longest = max(self._longest, self._since_last)
            self._since_last = 0
            self.last_feedback = row.time
            for visitor in self._visitors() if self.launch else ():
                if visitor.is_open and decision_of(row) in visitor.decisions:
                    visitor.clicks += record.rewards.get("click", 0.0)
        elif row.kind is Kind.TICK and self.launch is not None:
            self._close()

    @property
    def is_silent(self) -> bool:
        """Whether feedback has ceased: for longer, and over more decisions, than it ever did."""
        missed = self._rate * self._since_last
        return (
            self.last_feedback > 0
            and self._decided >= monitor.LEAST_DECISIONS
            and missed >= monitor.USUAL
            and self._since_last > 2.0 * self._longest
            and self._time - self.last_feedback > monitor.SILENCE
        )

    def flaws_of(self, reports: LaunchMonitor) -> Iterator[str]:
        """Yield how what a monitor tells differs from this account."""
        if (reports.silence() is not None, reports.last_feedback) != (self.is_silent, self.last_feedback):
            yield f"silence: {reports.silence()} since {reports.last_feedback}, expected {self.is_silent}"
        report = reports.report()
        if report is None or self.launch is None:
            if report is not None or self.launch is not None:
                yield f"launch: report {report}, expected one of {self.launch}"
            return
        yield from self._flaws_of_report(report)

    def _flaws_of_report(self, report: Any) -> Iterator[str]:
        assert self.launch is not None
        events = self.tests[0].events
        expected = (self.launch["number"], self.launch["step"], events, self.step_visitors)
        figures = (report.number, report.step, report.visitors, report.step_visitors)
        if figures != expected:
            yield f"report: number, step and visitors {figures}, expected {expected}"
        per_hour = self._per_hour()
        if not math.isclose(report.per_hour, per_hour, rel_tol=1e-6):
            yield f"report: {report.per_hour} visitors per hour, expected {per_hour}"
        for plan, test, told in zip(self.launch["plan"]["metrics"], self.tests, report.metrics, strict=True):
            estimate = test.estimate()
            margin = plan["margin"] * estimate.holdback
            own = [estimate.difference, estimate.low, estimate.high, estimate.holdback, margin]
            other = [told.difference, told.low, told.high, told.champion, told.margin]
            if told.role != plan["role"] or not np.allclose(own, other, equal_nan=True):
                yield f"report: {told}, expected {plan['role']} {own}"
        findings = [finding for finding in self._findings() if finding is not None]
        checks = [(finding.check, finding.action, finding.what) for finding in findings]
        pairs = zip(report.checks, checks, strict=False)
        are_alike = all((told.check, told.action) == own[:2] and own[2] in told.sentence for told, own in pairs)
        if len(report.checks) != len(checks) or not are_alike:
            yield f"report: checks {report.checks}, expected {checks}"

    @property
    def due(self) -> tuple[int, int] | None:
        """The number and the step of a launch that runs, and has all that it needs to move; None for none."""
        if self.launch is None or self.launch["state"] != "running":
            return None
        has_enough = self.step_visitors >= self.launch["plan"]["least"]
        is_over = self._time - self.launch["since"] >= duration_of(self.launch)
        return (self.launch["number"], self.launch["step"]) if has_enough and is_over else None

    def _begin(self, start: Start) -> None:
        before = self.launch
        self.launch = running_launch(start)
        self._start = start
        if self.launch is None:
            return
        if before is None or before["number"] != self.launch["number"] or self._origin != start.origin:
            self._begin_anew(self.launch)
        self._origin = start.origin
        if before is None or before["step"] != self.launch["step"]:
            self.step_visitors = 0
        wait = self.launch["plan"].get("window") or json.loads(start.rules)["wait"]
        self._window = round(wait * SECOND)
        shares = {arm.name: arm.share for arm in start.arms}
        rest = 1.0 - sum(shares.values())
        both = shares[self.launch["arm"]] + rest
        self._share = shares[self.launch["arm"]] / both if both > 1e-12 else 0.0

    def _begin_anew(self, launch: dict[str, Any]) -> None:
        plan = launch["plan"]
        self._metrics = [
            Metric(Reward("objective", 0.0, 1.0, each["margin"], each["drop"], each["lift"]), Role(each["role"]))
            for each in plan["metrics"]
        ]
        self.tests = new_tests(self._metrics, level=plan["level"], ship_level=plan["ship_level"])
        self.step_visitors = 0
        self.counts = {0}
        self._split = SplitTest(2)
        self._by_name: dict[str, _Visitor] = {}
        self._came: list[int] = []
        self._mixed: set[str] = set()
        self._shown: Counter[str] = Counter()
        self._decisions = self._wrong = self._passed_over = 0
        self._last_decision = self._time

    def _decide(self, row: Row, record: Any) -> None:
        assert self.launch is not None
        arm = drawn_arm(self._start, record.visitor_id, decision_of(row))
        if arm not in (self.launch["arm"], CHAMPION):
            return
        is_new = arm != CHAMPION
        name = record.visitor_id or f"decision {decision_of(row)}"
        if record.arm == self.launch["arm"]:
            self._last_decision = row.time
            self._passed_over = 0
            self._decisions += 1
            self._shown[record.products[0]] += 1
            self._wrong += abs(unpack_floats(record.propensities).sum() - 1.0) > 1e-6
        elif is_new:
            self._passed_over += 1
            self._mixed.add(name)
        if 0.0 < self._share < 1.0 and name not in self._by_name:
            self._by_name[name] = _Visitor(is_new, self._share, row.time + self._window)
            self._came.append(row.time)
            self._split.update(np.array([is_new, not is_new], np.int64), [self._share, 1.0 - self._share])
        if name in self._by_name and self._by_name[name].is_open:
            self._by_name[name].decisions.add(decision_of(row))

    def _visitors(self) -> list[_Visitor]:
        return list(self._by_name.values())

    def _close(self) -> None:
        over = [visitor for visitor in self._visitors() if visitor.is_open and visitor.due <= self._time]
        over.sort(key=lambda visitor: visitor.due)
        if not over:
            return
        for visitor in over:
            visitor.is_open = False
        is_new = np.array([visitor.is_new for visitor in over], float)
        shares = np.array([visitor.share for visitor in over])
        for test in self.tests:
            test.update(is_new, shares, np.array([min(visitor.clicks, 1.0) for visitor in over]))
        self.step_visitors += len(over)
        self.counts.add(self.tests[0].events)

    def _per_hour(self) -> float:
        """Return the visitors per hour: each counts e times less after a day, and so does each hour."""
        if not self._came or self._time <= self._came[0]:
            return 0.0
        visitors = sum(math.exp(-(self._time - time) / DAY_LONG) for time in self._came)
        return visitors / (24.0 * (1.0 - math.exp(-(self._time - self._came[0]) / DAY_LONG)))

    def _findings(self) -> list[health.Finding | None]:
        assert self.launch is not None
        product, shown = next(iter(self._shown.most_common(1)), ("", 0))
        minutes = (self._time - self._last_decision) / (60.0 * SECOND)
        return [
            health.split_ratio(self._split, (self.launch["arm"], CHAMPION)),
            health.double_exposure(len(self._mixed), len(self._by_name), 0.05),
            health.propensities(self._wrong, self._decisions),
            health.product_share(product, shown, self._decisions, 0.9),
            health.no_traffic(self.launch["arm"], minutes, math.inf if self._passed_over < monitor.MOST_LEFT else -1.0),
        ]


def running_launch(start: Start) -> dict[str, Any] | None:
    """Return the launch of a start, as its plain values, while it splits traffic by an arm that there is."""
    launch: dict[str, Any] | None = json.loads(start.changes).get("launch")
    if launch is None or launch["state"] not in RUNNING:
        return None
    is_there = any((arm.name, arm.turn) == (launch["arm"], launch["number"]) for arm in start.arms)
    return launch if is_there else None


def duration_of(launch: Mapping[str, Any]) -> int:
    """Return how long the share of a launch stays at least, in microseconds."""
    hours = launch["plan"]["hours"]
    hours_of_step: float = hours[launch["step"]] if isinstance(hours, list) else hours
    return round(hours_of_step * 3_600 * SECOND)


def flaws_of_launches(day: Day, rows: list[Row], records: Mapping[int, Any]) -> Iterator[str]:
    """Yield how launches, and the checks of feedback, differ from what the log says of them."""
    account = Account()
    reports = LaunchMonitor(lambda: WEIGHTS)
    is_whole = not day.log.lost and day.log.rows[0].seq == 1
    start: Start | None = None
    was_silent = False
    due: tuple[int, int] | None = None
    for row in rows:
        record: Any = records.get(row.seq)
        if row.kind is Kind.START and start is not None and is_whole:
            yield from _flaws_of_move(day, row, account, start, record)
            yield from _flaws_of_freezing(account, was_silent, start, record)
        account.apply(row, record)
        reports.apply(row)
        was_silent = account.is_silent or (was_silent and row.kind is not Kind.START)
        if row.kind is Kind.START or row.seq % ROWS_BETWEEN == 0:
            yield from (f"row {row.seq}: {flaw}" for flaw in account.flaws_of(reports))
        if row.kind is Kind.START:
            start = record
        if row.seq == day.settled:
            due = account.due
    if is_whole and due is not None and account.due == due:
        yield f"launch {due} could move, and did not"
    for host in day.hosts:
        if is_whole and host.service is not None and host.learner is not None and host.learner.learner is not None:
            yield from (f"{host.name}: {flaw}" for flaw in account.flaws_of(host.learner.learner._monitor))
            current = host.service.current
            if (current.silence is not None, current.last_feedback) != (account.is_silent, account.last_feedback):
                yield f"{host.name}: silence {current.silence}, expected {account.is_silent}"
    if is_whole and account.is_silent and not json.loads(start.rules)["frozen"]:  # type: ignore[union-attr]
        yield "feedback has ceased, and nobody froze learning"


def _flaws_of_move(day: Day, row: Row, account: Account, old: Start, start: Start) -> Iterator[str]:
    """Yield where a start has another launch than a person's change leads to, or one that moved too early."""
    launch = json.loads(start.changes).get("launch")
    before = json.loads(old.changes).get("launch")
    made = {change_id for change_id, _ in json.loads(old.changes).get("made", [])}
    new_ids = [change_id for change_id, _ in json.loads(start.changes).get("made", []) if change_id not in made]
    if new_ids:
        expected = [_launch_after(old, start, body) for body in day.deployments.bodies[new_ids[0]]]
        if not any(_is_alike(launch, each) for each in expected):
            yield f"start {start.number}, {new_ids[0]}: launch {launch}, expected one of {expected}"
    elif start.who == "launch":
        yield from _flaws_of_step(row, account, running_launch(old), launch)
    elif launch != before:
        yield f"start {start.number}: launch {launch} follows {before}, and nobody asked for that"


def _launch_after(old: Start, start: Start, body: DeploymentBody) -> dict[str, Any] | None:
    """Return what the launch of a start comes to by a person's change, without what only the service knows."""
    logged: dict[str, Any] | None = json.loads(old.changes).get("launch")
    if body.action == "launch" and body.role == "challenger" and body.share is None:
        return {"number": start.number, "arm": body.arm, "state": "running", "step": 0, "by_person": False} | {
            "reason": "",
            "model": start.by_arm()[body.arm].model if body.arm in start.by_arm() else "",
            "verdict": "",
            "visitors": 0,
        }
    if logged is None:
        return None
    launch = running_launch(old)
    is_of_champion = body.action == "rollback" and body.arm == ""
    if is_of_champion:
        launch = logged if logged["state"] == "completed" else None
    states = {"pause": "paused", "share": "paused", "resume": "running", "promote": "completed"}
    states |= {"rollback": "rolled back", "retire": "rolled back"}
    if launch is None or body.action not in states or body.arm not in ("", launch["arm"]):
        return logged
    state = states[body.action]
    return {**launch, "state": state, "by_person": state == "paused", "reason": body.why or body.action}


def _is_alike(launch: dict[str, Any] | None, expected: dict[str, Any] | None) -> bool:
    if launch is None or expected is None:
        return launch is expected
    return all(launch[name] == value for name, value in expected.items())


def _flaws_of_step(row: Row, account: Account, before: dict[str, Any] | None, launch: dict[str, Any]) -> Iterator[str]:
    """Yield where a launch that moved by itself could not have."""
    if before is None:
        yield f"{launch} moved, and was not running"
        return
    plan = before["plan"]
    is_over = row.time - before["since"] >= duration_of(before)
    has_moved_on = launch["step"] != before["step"] or launch["state"] == "cannot tell yet"
    if has_moved_on and not (is_over and account.step_visitors >= plan["least"]):
        yield f"{launch} moved after {account.step_visitors} visitors, and is over: {is_over}"
    if launch["state"] == "cannot tell yet" and before["step"] != len(plan["steps"]) - 1:
        yield f"{launch} can not be told before its last share"
    if launch["step"] == before["step"] and launch["since"] != before["since"]:
        yield f"{launch}: its share began at {before['since']}"
    if launch["visitors"] not in account.counts:
        yield f"{launch}: {launch['visitors']} visitors counted, expected one of {sorted(account.counts)}"
    if launch["state"] == "completed" and launch["verdict"] != "ship":
        yield f"{launch}: shipped by another verdict"
    if before["by_person"] and launch["state"] != "rolled back":
        yield f"{launch}: a person had paused it"
    same = ("number", "arm", "plan", "said", "model")
    if any(launch[name] != before[name] for name in same) or launch["by_person"] != before["by_person"]:
        yield f"{launch} follows {before}"


def _flaws_of_freezing(account: Account, was_silent: bool, old: Start, start: Start) -> Iterator[str]:
    """Yield where checks froze learning, or let it go on, and should not have."""
    if start.who != "checks":
        return
    is_frozen = json.loads(start.rules)["frozen"]
    if is_frozen == json.loads(old.rules)["frozen"]:
        yield f"start {start.number}: checks left learning as it was"
    elif is_frozen and not was_silent:
        yield f"start {start.number}: learning was frozen, and feedback came"
    elif not is_frozen and account.last_feedback <= json.loads(old.changes)["frozen since"]:
        yield f"start {start.number}: learning went on without feedback"
