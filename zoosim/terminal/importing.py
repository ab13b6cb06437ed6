"""Printed results of `zoosim schema` and `zoosim import`: what they understood of a shop's tables."""

import textwrap
from typing import TYPE_CHECKING

from zoosim.terminal.output import echo, output_width, print_list

if TYPE_CHECKING:
    from zoosim.logs.importing.summary import Imported


def print_import(imported: "Imported") -> None:
    """Print what an import understood, and notes on columns to standard error."""
    print_list(imported.facts)
    echo()
    print_list(imported.columns)
    notes = imported.notes | imported.drift
    for name, note in notes.items():
        echo(textwrap.fill(f"note: column {name}: {note}", output_width(), subsequent_indent="  "), err=True)
