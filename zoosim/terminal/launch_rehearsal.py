"""Printed rehearsals of launches: whether to launch, what to expect, and what knowing costs."""

from typing import TYPE_CHECKING

from zoosim.report.launch_rehearsal import next_commands, outcome_table, price_table
from zoosim.terminal.output import echo, print_address, print_lines, print_table

if TYPE_CHECKING:
    from zoosim.api.rehearse_launch import LaunchRehearsal


def print_launch_rehearsal(rehearsal: "LaunchRehearsal", *, wide: bool = False) -> None:
    """Print whether to launch and how, what to expect of it, and what it takes to tell changes."""
    print_lines(rehearsal.sentences)
    for _, command in next_commands(rehearsal):
        echo(f"  {command}")  # never broken, so that it can be copied
    print_table(outcome_table(rehearsal).as_text(), wide=wide, has_page=True)
    print_table(price_table(rehearsal).as_text(), wide=wide, has_page=True)
    print_address(rehearsal.path)
