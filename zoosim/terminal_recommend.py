"""What the command line prints of a recommendation: the shop, the rehearsal, and what to do."""

from typing import TYPE_CHECKING

from rich.table import Table

from zoosim.rehearsal.advice import FIRST
from zoosim.report.recommend import rehearsal_table, shop_table
from zoosim.report.sections import Table as PageTable
from zoosim.terminal import Column, fitting_table, print_address, result_console

if TYPE_CHECKING:
    from zoosim.api.recommend import Recommendation


def print_recommendation(recommendation: "Recommendation") -> None:
    """Print what kind of shop it is, what policies earned in the rehearsal, what to do with each, and the page."""
    console = result_console()
    console.print(_folding(shop_table(recommendation)))
    if recommendation.rehearsal is not None:
        content = rehearsal_table(recommendation, recommendation.rehearsal)
        heads = [head.replace(" ", "\n") for head in content.heads]
        columns = [Column(head, cells) for head, cells in zip(heads, zip(*content.rows, strict=True), strict=True)]
        console.print(fitting_table(content.heading, columns, console.width, essential=3)[0])
    lines = [f"{each.place}: {each.policy}: {each.reason}." for each in recommendation.advice]
    if not any(each.place == FIRST for each in recommendation.advice):
        lines.append(recommendation.verdict)
    took = ", ".join(f"{name} {seconds:,.0f} s" for name, seconds in recommendation.seconds.items())
    for line in [*lines, f"It took: {took}"]:
        console.print(line, highlight=False, soft_wrap=True)
    print_address(console, recommendation.path)


def _folding(content: PageTable) -> Table:
    """Return a table of words, of which all columns but the first are folded."""
    table = Table(title=content.heading, title_justify="left")
    for number, head in enumerate(content.heads):
        table.add_column(head, overflow="fold", no_wrap=number == 0)
    for row in content.rows:
        table.add_row(*row)
    return table
