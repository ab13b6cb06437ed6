"""What to do after a launch, or on the way, in sentences: by how it stands, and by its effects."""

from collections.abc import Sequence

from zoosim.core.number_format import with_interval
from zoosim.monitoring.effects import Effect
from zoosim.monitoring.launch import State

ADVICE = {
    State.COMPLETED: "Keep {arm}, which has shipped: {reason}.",
    State.ROLLED_BACK: "Leave {arm} as it is, taken back: {reason}.",
    State.PAUSED: "Look at what holds {arm}, then resume or roll back: {reason}.",
    State.RUNNING: "Wait for {arm}: {sentence}.",
    State.CANNOT_TELL: "Wait for {arm}, or take it back by hand: {sentence}.",
    State.PENDING: "{arm} has not begun.",
    State.READY: "{arm} has not begun.",
}
"""What to do by how a launch stands."""

WORSE_THAN_SHIPPED = (
    "Yet {segment} is shown to earn less by it ({figures} {reward} per visitor): look at these visitors."
)
BETTER_THAN_TAKEN_BACK = "Yet {segment} is shown to earn more by it ({figures} {reward} per visitor)."


def advice_after(arm: str, state: State, reason: str, sentence: str, effects: Sequence[Effect]) -> list[str]:
    """Return what to do, and what speaks for and against it.

    Args:
        arm: What was launched.
        state: How it stands.
        reason: Why.
        sentence: What its metrics say now; empty where it is over.
        effects: Its effects.
    """
    why = (reason or "no reason is logged").rstrip(".")
    said = (sentence or why).rstrip(".")
    sentences = [ADVICE[state].format(arm=arm, reason=why, sentence=said)]
    sentences += [_whole(effect) for effect in effects if not effect.segment]
    for effect in effects:
        against = BETTER_THAN_TAKEN_BACK if state is State.ROLLED_BACK else WORSE_THAN_SHIPPED
        sign = 1 if state is State.ROLLED_BACK else -1
        if effect.segment and effect.sign == sign:
            sentences.append(against.format(segment=effect.segment, figures=figures_of(effect), reward=effect.reward))
    return sentences


def figures_of(effect: Effect) -> str:
    """Return a difference with its interval."""
    return str(with_interval(*effect.estimate[:3], signed=True))


def _whole(effect: Effect) -> str:
    if not effect.visitors:
        return f"{effect.reward}: nobody counted."
    words = {1: "earns more than", -1: "earns less than", 0: "is not told apart from"}[effect.sign]
    return (
        f"By {effect.reward} the new model {words} the champion: {figures_of(effect)} per visitor, by "
        f"{effect.visitors:,} visitors, of whom {effect.new:,} met the new model."
    )
