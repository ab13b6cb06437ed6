"""Figures of several loops for Prometheus: those of each, with its name as a label."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from zoosim.serving.loops.loops import Loops

LABEL = "loop"


class LoopsMetrics:
    """Figures of the loops of a service."""

    def __init__(self, loops: Loops) -> None:
        self._loops = loops
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all figures."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the figures of all loops, each kind once."""
        answers = GaugeMetricFamily("zoosim_loop_up", "1 while a loop answers.", labels=[LABEL])
        for name in self._loops.failed:
            answers.add_metric([name], 0)
        families: dict[str, Metric] = {}
        for name, running in self._loops.running.items():
            answers.add_metric([name], 1)
            for family in running.metrics.families():
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                merged.samples += [sample._replace(labels={LABEL: name, **sample.labels}) for sample in family.samples]
        yield answers
        yield from families.values()
