"""False alarms, events until a drop is found, and what was said of them beforehand."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from scipy import stats

from studies.figures import add_interval, rows_figure
from studies.guardrails.measuring import (
    BETTING,
    DROP,
    LATE,
    LEVEL,
    METHODS,
    RAMP_PART,
    RATES,
    REDUCED,
    SHARES,
    Run,
    false_alarms,
    fixed_events,
    variance_of,
)
from studies.guardrails.streams import SWING, explained
from zoosim.core.statistics import Interval, share_intervals
from zoosim.monitoring import events_needed
from zoosim.report.drawing import COLORS
from zoosim.report.sections import Drawing, Page, PageTable

TERMS = {
    "betting": "The package's test (`zoosim.monitoring.DifferenceTest`), set to find a drop of 20%, at a level of 1%.",
    "variance reduced": "The same with a prediction and a stratum of each event, known before the arm was drawn.",
    "GrowthBook": "Its sequential interval, an asymptotic confidence sequence (Waudby-Smith et al., 2103.06476), "
    "one-sided at the same level; tuned to 5,000 events, as by default, or to the events of the fixed test.",
    "fixed test": "One look after a number of events chosen beforehand, at the same level, which finds the drop in "
    "half of all cases.",
    "ramp": "The new policy's share grows from 10% to 90% in five steps.",
}


def build_page(rows: Sequence[Run]) -> Page:
    """Build the page."""
    drawing = Drawing(
        "How many times the events of a fixed test?",
        f"Median events until a drop of {DROP:.0%} is found, with 95% intervals.",
        _figure(rows),
    )
    tables = [_alarms(rows), _detections(rows), _said_beforehand(rows), _late(rows)]
    return Page(answer(rows), tables, [drawing], TERMS)


def answer(rows: Sequence[Run]) -> str:
    """Return the main figures, at a click rate of 10% and a holdback of 10%."""
    alarms, runs = false_alarms(rows, "10% holdback", BETTING)
    plain = _times(rows, 0.1, "10% holdback", BETTING)
    reduced = _times(rows, 0.1, "10% holdback", REDUCED)
    return (
        f"{alarms} of {runs} runs alarm falsely; a drop is found after {plain.mean:.2f} times the events of a fixed "
        f"test, {reduced.mean:.2f} with less variance."
    )


def median(values: Sequence[float]) -> Interval:
    """Return the median with a 95% interval from the order of the values, which assumes nothing of them."""
    ordered = np.sort(np.asarray(values, float))
    place = int(stats.binom.ppf(0.025, len(ordered), 0.5))
    if place < 1:
        return Interval(float(np.median(ordered)), None, None)
    return Interval(float(np.median(ordered)), float(ordered[place - 1]), float(ordered[-place]))


def found_after(rows: Sequence[Run], rate: float, shares: str, method: str, harmless: int = 0) -> list[float]:
    """Return the events from a drop to its finding, infinity where it was not found; alarms before it are left out."""
    here = [
        row
        for row in rows
        if row.drop > 0.0 and (row.rate, row.shares, row.method, row.harmless) == (rate, shares, method, harmless)
    ]
    found = [row.found_at - harmless if row.found_at else float("inf") for row in here]
    return [events for events in found if events > 0]


def _times(rows: Sequence[Run], rate: float, shares: str, method: str) -> Interval:
    """Return the median in units of the fixed test."""
    fixed = fixed_events(rate, SHARES[shares])
    return median([events / fixed for events in found_after(rows, rate, shares, method)])


def _text(interval: Interval, digits: int) -> str:
    ends = "" if interval.low is None else f" ({interval.low:,.{digits}f}\N{EN DASH}{interval.high:,.{digits}f})"
    return f"{interval.mean:,.{digits}f}{ends}"


def _alarms(rows: Sequence[Run]) -> PageTable:
    cells = []
    names = [*SHARES, "ramp"]
    for method in METHODS:
        line = [method]
        for name in names:
            alarms, runs = false_alarms(rows, name, method)
            low, high = share_intervals(np.array([alarms]), runs)
            line.append(f"{alarms} of {runs} ({100 * low[0]:.1f}\N{EN DASH}{100 * high[0]:.1f}%)")
        cells.append(line)
    events = max(row.events for row in rows if row.drop == 0.0)
    caption = (
        f"Runs of {events:,} events, {events // RAMP_PART:,} in a ramp, without a difference in which a drop was "
        f"found, with 95% intervals of the part. Click rate 10%, {SWING:.0%} more or less by the hour."
    )
    return PageTable("False alarms", ("test", *names), cells, caption=caption, printed=True)


def _detections(rows: Sequence[Run]) -> PageTable:
    cells = []
    for name, share in SHARES.items():
        for rate in RATES:
            fixed = fixed_events(rate, share)
            plain = median(found_after(rows, rate, name, BETTING))
            times = [_text(_times(rows, rate, name, method), 2) for method in METHODS]
            cells.append((name, f"{rate:g}", f"{fixed:,.0f}", _text(plain, 0), *times))
    heads = ("shares", "click rate", "events of the fixed test", "betting: events", *(f"{m}: times" for m in METHODS))
    parts = ", ".join(f"{explained(rate):.0%}" for rate in RATES)
    caption = (
        f"Median events until a drop of {DROP:.0%} is found that is there from the start, and how many times those of "
        f"the fixed test; in brackets 95% intervals. Prediction and stratum explain {parts} of the variance of clicks."
    )
    return PageTable(f"Events until a drop of {DROP:.0%} is found", heads, cells, 2, caption, printed=True)


def _said_beforehand(rows: Sequence[Run]) -> PageTable:
    cells = []
    for name, share in SHARES.items():
        for rate in RATES:
            events = found_after(rows, rate, name, BETTING)
            line = [name, f"{rate:g}"]
            for power in (0.5, 0.8):
                said = events_needed(DROP * rate, variance_of(rate, share), share, LEVEL, power=power)
                measured = float(np.quantile(events, power))
                line += [f"{said:,.0f}", f"{measured:,.0f}", f"{100 * (said / measured - 1):+.0f}%"]
            cells.append(line)
    heads = ("shares", "click rate", *(f"{p}: {w}" for p in ("half", "80%") for w in ("said", "measured", "error")))
    caption = "Events after which a half, and 80%, of the drops are found: what `events_needed` says, and what came."
    return PageTable("Said beforehand", heads, cells, 2, caption, printed=True)


def _late(rows: Sequence[Run]) -> PageTable:
    cells = []
    for harmless in (0, *LATE):
        medians = [_text(median(found_after(rows, 0.1, "10% holdback", m, harmless)), 0) for m in METHODS]
        cells.append((f"{harmless:,}", *medians))
    caption = (
        f"Median events from a drop of {DROP:.0%} to its finding, with 95% intervals; click rate 10%, 10% holdback."
    )
    return PageTable("A drop that comes late", ("harmless events", *METHODS), cells, 1, caption, printed=True)


def _figure(rows: Sequence[Run]) -> go.Figure:
    labels = [f"{rate:g}, {name}" for name in SHARES for rate in RATES]
    figure = rows_figure(labels, "times the events of the fixed test")
    for index, method in enumerate(METHODS):
        places = [(name, rate) for name in SHARES for rate in RATES]
        for place, (name, rate) in enumerate(places):
            times = _times(rows, rate, name, method)
            add_interval(figure, times, place + 0.15 * (index - 1.5), COLORS[index], f"{method}: {times.mean:.2f}")
    return figure
