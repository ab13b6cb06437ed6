"""Figures of a service, as Prometheus reads them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from zoosim.serving.launches.state import launch_in
from zoosim.serving.service import Service
from zoosim.serving.tracing import CURRENT

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """Counts and times of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "zoosim_request_seconds", "Time to answer.", ["request"], buckets=BUCKETS, registry=self._registry
        )
        self._registry.register(self)
        # Looked up once each, since finding them by their labels takes a lock.
        self._seconds_of: dict[str, Histogram] = {}

    def timed(self, request: str) -> AbstractContextManager[Any]:
        """Return a context in which a request is counted, with how long it takes."""
        trace = CURRENT.get()
        if trace is not None:
            trace.request = request
        seconds = self._seconds_of.get(request)
        if seconds is None:
            seconds = self._seconds_of[request] = self._seconds.labels(request)
        return seconds.time()

    def text(self) -> bytes:
        """Return all figures."""
        return generate_latest(self._registry)

    def families(self) -> Iterable[Metric]:
        """Return all figures, each with its samples."""
        return self._registry.collect()

    def collect(self) -> Iterator[Metric]:
        """Yield what is read when it is asked for."""
        service = self._service
        request_counts = CounterMetricFamily("zoosim_events", "What happened to requests.", labels=["event"])
        for name, count in sorted(service.counts.items()):
            request_counts.add_metric([name], count)
        yield request_counts
        deviations = CounterMetricFamily(
            "zoosim_input_deviations",
            "Requests that the model was not made for.",
            labels=["part", "column", "kind"],
        )
        for key, count in service.inputs.by_key():
            deviations.add_metric(key, count)
        yield deviations
        learner_counts = CounterMetricFamily("zoosim_learner_events", "What came of decisions.", labels=["event"])
        for name, count in sorted(service.current.learned.items()):
            learner_counts.add_metric([name], count)
        yield learner_counts
        rewards = GaugeMetricFamily("zoosim_rewards", "What decisions earned.", labels=["arm", "reward"])
        for names, total in sorted(service.rewards.items()):
            rewards.add_metric(names, total)
        yield rewards
        shares = GaugeMetricFamily("zoosim_arm_share", "Share of the visitors.", labels=["arm"])
        for arm, share in service.current.assignment.shares.items():
            shares.add_metric([arm], share)
        yield shares
        yield from self._calls()
        yield from self._launch()
        yield from self._holdback()
        yield from self._forecasts()
        yield from self._shadows()
        yield from self._drift()
        agreement = service.agreement().get("agreement")
        if agreement is not None:
            description = "Share of decisions in apprentice mode that the policy would have made like the shop."
            yield GaugeMetricFamily("zoosim_apprentice_agreement", description, agreement)
        yield GaugeMetricFamily("zoosim_waiting", "Requests that wait for the log.", service.waiting)
        yield GaugeMetricFamily(
            "zoosim_delay_seconds", "Time to answer requests that came together.", service.backlog.delay
        )
        ahead = service.clock.ahead()
        yield GaugeMetricFamily("zoosim_clock_ahead_seconds", "Time of the log less that of the wall clock.", ahead)
        state = service.current.state
        yield GaugeMetricFamily("zoosim_state_position", "Position of the log up to which was learned.", state)
        yield GaugeMetricFamily("zoosim_learner_lag_rows", "Rows that the learner has not read.", service.lag())
        yield GaugeMetricFamily("zoosim_log_failing", "1 while the log cannot be written.", bool(service.failure))

    def _holdback(self) -> Iterator[Metric]:
        """Yield what the champion earns beside the holdback, as the learner told last."""
        report = self._service.current.figures.holdback
        if report is None or not report.rewards:
            return
        yield GaugeMetricFamily("zoosim_holdback_visitors", "Visitors that count beside the holdback.", report.visitors)
        what = "Champion less holdback, per visitor; the bounds hold at all times at once."
        differences = GaugeMetricFamily("zoosim_holdback_difference", what, labels=["reward", "bound"])
        for compared in report.rewards:
            for bound in ("low", "difference", "high"):
                differences.add_metric([compared.reward, bound], getattr(compared, bound))
        yield differences

    def _forecasts(self) -> Iterator[Metric]:
        """Yield how many forecasts there are, by what made them and what came of them."""
        forecasts = GaugeMetricFamily("zoosim_forecasts", "Forecasts in the log.", labels=["by", "outcome"])
        counts = Counter((each.forecast["by"], each.outcome) for each in self._service.current.figures.ledger)
        for names, count in sorted(counts.items()):
            forecasts.add_metric(names, count)
        yield forecasts

    def _shadows(self) -> Iterator[Metric]:
        """Yield what shadows would have earned, as the learner told last."""
        reports = self._service.shadow_reports()
        if not reports:
            return
        what = "Shadow less champion, per decision, in units of the objective."
        differences = GaugeMetricFamily("zoosim_shadow_difference", what, labels=["arm", "bound"])
        agreements = GaugeMetricFamily("zoosim_shadow_agreement", "Part that both choose alike.", labels=["arm"])
        effective = GaugeMetricFamily("zoosim_shadow_effective", "Effective sample size.", labels=["arm"])
        for arm, report in reports.items():
            for bound in ("low", "difference", "high"):
                differences.add_metric([arm, bound], getattr(report, bound))
            agreements.add_metric([arm], report.agreement)
            effective.add_metric([arm], report.effective)
        yield from (differences, agreements, effective)

    def _calls(self) -> Iterator[Metric]:
        """Yield how often policies were asked, how often they failed, and how long that took, by arm."""
        calls = CounterMetricFamily("zoosim_arm_calls", "Decisions that policies were asked for.", labels=["arm"])
        failures = CounterMetricFamily("zoosim_arm_failures", "Those that they failed at.", labels=["arm"])
        seconds = CounterMetricFamily("zoosim_arm_seconds", "Seconds that they took.", labels=["arm"])
        for arm, counts in sorted(self._service.current.calls.by_arm.items()):
            calls.add_metric([arm], counts.decided)
            failures.add_metric([arm], counts.failed)
            seconds.add_metric([arm], counts.seconds)
        yield from (calls, failures, seconds)

    def _drift(self) -> Iterator[Metric]:
        """Yield how much had changed when somebody last asked."""
        findings = self._service.drift_findings
        if findings is not None:
            yield GaugeMetricFamily("zoosim_drift_findings", "Changes that /v1/drift answered last.", findings)

    def _launch(self) -> Iterator[Metric]:
        """Yield how a launch stands, as the learner told last."""
        report = self._service.current.report_on_launch
        launch = launch_in(self._service.start)
        if report is None or launch is None or launch.number != report.number or not launch.is_running:
            return
        yield GaugeMetricFamily("zoosim_launch_visitors", "Visitors that count in a launch.", report.visitors)
        what = "New model less champion, per visitor."
        differences = GaugeMetricFamily("zoosim_launch_difference", what, labels=["reward", "role", "bound"])
        for metric in report.metrics:
            for bound in ("low", "difference", "high"):
                differences.add_metric([metric.reward, metric.role, bound], getattr(metric, bound))
        yield differences
        failed = GaugeMetricFamily("zoosim_launch_failed_check", "1 while a check fails.", labels=["check", "action"])
        for check in report.checks:
            failed.add_metric([check.check, check.action], 1)
        yield failed
