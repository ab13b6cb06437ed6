"""The page that shows a comparison: data, figures, one self-contained HTML file."""

from zoosim.report.data import Curve, ReportData, Sweep
from zoosim.report.figures import figures
from zoosim.report.page import render_page

__all__ = ["Curve", "ReportData", "Sweep", "figures", "render_page"]
