"""Tasks of arms in a decision on products: what each has to fill from what, and what is answered in the end."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from zoosim.core.types import FloatArray, frozen
from zoosim.policies.model import product_ids
from zoosim.ranking.caps import GroupCap
from zoosim.serving.bodies import DecisionAnswer, Shown
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.current import ServedArm
from zoosim.serving.endpoints.base import answered_arm
from zoosim.serving.events import AppliedRules, ProductDecision, unpack_floats
from zoosim.serving.places import Slot
from zoosim.serving.ranker import Drawn
from zoosim.serving.shop_rules.candidates import RuledCandidates


class Offer(NamedTuple):
    """Candidates that an arm may show, and the names of those of the request that it cannot."""

    candidates: RequestCandidates
    ignored: list[str]


class EncodedVisitor(NamedTuple):
    """The features of a request's visitor `(d_u,)`, and those with what is known of each slot, where slots differ."""

    features: FloatArray
    by_slot: list[FloatArray]


class ArmTask(NamedTuple):
    """The slots that an arm has to fill, from what, and for whom: the visitor's features `(d_u,)`."""

    arm: ServedArm
    offer: Offer
    visitor: FloatArray
    slots: list[Slot]
    ruled: RuledCandidates | None = None

    @property
    def caps(self) -> Sequence[GroupCap]:
        """The caps on the page."""
        return self.ruled.caps if self.ruled else ()

    def rules_applied(self, drawn: Drawn) -> AppliedRules | None:
        """Return what the rules of the shop did to a draw; None where they did nothing."""
        if self.ruled is None:
            return None
        pinned = [number for number in range(len(drawn.shown)) if number in self.ruled.pins]
        applied = msgspec.structs.replace(self.ruled.applied, pinned=pinned, closed=drawn.closed)
        return None if applied == AppliedRules() else applied


def places_among(products: Sequence[str], names: tuple[str, ...], other_names: tuple[str, ...]) -> list[int] | None:
    """Return the places of products among `other_names`; None where these are not the same as `names`."""
    if other_names != names and set(other_names) != set(names):
        return None
    return [other_names.index(product) for product in products]


def trial_candidates(arm: ServedArm) -> Iterator[RequestCandidates]:
    """Yield a few products, then all of them; of an arm without a catalogue two that are made up."""
    everything = arm.catalogue.everything()
    if not everything.names:
        names = ("a", "b")
        features = frozen(np.zeros((2, arm.model.fitted.products.width)))
        yield RequestCandidates(frozen(np.array([-1, -2])), names, product_ids(names), features)
        return
    yield arm.catalogue.candidates(everything.versions[:2].tolist())
    yield everything


def answer_of(decision_id: str, decision: ProductDecision, names: Sequence[str] | None) -> DecisionAnswer:
    """Return what is answered; without the candidates' `names`, with the probabilities of what was shown alone."""
    propensities = unpack_floats(decision.propensities).tolist()
    if names is None:
        pairs = [(name, propensities[place]) for name, place in zip(decision.products, decision.shown, strict=True)]
    else:
        pairs = list(zip(names, propensities, strict=True))
    shown_products = zip(decision.products, decision.chances, strict=True)
    rules = decision.rules or AppliedRules()
    barred = (
        {} if names is None else {rule: [names[place] for place in places] for rule, places in rules.barred.items()}
    )
    return DecisionAnswer(
        decision_id=decision_id,
        shown=[Shown(name, chance) for name, chance in shown_products],
        propensities=dict(pairs),
        model=decision.model,
        state=decision.state,
        ignored=decision.ignored,
        arm=answered_arm(decision),
        pinned=[number + 1 for number in rules.pinned],
        barred=barred,
        lifted=rules.lifted,
    )
