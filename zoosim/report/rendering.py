"""Render a template and figures as one HTML page that needs no network."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2
import plotly.graph_objects as go
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from zoosim.report.filters import FILTERS

_SCRIPT_SAFE = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def render(
    template: str, figures: Mapping[str, go.Figure], *, title: str, question: str, answer: str, **values: Any
) -> str:
    """Render a template as one self-contained HTML page: texts are escaped, figures and plotly.js are inlined.

    Args:
        template: The file, which extends base.html.
        figures: Figures by name; the template knows their `heights` in px.
        title: The page's heading.
        question: What the page is about, below the heading.
        answer: What the reader should do, in one sentence of about 120 characters: the first line that is read.
        values: What else the template knows.
    """
    return (
        environment()
        .get_template(template)
        .render(
            heights={key: int(figure.layout.height) for key, figure in figures.items()},
            figures_json=_figures_json(figures),
            # Marked as safe, since escaping would break the script.
            plotly_js=Markup(get_plotlyjs()),
            title=title,
            question=question,
            answer=answer,
            **values,
        )
    )


@cache
def environment() -> jinja2.Environment:
    """Return where templates are found, and what they know; it keeps those that it has read."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("zoosim.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update({function.__name__: function for function in FILTERS})
    return made


def _figures_json(figures: Mapping[str, go.Figure]) -> Markup:
    """Return figures as JSON in which no character can end the script element around it."""
    parts = (f'"{key}":{figure.to_json()}' for key, figure in figures.items())
    return Markup(("{" + ",".join(parts) + "}").translate(_SCRIPT_SAFE))
