"""What the console says of forecasts: how many held, by kind, and each one with what came."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from zoosim.core.number_format import counted
from zoosim.serving.console.texts import MISSING, amount, moment
from zoosim.serving.forecasts.scores import EARLY, HELD, MISSED, UNKNOWN, Score

OUTCOMES = (HELD, MISSED, EARLY, UNKNOWN)

KIND_HEADS = ("by", "forecasts", *OUTCOMES)
HEADS = ("model", "of what", "by", "made (UTC)", "outcome", "when (UTC)", "forecast", "came", "decisions")


class LedgerPanel(NamedTuple):
    """Forecasts: a sentence, a row per command that made some, and a row per forecast, the newest first."""

    sentence: str
    kind_heads: Sequence[str]
    kinds: list[list[str]]
    heads: Sequence[str]
    rows: list[list[str]]


def ledger_panel(ledger: Sequence[Score]) -> LedgerPanel:
    """Return what the console says of forecasts."""
    kinds = sorted({_kind(each) for each in ledger})
    counts = [Counter(each.outcome for each in ledger if _kind(each) == kind) for kind in kinds]
    by_kind = [
        [kind, f"{count.total()}", *(f"{count[outcome]}" for outcome in OUTCOMES)]
        for kind, count in zip(kinds, counts, strict=True)
    ]
    return LedgerPanel(_sentence(ledger), KIND_HEADS, by_kind, HEADS, [_row(each) for each in reversed(ledger)])


def _sentence(ledger: Sequence[Score]) -> str:
    if not ledger:
        return "No forecasts: zoosim train, evaluate and recommend write them beside a model, and launches make some."
    outcomes = Counter(each.outcome for each in ledger)
    scored = outcomes[HELD] + outcomes[MISSED]
    if not scored:
        return f"{counted(len(ledger), 'forecast')}, of which none can be scored yet."
    return f"{counted(scored, 'forecast')} of {len(ledger)} can be scored: {outcomes[HELD]} held."


def _kind(each: Score) -> str:
    return str(each.forecast["by"]).removeprefix("zoosim ")


def _row(each: Score) -> list[str]:
    forecast = each.said
    about = f", {forecast.about}" if forecast.about else ""
    outcome = f"{each.outcome}: {each.reason}" if each.reason else each.outcome
    return [
        forecast.policy or forecast.model[:8],
        f"{forecast.reward}, {forecast.quantity}{about}",
        _kind(each),
        forecast.made[:16].replace("T", " "),
        outcome,
        moment(each.time) if each.time else MISSING,
        f"{amount(forecast.value)} ({forecast.level:.0%}: {amount(forecast.low)} to {amount(forecast.high)})",
        amount(each.came),
        f"{each.decisions:,} of {forecast.horizon:,}",
    ]
