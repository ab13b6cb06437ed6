"""Predictions of policies, and what came: by bins, in bounded memory, as decisions are about to be learned."""

import math
from typing import Any

import msgspec

from zoosim.policies.base import policy_name
from zoosim.serving.arm_replica import ArmReplica
from zoosim.serving.join import Closing
from zoosim.serving.learning.products import EVERY_REWARD
from zoosim.serving.replica import Replica

EDGES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
"""Where bins begin and end, in parts of the range of rewards; what is beyond is in the first or the last one."""

ALL, PART = 5_000, 10
"""Decisions that are all looked at; of later ones one in so many."""

FADING = 20_000
"""Decisions after which older ones count half."""


class Bin(msgspec.Struct, array_like=True):
    """Decisions with predictions near each other: a count, and sums of predictions, of what came and its squares."""

    count: float = 0.0
    predicted: float = 0.0
    came: float = 0.0
    squares: float = 0.0

    def interval(self, lowest: float, highest: float) -> tuple[float, float, float]:
        """Return what came on average, and its 95% interval.

        Args:
            lowest, highest: The range of what can come.
        """
        mean = self.came / self.count
        # As if two more decisions had come, one at each end of the range (Agresti & Coull 1998 for clicks): else few
        # decisions that came to the same would have an interval of width 0.
        n = self.count + 2.0
        middle = (self.came + lowest + highest) / n
        variance = max((self.squares + lowest**2 + highest**2) / n - middle * middle, 0.0)
        half = 1.96 * math.sqrt(variance / n)
        return mean, max(min(mean, middle - half), lowest), min(max(mean, middle + half), highest)

    def fade(self) -> None:
        """Let what was counted so far count half."""
        self.count /= 2.0
        self.predicted /= 2.0
        self.came /= 2.0
        self.squares /= 2.0


class Calibration(msgspec.Struct, array_like=True):
    """What a policy predicted, and what came.

    Attributes:
        arm: The name of its arm.
        origin: The origin of the policy, as in `Start`.
        policy: The policy's name.
        predicts: Whether it predicts rewards.
        low, high: The range of rewards.
        decisions: Decisions that were looked at.
        bins: One between each two of `EDGES`.
        seen: Decisions that were learned.
    """

    arm: str
    origin: str
    policy: str
    predicts: bool
    low: float
    high: float
    decisions: int = 0
    bins: list[Bin] = msgspec.field(default_factory=lambda: [Bin() for _ in EDGES[1:]])
    seen: int = 0

    def add(self, predicted: float, came: float) -> None:
        """Count a decision."""
        self.decisions += 1
        if sum(each.count for each in self.bins) >= FADING:
            for each in self.bins:
                each.fade()
        part = (predicted - self.low) / (self.high - self.low)
        place = min(sum(part >= edge for edge in EDGES[1:]), len(self.bins) - 1)
        chosen = self.bins[place]
        chosen.count += 1.0
        chosen.predicted += predicted
        chosen.came += came
        chosen.squares += came * came


class Calibrations:
    """Follows what the arms of a replica learn."""

    def __init__(self, replica: Replica, saved: list[Calibration] | None = None) -> None:
        """Go on from what was saved.

        Args:
            replica: The replica, before it reads on.
            saved: What `saved` held.
        """
        self._replica = replica
        self._by_origin = {each.origin: each for each in saved or []}
        self.follow()

    def follow(self) -> None:
        """Listen to the arms that there are now; those of models that are gone are forgotten."""
        arms = self._replica.arms.values()
        for arm in arms:
            arm.on_learning = self._note
        origins = {arm.origin for arm in arms}
        self._by_origin = {origin: each for origin, each in self._by_origin.items() if origin in origins}

    def _note(self, arm: ArmReplica, choice: Any, closing: Closing) -> None:
        calibration = self._of(arm)
        calibration.seen += 1
        if not calibration.predicts or (calibration.seen > ALL and calibration.seen % PART):
            return
        try:
            pair = arm.learning.expected(choice, closing)
        except Exception:  # a policy of a user's own may raise anything, and its decisions are learned all the same
            return
        if pair is not None and all(map(math.isfinite, pair)):
            calibration.add(*pair)

    def _of(self, arm: ArmReplica) -> Calibration:
        if arm.origin not in self._by_origin:
            self._by_origin[arm.origin] = _new_calibration(arm)
        calibration = self._by_origin[arm.origin]
        calibration.arm = arm.name
        return calibration

    def reports(self) -> list[Calibration]:
        """Return how each arm stands that has learned something."""
        return list(self._by_origin.values())


def _new_calibration(arm: ArmReplica) -> Calibration:
    policy = arm.model.policy
    low, high = _range_for(arm)
    return Calibration(arm.name, arm.origin, policy_name(type(policy)), policy.predicts, low, high)


def _range_for(arm: ArmReplica) -> tuple[float, float]:
    """Return the range of rewards as the policy learns them: those of the rules, or what they are stretched to."""
    rules = arm.rules
    lowest, highest = getattr(arm.model.policy, "rewards", EVERY_REWARD)
    return rules.stretched(rules.lowest, lowest, highest), rules.stretched(rules.highest, lowest, highest)


def load_calibrations(content: bytes, position: int) -> list[Calibration]:
    """Return what was saved, whatever the row; raises `ValueError` for what is none."""
    calibrations = _decode(content)
    if any(len(each.bins) != len(EDGES) - 1 or not each.low < each.high for each in calibrations):
        raise ValueError("other bins")
    return calibrations


_decode = msgspec.json.Decoder(list[Calibration]).decode
