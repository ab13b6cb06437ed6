"""The page that describes a search world: catalogue, users, behaviour by position, and how boosts move a ranking."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from zoosim.core.statistics import share_intervals
from zoosim.core.types import IntArray
from zoosim.descriptions.search import PositionFacts, SearchDescription
from zoosim.descriptions.spread import Spread
from zoosim.descriptions.visit import BOOSTED, REPLICATES, VisitRanking
from zoosim.report.drawing import (
    ACCENT,
    COLORS,
    INK,
    NAME,
    axis_style,
    escaped,
    label_of,
    layout_style,
    legend_style,
    rgba,
    row_axis_style,
)
from zoosim.report.rendering import render
from zoosim.report.shades import column_axis, column_room, row_room, shades

SHOP = "shop"
HIDDEN = "hidden"
BOTH = "both"
WORDS = {
    "prices": (
        "Price and margin by category",
        SHOP,
        "EUR. The box holds the middle half of a category's products with the median inside; whiskers reach from the "
        "5th to the 95th percentile. CM2 is the margin after marketing; left of the line a sale loses money.",
    ),
    "tastes": (
        "Tastes by segment",
        HIDDEN,
        "How much users like high prices and private labels; left of the line they avoid them. Boxes as above. A "
        "policy sees the segment, and with rich features an estimate: shrunk by .7, rounded to .5, cut at 3.",
    ),
    "categories": (
        "What segments look for",
        HIDDEN,
        "The mean probability that a query of the segment is for the category.",
    ),
    "positions": (
        "What visitors do at each position, by query type",
        BOTH,
        "Shares of all visits, on the base ranker's own ranking; bands are 95% intervals. Clicks and purchases are "
        "logged; which positions were looked at is not.",
    ),
    "ladder": (
        f"The same visit under growing weight on {BOOSTED}",
        BOTH,
        "Each column is a ranking, best on top; figures in the dots are prices in EUR, colours are categories, lines "
        "follow a product from one ranking to the next. Above, what the ranking earns in expectation with its 95% "
        "interval, which only the simulator knows.",
    ),
    "templates": (
        "The same visit under each template",
        BOTH,
        "Columns, figures, colours and expected rewards as before.",
    ),
}


def search_figures(world: SearchDescription) -> dict[str, go.Figure]:
    """Draw 'prices', 'tastes', 'categories', 'positions', 'ladder' and 'templates'."""
    categories = world.categories
    segments = world.segments
    prices = {"price, EUR": [c.price for c in categories], "CM2, EUR": [c.cm2 for c in categories]}
    tastes = {"price taste": [s.price for s in segments], "private-label taste": [s.label for s in segments]}
    colors = _category_colors(world)
    return {
        "prices": _boxes([c.name for c in categories], prices),
        "tastes": _boxes([s.name for s in segments], tastes),
        "categories": _categories(world),
        "positions": _positions(world.positions),
        "ladder": _rankings(world.example.ladder, colors, f"weight on {BOOSTED}, of at most {world.config.a_max:g}"),
        "templates": _rankings(world.example.templates, colors, "template", linked=False),
    }


def render_search(
    world: SearchDescription, figures: Mapping[str, go.Figure], title: str, command: str, config_yaml: str
) -> str:
    """Render one self-contained HTML page."""
    return render(
        "search.html",
        figures,
        title=title,
        question="A simulated search shop: its catalogue, its users, what they do with a ranking, and what boosts do.",
        answer=world.answer,
        world=world,
        example=world.example,
        config=world.config,
        places={key: (key, *WORDS[key], int(figure.layout.height)) for key, figure in figures.items()},
        replicates=REPLICATES,
        command=command,
        config_yaml=config_yaml,
    )


def _category_colors(world: SearchDescription) -> dict[str, str]:
    return dict(zip(world.config.categories, itertools.cycle(COLORS), strict=False))


def _boxes(names: Sequence[str], panels: Mapping[str, Sequence[Spread]]) -> go.Figure:
    """Draw a panel for each measure, one below the other, with a box for each name."""
    count = len(panels)
    inner = 30 * len(names)
    height = count * inner + 70 * (count - 1)
    gap = 70
    figure = make_subplots(count, 1, vertical_spacing=gap / height if count > 1 else None)
    figure.update_layout(**layout_style(height=height + 66, margin={"l": row_room(names), "r": 16, "t": 12, "b": 44}))
    for row, (title, spreads) in enumerate(panels.items(), start=1):
        for place, (name, spread) in enumerate(zip(names, spreads, strict=True)):
            _add_box(figure, name, spread, place, row, title)
        if min(spread.low for spread in spreads) < 0.0:
            figure.add_vline(x=0, line={"color": INK, "width": 1}, row=row, col=1)
        figure.update_xaxes(**axis_style(), title_text=title, row=row, col=1)
    figure.update_yaxes(**row_axis_style([label_of(name, NAME) for name in names], size=12))
    return figure


def _add_box(figure: go.Figure, name: str, spread: Spread, place: int, row: int, unit: str) -> None:
    ends = {"lowerfence": [spread.low], "upperfence": [spread.high]}
    box = {"q1": [spread.quarter], "median": [spread.median], "q3": [spread.three_quarters], **ends, "y": [place]}
    style = {"line": {"color": ACCENT, "width": 1.5}, "fillcolor": rgba(ACCENT, 0.18), "width": 0.5}
    figure.add_box(**box, **style, orientation="h", hoverinfo="skip", row=row, col=1)
    words = f"{escaped(name)}<br>median {spread.median:,.2f}<br>middle half {spread.quarter:,.2f} to "
    words += f"{spread.three_quarters:,.2f}<br>5% to 95%: {spread.low:,.2f} to {spread.high:,.2f}<br>{unit}"
    # A box of given quantiles says nothing when it is pointed at; an unseen dot does it.
    dot = {"mode": "markers", "marker": {"size": 14, "opacity": 0}, "hovertemplate": f"{words}<extra></extra>"}
    figure.add_scatter(x=[spread.median], y=[place], **dot, row=row, col=1)


def _categories(world: SearchDescription) -> go.Figure:
    rows = [segment.name for segment in world.segments]
    columns = list(world.config.categories)
    shares = np.array([segment.categories for segment in world.segments])
    margin = {"l": row_room(rows), "r": 16, "t": 8, "b": column_room(columns)}
    figure = go.Figure(layout=layout_style(height=28 * len(rows) + 8 + round(margin["b"]), margin=margin))
    figure.add_trace(shades(rows, columns, shares, top=max(float(shares.max()), 1e-9)))
    figure.update_yaxes(**{**row_axis_style([label_of(name, NAME) for name in rows], size=12), "showgrid": False})
    figure.update_xaxes(**column_axis(columns))
    return figure


def _positions(facts: Sequence[PositionFacts]) -> go.Figure:
    """Draw shares of visits in which a position was looked at, clicked and bought, a line for each query type."""
    panels = ("looked at", "clicked", "bought")
    figure = make_subplots(3, 1, shared_xaxes=True, vertical_spacing=0.09, subplot_titles=panels)
    margin = {"l": 52, "r": 16, "t": 70, "b": 48}
    figure.update_layout(layout_style(height=620, margin=margin) | legend_style(1.06))
    figure.update_annotations(font={"size": 12, "color": INK}, x=0, xanchor="left")
    for color, positions in zip(itertools.cycle(COLORS), facts, strict=False):
        name = f"{positions.query_type} ({positions.visits:,} visits)"
        for row, hits in enumerate((positions.examined, positions.clicked, positions.bought), start=1):
            _add_shares(figure, name, hits, positions.visits, color, row)
    figure.update_xaxes(**axis_style())
    k = len(facts[0].examined)
    figure.update_xaxes(title_text="position, from the top", row=3)
    figure.update_xaxes(range=[0.5, k + 0.5], tickvals=[1, *range(5, k + 1, max(5, 5 * (k // 50)))])
    figure.update_yaxes(**axis_style(), tickformat=".0%", rangemode="tozero")
    figure.update_yaxes(title_text="of visits", row=2)
    return figure


def _add_shares(figure: go.Figure, name: str, hits: IntArray, visits: int, color: str, row: int) -> None:
    low, high = share_intervals(hits, visits)
    x = np.arange(1, len(hits) + 1)
    common = {"legendgroup": name, "row": row, "col": 1}
    band = {"fill": "toself", "fillcolor": rgba(color, 0.15), "line_width": 0, "mode": "lines", "hoverinfo": "skip"}
    figure.add_scatter(x=np.r_[x, x[::-1]], y=np.r_[high, low[::-1]], **band, **common, showlegend=False)
    hover = [f"position {n}: {h / visits:.1%} ({h:,} of {visits:,})" for n, h in zip(x, hits.tolist(), strict=True)]
    line = {"mode": "lines+markers", "line": {"color": color, "width": 2}, "marker": {"size": 5}, "text": hover}
    extra = f"%{{text}}<extra>{escaped(name)}</extra>"
    shown = {"name": escaped(name), "showlegend": row == 1, "hovertemplate": extra}
    if len(hits) == 1:  # a band needs two positions
        ends = {"array": high - hits / visits, "arrayminus": hits / visits - low}
        shown["error_y"] = {"type": "data", **ends, "thickness": 1.8, "width": 0}
    figure.add_scatter(x=x, y=hits / visits, **line, **shown, **common)


def _rankings(
    rankings: Sequence[VisitRanking], colors: Mapping[str, str], title: str, *, linked: bool = True
) -> go.Figure:
    """Draw what rankings earn, and below their products: one column per ranking, one dot per product."""
    k = len(rankings[0].shown)
    upper, lower, gap = 130, 24 * k + 12, 34  # px
    height = lower + upper + gap
    shares = [upper / height, lower / height]
    figure = make_subplots(2, 1, shared_xaxes=True, row_heights=shares, vertical_spacing=gap / height)
    margin = {"l": 52, "r": 16, "t": 50, "b": 100}
    figure.update_layout(layout_style(height=height + 150, margin=margin) | legend_style())
    _add_earnings(figure, rankings)
    if linked:
        _add_links(figure, rankings, colors)
    _add_products(figure, rankings, colors)
    names = [label_of(_short(ranking.name), NAME) for ranking in rankings]
    ticks = {"tickvals": list(range(len(names))), "ticktext": names, "range": [-0.5, len(names) - 0.5]}
    figure.update_xaxes(**{**axis_style(), "tickangle": -60, "showgrid": False}, **ticks)
    figure.update_xaxes(title_text=title, row=2)
    figure.update_yaxes(**axis_style(), title_text="EUR per visit", rangemode="tozero", row=1)
    figure.update_yaxes(**axis_style(), title_text="place", range=[k + 0.7, 0.3], row=2)
    return figure


def _short(name: str) -> str:
    """Return a ranking's name without the boosted feature, which its figure names."""
    return name.removeprefix(f"{BOOSTED} x ")


def _add_earnings(figure: go.Figure, rankings: Sequence[VisitRanking]) -> None:
    means = [ranking.reward.mean for ranking in rankings]
    half = [(ranking.reward.high or 0.0) - ranking.reward.mean for ranking in rankings]
    hover = [
        f"{escaped(ranking.name)}<br>EUR {ranking.reward.mean:.2f} ± {h:.2f}<br>{ranking.gain.mean:+.2f} over no boosts"
        for ranking, h in zip(rankings, half, strict=True)
    ]
    bars = {"type": "data", "array": half, "thickness": 1.8, "width": 0}
    dot = {"mode": "markers", "marker": {"size": 9, "color": INK}, "error_y": bars, "showlegend": False}
    style = {"text": hover, "hovertemplate": "%{text}<extra></extra>"}
    figure.add_scatter(x=list(range(len(means))), y=means, **dot, **style, row=1, col=1)


def _add_links(figure: go.Figure, rankings: Sequence[VisitRanking], colors: Mapping[str, str]) -> None:
    """Draw a line from place to place for every product that two neighbouring rankings share."""
    lines: dict[str, tuple[list[float | None], list[float | None]]] = {}
    for column, (left, right) in enumerate(itertools.pairwise(rankings)):
        places = {item.product: place for place, item in enumerate(right.shown, start=1)}
        for place, item in enumerate(left.shown, start=1):
            if item.product in places:
                xs, ys = lines.setdefault(item.category, ([], []))
                # None interrupts a line, so that one trace holds all links of a category.
                xs += [column, column + 1, None]
                ys += [place, places[item.product], None]
    for category, (xs, ys) in lines.items():
        line = {"mode": "lines", "line": {"color": rgba(colors[category], 0.45), "width": 1.5}, "hoverinfo": "skip"}
        figure.add_scatter(x=xs, y=ys, **line, legendgroup=category, showlegend=False, row=2, col=1)


def _add_products(figure: go.Figure, rankings: Sequence[VisitRanking], colors: Mapping[str, str]) -> None:
    """Draw a dot with the price for every product of every ranking, a colour per category."""
    for category, color in colors.items():
        items = [
            (column, place, item)
            for column, ranking in enumerate(rankings)
            for place, item in enumerate(ranking.shown, start=1)
            if item.category == category
        ]
        if not items:
            continue
        figure.add_scatter(
            x=[column for column, _, _ in items],
            y=[place for _, place, _ in items],
            mode="markers+text",
            marker={"size": 20, "color": "white", "line": {"color": color, "width": 1.8}},
            text=[f"{item.price:.0f}" for _, _, item in items],
            textfont={"size": 10, "color": INK},
            hovertext=[
                f"product {item.product}, {escaped(category)}<br>EUR {item.price:.2f}, CM2 {item.cm2:.2f}"
                f"<br>place {place}, {item.place:,} without boosts"
                for _, place, item in items
            ],
            hovertemplate="%{hovertext}<extra></extra>",
            name=escaped(category),
            legendgroup=category,
            row=2,
            col=1,
        )
