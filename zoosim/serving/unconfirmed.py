"""Effects of a service's own decisions on a policy's clocks until its learner, in another process, confirms them.

From a tenth of a second up to one passes until the learner tells of a decision. If it moved nothing until then, all
visitors that come meanwhile would be shown what is overdue, since nobody seems to have been shown it.
"""

from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.types import Context
from zoosim.policies.base import Policy, policy_name
from zoosim.serving.events import Choice

MOST_NOTED = 500
"""Decisions that are noted, the newest: each is noted again whenever the learner tells of others."""


class UnconfirmedDecisions:
    """Keeps the decisions that the learner has not confirmed yet, and lets them move a policy's clocks."""

    def __init__(self, moved_by: Callable[[Choice], Iterable[tuple[Context, int]]]) -> None:
        """Keep nothing yet.

        Args:
            moved_by: Returns the requests and actions by which a decision moves a policy.
        """
        self._moved_by = moved_by
        self._noted: deque[tuple[int, Choice]] = deque(maxlen=MOST_NOTED)
        self._learned: dict[str, np.ndarray] | None = None
        self._are_read: bool | None = None

    def note(self, policy: Policy, position: int, decision: Choice) -> None:
        """Apply a decision to the clocks of the policy that made it, where it goes by them.

        Args:
            policy: The policy, which has `clocks`.
            position: The row of the decision.
            decision: The decision.
        """
        self._noted.append((position, decision))
        if self._are_read is None:  # which holds until the learner tells of more
            self._are_read = policy.goes_by_clocks
        if not self._are_read:
            return
        if self._learned is None:
            # Copied as late as the first decision since the learner's message, so that a policy whose clocks nothing
            # moves is not copied with each.
            self._learned = {name: array.copy() for name, array in _clocks(policy).items()}
        for context, action in self._moved_by(decision):
            policy.note_decision(context, action, is_confirmed=False)

    def take_back(self, policy: Policy) -> None:
        """Give the clocks of a policy back what the learner told of them last, so that it can tell what changed."""
        if self._learned is not None:
            for name, array in _clocks(policy).items():
                np.copyto(array, self._learned[name])
        self._learned = None

    def note_again(self, policy: Policy, position: int) -> None:
        """Apply again, to the policy's clocks, the decisions behind a position up to which the learner has told now."""
        decisions = [decision for decision in self._noted if decision[0] > position]
        self._noted.clear()
        self._learned = None
        self._are_read = None
        for decision in decisions:
            self.note(policy, *decision)


def _clocks(policy: Policy) -> dict[str, np.ndarray]:
    arrays = policy.learned_in_use()
    missing = [name for name in policy.clocks if not isinstance(arrays.get(name), np.ndarray)]
    if missing:
        raise PolicyError(f"{policy_name(type(policy))}: `clocks` names {missing[0]}, which is no learned array")
    return {name: arrays[name] for name in policy.clocks}
