"""Fitted worlds as tables of text, for the terminal and notebooks."""

from typing import TYPE_CHECKING

from zoosim.core.number_format import per_visit, with_interval
from zoosim.core.tables import Column, Table
from zoosim.core.types import REWARD
from zoosim.fitting.checks import Checks

if TYPE_CHECKING:
    from zoosim.fitting.search_world import FittedSearchWorld

MOST_ROWS = 10
"""Positions in the table of a search world's check."""


def checks_table(checks: Checks, reward: str = REWARD) -> Table:
    """Tabulate what policies earn in a fitted world, and what they earn by its log."""
    rows = checks.comparisons
    best = checks.oracle
    world = [with_interval(*row.world) for row in rows]
    world.append(with_interval(*best))
    by_log = [None if row.log is None else with_interval(*row.log) for row in rows]
    values = ["" if each is None else each.value for each in by_log]
    intervals = ["" if each is None else each.interval for each in by_log]
    columns = (
        Column("policy", [*(row.policy for row in rows), "best for each visitor"], is_text=True, is_essential=True),
        Column("fitted\nworld", [each.value for each in world], is_essential=True),
        Column("95%\ninterval", [each.interval for each in world], is_text=True, is_essential=True, stacks=True),
        Column("by\nthe log", [*values, ""], is_essential=True),
        Column("95%\ninterval", [*intervals, ""], is_text=True, is_essential=True, stacks=True),
        Column("world\nand log", [*(row.words for row in rows), ""], is_text=True, is_essential=True),
    )
    return Table(f"{per_visit(reward)}, in the fitted world and by the log".capitalize(), columns)


def positions_table(world: "FittedSearchWorld") -> Table:
    """Tabulate clicks and purchases by position, of the log's later searches and of the fitted world."""
    checks = world.checks[:MOST_ROWS]
    clicks = [_in_percent(check.clicks, check.click_error) for check in checks]
    purchases = [_in_percent(check.purchases, check.purchase_error) for check in checks]
    columns = (
        Column("position", [str(check.position) for check in checks], is_essential=True),
        Column("clicks\nin the log", clicks, is_essential=True),
        Column("fitted\nworld", [f"{100 * check.fitted_clicks:.2f}" for check in checks], is_essential=True),
        Column("purchases\nin the log", purchases, is_essential=True),
        Column("fitted\nworld", [f"{100 * check.fitted_purchases:.2f}" for check in checks], is_essential=True),
    )
    return Table("Per 100 searches (95% margin), in the latest quarter, which the fit had not seen", columns)


def _in_percent(share: float, error: float) -> str:
    return f"{100 * share:.2f} ± {196 * error:.2f}"
