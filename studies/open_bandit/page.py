"""What the real logs tell, and what they cannot: values with intervals, verdicts and their reasons."""

from collections.abc import Sequence

import plotly.graph_objects as go

from studies.figures import add_interval, rows_figure
from studies.open_bandit.judging import Told
from zoosim.core.statistics import Interval
from zoosim.off_policy.verdict import TRUST
from zoosim.report.drawing import MUTED
from zoosim.report.evaluation_figures import VERDICT_KEY, VERDICT_STYLES
from zoosim.report.sections import Drawing, Page, PageTable

TERMS = {
    "log": "random wrote half of the logs, choosing at random; bts, Bernoulli Thompson sampling, the others. Each log "
    "judges the policy that did not write it.",
    "ratio": "The value over what the log's own choices earned. For random/all and ips it is 1.198126 in the small "
    "version of the data, as published.",
    "played": "What the policy earned in the log that it wrote itself, over the same days: the only check there is. "
    "It is as uncertain as the clicks are few.",
    "weights": "How much more likely the policy makes a logged choice than the log's author did; the mean should be 1.",
}


def build_page(rows: Sequence[Told]) -> Page:
    """Return the page of all estimates."""
    caption = (
        f"Clicks per visit, with 95% intervals. {VERDICT_KEY} Squares: what the policy earned where it made the "
        "choices itself."
    )
    return Page(
        answer(rows),
        [_values(rows), _checks(rows), _reasons(rows)],
        [Drawing("Values", caption, _figure(rows))],
        TERMS,
        details=[_verdict(rows)],
    )


def answer(rows: Sequence[Told]) -> str:
    """Return how many estimates can be relied on."""
    trusted = sum(row.verdict == TRUST for row in rows)
    if not trusted:
        return f"Rely on none of the {len(rows)} estimates: the table of reasons says why."
    return f"Rely on {trusted} of {len(rows)} estimates, those with the verdict trust; the others have their reasons."


def _verdict(rows: Sequence[Told]) -> str:
    """Say for each log what ips makes of it, and the gravest reason."""
    clauses = []
    for row in rows:
        if row.estimator == "ips":
            why = f" ({row.reasons[0]})" if row.reasons else ""
            clauses.append(f"{row.log} to {row.policy}: ratio {row.ratio:.6g}, {row.verdict}{why}")
    return f"{'; '.join(clauses)}."


def _range(low: float | None, high: float | None, scale: float = 1.0) -> str:
    ends = ["open" if end is None else f"{scale * end:.2f}" for end in (low, high)]
    return " to ".join(ends)


def _in_hundreds(value: float | None, low: float | None, high: float | None, sign: str = "") -> str:
    """Write a mean per hundred visits with its interval; nothing where there is none."""
    return "" if value is None else f"{100 * value:{sign}.2f} ({_range(low, high, 100.0)})"


def _values(rows: Sequence[Told]) -> PageTable:
    cells = [
        (
            *(row.log, row.policy, row.estimator, row.verdict, f"{100 * row.value:.3f}"),
            *(_range(row.low, row.high, 100.0), f"{row.ratio:.6f}", f"{row.mean_weight:.2f}", f"{row.max_weight:,.0f}"),
        )
        for row in rows
    ]
    heads = ("log", "policy", "estimator", "verdict", "value", "interval", "ratio", "mean weight", "largest")
    return PageTable("Values", heads, cells, n_text=4, caption="Values and intervals in clicks a hundred visits.")


def _checks(rows: Sequence[Told]) -> PageTable:
    """Set the values beside the logged choices, and beside what the policy earned where it chose itself."""
    cells = [
        (
            *(row.log, row.policy, row.estimator, f"{row.rows:,}", f"{row.clicks:,}", f"{row.ess:,.0f}"),
            _in_hundreds(row.difference, row.difference_low, row.difference_high, "+"),
            _in_hundreds(row.value, row.low, row.high),
            _in_hundreds(row.played, row.played_low, row.played_high),
        )
        for row in rows
    ]
    heads = ("log", "policy", "estimator", "rows", "clicks", "effective rows", "less logged", "value", "played")
    caption = "In clicks a hundred visits, with 95% intervals; less logged: on the same rows."
    return PageTable(
        "Beside the logged choices, and where the policy chose itself", heads, cells, n_text=3, caption=caption
    )


def _reasons(rows: Sequence[Told]) -> PageTable:
    estimators_of: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for reason in row.reasons:
            estimators_of.setdefault((row.log, row.policy, reason), []).append(row.estimator)
    cells = [(log, policy, reason, ", ".join(names)) for (log, policy, reason), names in estimators_of.items()]
    nothing = [("all", "", "nothing speaks against the estimates", "")]
    return PageTable("Reasons", ("log", "policy", "reason", "estimators"), cells or nothing, n_text=4)


def _figure(rows: Sequence[Told]) -> go.Figure:
    labels = [f"{row.log} to {row.policy}, {row.estimator}" for row in rows]
    figure = rows_figure(labels, "clicks a visit", row=26)
    for place, row in enumerate(rows):
        color, symbol = VERDICT_STYLES[row.verdict]
        value = Interval(row.value, row.low, row.high)
        hover = f"{labels[place]}<br>{row.verdict}<br>{_shares(value)}"
        add_interval(figure, value, place, color, hover, symbol=symbol)
        if row.played is not None:
            played = Interval(row.played, row.played_low, row.played_high)
            hover = f"{row.policy} where it chose itself<br>{_shares(played)}"
            add_interval(figure, played, place + 0.3, MUTED, hover, symbol="square-open")
    figure.update_xaxes(tickformat=".2%", rangemode="tozero")
    return figure


def _shares(interval: Interval) -> str:
    low, high = ("open" if end is None else f"{end:.3%}" for end in (interval.low, interval.high))
    return f"{interval.mean:.3%} ({low} to {high})"
