"""Learn from decisions on products: each product that was shown is learned for itself."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from zoosim.core.types import Context, frozen
from zoosim.policies.base import Policy
from zoosim.serving.events import ProductDecision, Row, unpack_floats, unpack_whole
from zoosim.serving.ids import user_id_of
from zoosim.serving.join import Closing
from zoosim.serving.learning.base import Learning
from zoosim.serving.recorded import Recorded, context_of

if TYPE_CHECKING:
    from zoosim.serving.arm_replica import ArmReplica

EVERY_REWARD = (-1e9, 1e9)

JUDGED, AGREED = "apprentice decisions", "apprentice agreements"
"""Counts of decisions that an apprentice was asked about, and of those that it would have made alike."""


class ProductLearning(Learning):
    """Learns from decisions of the model and of those that it grew from, whose features are encoded anew."""

    def __init__(self, arm: "ArmReplica") -> None:
        super().__init__(arm)
        self._recorded = Recorded(arm.model, arm.schemas, arm.features_of)
        self._known_versions: set[int] = set()

    def decide(self, row: Row, choice: ProductDecision) -> None:
        """Enter a decision, and let the policy move what a decision moves."""
        versions = [] if self._is_of_ancestor(choice) else unpack_whole(choice.versions).tolist()
        has_met_all = self._known_versions.issuperset(versions)  # of which the catalogue had all then
        if not has_met_all and not self._arm.catalogue.has_all(versions):
            self._arm.counts["of unknown products"] += 1  # a server may lose the rows of products
            return
        is_learned = self._arm.is_within_bound(row, choice)
        self._arm.join.decide(row, choice, is_learned)
        if choice.agrees is not None:
            self._arm.counts[JUDGED] += 1
            self._arm.counts[AGREED] += choice.agrees
        if is_learned:
            self._note(choice, has_met_all)

    def expected(self, choice: ProductDecision, closing: Closing) -> tuple[float, float] | None:
        """Return what the policy expects of the product in a slot, and what that earned."""
        policy = self._arm.model.policy
        if not policy.predicts:
            return None
        context, action = self._shown_in(choice, closing.slot)
        expected = policy.expected_rewards(context)
        if expected is None:
            return None
        return float(expected[action]), self._reward_of(closing)

    def _reward_of(self, closing: Closing) -> float:
        """Return what a product earned, in the range of what the policy learns from."""
        policy = self._arm.model.policy
        return self._arm.rules.stretched(closing.reward, *getattr(policy, "rewards", EVERY_REWARD))

    def teach(self, choice: ProductDecision, closing: Closing) -> None:
        """Update the policy with the reward of the product in a slot."""
        policy = self._arm.model.policy
        reward = self._reward_of(closing)
        context, action = self._shown_in(choice, closing.slot, alone=not policy.learns_by_candidates)
        policy.update(context, action, reward, {"reward_parts": dict(closing.parts)})

    def moved_by(self, choice: ProductDecision) -> list[tuple[Context, int]]:
        """Return what was shown in each slot that was not pinned."""
        return [self._shown_in(choice, slot) for slot in _drawn_slots(choice)]

    def state(self) -> dict[str, Any]:
        """Return the versions of products that the policy has met as candidates."""
        return {"known_versions": sorted(self._known_versions)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        self._known_versions = {int(version) for version in state["known_versions"]}

    def _shown_in(self, decision: ProductDecision, slot: int, alone: bool = True) -> tuple[Context, int]:
        """Return a request and the action in a slot of it.

        That for the one product is enough where a policy learns of it, as it keeps it by its id.
        """
        if self._is_of_ancestor(decision):
            return self._recorded.shown_in(decision, slot)
        catalogue = self._arm.catalogue
        action = decision.shown[slot]
        visitor = frozen(np.array(unpack_floats(decision.visitor_in(slot))))
        user_id = user_id_of(decision.visitor_id)
        if alone:
            return context_of(user_id, visitor, catalogue.candidates([decision.version_at(action)])), 0
        versions = unpack_whole(decision.versions).tolist()
        return context_of(user_id, visitor, catalogue.candidates(versions)), action

    def _note(self, decision: ProductDecision, has_met_all: bool) -> None:
        """Apply a decision, of whose candidates the policy has met all or not, to it ahead of the reward."""
        if self._arm.is_warming_up or decision.is_forgotten:
            return
        slots = _drawn_slots(decision)
        if not slots:
            return
        policy = self._arm.model.policy
        if type(policy).note_decision is Policy.note_decision:
            return  # which moves nothing, so that nobody need remember which products it has met
        if not has_met_all:
            self._known_versions.update(unpack_whole(decision.versions).tolist())
        for slot in slots:
            # The policy meets all candidates once, so that it has numbered them when it is asked about them.
            alone = has_met_all and not policy.learns_by_candidates
            context, action = self._shown_in(decision, slot, alone=alone)
            self._arm.move(partial(policy.note_decision, context, action))

    def _is_of_ancestor(self, decision: ProductDecision) -> bool:
        """Return whether a decision's features are those of a model that this one grew from."""
        return decision.model != self._arm.start.model


def _drawn_slots(decision: ProductDecision) -> list[int]:
    """Return the slots of a decision that a policy filled."""
    return [slot for slot in range(len(decision.shown)) if not decision.is_pinned(slot)]
