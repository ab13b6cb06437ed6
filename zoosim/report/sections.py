"""Pages of tables and figures below a verdict, for studies, evaluations and fitted worlds."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import plotly.graph_objects as go

from zoosim.core import tables as text
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK
from zoosim.report.rendering import render

MARKS = {TRUST: "trust", WEAK: "weak", DO_NOT_USE: "useless"}
"""CSS classes of the cells that hold a verdict."""


class Link(str):
    """The text of a cell that leads to the rows of another table, by its key, that have some cells."""

    key: str
    cells: Sequence[str]

    def __new__(cls, text: str, key: str, *cells: str) -> Self:
        """Return a text that leads to the rows with these cells in the table with this key."""
        link = super().__new__(cls, text)
        link.key = key
        link.cells = cells
        return link

    @property
    def filter(self) -> str:
        """Text for the table's filter, each cell in quotes, which it must be whole."""
        return " ".join('"' + cell.replace('"', "") + '"' for cell in self.cells)


@dataclass(frozen=True)
class PageTable:
    """A table of text: `rows` of cells under `heads`; the first `n_text` columns hold words, the others figures.

    One that is `folded` shows its heading alone until it is opened; cells of others may lead to it by its `key`. One
    that is `printed` goes to the terminal, too, wherever it stands.
    """

    heading: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_text: int = 1
    caption: str = ""
    folded: bool = False
    key: str = ""
    printed: bool = False

    def as_text(self, essential: int | None = None) -> text.Table:
        """Return it for a terminal, where its first columns, all by default, are `essential`."""
        heads = [head if place < self.n_text else head.replace(" ", "\n") for place, head in enumerate(self.heads)]
        return text.table_of_rows(self.heading, heads, self.rows, n_text=self.n_text, essential=essential)


@dataclass(frozen=True)
class Drawing:
    """A figure with its heading and caption; `figure.layout.height` must be set.

    One that is `folded` shows its heading alone until it is opened.
    """

    heading: str
    caption: str
    figure: go.Figure
    folded: bool = False


@dataclass(frozen=True)
class Page:
    """The content of a page.

    Attributes:
        answer: What the reader should do, in one sentence of about 120 characters.
        tables: The first stands above the figures, and goes to the terminal, too, as do those that are `printed`.
        drawings: Figures.
        terms: Words that the page uses, with their meanings.
        details: Sentences that say what the answer rests on, the most important first.
    """

    answer: str
    tables: Sequence[PageTable]
    drawings: Sequence[Drawing] = ()
    terms: Mapping[str, str] = field(default_factory=dict)
    details: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """The answer and the details as one text, for a terminal or a summary."""
        return " ".join([self.answer, *self.details])


def render_sections(title: str, question: str, page: Page, command: Sequence[str], *, configuration: str = "") -> str:
    """Render one self-contained HTML page; `configuration` is YAML of what was run, empty where there is none."""
    figures = {str(number): drawing.figure for number, drawing in enumerate(page.drawings)}
    words = {"title": title, "question": question, "answer": page.answer, "configuration": configuration}
    return render("sections.html", figures, **words, page=page, command=shlex.join(command), marks=MARKS)
