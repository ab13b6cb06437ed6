"""How many intervals held, by kind."""

from collections.abc import Sequence

import numpy as np

from studies.forecast_ledger.measuring import SHOPS, Row
from zoosim.core.statistics import share_intervals
from zoosim.report.sections import Page, PageTable
from zoosim.serving.forecasts.scores import HELD

TERMS = {
    "calm, shocked": "Whether visitors change their minds in the middle of the quarter.",
    "held": "What came and the forecast agree within the intervals of both.",
    "too early": "The quarter ended before as many decisions were made as the forecast names.",
    "not told": "A launch ended without a drop, or a lift, of the size that the forecast is about.",
}


def build_page(rows: Sequence[Row]) -> Page:
    """Build the page."""
    return Page(answer(rows), [_by_kind(rows), _by_verdict(rows)], terms=TERMS)


def answer(rows: Sequence[Row]) -> str:
    """Return how many intervals held."""
    scored = [row for row in rows if row.is_scored]
    quarters = len({(row.seed, row.shop) for row in rows})
    return (
        f"Of {len(rows)} forecasts of {quarters} quarters the truth of {len(scored)} came: {_held(scored)} of their "
        "intervals held."
    )


def _by_kind(rows: Sequence[Row]) -> PageTable:
    cells = []
    for kind in sorted({row.kind for row in rows}):
        for shop in SHOPS:
            kept = [row for row in rows if (row.shop, row.kind) == (shop, kind)]
            if kept:
                cells.append((kind, shop, *_counts(kept)))
    heads = ("by", "shop", "scored", "held", "came lower", "came higher", "too early", "not told")
    caption = "Shares of the scored ones with 95% intervals; what came lower and what came higher are misses."
    return PageTable("Intervals that held, by kind", heads, cells, 2, caption, printed=True)


def _counts(rows: Sequence[Row]) -> tuple[str, ...]:
    scored = [row for row in rows if row.is_scored]
    early = sum(row.is_early for row in rows)
    missed = [row for row in scored if row.outcome != HELD]
    lower = sum(row.came < row.value for row in missed)
    counts = (lower, len(missed) - lower, early, len(rows) - early - len(scored))
    return (f"{len(scored)}", _held(scored), *(f"{count}" for count in counts))


def _by_verdict(rows: Sequence[Row]) -> PageTable:
    cells = []
    for verdict in sorted({row.verdict for row in rows if row.verdict}):
        scored = [row for row in rows if row.verdict == verdict and row.is_scored]
        cells.append((verdict, f"{len(scored)}", _held(scored)))
    caption = "Of what a model earns per visit; all kinds and shops."
    return PageTable("By verdict", ("verdict", "scored", "held"), cells, 1, caption, printed=True)


def _held(scored: Sequence[Row]) -> str:
    """Return how many held, with the share and its interval."""
    if not scored:
        return "\N{EN DASH}"
    held = sum(row.outcome == HELD for row in scored)
    low, high = share_intervals(np.array([held]), len(scored))
    return f"{held} ({100 * held / len(scored):.0f}%, {100 * low[0]:.0f}\N{EN DASH}{100 * high[0]:.0f}%)"
