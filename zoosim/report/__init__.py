"""Reports as self-contained HTML pages, and their figures: of runs, worlds, evaluations and studies."""

from zoosim.report.data import Curve, ReportData
from zoosim.report.figures import figures
from zoosim.report.page import render_page

__all__ = ["Curve", "ReportData", "figures", "render_page"]
