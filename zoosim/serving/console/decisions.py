"""The newest decisions of a service, all or a visitor's: where somebody begins who asks why a product was shown."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from zoosim.core.durations import MICROSECONDS
from zoosim.serving.events import Choice, ProductDecision, Row, decision_of
from zoosim.serving.logged import MOST_SEARCHED

MOST_DECISIONS = 50


class DecisionLine(NamedTuple):
    """A decision in a list, as texts."""

    id: str
    time: str
    visitor: str
    arm: str
    shown: str
    chance: str


def decision_lines(decisions: Sequence[tuple[Row, Choice]]) -> list[DecisionLine]:
    """Return decisions as a list shows them."""
    return [
        DecisionLine(
            id=decision_of(row),
            time=f"{datetime.fromtimestamp(row.time / MICROSECONDS, UTC):%Y-%m-%d %H:%M:%S}",
            visitor=choice.visitor_id,
            arm=choice.arm,
            shown=next(iter(choice.names_shown), ""),
            chance=_chance_of(choice),
        )
        for row, choice in decisions
    ]


def _chance_of(choice: Choice) -> str:
    """Return how likely what stands at the top was; empty where nobody knows."""
    chances = (choice.marginals or choice.chances) if isinstance(choice, ProductDecision) else []
    return f"{chances[0]:.1%}" if chances else ""


def decisions_sentence(lines: Sequence[DecisionLine], visitor: str) -> str:
    """Say what a list holds."""
    whose = f" of visitor {visitor}" if visitor else ""
    if not lines:
        return f"No decision{whose} is among the newest {MOST_SEARCHED:,} rows of the log."
    return f"The newest {len(lines)} decisions{whose}; each says why it showed what it did."
