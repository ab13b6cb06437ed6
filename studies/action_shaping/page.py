"""What the weights tell: a boost on litter matters for every query, twins do not, and a penalty tells them apart."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.action_shaping.weights import PENALTIES, QUERIES, TOP, VISITS, WEIGHTS, Chosen, Moved
from studies.figures import add_line, add_name
from studies.writing import interval_alone, written
from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

HINT = ("expected (lessons.md 7.6)", "0: the feature's value is 0", "", "to 0, perhaps", "to 0, perhaps", "", "")
TERMS = {
    "litter": "Queries for litter, and for other goods. The boost is the one on margin of strategic goods.",
    "twins": "Discount and discount x price taste, private label and private label x its taste: standardised within a "
    "request they are the same but for the sign, so half the difference of their boosts has no effect at all.",
    "idle": "The mean size of that half difference, in units of a_max. Boosts drawn anywhere have .33.",
    "penalty": "Times the sum of squares of the boosts in units of a_max, taken off the critic's value in the search. "
    "The critic's values are in units of a segment's rewards.",
    "left": f"Products that left the base ranker's top {TOP}.",
    "intervals": "95% over seeds, each with its own catalogue and visitors.",
}


def build_page(rows: Sequence[Moved | Chosen]) -> Page:
    """Tell what was found."""
    moves = [row for row in rows if isinstance(row, Moved)]
    picks = [row for row in rows if isinstance(row, Chosen)]
    drawings = [
        Drawing(
            "What a penalty does",
            "In units of a_max by penalty, with 95% intervals: the idle part of twins, which does nothing, and a tenth "
            "of the length of all boosts together.",
            penalty_figure(picks),
        )
    ]
    return Page(answer(picks), [_picks(picks), _moves(moves)], drawings, TERMS, details=[verdict(moves, picks)])


def answer(picks: Sequence[Chosen]) -> str:
    """Return whether to penalise boosts that do nothing."""
    penalty = PENALTIES[3]
    none, some = (mean_of(picks, "idle", each).mean for each in (PENALTIES[0], penalty))
    change = difference(picks, penalty)
    if some >= none or (change.high is not None and change.high < 0.0):
        return f"Leave the penalty on boosts out: one of {penalty:g} is not shown to help."
    return f"Penalise boosts: a penalty of {penalty:g} takes their idle part from {none:.2f} to {some:.2f} of a_max."


def verdict(moves: Sequence[Moved], picks: Sequence[Chosen]) -> str:
    """Say in a sentence or two what happens."""
    most = mean_interval([row.left for row in moves if (row.query, row.weight) == (QUERIES[1], WEIGHTS[-1])]).mean
    none, some = (mean_of(picks, "idle", penalty).mean for penalty in (PENALTIES[0], PENALTIES[3]))
    change = difference(picks, PENALTIES[3])
    return (
        f"The hint does not hold here: features are standardised over the whole catalogue, so a full boost on litter's "
        f"margin takes {most:.1f} of the top {TOP} away from queries for other goods. What truly does nothing are "
        f"twins: their idle part is {none:.2f} of a_max without a penalty and {some:.2f} "
        f"with one of {PENALTIES[3]:g}, which changes the reward by {change.mean:+.2f} EUR a visit, "
        f"{interval_alone(change, 2, sign=True)}."
    )


def mean_of(picks: Sequence[Chosen], field: str, penalty: float, query: str | None = None) -> Interval:
    """Return the mean of a field over seeds, of one kind of query or both."""
    own = [row for row in picks if row.penalty == penalty and query in (None, row.query)]
    seeds = dict.fromkeys(row.seed for row in own)
    return mean_interval([float(np.mean([getattr(row, field) for row in own if row.seed == seed])) for seed in seeds])


def difference(picks: Sequence[Chosen], penalty: float) -> Interval:
    """Return what a penalty adds to the reward, paired by seed and kind of query."""
    both = [{(r.seed, r.query): r.reward for r in picks if r.penalty == p} for p in (penalty, PENALTIES[0])]
    seeds = dict.fromkeys(seed for seed, _ in both[0])
    return mean_interval([float(np.mean([both[0][s, q] - both[1][s, q] for q in QUERIES])) for s in seeds])


def _picks(picks: Sequence[Chosen]) -> PageTable:
    heads = ("penalty", "litter, other queries", "litter, its queries", "spread", "idle twins", "length", "EUR a visit")
    rows: list[tuple[str, ...]] = [HINT]
    for penalty in PENALTIES:
        told = [mean_of(picks, "litter", penalty, query) for query in reversed(QUERIES)]
        told += [mean_of(picks, field, penalty) for field in ("spread", "idle", "length", "reward")]
        rows.append((f"{penalty:g}", *(written(mean, 2) for mean in told)))
    seeds = len({row.seed for row in picks})
    caption = f"What q-ensemble recommends after {VISITS:,} visits, in units of a_max; {seeds} seeds, 95% intervals."
    return PageTable("Boosts that a learner chooses, by penalty", heads, rows, caption=caption)


def _moves(moves: Sequence[Moved]) -> PageTable:
    heads = ("boost, of a_max", *(f"{what}, {query} queries" for query in QUERIES for what in ("left", "EUR")))
    rows = []
    for weight in WEIGHTS:
        own = [[row for row in moves if (row.query, row.weight) == (query, weight)] for query in QUERIES]
        told = [mean_interval([getattr(r, key) for r in part]) for part in own for key in ("left", "reward")]
        rows.append((f"{weight:g}", *(written(mean, 2) for mean in told)))
    return PageTable("The boost on litter's margin alone", heads, rows)


def penalty_figure(picks: Sequence[Chosen]) -> go.Figure:
    """Draw the idle part and the boost on litter at other queries by penalty."""
    figure = go.Figure(layout=layout_style(height=380, margin={"l": 64, "r": 190, "t": 24, "b": 54}))
    lines = {
        "idle part of twins": [mean_of(picks, "idle", penalty) for penalty in PENALTIES],
        "length of all boosts / 10": [_tenth(mean_of(picks, "length", penalty)) for penalty in PENALTIES],
    }
    for color, (name, means) in zip(COLORS, lines.items(), strict=False):
        add_line(figure, range(len(PENALTIES)), means, color, name, ".3f")
        add_name(figure, means[-1].mean, name, color)
    ticks = {"tickvals": list(range(len(PENALTIES))), "ticktext": [f"{penalty:g}" for penalty in PENALTIES]}
    figure.update_xaxes(**axis_style(), **ticks, title_text="penalty")
    figure.update_yaxes(**axis_style(), rangemode="tozero", title_text="in units of a_max")
    return figure


def _tenth(interval: Interval) -> Interval:
    mean, low, high = (None if value is None else value / 10.0 for value in interval)
    assert mean is not None
    return Interval(mean, low, high)
