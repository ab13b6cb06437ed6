"""The hand that moves a launch: it gives shares, ships, takes back and freezes, as reports and checks say."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from zoosim.core.errors import DataError, StoreError
from zoosim.monitoring.health import Action
from zoosim.monitoring.launch import Event, Verdict, next_event, next_state
from zoosim.serving.arm_replica import checked_rules
from zoosim.serving.clock import Clock
from zoosim.serving.current import Current
from zoosim.serving.deployment import frozen_since, promoted, with_frozen, with_share
from zoosim.serving.events import Start
from zoosim.serving.launches.changes import share_of
from zoosim.serving.launches.report import LaunchReport
from zoosim.serving.launches.state import Launch, launch_in, with_launch
from zoosim.serving.store.base import Store
from zoosim.serving.writer import Writer

LAUNCH, CHECKS = "launch", "checks"
"""Who makes changes by itself: the launch, and the checks of what is learned."""

SENTENCES = {
    Event.STEPPED: "nothing speaks against a larger share",
    Event.TIME_OVER: "the shares are through, and it cannot be told yet",
    Event.EXPIRED: "it could not be told in all the days that the plan gives it (most_days)",
    Event.CLEARED: "what held it is over",
}
"""Why a launch moves, where its report does not say so."""

SECONDS_OF_A_REPORT = 60.0
"""For how long a report lets a launch go on; no share grows unwatched while the learner is down or far behind."""

logger = logging.getLogger("zoosim.serving")


class LaunchKeeper:
    """Moves the launch of a service, and freezes learning while feedback has ceased; the service that leads does so."""

    def __init__(self, current: Current, store: Store, writer: Writer, clock: Clock) -> None:
        self._current = current
        self._store = store
        self._writer = writer
        self._clock = clock

    async def look(self) -> None:
        """Do what is due by the learner's newest report; the log says what was done, and why."""
        if not self._store.leads or not self._current.has_begun:
            return
        try:
            await self._freeze()
            await self._move()
        except (StoreError, DataError) as error:  # the next look tries again
            logger.warning("a launch cannot be moved for now: %s", error)

    async def _freeze(self) -> None:
        """Freeze learning where feedback has ceased, and let it go on once that comes again."""
        silence = self._current.silence
        is_frozen = self._current.settings.frozen
        if silence is not None and not is_frozen:
            await self._switch(self._frozen, CHECKS, silence.sentence)
        elif is_frozen and self._may_learn_again(self._current.start):
            await self._switch(self._learning_again, CHECKS, "feedback comes again")

    # Both look again, by the start that they change: while another change was being made, feedback may have come, or a
    # person have frozen learning, which is not for checks to end.
    def _frozen(self, start: Start) -> Start:
        """Return a start in which nobody learns; the same one where feedback has come meanwhile."""
        if self._current.silence is None or checked_rules(start).frozen:
            return start
        return with_frozen(start, True, self._clock.now())

    def _learning_again(self, start: Start) -> Start:
        """Return a start in which all learn again; the same one where a person has frozen learning meanwhile."""
        return with_frozen(start, False) if self._may_learn_again(start) else start

    def _may_learn_again(self, start: Start) -> bool:
        """Return whether checks have frozen learning, and feedback has come since then."""
        return 0 < frozen_since(start) < self._current.last_feedback and checked_rules(start).frozen

    async def _move(self) -> None:
        report = self._current.report_on_launch
        if report is None:  # as without a launch: the start need not be read at each tick
            return
        launch = launch_in(self._current.start)
        if launch is None or report.number != launch.number or not launch.is_running:
            return
        event = self._due_event(launch, report)
        is_old = self._clock.passed() - self._current.launch_reported_at > SECONDS_OF_A_REPORT
        if event is None or (event is not Event.HARMED and is_old):
            return
        why = SENTENCES.get(event) or _reason(event, report)
        changes = {each.reward: each.difference / each.champion for each in report.metrics if each.champion}
        told = {"reason": why, "verdict": report.verdict, "visitors": report.visitors, "changes": changes}

        def moved(start: Start) -> Start:
            # What it earned beside another champion says nothing. The learner tells more once it has read of this one.
            return self._moved(start, launch, event, told) if start.origin == report.champion else start

        await self._switch(moved, LAUNCH, f"{launch.arm}: {why}")

    def _due_event(self, launch: Launch, report: LaunchReport) -> Event | None:
        plan = launch.checked_plan()
        passed = self._clock.now() - launch.since
        is_over = passed >= plan.duration(launch.step)
        # A report of the share before says nothing of how many came since.
        has_enough = report.step == launch.step and report.step_visitors >= plan.least
        return next_event(
            launch.state,
            report.verdict,
            {check.action for check in report.checks},
            step_is_over=is_over and has_enough,
            is_last_step=launch.step == len(plan.steps) - 1,
            is_expired=plan.is_expired(passed),
            paused_by_person=launch.by_person,
        )

    def _moved(self, start: Start, seen: Launch, event: Event, told: Mapping[str, Any]) -> Start:
        """Return the start after an event; the same one where the launch has moved since it was seen.

        Args:
            start: The start before.
            seen: The launch when the event was found.
            event: The event.
            told: Why, by which verdict, of how many visitors and what they earned, as fields of a launch.
        """
        launch = launch_in(start)
        if launch != seen:
            return start
        step = launch.step + (event is Event.STEPPED)
        after = msgspec.structs.replace(
            launch,
            state=next_state(launch.state, event),
            step=step,
            since=self._clock.now() if step != launch.step else launch.since,
            **told,
        )
        if event is Event.SHIPPED:
            start = promoted(start, launch.arm)
        elif event in (Event.HARMED, Event.EXPIRED):
            start = with_share(start, launch.arm, 0.0)
        elif event is Event.STEPPED:
            start = with_share(start, launch.arm, share_of(start, after))
        return with_launch(start, after)

    async def _switch(self, change: Callable[[Start], Start], who: str, why: str) -> None:
        def changed(start: Start) -> Start:
            after = change(start)
            return start if after == start else msgspec.structs.replace(after, who=who, why=why)

        await self._current.switch(self._writer, changed)


def _reason(event: Event, report: LaunchReport) -> str:
    """Return why a launch moves, by the check or the metrics that say so."""
    action = Action.ROLL_BACK if event is Event.HARMED else Action.HOLD
    by_metrics = report.verdict in (Verdict.ROLL_BACK, Verdict.HOLD, Verdict.SHIP)
    checks = [check.sentence for check in report.checks if check.action is action]
    return report.sentence if by_metrics or not checks else checks[0]
