"""Printed recommendations: what to do first, then the rehearsal and the shop."""

from typing import TYPE_CHECKING

from zoosim.rehearsal.advice import FIRST, TEST, label
from zoosim.report.recommend import next_commands, rehearsal_table, shop_table
from zoosim.terminal.output import echo, print_address, print_lines, print_table

if TYPE_CHECKING:
    from zoosim.api.recommend import Recommendation

ESSENTIAL = 2
"""Columns of the rehearsal, the first, that are always shown."""


def print_recommendation(recommendation: "Recommendation", *, wide: bool = False) -> None:
    """Print what to do and how to go on, what policies earned in the rehearsal, and what kind of shop it is."""
    print_lines([recommendation.verdict])
    for _, command in next_commands(recommendation):
        echo(f"  {command}")  # never broken, so that it can be copied
    if recommendation.rehearsal is not None:
        content = rehearsal_table(recommendation, recommendation.rehearsal)
        print_table(content.as_text(essential=ESSENTIAL), wide=wide, has_page=True)
    others = [each for each in recommendation.advice if each.place not in (FIRST, TEST)]
    print_lines([f"{each.place}: {label(each.policy)}: {each.reason}." for each in others])
    print_table(shop_table(recommendation).as_text(), wide=wide, has_page=True)
    took = ", ".join(f"{name} {seconds:,.0f} s" for name, seconds in recommendation.seconds.items())
    print_lines([f"Time taken: {took}"])
    print_address(recommendation.path)
