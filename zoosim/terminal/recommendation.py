"""What the command line prints of a recommendation: the shop, the rehearsal, and what to do."""

from typing import TYPE_CHECKING

from zoosim.rehearsal.advice import FIRST
from zoosim.report.recommend import rehearsal_table, shop_table
from zoosim.terminal.output import print_address, print_lines, print_table

if TYPE_CHECKING:
    from zoosim.api.recommend import Recommendation

ESSENTIAL = 3
"""Columns of the rehearsal, the first, that are always shown."""


def print_recommendation(recommendation: "Recommendation", *, wide: bool = False) -> None:
    """Print what kind of shop it is, what policies earned in the rehearsal, what to do with each, and the page."""
    print_table(shop_table(recommendation).as_text(), wide=wide, has_page=True)
    if recommendation.rehearsal is not None:
        content = rehearsal_table(recommendation, recommendation.rehearsal)
        print_table(content.as_text(essential=ESSENTIAL), wide=wide, has_page=True)
    lines = [f"{each.place}: {each.policy}: {each.reason}." for each in recommendation.advice]
    if not any(each.place == FIRST for each in recommendation.advice):
        lines.append(recommendation.verdict)
    took = ", ".join(f"{name} {seconds:,.0f} s" for name, seconds in recommendation.seconds.items())
    print_lines([*lines, f"Time taken: {took}"])
    print_address(recommendation.path)
