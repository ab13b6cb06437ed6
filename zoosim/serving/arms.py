"""Arms: which of a service's models decides on a request, and how likely what it chose was over all of them.

An arm is drawn by a hash of the visitor's id, so that a visitor keeps it; where a request names no visitor, or the arm
is to be drawn for each decision anew, by that of the decision's id. Names, shares and the salt of the hash stand in the
log, so that all who read it draw alike.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from zoosim.core.digests import hashed_share
from zoosim.serving.events import CHAMPION, EVENT, HOLDBACK, Arm, Start


class _Draw(NamedTuple):
    """Draw of one arm among the visitors that no arm before it took.

    Attributes:
        name: The name of the arm.
        key: What its hash hangs on beside the visitor.
        share: Its share of what the arms before it leave.
        by_event: Whether it is drawn for each decision anew.
    """

    name: str
    key: bytes
    share: float
    by_event: bool


# Each arm draws by a hash of its own, one arm after the other, and the champion gets whom none of them took. So an arm
# that begins, grows or ends exchanges visitors with the champion alone, and with arms that are drawn after it. The
# holdback is drawn first, and then the arms in the order in which they began: the one that is being ramped up is the
# last. Another turn of an arm has another hash: the same visitors should not be the first to meet each new model.
class Assignment:
    """Assigns requests to arms.

    Attributes:
        shares: The share of each arm by its name, the champion's last: what the others leave.
    """

    def __init__(self, start: Start) -> None:
        """Take the arms and the salt of a start."""
        self.shares = {arm.name: arm.share for arm in start.arms}
        self.shares[CHAMPION] = max(1.0 - math.fsum(self.shares.values()), 0.0)
        self._salt = start.salt
        self._draws: list[_Draw] = []
        left = 1.0
        for arm in sorted(start.arms, key=lambda arm: (arm.role != HOLDBACK, arm.turn)):
            if arm.share:
                share = arm.share / left if left > arm.share else 1.0
                self._draws.append(_Draw(arm.name, _hash_key(arm), share, arm.sticky == EVENT))
                left = max(left - arm.share, 0.0)

    def arm_for(self, visitor_id: str, decision_id: str) -> str:
        """Return the arm of a decision for a visitor, or for nobody in particular where `visitor_id` is empty."""
        if not self._draws:
            return CHAMPION
        decision = f"/decision/{decision_id}".encode()
        visitor = f"/visitor/{visitor_id}".encode() if visitor_id else decision
        for draw in self._draws:
            if hashed_share(draw.key + (decision if draw.by_event else visitor), self._salt) < draw.share:
                return draw.name
        return CHAMPION

    def weights(self, able: Iterable[str]) -> dict[str, float]:
        """Return how likely each arm is to decide on a request that only some arms can decide on; their sum is 1.

        An arm that cannot leaves it to the champion; where that cannot either, the request is refused.

        Args:
            able: The names of the arms that can.
        """
        weights = {name: self.shares[name] for name in able}
        if CHAMPION in weights:
            weights[CHAMPION] = max(1.0 - math.fsum(share for name, share in weights.items() if name != CHAMPION), 0.0)
        total = math.fsum(weights.values())
        return {name: weight / total for name, weight in weights.items()}


def _hash_key(arm: Arm) -> bytes:
    # A holdback that is renewed keeps its visitors, who are to stay as they were.
    return (arm.name if arm.role == HOLDBACK else f"{arm.name}/{arm.turn}").encode()


def mixture_of(weights: Mapping[str, float], chances: Mapping[str, Sequence[float]]) -> list[float]:
    """Return how likely each part of a choice was, given those above it, before the arm was drawn.

    Args:
        weights: How likely each arm was to decide.
        chances: How likely each part is by each arm, given those above it; equally many of every arm.
    """
    joint = dict(weights)
    total = math.fsum(joint.values())
    mixture = []
    for part in range(len(next(iter(chances.values())))):
        # The arm is drawn once for the whole page: what stands at the top makes one arm more likely than another, and
        # so bears on what follows. Hence the products of all parts so far, by arm.
        joint = {name: weight * chances[name][part] for name, weight in joint.items()}
        now = math.fsum(joint.values())
        mixture.append(now / total)
        total = now
    return mixture
