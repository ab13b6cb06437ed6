"""Projection of the log to what its arms have learned; the same rows give the same state, to the bit."""

from collections.abc import Callable
from functools import partial

from zoosim.core.errors import DataError
from zoosim.policies.model import Model
from zoosim.serving.arm_replica import EARLIER, ArmReplica
from zoosim.serving.events import CHAMPION, HOLDBACK, SHADOW, Choice, Feedback, Product, Row, Start
from zoosim.serving.join import FindRows
from zoosim.serving.projection import Projection


class Replica(Projection):
    """All arms of a service as they are after some rows of its log.

    Attributes:
        arms: What each arm has learned, by its name, the champion's first; empty before the first start.
        position: The row up to which the log has been read.
        newest: That row; None before the first one.
        start: What the log says of the models and the rules; None before its first row.
    """

    def __init__(self, load_model: Callable[[str], Model], find_rows: FindRows) -> None:
        """Start before the first row.

        Args:
            load_model: Returns the model with a digest.
            find_rows: Returns rows of the log by their positions, without those that are gone.
        """
        self._new_arm = partial(ArmReplica, load_model=load_model, find_rows=find_rows)
        self.arms: dict[str, ArmReplica] = {}
        self.position = 0
        self.newest: Row | None = None
        self.start: Start | None = None

    @property
    def champion(self) -> ArmReplica:
        """The arm that decides for whom the others leave."""
        return self.arms[CHAMPION]

    def apply(self, row: Row) -> None:
        """Read the next row of the log."""
        if row.seq <= self.position:
            raise DataError(
                f"log of the service: got row {row.seq:,} behind row {self.position:,}, expected a later one"
            )
        super().apply(row)
        self.position = row.seq
        self.newest = row

    def begin(self, start: Start) -> None:
        """Go on with the arms and by the rules of a start.

        An arm whose origin stays, though it be under another name, as one that is promoted, goes on from what it has
        learned; any other begins from the file of its model.
        """
        roles = {arm.name: arm.role for arm in start.arms}
        starts = start.by_arm()
        before = self._arms_that_go_on(starts)
        arms = {}
        for name, own_start in starts.items():
            if name in before:
                arms[name] = before[name]
                arms[name].begin(name, own_start)
            else:
                hidden = arms[CHAMPION].catalogue.hidden() if arms else ()
                arms[name] = self._new_arm(name, own_start, hidden=hidden)
            arms[name].learns = roles.get(name) not in (HOLDBACK, SHADOW)
        self.arms = arms
        self.start = start

    def _arms_that_go_on(self, starts: dict[str, Start]) -> dict[str, ArmReplica]:
        """Return which arm of before goes on as which of the arms of a start."""
        going_on = {}
        left = dict(self.arms)
        for name, start in starts.items():
            if name in left and left[name].origin == start.origin:
                going_on[name] = left.pop(name)
        for name, start in starts.items():
            if name not in going_on:
                old_name = next((old for old, arm in left.items() if arm.origin == start.origin), None)
                if old_name is not None:
                    going_on[name] = left.pop(old_name)
        # What is left changes its model, and keeps what it knows of visitors, products and counts; but a shadow, which
        # knows of none, begins anew where it is launched.
        shadows = {arm.name for arm in self.start.arms if arm.role == SHADOW} if self.start else set()
        for name in starts:
            if name not in going_on and name in left and name not in shadows:
                going_on[name] = left.pop(name)
        return going_on

    def arm_of(self, choice: Choice) -> ArmReplica | None:
        """Return the arm that made a decision, though it have another name by now; None where that decides no more."""
        arm = self.arms.get(choice.arm)
        if arm is not None and arm.has_made(choice):
            return arm
        return next((other for other in self.arms.values() if other.has_made(choice)), None)

    def on_start(self, row: Row, start: Start) -> None:
        """Go on as a start says; a model that grew learns what came since then."""
        before = self.start
        known_origins = {arm.origin for arm in self.arms.values()}
        self.begin(start)
        if before is not None and start.origin not in known_origins:
            self.champion.learn_since(before, row)

    def on_product(self, row: Row, product: Product) -> None:
        """Take over what a row says of a product."""
        for arm in self.arms.values():
            arm.change_product(row, product)

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Enter a decision in the arm that made it."""
        arm = self.arm_of(choice)
        if arm is None:
            self.arms.get(choice.arm, self.champion).counts[EARLIER] += 1
        else:
            arm.enter(row, choice)

    def on_feedback(self, row: Row, feedback: Feedback) -> None:
        """Enter what a decision earned."""
        # Feedback does not say which arm decided. Where nobody holds its decision, the champion counts it as late or
        # unknown.
        arm = next((arm for arm in self.arms.values() if arm.join.holds(row, feedback)), self.champion)
        arm.on_feedback(row, feedback)

    def on_activation(self, row: Row) -> None:
        """Activate a deferred decision whose wait is not over."""
        for arm in self.arms.values():
            arm.on_activation(row)

    def on_tick(self, row: Row) -> None:
        """Learn from the decisions that are over by now, each arm from its own."""
        for arm in self.arms.values():
            arm.on_tick(row)

    def count_of(self, name: str) -> int:
        """Return a count of what came of learning, of all arms together."""
        return sum(arm.counts[name] for arm in self.arms.values())

    def due(self) -> int | None:
        """Return from when on a tick closes a decision of any arm: 0 for at once, None while none is open."""
        return min((due for arm in self.arms.values() if (due := arm.join.due()) is not None), default=None)
