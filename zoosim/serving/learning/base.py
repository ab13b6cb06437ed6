"""The contract of how a service's model learns from the decisions of one action space."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from zoosim.core.types import Context
from zoosim.serving.events import Row
from zoosim.serving.join import Closing, Join

if TYPE_CHECKING:
    from zoosim.serving.arm_replica import ArmReplica


class Learning(ABC):
    """Joins decisions with their feedback, and lets a model learn what they earned.

    Nothing here looks at a clock or draws random numbers: the same rows in the same order come to the same state.
    """

    join: ClassVar[type[Join]] = Join
    """Type of the join of feedback to decisions."""

    def __init__(self, arm: "ArmReplica") -> None:
        """Learn for an arm, whose model has just begun."""
        self._arm = arm

    def decide(self, row: Row, choice: Any) -> None:
        """Enter a decision from which the model may learn."""
        # Entered also where nothing will be learned of it, so that its feedback is not counted as unknown.
        self._arm.join.decide(row, choice, self._arm.is_within_bound(row, choice))

    @abstractmethod
    def teach(self, choice: Any, closing: Closing) -> None:
        """Update the policy with what a decision, or a part of one, earned."""

    def expected(self, choice: Any, closing: Closing) -> tuple[float, float] | None:
        """Return what the policy expects of a decision that is over, before it learns it, and what came instead.

        None where it predicts nothing.
        """
        return None

    def moved_by(self, choice: Any) -> Iterable[tuple[Context, int]]:
        """Return the requests and actions by which a decision moves the policy; see `Policy.note_decision`."""
        return ()

    def state(self) -> dict[str, Any]:
        """Return what a snapshot must hold beside the model, the products and the open decisions."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned; raises `ValueError` or `LookupError` for what it did not."""
        return
