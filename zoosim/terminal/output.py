"""Printing of lines and results: tables as wide as the terminal, sentences broken at words.

The command line imports this when it starts, whatever it is to do: heavy modules are imported inside the functions.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from zoosim.core.errors import printable

if TYPE_CHECKING:
    from zoosim.core.tables import Table

NARROWEST = 40
"""Tables are laid out for this many characters at least."""

WIDTH = 80
"""Characters of a line where there is no terminal, and the variable COLUMNS says nothing."""


def echo(text: str = "", *, err: bool = False, bold: bool = False) -> None:
    """Print lines, of names out of files too: what a terminal would obey is written out."""
    lines = "\n".join(map(printable, text.split("\n")))
    typer.echo(typer.style(lines, bold=True) if bold else lines, err=err)


def output_width() -> int:
    """Return the width of the terminal, or what COLUMNS says."""
    return max(shutil.get_terminal_size((WIDTH, 24)).columns, NARROWEST)


def print_table(table: "Table", *, wide: bool = False, has_page: bool = False) -> None:
    """Print a table and an empty line, and say where columns are for which there was no room.

    Args:
        table: The table.
        wide: Print all columns, however wide the terminal is.
        has_page: Whether a page shows them, too.
    """
    from zoosim.core.tables import fit_table

    title, lines, left_out = fit_table(table, None if wide else output_width())
    for line in title:
        echo(line, bold=True)
    for line in lines:
        echo(line)
    if left_out:
        columns = f"{left_out} more columns" if left_out > 1 else "1 more column"
        echo(f"{columns}: --wide{' or the page' if has_page else ''} has {'them' if left_out > 1 else 'it'}")
    echo()


def print_lines(lines: Iterable[str]) -> None:
    """Print sentences, broken at words in a terminal; elsewhere each in a line of its own."""
    # Whoever sets COLUMNS asks for lines of that width, in a pipe, too.
    is_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    for line in lines:
        if is_terminal:
            wrapped = textwrap.wrap(line, output_width(), break_long_words=False, break_on_hyphens=False)
            echo("\n".join(wrapped))
        else:
            echo(line)


def print_list(items: Mapping[str, str], indent: int = 0, *, err: bool = False) -> None:
    """Print what each name stands for, beside it, and further lines below that; a name that is long has its own line.

    Args:
        items: What each name stands for.
        indent: Characters before each name.
        err: Print to standard error.
    """
    width = output_width()
    column = indent + min(max(map(len, items), default=0), width // 3) + 2
    for name, text in items.items():
        head = " " * indent + name
        lines = textwrap.wrap(text, width - column, break_on_hyphens=False) or [""]
        if len(head) > column - 2:
            echo(head, err=err)
            head = ""
        echo((head.ljust(column) + lines[0]).rstrip(), err=err)
        for line in lines[1:]:
            echo(" " * column + line, err=err)


def print_address(folder: Path) -> None:
    """Print the address of the page in a folder."""
    echo(f"Page: {address(folder / 'report.html')}")


def address(path: Path) -> str:
    """Return the address that a browser opens."""
    from zoosim.core.files import resolved

    return resolved(path).as_uri()


def skipped_lines(skipped: Mapping[str, int]) -> list[str]:
    """Say how many rows were left out, by reason."""
    from zoosim.core.number_format import counted

    return [f"note: skipped {counted(count, 'row')}: {reason}" for reason, count in skipped.items()]
