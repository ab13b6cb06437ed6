"""The pages that show a comparison or a study: data, figures, one self-contained HTML file."""

from zoosim.report.data import Curve, ReportData
from zoosim.report.figures import figures
from zoosim.report.page import render_page
from zoosim.report.sections import Drawing, Story, Table, render_story

__all__ = [
    "Curve",
    "Drawing",
    "ReportData",
    "Story",
    "Table",
    "figures",
    "render_page",
    "render_story",
]
