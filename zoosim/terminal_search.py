"""What the command line prints of a fitted search world."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from zoosim.terminal import print_address, result_console

if TYPE_CHECKING:
    from zoosim.fitting.search_world import FittedSearchWorld

MOST_ROWS = 10
"""Positions in the table of the check."""


def print_search_world(world: "FittedSearchWorld", folder: Path) -> None:
    """Print what was estimated, how later searches agree with it, and where the world lies."""
    console = result_console()
    print_check(console, world)
    behaviour = world.behaviour
    effects = zip(world.segments, behaviour.estimates.price, behaviour.errors.price, strict=True)
    prices = ", ".join(f"{name} {value:+.2f} ({1.96 * error:.2f})" for name, value, error in effects)
    looks = zip(world.query_types, np.asarray(behaviour.estimates.bias), strict=True)
    first_looks = ", ".join(f"{name} {100 / (1 + np.exp(-bias[0])):.0f}%" for name, bias in looks)
    for line in (
        f"{world.n:,} searches; behaviour estimated from the latest {world.used:,}",
        f"Effect of log(1 + price) on the log odds of a click, by segment (95% margin): {prices}",
        f"Position 1 is looked at, by type of query: {first_looks}",
        *(f"warning: {warning}" for warning in world.warnings),
        f"World: {folder / 'world.yaml'}",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    print_address(console, folder)


def print_check(console: Console, world: "FittedSearchWorld") -> None:
    """Print clicks and purchases per 100 searches, by position, of the log's later searches and of the fitted world."""
    table = Table(title="Per 100 of the latest quarter of the searches, which an earlier fit had not seen")
    for head in ("position", "clicks", "fitted", "purchases", "fitted"):
        table.add_column(head, justify="right")
    for check in world.checks[:MOST_ROWS]:
        table.add_row(
            str(check.position),
            f"{100 * check.clicks:.2f} ± {196 * check.click_error:.2f}",
            f"{100 * check.fitted_clicks:.2f}",
            f"{100 * check.purchases:.2f} ± {196 * check.purchase_error:.2f}",
            f"{100 * check.fitted_purchases:.2f}",
        )
    console.print(table)
