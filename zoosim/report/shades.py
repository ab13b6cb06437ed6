"""Tables of shares, drawn as shades of one colour."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from zoosim.core.types import FloatArray
from zoosim.report.drawing import ACCENT, CHARACTER, NAME, axis_style, escaped, label_of, shortened

WRITTEN = 10
"""Columns up to which figures are written in the cells."""


def shades(rows: Sequence[str], columns: Sequence[str], values: FloatArray, top: float) -> go.Heatmap:
    """Return shares `(rows, columns)` as shades, the darkest at `top`; NaN stays white."""
    places = [(a, b, share) for a, row in zip(rows, values, strict=True) for b, share in zip(columns, row, strict=True)]
    words = ["" if np.isnan(share) or len(columns) > WRITTEN else f"{100 * share:.0f}%" for *_, share in places]
    hover = [f"{escaped(a)}, {escaped(b)}: {'none' if np.isnan(s) else f'{s:.1%}'}" for a, b, s in places]
    return go.Heatmap(
        z=values,
        zmin=0,
        zmax=top,
        colorscale=[[0, "#f4f7fa"], [1, ACCENT]],
        showscale=False,
        xgap=2,
        ygap=2,
        text=np.reshape(words, values.shape),
        texttemplate="%{text}",
        hovertext=np.reshape(hover, values.shape),
        hovertemplate="%{hovertext}<extra></extra>",
    )


def row_room(rows: Sequence[str]) -> float:
    """Return the width in px that labels of rows need."""
    return CHARACTER * max(len(shortened(name, NAME)) for name in rows) + 20


def column_room(columns: Sequence[str]) -> float:
    """Return the height in px that labels of columns need."""
    return 20 + (CHARACTER * max(len(shortened(name, NAME)) for name in columns) if _steep(columns) else 14)


def column_axis(columns: Sequence[str]) -> dict[str, Any]:
    """Return the style of the axis of columns; labels that have no room stand upright."""
    ticks = {"tickvals": list(range(len(columns))), "ticktext": [label_of(name, NAME) for name in columns]}
    return {**axis_style(), **ticks, "tickangle": -90 if _steep(columns) else 0, "showgrid": False}


def _steep(columns: Sequence[str]) -> bool:
    return len(columns) * max(len(shortened(name, NAME)) for name in columns) > 40
