"""Printed reports of launches after the fact: what to do, effects, and history."""

from typing import TYPE_CHECKING

from zoosim.report.launch_report import effect_table, history_table
from zoosim.terminal.output import print_address, print_lines, print_table

if TYPE_CHECKING:
    from zoosim.api.launch_report import LaunchResult


def print_launch_report(report: "LaunchResult", *, wide: bool = False) -> None:
    """Print what to do, the effects of the launch, and its history."""
    print_lines(report.sentences)
    print_table(effect_table(report).as_text(essential=3), wide=wide, has_page=True)
    print_table(history_table(report).as_text(), wide=wide, has_page=True)
    print_address(report.path)
