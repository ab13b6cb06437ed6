"""Printed results of a run."""

from typing import TYPE_CHECKING

from zoosim.arena.tables import phases_table, results_table
from zoosim.core.number_format import percent
from zoosim.terminal.output import print_address, print_lines, print_table

if TYPE_CHECKING:
    from zoosim.api.runs import RunResult


def print_result(result: "RunResult", *, wide: bool = False) -> None:
    """Print the table of a run, the verdict and the page's address."""
    print_table(results_table(result.plan, result.summary, result.comparison.ranked), wide=wide, has_page=True)
    if result.references:
        known = (f"{reference.name} {percent(reference.value)}" for reference in result.references)
        print_lines([f"To compare with: {', '.join(known)}."])
    phases = phases_table(result.plan, result.summary, result.comparison.ranked)
    if phases is not None:
        print_table(phases, wide=wide, has_page=True)
    print_lines([*(f"note: {note}" for note in result.notes), result.verdict, *result.comparison.findings()])
    print_address(result.path)
