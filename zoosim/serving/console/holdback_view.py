"""What the console says of the champion beside the holdback: which earns more, how sure that is, and since when."""

import math
from typing import NamedTuple

from zoosim.serving.console.texts import amount, moment, signed
from zoosim.serving.console.tiles import Tile, band_of
from zoosim.serving.launches.holdback import Compared, HoldbackReport

NO_HOLDBACK = (
    "No holdback decides for anybody, so nothing says what the champion's learning is worth; the next launch leaves "
    "one (holdback in its plan)."
)


class HoldbackPanel(NamedTuple):
    """A sentence, a tile per reward, and what else there is to know."""

    sentence: str
    tiles: list[Tile]
    note: str


def holdback_panel(report: HoldbackReport | None) -> HoldbackPanel:
    """Return what the console says of the champion beside the holdback."""
    if report is None:
        return HoldbackPanel(NO_HOLDBACK, [], "")
    if not report.rewards:
        return HoldbackPanel(f"No visitor counts yet since {moment(report.since)}.", [], _note(report))
    first = report.rewards[0]
    counted = f"{report.visitors:,} visitors count since {moment(report.since)}"
    return HoldbackPanel(
        f"{_sentence(first, report.arm)}; {counted}.", [_tile(each) for each in report.rewards], _note(report)
    )


def _sentence(compared: Compared, arm: str) -> str:
    known = f", as is known since {moment(compared.known_since)}" if compared.known_since else ""
    if compared.low > 0.0:
        return f"The champion earns more than the {arm}{known}"
    if compared.high < 0.0:
        return f"The {arm} earns more than the champion{known}"
    return f"Whether the champion or the {arm} earns more cannot be told yet"


def _note(report: HoldbackReport) -> str:
    paused = " A launch splits visitors now, so no new ones count." if report.is_paused else ""
    return f"Each visitor counts once, by what they earn within the wait of their first decision.{paused}"


def _tile(compared: Compared) -> Tile:
    low, high = compared.low, compared.high
    is_known = math.isfinite(compared.difference)
    verdict = "the interval alone does not tell"
    cut = f"What a visitor earns beyond {amount(compared.cut)} is cut."
    if low > 0.0 or high < 0.0:
        verdict = "the champion earns more" if low > 0.0 else "the holdback earns more"
    return Tile(
        reward=compared.reward,
        role="",
        difference=signed(compared.difference),
        interval=f"{signed(low)} to {signed(high)}",
        confidence="95%",
        margin="",
        verdict=verdict,
        note=f"The holdback earns {amount(compared.holdback)}. {cut}",
        band=band_of(low, high, compared.difference) if is_known else None,
    )
