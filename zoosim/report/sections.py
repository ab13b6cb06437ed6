"""Pages of tables and figures below a verdict, for studies, evaluations and fitted worlds."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from zoosim.core.files import write_text
from zoosim.report.page import environment, figures_json, plotly_js


@dataclass(frozen=True)
class Table:
    """A table of text: `rows` of cells under `heads`; the first `n_text` columns hold words, the others figures."""

    heading: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_text: int = 1
    caption: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure with its heading and caption; `figure.layout.height` must be set."""

    heading: str
    caption: str
    figure: go.Figure


@dataclass(frozen=True)
class Story:
    """The content of a page: a `verdict`, tables (the first is printed to the terminal too), drawings, and terms."""

    verdict: str
    tables: Sequence[Table]
    drawings: Sequence[Drawing] = ()
    terms: Mapping[str, str] = field(default_factory=dict)


def render_story(title: str, question: str, story: Story, command: str) -> str:
    """Render one self-contained HTML page."""
    drawn = {str(number): drawing.figure for number, drawing in enumerate(story.drawings)}
    return (
        environment()
        .get_template("story.html")
        .render(
            title=title,
            question=question,
            story=story,
            figures=[(str(n), d.heading, d.caption, int(d.figure.layout.height)) for n, d in enumerate(story.drawings)],
            command=command,
            figures_json=figures_json(drawn),
            plotly_js=plotly_js(),
        )
    )


def write_story(folder: Path, name: str, question: str, rows: Sequence[Any], story: Story, command: str) -> None:
    """Write summary.json, with the `rows`, frozen records of plain data, and report.html to `folder`."""
    summary = {"schema_version": 1, "study": name, "verdict": story.verdict, "rows": [asdict(row) for row in rows]}
    write_text(folder / "summary.json", json.dumps(summary, indent=1, allow_nan=False) + "\n")
    write_text(folder / "report.html", render_story(name, question, story, command))
