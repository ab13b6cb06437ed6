"""Printed results of a tuning."""

from typing import TYPE_CHECKING

from zoosim.experiments.tuning import tried_table
from zoosim.terminal.output import print_address, print_lines, print_table

if TYPE_CHECKING:
    from zoosim.api.tune import TuneResult


def print_tuning(result: "TuneResult", *, wide: bool = False) -> None:
    """Print the table of what was tried, the verdict, how to run the winner, and the page's address."""
    print_table(tried_table(result.summary), wide=wide)
    winner = result.winner
    settings = " ".join(f"--set policies.{winner['policy']}.{key}={value}" for key, value in winner["tuned"].items())
    print_lines([*(f"note: {note}" for note in result.notes), result.verdict])
    if settings:
        print_lines([f"To run the winner, add {settings}"])
    print_address(result.judged.path)
