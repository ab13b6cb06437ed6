"""Projection of the log to what a launch earned beside the champion, and to checks of its soundness.

Visitors count as `Comparison` says. Where an arm is drawn for each decision, each counts for itself, and "visitor" here
means a decision. What counts is the arm that was *drawn*, also where it left the decision to the champion.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from zoosim.core.durations import MICROSECONDS
from zoosim.monitoring import health
from zoosim.monitoring.difference import DifferenceTest
from zoosim.monitoring.launch import Verdict, judge, new_tests
from zoosim.monitoring.launch_plan import MetricPlan, Plan
from zoosim.monitoring.split import SplitTest
from zoosim.serving.arm_replica import checked_rules
from zoosim.serving.arms import Assignment
from zoosim.serving.events import (
    CHAMPION,
    EVENT,
    Choice,
    Feedback,
    ProductDecision,
    Row,
    Start,
    unpack_floats,
)
from zoosim.serving.launches.comparison import Comparison
from zoosim.serving.launches.report import FailedCheck, LaunchReport, MetricReport, failed
from zoosim.serving.launches.state import Launch, launch_in
from zoosim.serving.launches.traffic import Traffic
from zoosim.serving.projection import Projection

SHARE_OF_ONE_PRODUCT = 0.9
"""The largest part of the new model's decisions that one product may have."""

MOST_DOUBLE = 0.05
"""The largest part of the visitors who may meet another arm than theirs, as theirs could not decide."""

MOST_LEFT = 20
"""Decisions in a row that the new model may leave to the champion."""

WRONG = 1e-6
"""By how much the probabilities of a decision may miss the sum of 1."""

SILENCE = 60 * MICROSECONDS
"""Time without feedback after which learning may be frozen."""

USUAL = 20.0
"""Feedbacks that are usual over so many decisions as there were without any; fewer say nothing."""

FADING, FADING_OF_SILENCES = 2_000.0, 50_000.0
"""Decisions over which the usual feedback per decision is averaged, and after which a long silence is forgotten."""

LEAST_DECISIONS = 200.0
"""Decisions after which it is known how much feedback is usual."""


class Silence:
    """Tells whether feedback has ceased: for longer, and over more decisions, than happens by chance, or ever did.

    Attributes:
        last: When the newest feedback came, in microseconds since 1970; 0 before any.
    """

    def __init__(self) -> None:
        """Begin without decisions."""
        self._decided = self._earned = self._rate = 0.0
        self._longest = 0.0
        self._since_last = 0
        self.last = 0

    def decide(self) -> None:
        """Take note of a decision."""
        self._decided += 1.0 - self._decided / FADING
        self._earned -= self._earned / FADING
        self._longest -= self._longest / FADING_OF_SILENCES
        self._since_last += 1

    def earn(self, time: int) -> None:
        """Take note of feedback at a time of the log."""
        self._earned += 1.0
        self._rate = self._earned / max(self._decided, 1.0)
        # Where feedback comes in batches, as once a day, silence between them is usual.
        self._longest = max(self._longest, float(self._since_last))
        self._since_last = 0
        self.last = time

    def finding(self, time: int) -> health.Finding | None:
        """Return what is wrong at a time of the log, None where feedback comes as usual."""
        usual = self._rate * self._since_last
        is_long = usual >= USUAL and self._since_last > 2.0 * self._longest
        if not self.last or self._decided < LEAST_DECISIONS or not is_long:
            return None
        minute = 60.0 * MICROSECONDS
        return health.no_rewards("feedback", (time - self.last) / minute, SILENCE / minute, usual)


class LaunchMonitor(Projection):
    """Follows the log; the same rows come to the same report.

    Attributes:
        launch: The launch that splits traffic now, None for none.
    """

    def __init__(self, weights: Callable[[], Mapping[str, float]]) -> None:
        """Begin without a launch.

        Args:
            weights: Returns the weight of each reward in the objective.
        """
        self.launch: Launch | None = None
        self._weights = weights
        self._champion = ""  # its origin
        self._silence = Silence()
        self._time = 0

    def apply(self, row: Row) -> None:
        """Read the next row."""
        self._time = row.time
        super().apply(row)

    def on_start(self, row: Row, start: Start) -> None:
        """Begin with a launch, or go on with its other shares."""
        self.begin(start)

    def begin(self, start: Start) -> None:
        """Begin with the launch of a start, or go on with its other shares."""
        launch = launch_in(start)
        before = self.launch
        self.launch = launch if launch is not None and launch.is_running else None
        if self.launch is None:
            return
        self._by_event = any(arm.name == self.launch.arm and arm.sticky == EVENT for arm in start.arms)
        # Beside another champion what was earned so far says nothing.
        if before is None or before.number != self.launch.number or self._champion != start.origin:
            self._champion = start.origin
            self._begin(self.launch)
        if before is None or before.step != self.launch.step:
            self._step_visitors = 0
        window = round((self._plan.window or checked_rules(start).wait) * MICROSECONDS)
        self._comparison.follow(Assignment(start), window)

    def _begin(self, launch: Launch) -> None:
        self._plan: Plan = launch.checked_plan()
        self._metrics = [each.metric for each in self._plan.metrics]
        tests = new_tests(self._metrics, level=self._plan.level, ship_level=self._plan.ship_level)
        rewards = [each.reward for each in self._plan.metrics]
        self._comparison = self._new_comparison((launch.arm, CHAMPION), rewards, tests)
        self._split = SplitTest(2)
        self._traffic = Traffic()
        self._mixed: set[int] = set()
        self._step_visitors = 0
        self._left = 0
        self._shown: Counter[str] = Counter()
        self._decisions = 0
        self._wrong = 0
        self._last_decision = self._time
        self._is_held = False
        self._standing: dict[str, health.Finding] = {}

    def _new_comparison(
        self, arms: tuple[str, str], rewards: Sequence[str], tests: Sequence[DifferenceTest]
    ) -> Comparison:
        """Return a comparison without visitors; whoever keeps them makes another one."""
        return Comparison(arms, rewards, tests, by_event=self._by_event)

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Count a decision, and its visitor if that is a new one."""
        self._silence.decide()
        if self.launch is None or choice.is_forgotten:
            return
        met = self._comparison.meet(row, choice)
        if met is None:
            return
        if choice.arm == self.launch.arm:
            self._last_decision = row.time
            self._left = 0
            self._check(choice)
        elif met.is_new:
            self._left += 1
            if not self._by_event:  # else visitors meet both arms, which is no fault
                self._mixed.add(met.visitor)
        if met.is_first:
            self._traffic.come(row.time)
            share = self._comparison.share
            self._split.update(np.array([met.is_new, not met.is_new], np.int64), [share, 1.0 - share])

    def _check(self, choice: Choice) -> None:
        """Check what the new model decided."""
        self._decisions += 1
        if not choice.is_pinned(0):  # else the shop has settled on a product, and not the model
            self._shown.update(choice.names_shown[:1])
        if isinstance(choice, ProductDecision):
            self._wrong += abs(sum(unpack_floats(choice.propensities)) - 1.0) > WRONG

    def on_feedback(self, row: Row, feedback: Feedback) -> None:
        """Enter what a visitor earned whose window is open."""
        self._silence.earn(row.time)
        if self.launch is not None:
            self._comparison.earn(row, feedback)

    def on_tick(self, row: Row) -> None:
        """Take the visitors whose windows are over into the tests, in the order in which they came."""
        if self.launch is not None:
            self._step_visitors += self._comparison.close(row.time, self._weights())

    @property
    def last_feedback(self) -> int:
        """When the newest feedback came, in microseconds since 1970; 0 before any."""
        return self._silence.last

    def silence(self) -> FailedCheck | None:
        """Return what is wrong where feedback has ceased, None where it comes."""
        finding = self._silence.finding(self._time)
        return None if finding is None else failed(finding)

    def report(self) -> LaunchReport | None:
        """Return how the launch stands; None without one."""
        if self.launch is None:
            return None
        per_hour = self._traffic.per_hour(self._time)
        judgement = judge(
            self._metrics,
            self._comparison.tests,
            share=self._comparison.share,
            per_hour=per_hour,
            held=self._is_held,
            now=self._now(),
            baseline=CHAMPION,
        )
        self._is_held = judgement.verdict is Verdict.HOLD
        return LaunchReport(
            number=self.launch.number,
            step=self.launch.step,
            verdict=judgement.verdict,
            sentence=judgement.sentence,
            remaining=judgement.remaining,
            visitors=self._comparison.tests[0].events,
            step_visitors=self._step_visitors,
            metrics=[_told(plan, test) for plan, test in zip(self._plan.metrics, self._comparison.tests, strict=True)],
            checks=[failed(finding) for finding in self._findings()],
            per_hour=per_hour,
            champion=self._champion,
        )

    def _now(self) -> datetime:
        """Return the time of the newest row."""
        return datetime.fromtimestamp(self._time / MICROSECONDS, UTC)

    def _findings(self) -> Iterable[health.Finding]:
        """Return the checks that fail now."""
        assert self.launch is not None
        product, shown = next(iter(self._shown.most_common(1)), ("", 0))
        minutes = (self._time - self._last_decision) / (60.0 * MICROSECONDS)
        most_minutes = math.inf if self._left < MOST_LEFT else -1.0
        seen = self._comparison.windows.seen
        findings = (
            health.split_ratio(self._split, (self.launch.arm, CHAMPION)),
            health.double_exposure(len(self._mixed & seen), len(seen), MOST_DOUBLE),
            health.propensities(self._wrong, self._decisions),
            health.product_share(product, shown, self._decisions, SHARE_OF_ONE_PRODUCT),
            health.no_traffic(self.launch.arm, minutes, most_minutes),
        )
        self._standing = health.standing(self._standing, findings, self._now().strftime("%Y-%m-%d %H:%M UTC"))
        return self._standing.values()


def _told(plan: MetricPlan, test: DifferenceTest) -> MetricReport:
    estimate = test.estimate()
    margin = plan.margin * (estimate.holdback if plan.relative else 1.0)
    figures = map(float, (estimate.difference, estimate.low, estimate.high, estimate.holdback, margin))
    return MetricReport(plan.reward, plan.role, *figures)
