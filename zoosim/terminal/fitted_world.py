"""Printed results of fitting a world to a log."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zoosim.core.number_format import counted
from zoosim.fitting.look_ahead import LookAhead
from zoosim.fitting.tables import checks_table, positions_table
from zoosim.terminal.output import print_address, print_lines, print_table, skipped_lines

if TYPE_CHECKING:
    from zoosim.fitting import Checks
    from zoosim.fitting.search_world import FittedSearchWorld
    from zoosim.worlds.fitted.shop import FittedShop


def print_world(fitted: "tuple[FittedShop, Checks] | LookAhead", folder: Path, *, wide: bool = False) -> None:
    """Print what a fitted world holds, how far to believe it, and how to run it; or whether it pays to look ahead."""
    if isinstance(fitted, LookAhead):
        return _print_look_ahead(fitted, folder, wide=wide)
    shop, checks = fitted
    facts = shop.facts
    counts = [(facts["visitors"], "visitor"), (shop.n_products, "product"), (facts["responses"], "response")]
    holds = ", ".join(counted(number, noun) for number, noun in counts)
    print_lines([*skipped_lines(facts["skipped"]), f"{counted(facts['rows'], 'row')}: {holds}"])
    print_table(checks_table(checks, facts["reward"]), wide=wide, has_page=True)
    n_changes = len(shop.changes)
    print_lines(
        [
            checks.held_out.sentence,
            f"{counted(n_changes, 'change') if n_changes else 'No changes'} over time in what visitors respond to",
            f"World: {shlex.join(['zoosim', 'run', str(folder / 'shop.world')])}",
        ]
    )
    print_address(folder)


def _print_look_ahead(found: LookAhead, folder: Path, *, wide: bool) -> None:
    """Print what a log says of looking ahead, and what that rests on."""
    facts = found.facts
    counts = [(facts["decisions"], "decision"), (facts["clicks"], "click"), (facts["returned"], "return")]
    print_lines(
        [
            *skipped_lines(found.skipped),
            f"{counted(facts['visitors'], 'visitor')}: {', '.join(counted(*count) for count in counts)}",
        ]
    )
    if found.shares is not None:
        print_table(found.table(), wide=wide, has_page=True)
        disappoint = "; ".join(found.disappointing) or "none"
        print_lines([f"Clicks after which fewer visitors come back: {disappoint}"])
    print_lines([found.answer])
    print_address(folder)


def print_search_world(world: "FittedSearchWorld", folder: Path, *, wide: bool = False) -> None:
    """Print what was estimated, how later searches agree with it, and where the world lies."""
    print_table(positions_table(world), wide=wide, has_page=True)
    behaviour = world.behaviour
    responses = zip(world.segments, world.price_responses, strict=True)
    prices = ", ".join(
        f"{name} {response.mean:+.1%} ({response.low:+.1%} to {response.high:+.1%})" for name, response in responses
    )
    # At position 1 nothing has been seen yet, so that satisfaction adds nothing to the bias.
    looks = zip(world.query_types, np.asarray(behaviour.estimates.bias), strict=True)
    first_looks = ", ".join(f"{name} {100 / (1 + np.exp(-bias[0])):.0f}%" for name, bias in looks)
    print_lines(
        [
            f"{world.n:,} searches; behaviour estimated from the latest {world.used:,}",
            f"Clicks on a product whose price is 10% higher, by segment (95% interval): {prices}",
            world.earned.sentence,
            world.fit_sentence,
            f"Chance that position 1 is looked at, by type of query: {first_looks}",
            *(f"warning: {warning}" for warning in world.warnings),
            f"World: {folder / 'world.yaml'}",
        ]
    )
    print_address(folder)
