"""What picks tell: promise against earnings by critic, the printed table (docs/lessons.md 7.5.1) beside ours."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_interval, add_mark, add_seeds, rows_figure
from studies.overestimation.critics import CRITICS, DOUBT, HALVES, MEAN, MINIMUM, SINGLE
from studies.overestimation.picks import JUDGED, LONG, OWN, RANDOM, RANDOM_ROUNDS, ROUND, ROUNDS, Pick
from studies.rows import values_where
from studies.writing import told
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS, MUTED, panel_of, panels
from zoosim.report.sections import Drawing, Page, PageTable

PRINTED = {SINGLE: ("+2.8", "3.1", "+12.4"), MEAN: ("+0.4", "1.2", "+4.2"), MINIMUM: ("-0.3", "1.5", "-3.8")}
"""Mean error, mean size of the error and largest error, as printed (docs/lessons.md 7.5.1)."""

ENOUGH = 0.05
TERMS = {
    "promised, earned": f"What a critic says that the boosts it picks will earn, and what they earn in expectation by "
    f"the shop's own truth: EUR a visit, over {JUDGED} visitors that it has not seen.",
    "error": "Promised less earned; its mean, its mean size, and the largest of a visitor.",
    "spread": "The standard deviation of expected reward over visitors under random boosts.",
    "printed (lessons.md 7.5.1)": "Printed errors are against single rewards of another simulator: their signs and "
    "order can be compared, their sizes hardly.",
    SINGLE: "One network of 64 and 64 units.",
    MEAN: "The mean of five; " + MINIMUM + ": the lowest of five at each action (TD3); " + DOUBT + ": the mean less "
    "one standard deviation over members.",
    HALVES: "One ensemble picks that has seen half of the visits; one that has seen the others says what it is worth.",
    OWN: f"{ROUNDS * ROUND:,} visits of a shop of 1,000 products, {RANDOM_ROUNDS * ROUND:,} under random boosts, then "
    f"rounds of {ROUND} under what the critic picks itself by gradient ascent from 8 starts.",
    RANDOM: f"{ROUNDS * ROUND:,} visits under random boosts, {LONG} epochs.",
    "intervals": "95% over seeds (Student's t), each with its own catalogue, visitors and first weights.",
}


def build_page(rows: Sequence[Pick]) -> Page:
    """Tell what was found."""
    drawings = [
        Drawing(
            "By how much are picks overrated?",
            "Error over spread after learning from own picks: right of 0 a critic promises too much. Pale: a seed "
            "each. Full: their mean with its 95% interval. Dotted: 5% of the spread either way.",
            share_figure(rows),
        ),
        Drawing(
            "What is promised, and what is earned",
            "EUR a visit, mean over seeds with 95% intervals. Orange: what a critic promises for its picks. Blue: what "
            "they earn. Left: it has learned from its own picks too; right: from random boosts alone.",
            promise_figure(rows),
        ),
    ]
    return Page(answer(rows), [_own(rows), _random(rows)], drawings, TERMS, details=[verdict(rows)])


def figures(rows: Sequence[Pick], critic: str, learned: str, key: str) -> list[float]:
    """Return a figure of a critic, one a seed."""
    return values_where(rows, key, critic=critic, learned=learned)


def answer(rows: Sequence[Pick]) -> str:
    """Return the critic that promises nearest to what its picks earn."""
    share = {critic: mean_interval(figures(rows, critic, OWN, "share")).mean for critic in CRITICS}
    best = min(CRITICS, key=lambda critic: abs(share[critic]))
    return f"Use {best}: its own picks earn within {100 * abs(share[best]):.0f}% of the spread of what it promises."


def verdict(rows: Sequence[Pick]) -> str:
    """Say in a sentence or two by how much, and which critic to take."""
    share = {critic: mean_interval(figures(rows, critic, OWN, "share")).mean for critic in CRITICS}
    honest = [f"{critic} ({100 * share[critic]:+.0f}%)" for critic in CRITICS if abs(share[critic]) <= ENOUGH]
    alone = [mean_interval(figures(rows, critic, RANDOM, "share")).mean for critic in CRITICS]
    within = f"Within 5% are: {', '.join(honest)}." if honest else "None is within 5%."
    return (
        f"A single network overrates its own picks by {100 * share[SINGLE]:.0f}% of the spread over visitors, the mean "
        f"of five by {100 * share[MEAN]:.0f}%. {within} Learned from random boosts alone, all overrate their picks, by "
        f"{100 * min(alone):.0f} to {100 * max(alone):.0f}%: there is little data where they look."
    )


def _own(rows: Sequence[Pick]) -> PageTable:
    compared = ("error", "printed", "mean size", "printed", "largest", "printed")
    heads = ("critic", "promised", "earned", *compared, "of spread")
    found = []
    for critic in CRITICS:
        printed = PRINTED.get(critic, ("", "", ""))
        pair = (f"{np.mean(figures(rows, critic, OWN, key)):.1f}" for key in ("promised", "earned"))
        error, share = (figures(rows, critic, OWN, key) for key in ("error", "share"))
        size, largest = (f"{np.mean(figures(rows, critic, OWN, key)):.1f}" for key in ("size", "largest"))
        sizes = size, printed[1], largest, printed[2]
        of_spread = told(share, 0, percent=True, sign=True)
        found.append((critic, *pair, told(error, 1, sign=True), printed[0], *sizes, of_spread))
    return PageTable("Learned from its own picks", heads, found, caption=_caption(rows))


def _random(rows: Sequence[Pick]) -> PageTable:
    found = []
    for critic in CRITICS:
        pair = (told(figures(rows, critic, RANDOM, key), 1) for key in ("promised", "earned"))
        error, share = (figures(rows, critic, RANDOM, key) for key in ("error", "share"))
        found.append((critic, *pair, told(error, 1, sign=True), told(share, 0, percent=True, sign=True)))
    heads = ("critic", "promised", "earned", "error", "of spread")
    return PageTable("Learned from random boosts alone", heads, found, caption=_caption(rows))


def _caption(rows: Sequence[Pick]) -> str:
    spread = figures(rows, SINGLE, OWN, "spread")
    return f"EUR a visit, {len(spread)} seeds; in brackets 95% intervals. The spread is {told(spread, 1)}."


def share_figure(rows: Sequence[Pick]) -> go.Figure:
    """Draw error over spread of each critic."""
    figure = rows_figure(CRITICS, "error, in units of the spread over visitors")
    for row, (critic, color) in enumerate(zip(CRITICS, COLORS, strict=False)):
        add_seeds(figure, figures(rows, critic, OWN, "share"), row, color, critic, ".0%")
    for x, words in ((-ENOUGH, "-5%  "), (ENOUGH, "  +5%")):
        add_mark(figure, x, words)
    figure.add_vline(x=0.0, line={"color": MUTED, "width": 1})
    figure.update_xaxes(tickformat=".0%")
    return figure


def promise_figure(rows: Sequence[Pick]) -> go.Figure:
    """Draw promise and earnings, a panel a way of learning."""
    figure = panels(CRITICS, [f"learned from {learned}" for learned in (OWN, RANDOM)], across=2)
    for number, learned in enumerate((OWN, RANDOM)):
        for row, critic in enumerate(CRITICS):
            for key, color, shift in (("promised", COLORS[1], -0.14), ("earned", COLORS[0], 0.14)):
                mean = mean_interval(figures(rows, critic, learned, key))
                hover = f"{critic}, {key}: %{{x:.1f}} EUR"
                add_interval(figure, mean, row + shift, color, hover, place=panel_of(number, 2, 2))
    figure.update_xaxes(title_text="EUR a visit")
    return figure
