"""Colours that can be seen on a light page and on a dark one."""

from pathlib import Path

import pytest

import zoosim.report
from tests.report.colors import DARK, channels, contrast, figure_contrasts
from zoosim.report.drawing import ACCENT, COLORS, GREYS, INK, MUTED
from zoosim.report.evaluation_figures import VERDICT_STYLES

BASE = (Path(zoosim.report.__file__).parent / "base.html").read_text(encoding="utf-8")


def test_contrast_is_that_of_the_guideline() -> None:
    """Black on white has 21; #767676 is the lightest grey with 4.5 on white (WCAG 2.2, 1.4.3)."""
    assert contrast(channels("#000000"), channels("#ffffff")) == pytest.approx(21.0)
    assert figure_contrasts("#767676")[0] == pytest.approx(4.54, abs=0.01)
    assert figure_contrasts("#ffffff") == pytest.approx((1.0, 1.0), abs=0.01)  # the page itself, light and dark


@pytest.mark.parametrize("color", [*COLORS, *GREYS, ACCENT, MUTED, INK])
def test_a_color_of_lines_and_dots_is_seen_light_and_dark(color: str) -> None:
    assert min(figure_contrasts(color)) >= 3.0


def test_pale_colors_are_not_seen() -> None:
    """Those that figures once had: yellow for weak on paper, and light grey in the dark."""
    assert figure_contrasts("#E69F00")[0] < 3.0
    assert figure_contrasts("#aab2b9")[1] < 3.0


def test_verdicts_differ_in_color_and_shape() -> None:
    assert min(min(figure_contrasts(color)) for color, _ in VERDICT_STYLES.values()) >= 4.5
    assert len({symbol for _, symbol in VERDICT_STYLES.values()}) == len(VERDICT_STYLES)


def test_the_page_inverts_figures_as_these_tests_do() -> None:
    assert f"--paper: {DARK}" in BASE
    assert "filter: invert(.9) hue-rotate(180deg)" in BASE
