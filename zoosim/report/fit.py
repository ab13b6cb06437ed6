"""The page of a world fitted to a log: its click table, and its fit on held-out rows."""

import numpy as np

from zoosim.fitting.fit import FittedWorld
from zoosim.fitting.holdout import Fit, Share
from zoosim.report.fit_figures import MOST_ROWS, calibration_figure, expected_figure, table_figure
from zoosim.report.sections import Drawing, Page, Table

MOST_CELLS = 300
MOST_COLUMNS = 4
FEW_VISITS = 20
"""Of smaller segments no means are shown, which might be those of a single visitor."""
TERMS = {
    "estimate": "Click probabilities are shrunk towards their common mean as far as the cells themselves say: a cell "
    "with few rows, or among cells that hardly differ, lies near it. Intervals hold 95% of the time over all cells.",
    "no weights": "Within a segment and a category all visitors and products are taken to be alike, so who was shown "
    "what may depend on the segment without harm, and no row is weighted. Where weighting would move a cell by more "
    "than chance, the verdict says so.",
    "design effect": "How much more a cell's clicks vary than independent ones, since a user's clicks go together. "
    "Intervals are wider by its root.",
    "held out": "The world in the file is fitted to all rows. The fit is that of a world fitted to the earlier rows, "
    "on the later ones. Bars are where 95% of the clicks lie if it is right; blue dots lie within, orange ones beyond. "
    "One in twenty lies beyond by chance.",
    "changes": "Times from which cells were clicked more or less, beyond what chance brings at any time. They become "
    "shocks, at the same share of a run. Hours of the day and days of the week are not modelled.",
    "left out": "Positions, prices, and what a visitor saw before.",
}


def build_page(world: FittedWorld, fit: Fit) -> Page:
    """Return the page of a fitted world: its click table, and its fit on held-out rows."""
    drawings = [
        Drawing(
            "The click table",
            "Click probabilities with their 95% intervals, one panel per segment, as they are at the end of the log. "
            f"{'' if len(world.category_names) <= MOST_ROWS else f'The {MOST_ROWS} categories that were shown most. '}"
            "Hover for counts.",
            table_figure(world),
        ),
        Drawing(
            "What came, and what was expected",
            "Held-out rows by day where there are several, by segment and by category: clicks that came (dots), and "
            "where the world expects them.",
            expected_figure(fit.shares),
        ),
        Drawing(
            "Calibration on held-out rows",
            "Tenths of the held-out rows, from those with the least expected clicks to those with the most; dots on "
            "the dotted line are as expected.",
            calibration_figure(fit.shares),
        ),
    ]
    tables = [_parts(world), _segments(world), _changes(world), _cells(world), _fit(fit)]
    return Page(_verdict(world, fit), tables, drawings, TERMS)


def _verdict(world: FittedWorld, fit: Fit) -> str:
    sentences = [fit.sentence]
    if world.selected:
        names = " and ".join(f"{segment} x {category}" for segment, category in world.selected[:2])
        others = f" and {len(world.selected) - 2} more cells" if len(world.selected) > 2 else ""
        sentences.append(
            f"In {names}{others} weighting by propensity moves the click rate by more than chance: there the logging "
            "policy chose by something that segments and categories do not tell."
        )
    return " ".join(sentences)


def _parts(world: FittedWorld) -> Table:
    segments = len(world.segment_names)
    categories = len(world.category_names)
    counted = f"{world.n:,} rows of {world.n_clusters:,} users or visits"
    rows = [
        ("log", counted),
        *(("skipped", f"{count:,} bad rows: {reason}") for reason, count in world.skipped.items()),
        ("segments", f"{segments}: {world.segments.how}"),
        ("categories", f"{categories}: {world.categories.how}"),
        ("changes", f"{len(world.changes)}"),
        ("design effect", f"{world.effect:.2f}"),
        ("rows that the common mean counts for", f"{world.strength:,.0f}"),
    ]
    return Table("The world", ("", "found"), rows, n_text=2)


def _segments(world: FittedWorld) -> Table:
    """Return the columns of the visitors' features in which each segment stands out."""
    centres = world.segments.centres * (world.segments.scale > 0.0)
    apart = np.abs(centres - centres.mean(axis=0)) * world.segments.scale
    visits = np.bincount(world.segments.labels, minlength=len(world.segment_names))
    rows = []
    for number, name in enumerate(world.segment_names):
        columns = [int(column) for column in np.argsort(-apart[number])[:MOST_COLUMNS] if apart[number, column] > 0.0]
        traits = ", ".join(f"column {column}: {centres[number, column]:.3g}" for column in columns)
        traits = (
            traits or "all visitors" if visits[number] >= FEW_VISITS else f"not told of fewer than {FEW_VISITS} visits"
        )
        rows.append((name, traits, f"{100 * world.mix[number]:.1f}%"))
    return Table("Segments", ("", "mean features that stand out, columns from 0", "visits"), rows, n_text=2)


def _changes(world: FittedWorld) -> Table:
    rows = []
    for number, change in enumerate(world.changes, 1):
        cells = [cell for cell in world.cells if cell.start == change.row]
        names = ", ".join(f"{cell.segment} x {cell.category}" for cell in cells[:6])
        rows.append((f"change {number}", names + (", ..." if len(cells) > 6 else ""), f"{change.row:,}"))
    return Table("Changes", ("", "cells", "from row"), rows or [("none found", "", "")], n_text=2)


def _cells(world: FittedWorld) -> Table:
    rows = [
        (
            *(cell.segment, cell.category, f"{cell.start:,}", f"{cell.rows:,}", f"{cell.clicks:,}"),
            *(f"{100 * value:.2f}%" for value in (cell.estimate, cell.low, cell.high)),
        )
        for cell in world.cells[:MOST_CELLS]
    ]
    caption = "" if len(world.cells) <= MOST_CELLS else f"The first {MOST_CELLS} of {len(world.cells):,} cells."
    heads = ("segment", "category", "from row", "rows", "clicks", "estimate", "low", "high")
    return Table("The click table", heads, rows, n_text=2, caption=caption)


def _fit(fit: Fit) -> Table:
    rows = [
        (share.kind, share.name, f"{share.rows:,}", f"{share.clicks:,}", f"{share.expected:,.1f}", _range(share))
        for share in fit.shares
    ]
    low, high = (f"{value:,.3g}" if value is not None else "open" for value in fit.gain[1:])
    gain = f"{fit.gain.mean:.3g} ({low} to {high})"
    caption = f"Log likelihood a row above that of one click rate for all, in thousandths: {gain}."
    heads = ("by", "", "rows", "clicks", "expected", "95% of the time")
    return Table("Fit on held-out rows", heads, rows, n_text=2, caption=caption)


def _range(share: Share) -> str:
    return f"{share.low:,.1f}\u2013{share.high:,.1f}"
