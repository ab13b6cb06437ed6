"""Tables of results, and how they fit a terminal or a notebook: nothing is cropped.

The columns of a table stand in order of importance. In a terminal the essential ones are shown whole: where they are
too wide together, words are folded, and a column that `stacks` moves below the one before it. The others follow as far
as there is room.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import NamedTuple

from rich.cells import cell_len

GAP = 2
"""Spaces between columns."""

FOLDED = 16
"""Names are folded to this width before columns are stacked."""

NARROWEST = 6
"""Words are never folded to less."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        head: Its head, of one line or more, with the unit.
        cells: One text per row.
        is_text: Whether cells are words, which stand on the left and may be folded; figures stand at their points.
        is_essential: Whether it is never left out.
        stacks: Whether it may stand below the column before it, as an interval below its value; it is never folded.
    """

    head: str
    cells: Sequence[str]
    is_text: bool = False
    is_essential: bool = False
    stacks: bool = False

    @property
    def folds(self) -> bool:
        """True where its cells may be broken: words, but no intervals."""
        return self.is_text and not self.stacks

    @property
    def width(self) -> int:
        """Characters of its widest line."""
        return max(map(cell_len, "\n".join([self.head, *self.cells]).split("\n")))


@dataclass(frozen=True)
class Table:
    """A table with its title; `columns` stand in order of importance, the essential ones first."""

    title: str
    columns: Sequence[Column]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells by row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    def first(self, most: int) -> "Table":
        """Return the table with at most so many rows."""
        return replace(self, columns=[replace(column, cells=column.cells[:most]) for column in self.columns])


class FittedTable(NamedTuple):
    """The lines of a table that fits a terminal, those of its title apart, and how many columns were left out."""

    title: list[str]
    lines: list[str]
    left_out: int


def table_of_rows(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, n_text: int = 1, essential: int | None = None
) -> Table:
    """Return a table of cells by row.

    Args:
        title: Its title.
        heads: One head per column.
        rows: The cells, as many in each row as there are heads.
        n_text: How many columns, the first, hold words.
        essential: How many columns, the first, are essential; all of them by default.
    """
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(heads)
    n_essential = len(heads) if essential is None else essential
    columns = [
        Column(head, own, is_text=place < n_text, is_essential=place < n_essential)
        for place, (head, own) in enumerate(zip(heads, cells, strict=True))
    ]
    return Table(title, columns)


def two_lines(unit: str) -> str:
    """Return a unit such as "clicks per visit" as a head of two lines."""
    return unit.replace(" per ", "\nper ")


def fit_table(table: Table, width: int | None = None) -> FittedTable:
    """Lay a table out in at most `width` characters per line; None for as many as its columns take."""
    columns = [_aligned(column) for column in table.columns]
    shown, left_out = (columns, 0) if width is None else _fitting(columns, width)
    title = [table.title] if width is None else textwrap.wrap(table.title, width)
    heads = _row_lines([column.head for column in shown], shown)
    rule = (" " * GAP).join("-" * column.width for column in shown)
    body = []
    for cells in zip(*(column.cells for column in shown), strict=True):
        body += _row_lines(cells, shown)
    return FittedTable(title, [*heads, rule, *body], left_out)


def table_html(table: Table) -> str:
    """Return a table with all its columns as HTML for a notebook; whatever stands in it is escaped."""
    sides = ["left" if column.is_text else "right" for column in table.columns]
    heads = [_html_cell("th", column.head, side) for column, side in zip(table.columns, sides, strict=True)]
    rows = [[_html_cell("td", text, side) for text, side in zip(row, sides, strict=True)] for row in table.rows]
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    caption = f'<caption style="text-align:left">{escape(table.title)}</caption>'
    return f"<table>{caption}<thead><tr>{''.join(heads)}</tr></thead><tbody>{lines}</tbody></table>"


def _html_cell(tag: str, text: str, side: str) -> str:
    lines = "<br>".join(escape(line) for line in text.split("\n"))
    return f'<{tag} style="text-align:{side}">{lines}</{tag}>'


def _aligned(column: Column) -> Column:
    """Pad figures on the right so that their decimal points stand below one another."""
    if column.is_text:
        return column
    tails = [len(cell) - _point(cell) for cell in column.cells]
    longest = max(tails, default=0)
    cells = [
        cell + " " * (longest - tail) if cell[:1].lstrip("+-").isdigit() or cell[1:2].isdigit() else cell
        for cell, tail in zip(column.cells, tails, strict=True)
    ]
    return replace(column, cells=cells)


def _point(cell: str) -> int:
    """Return where the decimal point of a figure stands: behind its last digit where it has none."""
    whole = cell.partition(".")[0]
    return len(whole.rstrip("% "))


def _fitting(columns: Sequence[Column], width: int) -> tuple[list[Column], int]:
    """Return the columns that fit, folded and stacked where they must be, and how many were left out."""
    essential = [column for column in columns if column.is_essential]
    others = [column for column in columns if not column.is_essential]
    if _needed(_folded(essential, width, FOLDED)) > width:
        essential = _stacked(essential)
    shown = _folded(essential, width, NARROWEST)
    for place, column in enumerate(others):
        if _needed([*shown, column]) > width:
            return shown, len(others) - place
        shown.append(column)
    return shown, 0


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width + GAP for column in columns) - GAP


def _stacked(columns: Sequence[Column]) -> list[Column]:
    """Return columns with those that may below the ones before them."""
    stacked: list[Column] = []
    for column in columns:
        if not column.stacks:
            stacked.append(column)
            continue
        above = stacked.pop()
        cells = [f"{first.strip()}\n{second}" for first, second in zip(above.cells, column.cells, strict=True)]
        stacked.append(replace(above, head=f"{above.head}\n{column.head}", cells=cells))
    return stacked


def _folded(columns: Sequence[Column], width: int, narrowest: int) -> list[Column]:
    """Return columns with words folded, in the widest columns first, as far as that is needed to fit."""
    folded = list(columns)
    limits = [column.width for column in columns]
    while _needed(folded) > width:
        foldable = [place for place, column in enumerate(columns) if column.folds and limits[place] > narrowest]
        if not foldable:
            break
        widest = max(foldable, key=lambda place: limits[place])
        limits[widest] -= 1
        column = columns[widest]
        cells = [_fold(cell, limits[widest]) for cell in column.cells]
        folded[widest] = replace(column, head=_fold(column.head, limits[widest]), cells=cells)
    return folded


def _fold(text: str, width: int) -> str:
    """Break words at spaces and hyphens, longer ones anywhere."""
    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, width) or [""]]
    return "\n".join(lines)


def _row_lines(cells: Sequence[str], columns: Sequence[Column]) -> list[str]:
    """Return the lines of one row, whose cells may have several."""
    split = [cell.split("\n") for cell in cells]
    height = max(map(len, split), default=1)
    lines = []
    for number in range(height):
        parts = [lines_of[number] if number < len(lines_of) else "" for lines_of in split]
        padded = [_padded(part, column) for part, column in zip(parts, columns, strict=True)]
        lines.append((" " * GAP).join(padded).rstrip())
    return lines


def _padded(text: str, column: Column) -> str:
    spaces = " " * (column.width - cell_len(text))
    return text + spaces if column.is_text else spaces + text
