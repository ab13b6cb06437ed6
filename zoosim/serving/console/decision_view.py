"""What the console says of one decision: what was known, why it showed what it did, and what came of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from zoosim.core.durations import MICROSECONDS
from zoosim.serving.console.influences import what_moved
from zoosim.serving.console.texts import amount, moment, span
from zoosim.serving.console.view import arm_subject
from zoosim.serving.events import Choice, Feedback, Row
from zoosim.serving.logged import MOST_SEARCHED
from zoosim.serving.service import Service

MOST_CANDIDATES = 100
"""Candidates that are listed, the likeliest."""


async def decision_values(service: Service, row: Row, choice: Choice, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the template shows of a decision.

    Args:
        service: The service.
        row, choice: The decision, and its row.
        answer: What was answered.
    """
    feedback = await service.logged.feedback_to(row)
    return {
        "sentence": _decided(choice, answer),
        "facts": [
            ("Why", _why(choice, answer)),
            ("What moved it", what_moved(service.current, choice)),
            *_made(service, row, choice),
            ("What came", _came(row, feedback, service.model.fitted.weights, _is_over(service, row))),
            ("Learning", _learning(service, row, choice)),
        ],
        "chances": _chances(choice, answer),
    }


def _decided(choice: Choice, answer: Mapping[str, Any]) -> str:
    """Say what a decision showed, and how likely that was."""
    shown = answer.get("shown") or []
    if not shown:
        return (
            f"{arm_subject(choice.arm)} ranked {len(choice.names_shown)} results: {', '.join(choice.names_shown[:5])}."
        )
    parts = [f"{each['product']}, which it did in {each['propensity']:.1%} of such cases" for each in shown[:5]]
    return f"{arm_subject(choice.arm)} showed {'; then '.join(parts)}."


def _why(choice: Choice, answer: Mapping[str, Any]) -> str:
    """Say why this stands at the top and nothing else."""
    propensities = answer.get("propensities") or {}
    shown = next(iter(choice.names_shown), "")
    if not propensities:
        return "the policy's boosts moved the base ranking so"
    if 1 in answer.get("pinned", ()):
        return f"{shown} was pinned to the top"
    possible = {name: chance for name, chance in propensities.items() if chance > 0.0}
    likeliest = max(possible, key=lambda name: possible[name])
    barred = sum(len(names) for names in (answer.get("barred") or {}).values())
    rules = f"; rules of the shop kept back {barred} more" if barred else ""
    if len(possible) == 1:
        return f"{shown} was all that could be shown{rules}"
    if possible[shown] >= possible[likeliest]:
        why = f"of {len(possible)} candidates it was the one that the policy shows most to such visitors"
    else:
        why = (
            f"the policy shows {likeliest} more often to such visitors ({possible[likeliest]:.1%}); what is shown is "
            f"drawn, so that others are tried, too, and this one came up"
        )
    return f"{why}{rules}"


def _made(service: Service, row: Row, choice: Choice) -> list[tuple[str, str]]:
    """Return when and by what a decision was made, and what was known."""
    return [
        ("Made", f"{moment(row.time)} UTC, row {row.seq:,} of the log"),
        ("Arm", choice.arm),
        ("Model", f"{choice.model}, as it was at row {choice.state:,}"),
        ("Visitor", choice.visitor_id or "nobody in particular"),
        (
            "What was known of the visitor",
            _visitor_in_words(choice.asked().get("visitor"), service.model.fitted.visitors.features),
        ),
        ("Left out", ", ".join(choice.ignored) or "nothing"),
    ]


def _visitor_in_words(visitor: Any, features: Sequence[str]) -> str:
    """Return what was known of a visitor: values by column, or the features that are not 0, by their names."""
    if isinstance(visitor, Mapping):
        return ", ".join(f"{name} = {value}" for name, value in visitor.items()) or "nothing"
    values = list(visitor or ())
    if len(values) != len(features):  # of a model with another schema
        return ", ".join(f"{value:.4g}" for value in values) or "nothing"
    known = [
        name if value == 1.0 else f"{name}: {amount(value)}"
        for name, value in zip(features, values, strict=True)
        if value
    ]
    return ", ".join(known) or "nothing"


def _is_over(service: Service, row: Row) -> bool:
    """Return whether the wait for feedback to a decision is over."""
    return service.clock.now() - row.time > service.settings.wait * MICROSECONDS


def _came(row: Row, feedback: Sequence[tuple[Row, Feedback]], weights: Mapping[str, float], is_over: bool) -> str:
    """Say which rewards came after a decision, and what the first is worth to the policy."""
    if not feedback:
        return f"no reward among the {MOST_SEARCHED:,} rows behind it" if is_over else "no reward so far"
    parts = []
    for told, each in feedback:
        rewards = ", ".join(f"{name} {value:g}" for name, value in each.rewards.items())
        parts.append(f"{rewards} after {span(told.time - row.time)}")
    worth = sum(weights.get(name, 0.0) * value for _, each in feedback[:1] for name, value in each.rewards.items())
    return f"{'; '.join(parts)}; the first is worth {amount(worth)} to the policy"


def _learning(service: Service, row: Row, choice: Choice) -> str:
    if choice.is_forgotten:
        return "its visitor was forgotten, so nothing is learned from it"
    if not service.current.learns_from(choice):
        return "its model decides no more, so nothing is learned from it"
    return "its wait is over" if _is_over(service, row) else "its wait is not over; rewards still count"


def _chances(choice: Choice, answer: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return each candidate with its probability, the likeliest first, and whether it was shown."""
    propensities = answer.get("propensities") or {}
    shown = {name: place for place, name in enumerate(choice.names_shown, 1)}
    likeliest = sorted(propensities.items(), key=lambda item: (-item[1], item[0]))
    return [
        (name, f"{chance:.4%}", f"at place {shown[name]}" if name in shown else "")
        for name, chance in likeliest[:MOST_CANDIDATES]
    ]
