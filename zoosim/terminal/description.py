"""Printed descriptions of worlds and models."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from zoosim.policies.files import MODEL, file_and_class
from zoosim.terminal.output import address, echo, print_lines, print_table

if TYPE_CHECKING:
    from zoosim.api.worlds import Description


def print_description(description: "Description", source: str) -> None:
    """Print the figures, what they come to, the page's address and, of a file, how to use it.

    Args:
        description: The description.
        source: What was described, as it was typed.
    """
    echo(description._headline(), bold=True)
    for table in description._tables():
        print_table(table)
    if description.answer:
        print_lines([description.answer])
    path = Path(file_and_class(source)[0])
    if path.suffix == MODEL:
        print_lines(
            [
                f"Serve it: zoosim serve {quote(str(path))}",
                f"Judge it by a later log: zoosim evaluate LOG --policy {quote(source)}",
                f'In Python: zoosim.load("{path}").decide(visitor, candidates)',
            ]
        )
    if path.suffix == ".world":
        print_lines([f"Try policies in it: zoosim run {quote(str(path))}"])
        report = path.parent / "report.html"
        if report.exists():
            print_lines([f"How far to believe it: {address(report)}"])
    if description.path != path:
        echo(f"Page: {address(description.path)}")
