"""Colours of pages: how base.html turns them for the dark, and their contrasts (WCAG 2.2)."""

import json
import re
from typing import Any

import numpy as np

from zoosim.core.types import FloatArray

LIGHT, DARK = "#ffffff", "#191919"
# hue-rotate(180deg) of the Filter Effects specification: luminance weights, doubled, less the identity.
HUE_ROTATION = 2.0 * np.array([0.213, 0.715, 0.072]) - np.eye(3)


def channels(color: str) -> FloatArray:
    return np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255.0


def inverted(color: FloatArray) -> FloatArray:
    """Apply invert(.9) hue-rotate(180deg), as base.html does to figures."""
    return np.clip(HUE_ROTATION @ (0.9 - 0.8 * color), 0.0, 1.0)


def luminance(color: FloatArray) -> float:
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def contrast(one: FloatArray, other: FloatArray) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def figure_contrasts(color: str) -> tuple[float, float]:
    """Return the contrast of a figure's colour to the light page, and to the dark one, which inverts it."""
    return contrast(channels(color), channels(LIGHT)), contrast(inverted(channels(color)), channels(DARK))


def faint_series(page: str, least: float = 3.0) -> list[str]:
    """List what a page's figures draw with less contrast, light or dark; see-through bands and links are left out."""
    match = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    faint = []
    for key, figure in json.loads(match[1]).items():
        for trace in figure["data"]:
            colors = [color for color in _drawn_colors(trace) if re.fullmatch("#[0-9a-fA-F]{6}", color)]
            if colors and max(min(figure_contrasts(color)) for color in colors) < least:
                faint.append(f"figure {key}, {trace.get('name', '')}: {colors}")
    return faint


def _drawn_colors(trace: dict[str, Any]) -> list[str]:
    marker = trace.get("marker", {})
    colors = [trace.get("line", {}).get("color"), marker.get("color"), marker.get("line", {}).get("color")]
    return [color for color in colors if isinstance(color, str)]
