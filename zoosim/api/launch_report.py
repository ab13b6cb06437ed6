"""Report on the launches of a served log, after the fact: effects, history, and what to do."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.calls import public_call
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import DataError
from zoosim.core.extras import needs_extra
from zoosim.core.files import write_text
from zoosim.core.tabular import TabularResult

if TYPE_CHECKING:
    import polars as pl

    from zoosim.core.tables import Table
    from zoosim.monitoring.effects import Effect
    from zoosim.monitoring.launch_plan import Plan
    from zoosim.serving.launches.ledger import LaunchEntry
    from zoosim.serving.served_log import ServedLog

DEFAULT_OUT = "runs/launched-{log}"
MOST_SEGMENTS, CLUSTERS = 8, 4
"""Segments of visitors that are told apart at most, and clusters where there are more patterns of features."""


@dataclass(frozen=True, repr=False)
class LaunchResult(TabularResult):
    """What came of a launch.

    Args:
        path: The folder of report.html and summary.json.
        source: What the log is called.
        name: What was launched: the arm's name, and the digest of its model.
        state: How the launch stands.
        entry: The launch, as the log tells of it.
        effects: Differences to the champion by reward, of all visitors and of segments.
        sentences: What to do, and what that rests on.
    """

    path: Path
    source: str
    name: str
    state: str
    entry: "LaunchEntry"
    effects: "Sequence[Effect]"
    sentences: Sequence[str]

    @property
    def verdict(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)

    @property
    def history(self) -> list[dict[str, Any]]:
        """The moves of the launch, the oldest first: when, its state and share, by whom, and why."""
        return [
            {
                "time": datetime.fromtimestamp(move.time / MICROSECONDS, UTC).isoformat(timespec="seconds"),
                "state": str(move.launch.state),
                "share": move.share,
                "who": move.who,
                "why": move.why or move.launch.reason,
            }
            for move in self.entry.moves
        ]

    @property
    def summary(self) -> dict[str, Any]:
        """All figures as plain values for JSON."""
        return {
            "schema_version": 1,
            "log": self.source,
            "launch": self.name,
            "state": self.state,
            "verdict": self.verdict,
            "effects": [_plain_effect(effect) for effect in self.effects],
            "history": self.history,
        }

    def to_polars(self) -> "pl.DataFrame":
        """Return the effects, a row per reward and segment."""
        import polars as pl

        return pl.DataFrame([_plain_effect(effect) for effect in self.effects])

    def _headline(self) -> str:
        return self.sentences[0]

    def _tables(self) -> "list[Table]":
        from zoosim.report.launch_report import effect_table, history_table

        return [effect_table(self).as_text(), history_table(self).as_text()]

    def _page(self) -> str:
        return self.page()

    def page(self) -> str:
        """Return the page."""
        from zoosim.report.launch_report import build_page
        from zoosim.report.sections import render_sections

        command = ["zoosim", "launch-report", self.source, "--out", str(self.path)]
        return render_sections("A launch, and what came of it", f"What came of {self.name}?", build_page(self), command)


def _plain_effect(effect: "Effect") -> dict[str, Any]:
    estimate = {name: value if value == value else None for name, value in effect.estimate._asdict().items()}
    counts = {"visitors": effect.visitors, "new": effect.new}
    return {"reward": effect.reward, "segment": effect.segment, **counts, **estimate}


@public_call
def launch_report(
    service: str | os.PathLike[str], *, launch: int | None = None, out: str | os.PathLike[str] | None = None
) -> LaunchResult:
    """Say what came of a launch, by the log of the service: effects by reward and segment, its history, what to do.

    Args:
        service: The folder of the service or the address of its log (`redis://...`); it may go on meanwhile.
        launch: The number of the launch, as the history of a service has it. Default: the newest.
        out: A folder that gets report.html and summary.json. Default: runs/launched-LOG.

    Raises:
        ConfigError: `out` cannot be written to, or the log is of something else than products.
        DataError: there is no log, or no such launch in it.
        StoreError: the server of the log does not answer.
    """
    needs_extra("launch-report", "serve")
    needs_extra("launch-report", "lab")
    from zoosim.api.logs import writable_folder
    from zoosim.core.action_space import PRODUCTS
    from zoosim.serving.launches.ledger import LaunchLedger
    from zoosim.serving.projection import rows_of
    from zoosim.serving.served_log import read_served_log
    from zoosim.serving.store.address import find_log, open_store

    address = find_log(service)
    if address is None:
        expected = "the folder of a service, or redis://HOST:PORT/DB?name=LOOP"
        raise DataError(f"launch-report: got {os.fspath(service)!r}, expected {expected}")
    served = read_served_log(address, action_space=PRODUCTS)
    weights = {} if served.log.fitted is None else served.log.fitted.weights
    ledger = LaunchLedger(lambda: weights)
    store = open_store(address, read_only=True)
    try:
        newest = store.last()
        for row in rows_of(store, until=0 if newest is None else newest.seq):
            ledger.apply(row)
    finally:
        store.close()
    entry = _chosen(ledger.finish(), launch, address.source)
    path = writable_folder(DEFAULT_OUT.format(log=Path(address.source).stem) if out is None else out, "launch")
    report = _report(served, entry, weights, path, address.source)
    write_text(path / "summary.json", json.dumps(report.summary, indent=1, allow_nan=False) + "\n")
    write_text(path / "report.html", report.page())
    return report


def _chosen(entries: "list[LaunchEntry]", number: int | None, source: str) -> "LaunchEntry":
    """Return the launch of a number, the newest by default; raises `DataError`."""
    if not entries:
        raise DataError(f"{source}: holds no launch; zoosim deploy launch MODEL.zoosim begins one")
    if number is None:
        return entries[-1]
    by_number = {entry.launch.number: entry for entry in entries}
    if number not in by_number:
        known = ", ".join(map(str, by_number))
        raise DataError(f"{source}: launch: got {number}, expected one of {known}")
    return by_number[number]


def _report(
    served: "ServedLog", entry: "LaunchEntry", weights: Mapping[str, float], path: Path, source: str
) -> LaunchResult:
    """Return what came of a launch."""
    from zoosim.monitoring.launch_advice import advice_after

    effects = _effects(served, entry, weights)
    launch = entry.launch
    sentence = "" if entry.report is None else entry.report.sentence
    sentences = advice_after(launch.arm, launch.state, launch.reason, sentence, effects)
    name = f"{launch.arm} ({launch.model[:8]})" if launch.model else launch.arm
    return LaunchResult(path, source, name, str(launch.state), entry, effects, sentences)


def _effects(served: "ServedLog", entry: "LaunchEntry", weights: Mapping[str, float]) -> "list[Effect]":
    """Return the effects on the objective and each reward, in all visitors and by segment."""
    import numpy as np

    from zoosim.monitoring.effects import effects_on
    from zoosim.monitoring.launch_plan import OBJECTIVE
    from zoosim.off_policy.groups import group_rows

    visitors = entry.visitors
    if not visitors:
        return []
    log = served.log
    groups = group_rows(log.features, MOST_SEGMENTS, CLUSTERS).named(log.features, log.visitor_features)
    # What sets a segment apart, where something does.
    names = [words or name for words, name in zip(groups.descriptions, groups.names, strict=True)]
    row_of = {decision_id: row for row, decision_id in enumerate(served.decision_ids)}
    rows = np.array([row_of.get(visitor.decision_id, -1) for visitor in visitors])
    # What the log cannot judge, such as what was pinned, counts of all visitors alone.
    segments = np.where(rows >= 0, groups.labels[rows], -1)
    is_new = np.array([visitor.is_new for visitor in visitors])
    share = np.array([visitor.share for visitor in visitors])
    plan = entry.launch.checked_plan()
    effects = []
    for name in [OBJECTIVE, *(name for name in weights if list(weights) != [name])]:
        earned = np.array([_earned(visitor.rewards, name, weights) for visitor in visitors])
        effects += effects_on(_reward(plan, name, earned), earned, is_new, share, segments, names)
    return effects


def _earned(rewards: Mapping[str, float], name: str, weights: Mapping[str, float]) -> float:
    from zoosim.monitoring.launch_plan import OBJECTIVE

    if name == OBJECTIVE:
        return sum(weights.get(each, 0.0) * value for each, value in sorted(rewards.items()))
    return float(rewards.get(name, 0.0))


def _reward(plan: "Plan", name: str, earned: Any) -> Any:
    """Return a reward with the range that the plan gives it, or the range of what came."""
    from zoosim.monitoring.difference import Reward

    for metric in plan.metrics:
        if metric.reward == name:
            return metric.metric.reward
    return Reward(name, min(float(earned.min()), 0.0), max(float(earned.max()), 1.0))
