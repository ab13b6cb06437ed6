"""What `zoosim schema` and `zoosim import` print: what they understood of a shop's tables."""

import shutil
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from zoosim.logs.importing.summary import Imported

MIN_WIDTH = 40
"""Characters of a line that terminals are taken to have at least."""


def print_import(imported: "Imported") -> None:
    """Print what an import understood, and notes on columns to standard error."""
    print_pairs(imported.facts)
    typer.echo()
    print_pairs(imported.columns)
    notes = imported.notes | imported.drift
    for name, note in notes.items():
        typer.echo(textwrap.fill(f"note: column {name}: {note}", _width(), subsequent_indent="  "), err=True)


def print_pairs(pairs: Mapping[str, str], *, err: bool = False) -> None:
    """Print names, and beside each what there is to say of it, in lines that fit into the terminal."""
    width = _width()
    indent = min(max(map(len, pairs), default=0), width // 3) + 2
    for name, text in pairs.items():
        head = name if len(name) <= indent - 2 else f"{name}\n"
        lines = textwrap.wrap(text, width - indent) or [""]
        first = f"{head:<{indent}}{lines[0]}" if head == name else f"{head}{'':<{indent}}{lines[0]}"
        typer.echo(first.rstrip(), err=err)
        for line in lines[1:]:
            typer.echo(f"{'':<{indent}}{line}", err=err)


def _width() -> int:
    return max(MIN_WIDTH, shutil.get_terminal_size().columns)
