"""What repeated logs tell: errors of each estimator, intervals that hold, and whether the verdict knows."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.ope_sessions.measuring import Judged
from studies.session_logs import FAR, NEAR
from zoosim.core.statistics import share_intervals
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

TERMS = {
    "log": "3,000 visitors of the world of sessions, followed to the end, by a bandit that shows what is clicked most "
    "now, and any kind in 30% of its decisions.",
    "near, far": "The same bandit with 15%; no teasers, with 30%, and the optimum over visitors' lives, with 10%.",
    "truth": "The exact clicks of a new visitor, by a linear system.",
    "bias, error": "Median and root mean square of value / truth - 1 over logs, in %.",
}


def build_page(rows: Sequence[Judged]) -> Page:
    """Tell what was found."""
    logs = max(row.logs for row in rows)
    drawing = Drawing(
        "How far off?",
        f"Error (root mean square) in % of the truth over {logs} logs, a color for each target.",
        _figure(rows),
    )
    details = [trusted_sentence(rows)]
    return Page(answer(rows), [_errors(rows), _verdicts(rows)], [drawing], TERMS, details=details)


def answer(rows: Sequence[Judged]) -> str:
    """Return whether to rely on the verdict."""
    far = sum(row.trust for row in rows if row.target in FAR)
    advice = "Do not rely" if far else "Rely"
    best = min((row for row in rows if row.target == NEAR), key=lambda row: row.error)
    nearest = f"the near one is {100 * best.error:.1f}% off ({best.estimator})"
    return f"{advice} on trust: {far} of the far estimates have it; {nearest}."


def trusted_sentence(rows: Sequence[Judged]) -> str:
    """Say how often intervals that are trusted hold."""
    near = [row for row in rows if row.target == NEAR and row.trust]
    parts = [f"{row.estimator} {_share(row.trusted_held, row.trust)} of {row.trust}" for row in near]
    total = _share(sum(row.trusted_held for row in near), sum(row.trust for row in near))
    far = [row for row in rows if row.target in FAR]
    refused = _share(sum(row.do_not_use for row in far), sum(row.logs for row in far))
    return (
        f"Trusted 95% intervals of the near target hold {total} of the time ({', '.join(parts) or 'none'}); of the far "
        f"ones {sum(row.trust for row in far)} estimates are trusted, and {refused} are do not use."
    )


def _share(part: int, whole: int) -> str:
    """Write a share in percent with its 95% interval (Wilson 1927)."""
    if not whole:
        return "none"
    low, high = share_intervals(np.array([part]), whole)
    return f"{100 * part / whole:.1f}% ({100 * low[0]:.1f} to {100 * high[0]:.1f})"


def _errors(rows: Sequence[Judged]) -> PageTable:
    cells = [
        (
            row.target,
            row.estimator,
            f"{row.truth:.2f}",
            f"{100 * row.bias:+.1f}",
            f"{100 * row.error:.1f}",
            f"{row.mean_weight:.2f}",
            f"{row.ess:,.0f}",
        )
        for row in rows
    ]
    heads = ("target", "estimator", "truth", "bias, %", "error, %", "mean weight", "least visitors")
    return PageTable("Errors", heads, cells, n_text=2)


def _verdicts(rows: Sequence[Judged]) -> PageTable:
    cells = [
        (
            row.target,
            row.estimator,
            _share(row.held, row.logs),
            f"{row.trust}",
            f"{row.weak}",
            f"{row.do_not_use}",
            _share(row.trusted_held, row.trust),
        )
        for row in rows
    ]
    heads = ("target", "estimator", "intervals that hold", TRUST, WEAK, DO_NOT_USE, "of trusted ones")
    return PageTable("Verdicts", heads, cells, n_text=2, printed=True)


def _figure(rows: Sequence[Judged]) -> go.Figure:
    figure = go.Figure(layout=layout_style(height=380, margin={"l": 170, "r": 24, "t": 12, "b": 54}))
    for number, target in enumerate((NEAR, *FAR)):
        own = [row for row in rows if row.target == target]
        marker = {"color": COLORS[number], "size": 9}
        errors = [100 * row.error for row in own]
        figure.add_scatter(x=errors, y=[row.estimator for row in own], mode="markers", marker=marker, name=target)
    figure.update_xaxes(**axis_style(), type="log", title_text="error, % of the truth")
    return figure
