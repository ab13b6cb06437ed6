"""How soon learning is frozen where clicks cease, and goes on."""

from collections.abc import Sequence

import numpy as np

from studies.broken_pixel.measuring import TRAFFIC, Run
from zoosim.monitoring.launch import State
from zoosim.playground.visitors import PER_DAY
from zoosim.report.sections import Page, PageTable


def build_page(rows: Sequence[Run]) -> Page:
    """Build the page."""
    cells = []
    for traffic in TRAFFIC:
        runs = [row for row in rows if row.traffic == traffic]
        back = sum(row.launch == State.ROLLED_BACK for row in runs)
        freezes = _text([row.to_freeze for row in runs])
        goes_on = _text([row.to_go_on for row in runs])
        cells.append((f"{PER_DAY * traffic:,.0f}", f"{len(runs)}", freezes, goes_on, f"{back}"))
    heads = ("visitors a day", "shops", "minutes to the freeze", "minutes until it goes on", "launches taken back")
    caption = "Simulated minutes, medians and ranges, since the pixel broke and since it was mended; clicks are 5%."
    return Page(answer(rows), [PageTable("A broken pixel", heads, cells, 0, caption, printed=True)])


def answer(rows: Sequence[Run]) -> str:
    """Return how often learning was frozen and went on by itself."""
    frozen = sum(row.to_freeze is not None for row in rows)
    went_on = sum(row.to_go_on is not None for row in rows)
    return f"Learning was frozen in {frozen} of {len(rows)} shops, and went on by itself in {went_on}."


def _text(minutes: Sequence[float | None]) -> str:
    known = [each for each in minutes if each is not None]
    if len(known) < len(minutes):
        return f"{len(minutes) - len(known)} never"
    return f"{np.median(known):.1f} ({min(known):.1f} to {max(known):.1f})"
