"""What the cases tell: how often the verdict trusts what is unsound, and refuses what is sound."""

from collections.abc import Sequence

import plotly.graph_objects as go

from studies.ope_verdict.measuring import SOUND, UNSOUND, Judged
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK
from zoosim.report.drawing import ACCENT, COLORS, MUTED, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

HALVES = {False: "for tuning", True: "held out"}
MOST_TRUSTED = 0.02
"""Share of unsound logs that may be trusted, at most."""

VERDICTS = (TRUST, WEAK, DO_NOT_USE)
TERMS = {
    "case": "A world, a logging policy, a target policy and a log size, drawn from the case's number alone: thin "
    "overlap, missing actions, users with many rows, drift, wrong propensities, long tails, features that tell half.",
    "sound": f"The 95% interval holds in at least {SOUND:.0%} of the case's logs; unsound: in fewer than "
    f"{UNSOUND:.0%}. With few logs some cases near those bounds are on the wrong side.",
    "held out": "Odd case numbers: no limit of the verdict was chosen on them.",
    "wanted": "trust on under 2% of the logs of unsound cases, do not use on under 10% of the logs of sound ones, and "
    "intervals that are trusted hold at least 93.5% of the time.",
}


def build_page(rows: Sequence[Judged]) -> Page:
    """Tell what was found."""
    logs, cases = max(row.logs for row in rows), len({row.case for row in rows})
    drawing = Drawing(
        "Verdict and coverage, case by case",
        "A dot is a case and an estimator: how often its interval holds, and on how many of its logs the verdict is "
        "trust. Dots on the left should lie at the bottom. Orange: held out.",
        _figure(rows),
    )
    tables = [_halves(rows, logs, cases), _faults(rows), _by_estimator(rows), _worst(rows)]
    return Page(answer(rows), tables, [drawing], TERMS, details=[_verdict(rows)])


def _share(part: int, whole: int) -> str:
    return "none" if not whole else f"{100 * part / whole:.1f}%"


def _counts(rows: Sequence[Judged], kind: str) -> tuple[int, int, int, int]:
    """Count the logs of cases of a kind, and those with each verdict."""
    own = [row for row in rows if row.kind == kind]
    sums = [sum(getattr(row, name) for row in own) for name in ("logs", "trust", "weak", "do_not_use")]
    return sums[0], sums[1], sums[2], sums[3]


def answer(rows: Sequence[Judged]) -> str:
    """Return whether to rely on the verdict, by the logs whose intervals do not hold."""
    logs, trusted, *_ = _counts([row for row in rows if row.held_out] or list(rows), "unsound")
    advice = "Rely" if trusted < MOST_TRUSTED * logs or not trusted else "Do not rely"
    return f"{advice} on the verdict trust: it is given to {_share(trusted, logs)} of unsound logs (wanted: under 2%)."


def _verdict(rows: Sequence[Judged]) -> str:
    own = [row for row in rows if row.held_out] or list(rows)
    unsound, sound = _counts(own, "unsound"), _counts(own, "sound")
    trusted = sum(row.trust for row in own)
    held = _share(sum(row.trusted_held for row in own), trusted)
    return (
        f"On held-out cases the verdict trusts {_share(unsound[1], unsound[0])} of the logs of unsound cases (wanted: "
        f"under 2%) and refuses {_share(sound[3], sound[0])} of the logs of sound ones (wanted: under 10%); intervals "
        f"that it trusts hold {held} of the time (wanted: 93.5%)."
    )


def _halves(rows: Sequence[Judged], logs: int, cases: int) -> PageTable:
    told = []
    for half, name in HALVES.items():
        own = [row for row in rows if row.held_out == half]
        for kind in ("sound", "between", "unsound"):
            count, *verdicts = _counts(own, kind)
            pairs = sum(row.kind == kind for row in own)
            told.append((name, kind, f"{pairs}", f"{count:,}", *(_share(verdict, count) for verdict in verdicts)))
    heads = ("half", "case is", "cases x estimators", "logs", *VERDICTS)
    return PageTable("Verdicts", heads, told, n_text=2, caption=f"{cases} cases, {logs} logs each.")


def _faults(rows: Sequence[Judged]) -> PageTable:
    told = []
    for half, name in HALVES.items():
        for faulty in (False, True):
            own = [row for row in rows if row.held_out == half and row.faulty == faulty]
            for kind in ("sound", "unsound"):
                count, *verdicts = _counts(own, kind)
                words = "at fault" if faulty else "without fault"
                told.append((name, words, kind, f"{count:,}", *(_share(verdict, count) for verdict in verdicts)))
    caption = (
        "At fault: recorded propensities are wrong, or the log lacks actions. An interval may hold in spite of it, "
        "because it is wide or the fault small; then the case counts as sound, and yet a warning is right."
    )
    return PageTable(
        "By fault of the log", ("half", "log", "case is", "logs", *VERDICTS), told, n_text=3, caption=caption
    )


def _by_estimator(rows: Sequence[Judged]) -> PageTable:
    told = []
    for half, name in HALVES.items():
        for estimator in dict.fromkeys(row.estimator for row in rows):
            own = [row for row in rows if row.held_out == half and row.estimator == estimator]
            unsound, sound = _counts(own, "unsound"), _counts(own, "sound")
            trusted = sum(row.trust for row in own)
            figures = (_share(unsound[1], unsound[0]), _share(sound[3], sound[0]))
            told.append((name, estimator, *figures, _share(sum(row.trusted_held for row in own), trusted)))
    heads = ("half", "estimator", "trust where unsound", "do not use where sound", "trusted intervals hold")
    return PageTable("By estimator", heads, told, n_text=2)


def _worst(rows: Sequence[Judged]) -> PageTable:
    """List the cases that the verdict gets wrong most often."""
    wrong = [(row.trust if row.kind == "unsound" else row.do_not_use * (row.kind == "sound"), row) for row in rows]
    worst = sorted((pair for pair in wrong if pair[0]), key=lambda pair: (-pair[0], pair[1].case))[:25]
    told = [
        (
            *(f"{row.case}", HALVES[row.held_out], row.estimator, row.words, f"{row.n:,}", f"{row.coverage:.0%}"),
            *(f"{100 * part / row.logs:.0f}%" for part in (row.trust, row.weak, row.do_not_use)),
        )
        for _, row in worst
    ]
    heads = ("case", "half", "estimator", "what it is", "rows", "coverage", *VERDICTS)
    return PageTable("Where verdict and coverage differ most", heads, told or [("none", *[""] * 8)], n_text=4)


def _figure(rows: Sequence[Judged]) -> go.Figure:
    figure = go.Figure(layout=layout_style(height=420, margin={"l": 64, "r": 24, "t": 12, "b": 54}))
    for half, color in ((False, ACCENT), (True, COLORS[1])):
        own = [row for row in rows if row.held_out == half]
        hover = [f"case {r.case}, {r.estimator}, {r.n:,} rows<br>{r.words}" for r in own]
        marker = {"color": color, "size": 8, "opacity": 0.6}
        places = {"x": [r.coverage for r in own], "y": [r.trust / r.logs for r in own]}
        figure.add_scatter(**places, mode="markers", marker=marker, text=hover, hovertemplate="%{text}<extra></extra>")
    for bound in (UNSOUND, SOUND):
        figure.add_vline(x=bound, line={"color": MUTED, "width": 1, "dash": "dot"})
    figure.update_xaxes(**axis_style(), tickformat=".0%", title_text="logs whose interval holds")
    figure.update_yaxes(**axis_style(), tickformat=".0%", range=[-0.04, 1.04], title_text="logs with trust")
    return figure
