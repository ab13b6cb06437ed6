"""What moved a decision: each column of its visitor left out in turn, and the policy asked again.

So it can be said of every policy that gives probabilities, whatever it is. The policy answers as it is now, which has
learned since; the page says so.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.errors import ZoosimError
from zoosim.core.types import POOL, Context, FloatArray, frozen
from zoosim.policies.requests import dense_propensities
from zoosim.serving.console.texts import amount
from zoosim.serving.current import Current, ServedArm
from zoosim.serving.events import Choice, ProductDecision, unpack_floats, unpack_whole
from zoosim.serving.ids import user_id_of

MOST_COLUMNS = 50
"""Columns that are left out in turn; each takes as long as a decision."""

MOST_TOLD = 3
LEAST = 0.001
"""Columns that are named, those that move the probability most, by so much at least."""


class Influence(NamedTuple):
    """A column of the visitor, and how likely the product were without it."""

    column: str
    without: float


def what_moved(current: Current, choice: Choice) -> str:
    """Say in words which columns of a visitor moved what was shown most, and what the policy expects of it."""
    if not isinstance(choice, ProductDecision) or choice.is_forgotten:
        return "of such a decision that is not said"
    if choice.source is not None and choice.source.name == POOL:
        return f"nothing: it was drawn from all {choice.source.products:,} products, each with the same chance"
    arm = current.arm_of(choice)
    if arm is None or choice.model != arm.start.model or not arm.catalogue.has_all(_versions(choice)):
        return "the model that decided cannot be asked any more"
    try:
        return _in_words(arm, choice)
    except (ZoosimError, ValueError) as error:
        return f"the model cannot be asked: {error}"


def _in_words(arm: ServedArm, choice: ProductDecision) -> str:
    policy = arm.model.policy
    visitor = np.array(unpack_floats(choice.visitor_in(0)))
    context = _context(arm, choice, visitor)
    place = choice.shown[0]
    chance = float(dense_propensities(policy, context)[place])
    moved = influences(arm, choice, visitor)
    strongest = sorted(moved, key=lambda each: -abs(chance - each.without))[:MOST_TOLD]
    told = [each for each in strongest if abs(chance - each.without) >= LEAST]
    words = f"the policy, as it is now, shows it in {chance:.1%} of such cases"
    if told:
        words += "; " + ", ".join(f"without {each.column} in {each.without:.1%}" for each in told)
    elif moved:
        words += "; nothing that is known of the visitor moves that"
    expected = policy.expected_rewards(context) if policy.predicts else None
    if expected is not None and np.isfinite(expected[place]):
        best = float(np.max(expected[np.isfinite(expected)]))
        words += f"; it expects {amount(float(expected[place]))} of it, and {amount(best)} of the best"
    return words


def influences(arm: ServedArm, choice: ProductDecision, visitor: FloatArray) -> list[Influence]:
    """Return how likely what stands at the top were without each column of its visitor that holds something.

    Args:
        arm: The arm that decided.
        choice: The decision.
        visitor: The visitor's features `(d_u,)`.
    """
    policy = arm.model.policy
    moved: list[Influence] = []
    begin = 0
    for column in arm.model.fitted.visitors.columns:
        missing = np.array(column.encode_one(None))
        part = slice(begin, begin + len(missing))
        begin = part.stop
        if len(moved) == MOST_COLUMNS or np.array_equal(visitor[part], missing):
            continue
        without = visitor.copy()
        without[part] = missing
        chances = dense_propensities(policy, _context(arm, choice, without))
        moved.append(Influence(column.name, float(chances[choice.shown[0]])))
    return moved


def _context(arm: ServedArm, choice: ProductDecision, visitor: FloatArray) -> Context:
    candidates = arm.catalogue.candidates(_versions(choice))
    available = np.ones(len(candidates.ids), np.bool_)
    available[choice.excluded] = False
    return Context(
        user_id=user_id_of(choice.visitor_id),
        user=frozen(visitor),
        product_ids=candidates.ids,
        products=candidates.features,
        available=frozen(available),
    )


def _versions(choice: ProductDecision) -> list[int]:
    return [int(version) for version in unpack_whole(choice.versions).tolist()]
