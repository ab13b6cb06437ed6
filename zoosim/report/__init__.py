"""Reports as self-contained HTML pages, and their figures: of runs, worlds, evaluations and studies."""

from zoosim.report.data import Curve, ReportData
from zoosim.report.figures import figures
from zoosim.report.page import render_page
from zoosim.report.sections import Drawing, Page, Table, render_sections

__all__ = [
    "Curve",
    "Drawing",
    "Page",
    "ReportData",
    "Table",
    "figures",
    "render_page",
    "render_sections",
]
