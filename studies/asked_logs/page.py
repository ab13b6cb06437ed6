"""What logs of known shops answer, how near that is, and how often their intervals hold."""

from collections.abc import Sequence

import numpy as np

from studies.asked_logs.measuring import Asked
from studies.rows import rows_where
from zoosim.core.statistics import share_intervals
from zoosim.report.sections import Page, PageTable

TERMS = {
    "truth": "What looking at the next click alone has of the optimum by the shop's laws, exactly.",
    "log": "By a bandit that shows what is clicked most now, and any kind in 30% of its decisions.",
    "holds": "The 95% interval of a log's answer has the truth inside.",
    "cannot tell": "The interval has 95% inside: the line from which a policy is enough.",
}
ADVICE = ("planning", "a rule", "a bandit", "cannot tell")


def build_page(rows: Sequence[Asked]) -> Page:
    """Build the page."""
    heads = ("shop", "truth", "answer, mean", "error", "width", "intervals that hold", *ADVICE)
    shops = list(dict.fromkeys(row.shop for row in rows))
    table = PageTable(
        f"{len(rows_where(rows, shop=shops[0]))} logs of {rows[0].visitors:,} visitors each, in %",
        heads,
        [_cells(rows_where(rows, shop=shop)) for shop in shops],
    )
    right = "; ".join(f"{shop}: {_held(rows_where(rows, shop=shop))}" for shop in shops)
    return Page(f"Intervals that hold the truth: {right}.", [table], (), TERMS)


def _held(rows: Sequence[Asked]) -> str:
    """Write how often intervals hold, with the 95% interval of that share (Wilson 1927)."""
    count = sum(row.held for row in rows)
    low, high = share_intervals(np.array([count]), len(rows))
    return f"{100 * count / len(rows):.0f}% ({100 * low[0]:.0f} to {100 * high[0]:.0f})"


def _cells(rows: Sequence[Asked]) -> tuple[str, ...]:
    told = [row for row in rows if row.share is not None]
    shares = np.array([[row.share, row.low, row.high] for row in told]).reshape(-1, 3) * 100.0
    truth = 100.0 * rows[0].truth
    error = np.sqrt(np.mean((shares[:, 0] - truth) ** 2)) if told else np.nan
    width = np.mean(shares[:, 2] - shares[:, 1]) if told else np.nan
    mean = shares[:, 0].mean() if told else np.nan
    figures = (f"{truth:.1f}", f"{mean:.1f}", f"{error:.1f}", f"{width:.1f}", _held(rows))
    return (rows[0].shop, *figures, *(str(len(rows_where(rows, advice=advice))) for advice in ADVICE))
