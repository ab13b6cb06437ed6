"""Visitors who come back: what follows a decision, for the same visitor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown

if TYPE_CHECKING:
    from zoosim.worlds.base import Outcome, World


MOST_STEPS = 100_000
"""Most decisions that a visitor may come for: who never leaves is a mistake in the world."""


@dataclass(frozen=True)
class Next:
    """The next visit or step of the same visitor, who has not gone for good.

    Args:
        visit: The visitor's next visit, or step of this one: an object of the world's own, as `World.arrive` returns
            it. It says what the visitor was shown before, as far as that matters from here on.
        same_visit: True where it is a further step of the visit, False where the visitor left and came back.
        cut_off: True where the world ends there, though the visitor might have gone on: nothing is decided in `visit`
            any more, but policies see it, to estimate what was still to come.

    Raises:
        ConfigError: `visit` is None.
    """

    visit: Any
    same_visit: bool = False
    cut_off: bool = False

    def __post_init__(self) -> None:
        """Refuse what looks like a visitor who has gone."""
        if self.visit is None:
            raise ConfigError("Next.visit: got None, expected a visit; leave Outcome.next out where a visitor has gone")


def checked_next(world: "World", outcome: "Outcome") -> Next | None:
    """Return what comes next after an outcome, None for a visitor who has gone; raises `ValueError` for what is none.

    Args:
        world: The world that served.
        outcome: What it returned.
    """
    if outcome.next is None:
        return None
    if not isinstance(outcome.next, Next):
        raise ValueError(f"Outcome.next is {shown(outcome.next)}, expected zoosim.Next(visit) or None")
    if not world.episodic:
        raise ValueError("Outcome.next is given, but the world is not episodic; set episodic = True in its class")
    return outcome.next


def feedback_of(world: "World", outcome: "Outcome") -> Mapping[str, Any] | None:
    """Return what policies hear of an outcome: its feedback, and in episodic worlds what became of the visitor.

    Args:
        world: The world, which says whether visitors come back.
        outcome: What came of the decision.
    """
    if not world.episodic:
        return outcome.feedback
    return {
        **(outcome.feedback or {}),
        "visit_ended": outcome.next is None or not outcome.next.same_visit,
        "ended": outcome.ended,
        "censored": outcome.censored,
    }
