"""Printed results on the best that a search shop could do."""

from typing import TYPE_CHECKING

from zoosim.core.search_names import FEATURES
from zoosim.core.tables import Column, Table
from zoosim.terminal.output import print_lines, print_table

if TYPE_CHECKING:
    import polars as pl

REWARDS = ("neutral_reward", "template_reward", "reward")
NORMAL = 1.96
"""Standard errors of a 95% margin."""

KINDS_PER_TABLE = 4
"""Kinds of visits whose boosts stand side by side: so many fit in 80 characters beside the boosts' names."""


def print_optimum(frame: "pl.DataFrame", *, wide: bool = False) -> None:
    """Print what the best templates and boosts of each kind of visit earn, and the boosts."""
    print_table(optimum_table(frame), wide=wide)
    for first in range(0, len(frame), KINDS_PER_TABLE):
        print_table(boosts_table(frame[first : first + KINDS_PER_TABLE]), wide=wide)
    _, template, boosts = _together(frame)
    if boosts > 0.0:
        print_lines([f"Templates reach {template / boosts:.1%} of what boosts can."])


def optimum_table(frame: "pl.DataFrame") -> Table:
    """Tabulate the best template and boosts of each kind of visit."""
    shares = frame["share"].to_list()
    neutral = [f"{value:.2f}" for value in frame["neutral_reward"]]
    template = [_with_margin(*pair) for pair in frame.select("template_reward", "template_error").iter_rows()]
    boosts = [_with_margin(*pair) for pair in frame.select("reward", "error").iter_rows()]
    visits = frame["group"].to_list()
    templates = frame["template"].to_list()
    if len(frame) > 1:
        together = [f"{value:.2f}" for value in _together(frame)]
        for cells, cell in zip((neutral, template, boosts), together, strict=True):
            cells.append(cell)
        visits.append("all visits")
        shares.append(1.0)
        templates.append("")
    columns = (
        Column("visits", visits, is_text=True, is_essential=True),
        Column("% of\nvisits", [f"{100 * share:.1f}" for share in shares], is_essential=True),
        Column("neutral", neutral, is_essential=True),
        Column("best\ntemplate", templates, is_text=True, is_essential=True),
        Column("it earns", template, is_essential=True),
        Column("best\nboosts earn", boosts, is_essential=True),
    )
    return Table("EUR per visit, in expectation (95% margin)", columns)


def boosts_table(frame: "pl.DataFrame") -> Table:
    """Tabulate the best boosts by name, a column for each kind of visit."""
    names = Column("boost", FEATURES, is_text=True, is_essential=True)
    kinds = frame.select("group", "boosts").iter_rows()
    columns = [Column(kind.replace(", ", "\n"), [f"{boost:+.2f}" for boost in boosts]) for kind, boosts in kinds]
    return Table("The best boosts by kind of visit", (names, *columns))


def _with_margin(value: float, error: float) -> str:
    return f"{value:.2f} ± {NORMAL * error:.2f}"


def _together(frame: "pl.DataFrame") -> list[float]:
    """Return what all visits earn: neutral, by the best templates, by the best boosts."""
    return [float((frame["share"] * frame[name]).sum()) for name in REWARDS]
