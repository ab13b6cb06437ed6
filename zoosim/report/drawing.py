"""The common style of figures: colours, fonts, axes, panels and labels."""

import html
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

INK = "#1f2933"
MUTED = "#66717e"
GRID = "#e9ecef"
ACCENT = "#0072B2"
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
# Each has a contrast of 3 or more to the page, light and dark (WCAG 2.2, 1.4.11), where base.html inverts figures. The
# first follow Okabe and Ito (2008), darker where these are too pale for lines; each further one is the farthest from
# those before it (as Glasbey et al. 2007, in OKLab), on both pages.
COLORS = (
    *("#0072B2", "#D55E00", "#009E73", "#C2569B", "#9A7B00", "#8463D6", "#332288", "#882255"),
    *("#003C00", "#3C96E1", "#694B1E", "#D27878", "#007800", "#B42D00", "#4B1E00", "#000000"),
)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
GREYS = ("#8a939c", "#5b636c", "#737c85")
BASELINES = {"random", "uniform", "popular", "popularity", "baseline", "fixed", "static", "constant"}
MODEBAR = {"bgcolor": "rgba(0,0,0,0)", "color": GREYS[0], "activecolor": INK}
NAME = 26  # letters of a name that a label shows
CHARACTER = 6.6  # px, mean width of a 12 px letter
LINE_HEIGHT = 16  # px


class Style(NamedTuple):
    """The style of a policy in every figure; `muted` ones step back behind the others."""

    color: str
    dash: str
    muted: bool = False


def policy_styles(names: Iterable[str], features: Mapping[str, tuple[str, str]] | None = None) -> dict[str, Style]:
    """Give each policy its colour, in the order of `names`; baselines are grey, a colour used again is dashed.

    With `features`, learners have the colours, sets of features the dashes, and all else is muted.
    """
    if features:
        return {name: _feature_style(name, features) for name in names}
    strong = itertools.cycle(Style(color, dash) for dash in ("solid", "dash") for color in COLORS)
    # Baselines beyond the greys take colours as the others do.
    muted = itertools.chain((Style(color, "dot") for color in GREYS), strong)
    return {name: next(muted if _is_baseline(name) else strong) for name in names}


def _feature_style(name: str, features: Mapping[str, tuple[str, str]]) -> Style:
    if name not in features:
        return Style(GREYS[0], "solid", muted=True)
    learners, sets = (list(dict.fromkeys(part)) for part in zip(*features.values(), strict=True))
    learner, sees = features[name]
    place = sets.index(sees)
    return Style(COLORS[learners.index(learner) % len(COLORS)], DASHES[place % len(DASHES)])


def panels(names: Sequence[str], titles: Sequence[str], across: int) -> go.Figure:
    """Lay out one panel per title, at most `across` side by side; in each one row per policy, best on top."""
    rows, columns = grid_of(len(titles), across)
    inner = 28 * len(names)
    gap = 104
    height = rows * inner + (rows - 1) * gap
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=titles,
        horizontal_spacing=0.03,
        vertical_spacing=gap / height if rows > 1 else None,
    )
    width = CHARACTER * max(len(shortened(name, NAME)) for name in names)
    top = 34 + 16 * max(title.count("<br>") for title in titles)
    figure.update_layout(**layout_style(height=height + top + 54, margin={"l": width + 24, "r": 16, "t": top, "b": 54}))
    figure.update_annotations(font={"size": 12, "color": INK})
    figure.update_yaxes(**row_axis_style([label_of(name, NAME) for name in names], size=12), showticklabels=False)
    figure.update_yaxes(showticklabels=True, col=1)
    figure.update_xaxes(**axis_style())
    return figure


def grid_of(panels: int, across: int) -> tuple[int, int]:
    """Return the rows and columns of a grid of `panels`, at most `across` side by side."""
    rows = math.ceil(panels / across)
    return rows, math.ceil(panels / rows)


def panel_of(index: int, panels: int, across: int) -> dict[str, int]:
    """Return the row and column of a panel, from 1, as plotly names them."""
    row, column = divmod(index, grid_of(panels, across)[1])
    return {"row": row + 1, "col": column + 1}


def layout_style(**extra: Any) -> dict[str, Any]:
    """Return the layout that all figures share, with `extra` entries."""
    base = {"template": "none", "font": {"family": FONT, "size": 12, "color": INK}, "showlegend": False}
    label = {"bgcolor": "rgba(255,255,255,0.96)", "bordercolor": "#cfd4d9", "font": {"size": 12, "color": INK}}
    clear = {"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)"}
    return {**base, **clear, "hoverlabel": label, "hovermode": "closest", "modebar": MODEBAR, **extra}


def axis_style() -> dict[str, Any]:
    """Return the style of an axis of numbers."""
    title = {"font": {"size": 12, "color": MUTED}, "standoff": 10}
    lines = {"gridcolor": GRID, "zeroline": False, "showline": False, "ticks": ""}
    return {**lines, "title": title, "tickfont": {"size": 12, "color": MUTED}, "tickangle": 0}


def row_axis_style(labels: Sequence[str], *, size: int) -> dict[str, Any]:
    """Return the style of an axis with one label per row, the first on top."""
    ticks = {"tickvals": list(range(len(labels))), "ticktext": list(labels), "range": [len(labels) - 0.4, -0.6]}
    return {
        **axis_style(),
        **ticks,
        "tickfont": {"size": size, "color": INK},
        "fixedrange": True,
        "ticklabelstandoff": 6,
    }


def dot_style(color: str, symbol: str = "circle") -> dict[str, Any]:
    """Return the style of a dot."""
    marker = {"color": color, "size": 8, "symbol": symbol, "line": {"color": color, "width": 1.5}}
    return {"mode": "markers", "marker": marker, "cliponaxis": False}


def error_bar(middle: float, low: float | None, high: float | None) -> dict[str, Any]:
    """Return the style of a bar from `low` to `high` around a dot; an end that is None is left out."""
    up = 0.0 if high is None else high - middle
    down = 0.0 if low is None else middle - low
    return {"type": "data", "array": [up], "arrayminus": [down], "thickness": 1.8, "width": 0}


def legend_style(y: float = 1.0, color: str = INK) -> dict[str, Any]:
    """Return the layout of a legend in a line above the plot, its lower edge at `y`."""
    legend = {"orientation": "h", "x": 0, "y": y, "yanchor": "bottom", "font": {"color": color}}
    return {"showlegend": True, "legend": legend}


def words_style(text: list[str], position: str) -> dict[str, Any]:
    """Return the style of words beside a dot."""
    spacer = {"mode": "markers+text", "marker": {"size": 14, "opacity": 0}, "hoverinfo": "skip", "cliponaxis": False}
    return {**spacer, "text": text, "textposition": position, "textfont_size": 11}


def _is_baseline(name: str) -> bool:
    return not BASELINES.isdisjoint(re.split(r"[^a-z]+", name.lower()))


def escaped(text: str) -> str:
    """Escape a text for plotly, whose labels are a small HTML with %{...} templates."""
    return html.escape(text, quote=False).replace("%{", "&#37;{")


def shortened(text: str, length: int) -> str:
    """Cut a text to `length` letters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def label_of(text: str, length: int) -> str:
    """Escape a text and cut it to `length` letters."""
    return escaped(shortened(text, length))


def _channels(color: str) -> list[int]:
    return [int(color[i : i + 2], 16) for i in (1, 3, 5)]


def rgba(color: str, alpha: float) -> str:
    """Return a colour with transparency."""
    return f"rgba({','.join(map(str, _channels(color)))},{alpha})"


def darker(color: str) -> str:
    """Return a darker colour, for letters."""
    return "#" + "".join(f"{round(0.72 * channel):02x}" for channel in _channels(color))


def spread_apart(wanted: Sequence[float], gap: float, size: float) -> list[float]:
    """Move sorted positions apart by at least `gap`, as little as possible (least squares), inside [0, `size`]."""
    blocks: list[list[float]] = []
    for index, want in enumerate(wanted):
        # Less what stands above, positions must not fall: isotonic regression, by pooling neighbours that violate the
        # order (Ayer et al. 1955).
        blocks.append([want - index * gap])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    room = max(size - gap * (len(wanted) - 1), 0.0)
    level = [min(max(float(np.mean(block)), 0.0), room) for block in blocks for _ in block]
    return [value + index * gap for index, value in enumerate(level)]
