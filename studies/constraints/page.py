"""What floors cost, and how near policies with multipliers come to the best that is possible."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.constraints.front import CM2, PRICES, STRATEGIC, FrontPoint
from studies.constraints.measuring import SETTINGS, VISITS, Course
from studies.rows import rows_where
from studies.writing import extremes, told
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS, MUTED, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

Rows = Sequence[FrontPoint | Course]

TITLES = {CM2: "CM2, EUR per visit", STRATEGIC: "strategic purchases per visit"}

CLOSE = 0.02
"""How far below its floor a quantity may be, as a share of it."""

TERMS = {
    "front": "The highest expected reward at each floor by the true model: for a grid of prices, the boosts of each "
    "segment that maximise reward + price x quantity, and mixtures of these. Policies set boosts for each visit, so "
    "that they may earn a little more.",
    "floor": "Of each catalogue half of the way from what its free optimum brings to the most on its front.",
    "of the floor": "The expected value of what the policy recommends, as a share of the floor.",
    "of the front": "Its expected reward as a share of that of the front at the floor; of policies without a floor, as "
    "a share of the free optimum's.",
    "fixed guardrail": "At most 3 products leave the base ranker's top 10 at each decision.",
    "intervals": "95% over catalogues.",
}


def build_page(rows: Rows) -> Page:
    """Build the page."""
    fronts = [row for row in rows if isinstance(row, FrontPoint)]
    courses = [row for row in rows if isinstance(row, Course)]
    drawings = [
        Drawing(
            f"Reward against {TITLES[quantity]}",
            "Means over catalogues of expected values. Line: the front; dots: what policies recommend after "
            f"{VISITS:,} visits; dotted: the mean floor.",
            front_figure(fronts, courses, quantity),
        )
        for quantity in PRICES
    ]
    return Page(answer(courses), [_policies(courses), _front(fronts)], drawings, TERMS, details=details(courses))


def answer(courses: Sequence[Course]) -> str:
    """Return how near floors are kept, and at which share of the possible reward."""
    constrained = [row for row in courses if row.quantity and row.setting.startswith("item-critic")]
    if not constrained:
        return "No floor of item-critic was measured."
    kept = mean_interval([row.kept for row in constrained]).mean
    share = mean_interval([row.share for row in constrained]).mean
    return f"After {VISITS:,} visits item-critic brings {kept:.1%} of its floors and {share:.1%} of the front's reward."


def details(courses: Sequence[Course]) -> list[str]:
    """Say at how many catalogues floors are kept, and what policies say of them."""
    sentences = []
    for name in SETTINGS:
        own = rows_where(courses, setting=name)
        if own and own[0].quantity:
            n_close = sum(row.kept >= 1.0 - CLOSE for row in own)
            n_met = sum(row.standing == "met" for row in own)
            sentences.append(
                f"{name}: at {n_close} of {len(own)} catalogues not more than {CLOSE:.0%} below the floor; the policy "
                f"itself calls it met at {n_met}."
            )
    return sentences


def _policies(courses: Sequence[Course]) -> PageTable:
    heads = (
        "policy",
        "EUR per visit",
        "CM2, EUR",
        "strategic",
        "left the top",
        "of the floor",
        "least to most",
        "of the front",
    )
    cells = []
    for name in SETTINGS:
        own = rows_where(courses, setting=name)
        if not own:
            continue
        means = [f"{np.mean([getattr(row, field) for row in own]):.2f}" for field in ("reward", "cm2", "strategic")]
        left = f"{np.mean([row.rank_change for row in own]):.1f}"
        kept = [row.kept for row in own] if own[0].quantity else []
        of_floor = (told(kept, 1, percent=True), extremes(kept, 0, percent=True)) if kept else ("", "")
        cells.append((name, *means, left, *of_floor, told([row.share for row in own], 1, percent=True)))
    n_seeds = len({row.seed for row in courses})
    caption = f"Expected values of what is recommended after {VISITS:,} visits, {n_seeds} catalogues; 95% intervals."
    return PageTable("Policies beside the front", heads, cells, caption=caption)


def _front(fronts: Sequence[FrontPoint]) -> PageTable:
    cells = []
    for quantity, price in _places(fronts):
        own = rows_where(fronts, quantity=quantity, price=price)
        means = [f"{np.mean([getattr(row, field) for row in own]):.2f}" for field in ("reward", "cm2", "strategic")]
        cells.append((f"{price:g} EUR per {quantity}" if quantity else "free optimum", *means))
    return PageTable(
        "The front", ("price", "EUR per visit", "CM2, EUR", "strategic"), cells, caption="Means over catalogues."
    )


def _places(fronts: Sequence[FrontPoint]) -> list[tuple[str, float]]:
    return list(dict.fromkeys((row.quantity, row.price) for row in fronts))


def front_figure(fronts: Sequence[FrontPoint], courses: Sequence[Course], quantity: str) -> go.Figure:
    """Draw the front of a quantity, and the policies beside it."""
    figure = go.Figure(layout=layout_style(height=420, margin={"l": 64, "r": 30, "t": 24, "b": 54}))
    points = []
    for place in _places(fronts):
        if place[0] in ("", quantity):
            own = rows_where(fronts, quantity=place[0], price=place[1])
            points.append(tuple(float(np.mean([getattr(row, field) for row in own])) for field in (quantity, "reward")))
    x, y = zip(*sorted(points), strict=True)
    line = {"mode": "lines+markers", "line": {"color": MUTED, "width": 2}, "marker": {"size": 5}}
    figure.add_scatter(x=x, y=y, name="front", hovertemplate="front: %{x:.2f}, EUR %{y:.2f}<extra></extra>", **line)
    floors = [row.floor for row in courses if row.quantity == quantity]
    if floors:
        figure.add_vline(x=float(np.mean(floors)), line={"color": MUTED, "width": 1, "dash": "dot"})
    for color, name in zip(COLORS, SETTINGS, strict=False):
        measured = rows_where(courses, setting=name)
        if measured and measured[0].quantity in ("", quantity):
            means = [float(np.mean([getattr(row, field) for row in measured])) for field in (quantity, "reward")]
            hover = f"{name}: %{{x:.2f}}, EUR %{{y:.2f}}<extra></extra>"
            dot = {"mode": "markers", "marker": {"color": color, "size": 10}}
            figure.add_scatter(x=means[:1], y=means[1:], name=name, hovertemplate=hover, **dot)
    figure.update_layout(showlegend=True)
    figure.update_xaxes(**axis_style(), title_text=TITLES[quantity])
    figure.update_yaxes(**axis_style(), title_text="EUR per visit")
    return figure
