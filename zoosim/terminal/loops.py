"""Printed loops of a service: which there are, and how each does."""

from collections.abc import Mapping
from typing import Any

from zoosim.core.errors import printable
from zoosim.core.tables import table_of_rows
from zoosim.terminal.output import print_lines, print_table


def print_loops(standing: Mapping[str, Any], *, wide: bool = False) -> None:
    """Print the loops of a service, and where the log of one that was removed is."""
    rows = [(loop["name"], loop["state"], printable(loop["sentence"])) for loop in standing["loops"]]
    if rows:
        print_table(table_of_rows("Loops", ("loop", "state", "how it does"), rows, n_text=3, essential=3), wide=wide)
    else:
        print_lines(["There are no loops yet: `zoosim loops add NAME` adds one."])
    if standing["log"] is not None:
        print_lines([printable(f"Its log is kept in {standing['log']}.")])
