"""The page of the study: what half and twice each parameter are worth, paired by shop."""

from collections.abc import Sequence

import numpy as np

from studies.figures import add_interval, rows_figure
from studies.parameter_sensitivity.runs import DEFAULTS, Tried
from studies.rows import rows_where
from studies.writing import told
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS
from zoosim.report.sections import Drawing, Page, PageTable

POINT = 1.0
TERMS = {
    "difference": "% of oracle with this value less that with all defaults, in the same shop; in points.",
    "intervals": "In brackets, 95% over shops (Student's t), not corrected for the number of values.",
}


def build_page(rows: Sequence[Tried]) -> Page:
    """Tell whether a parameter matters."""
    policy = rows[0].policy
    defaults = {row.seed: row.percent for row in rows_where(rows, parameter=DEFAULTS)}
    tried = dict.fromkeys((row.parameter, row.value) for row in rows if row.parameter != DEFAULTS)
    differences = {
        setting: [row.percent - defaults[row.seed] for row in rows_where(rows, parameter=setting[0], value=setting[1])]
        for setting in tried
    }
    heads = ("parameter", "value", "difference, points", "worst shop", "best shop")
    cells = [
        (name, f"{value:g}", told(values, 2, sign=True), f"{min(values):+.1f}", f"{max(values):+.1f}")
        for (name, value), values in differences.items()
    ]
    mean = told(list(defaults.values()), 1)
    caption = f"With its defaults {policy} has {mean}% of oracle in {len(defaults)} shops."
    table = PageTable(
        f"{policy}: each parameter halved and doubled, {len(defaults)} shops", heads, cells, caption=caption
    )
    labels = [f"{name} {value:g}" for name, value in differences]
    figure = rows_figure(labels, "points of oracle, against the defaults", row=30)
    for place, (label, values) in enumerate(zip(labels, differences.values(), strict=True)):
        interval = mean_interval(values)
        add_interval(figure, interval, place, COLORS[0], f"{label}: {interval.mean:+.2f}")
    drawing = Drawing("What is another value worth?", "Mean and 95% interval over shops.", figure)
    return Page(answer(policy, differences), [table], [drawing], TERMS, details=[verdict(differences)])


def answer(policy: str, differences: dict[tuple[str, float], list[float]]) -> str:
    """Return whether to keep the defaults."""
    means = {f"{name}={value:g}": float(np.mean(values)) for (name, value), values in differences.items()}
    best = max(means, key=lambda label: means[label])
    if means[best] <= POINT:
        return f"Keep the defaults of {policy}: no value of the {len(means)} tried is better by more than a point."
    return f"Try {best} for {policy}: it is {means[best]:.1f} points better than the default in the mean."


def verdict(differences: dict[tuple[str, float], list[float]]) -> str:
    """Say which values differ by a point or more, or might."""
    intervals = {f"{name} {value:g}": mean_interval(values) for (name, value), values in differences.items()}
    better = [label for label, interval in intervals.items() if interval.mean > POINT]
    worse = [label for label, interval in intervals.items() if interval.mean < -POINT]
    open_ones = [
        label
        for label, interval in intervals.items()
        if label not in better + worse
        and (interval.low is None or interval.high is None or max(-interval.low, interval.high) > POINT)
    ]
    parts = [
        (better, "Better by more than a point in the mean"),
        (worse, "Worse by more than a point in the mean"),
        (open_ones, "Intervals reach beyond a point"),
    ]
    said = [f"{what}: {', '.join(labels)}." for labels, what in parts if labels]
    no_better = "" if better else "No value is better than the default by more than a point, in the mean."
    return " ".join(filter(None, [no_better, *said]))
