"""Projection of the log to what a shadow would have earned for the champion's visitors.

A shadow decides for nobody and learns nothing: what is judged is the model as its file holds it. The log has each
decision of the champion with its candidates and the probability of each, so the shadow's own probabilities of the same
candidates can be computed afterwards. Only the champion's decisions count, by the probabilities given that arm; which
visitors it has is drawn by a hash, so they are like all others.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from zoosim.core.digests import short_hash
from zoosim.core.errors import DataError
from zoosim.core.types import CATALOGUE, FloatArray, frozen
from zoosim.monitoring.shadow import Judged, ShadowEvidence
from zoosim.serving.arm_replica import ArmReplica, checked_rules
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.deployment import frozen_since
from zoosim.serving.events import (
    CHAMPION,
    Choice,
    Feedback,
    ProductDecision,
    Row,
    Start,
    decision_of,
    unpack,
    unpack_floats,
    unpack_whole,
)
from zoosim.serving.ids import user_id_of
from zoosim.serving.join import Closing, FindRows, WaitingJoin, with_rows
from zoosim.serving.places import Slot
from zoosim.serving.projection import Projection
from zoosim.serving.ranker import draw
from zoosim.serving.recorded import Recorded
from zoosim.serving.shadows.report import ShadowReport, report_of


class ShadowFollower(Projection):
    """Follows the log for one shadow; the same rows come to the same report.

    Attributes:
        origin: The origin of the shadow's policy, as in `Start`.
        position: The row up to which it has read.
    """

    def __init__(
        self,
        shadow: ArmReplica,
        champion: Callable[[], ArmReplica],
        find_rows: FindRows,
        start: Start,
        position: int,
    ) -> None:
        """Begin without decisions.

        Args:
            shadow: The arm of the shadow.
            champion: Returns the arm of the champion, which has read as far as this or farther.
            find_rows: Returns rows of the log by their positions, without those that are gone.
            start: How the service goes on, should the log before `position` say nothing of that.
            position: The row behind which it reads.
        """
        self.origin = shadow.origin
        self.position = position
        self._name = shadow.name
        self._model = shadow.model
        self._champion = champion
        self._find_rows = find_rows
        self._recorded = Recorded(shadow.model, shadow.schemas, lambda _, version: self._features_of(version))
        self._time = 0
        self._champion_origin = ""
        self._begin(start)

    def _begin(self, start: Start) -> None:
        """Go on by a start; beside another champion what was earned so far says nothing."""
        self._is_broken = frozen_since(start) > 0
        if start.origin != self._champion_origin:
            self._champion_origin = start.origin
            self._evidence = ShadowEvidence()
            self._skipped = 0
            self._join = WaitingJoin(checked_rules(start), dict(self._model.fitted.weights))
        self._join.rules = checked_rules(start)

    def apply(self, row: Row) -> None:
        """Read the next row."""
        self._time = row.time
        super().apply(row)
        self.position = row.seq

    def on_start(self, row: Row, start: Start) -> None:
        """Go on by a start of the log."""
        self._begin(start)

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Enter a decision of the champion."""
        # While a check has frozen learning feedback is lost, so what is decided then seems to earn nothing.
        if self._is_broken or choice.is_forgotten or not isinstance(choice, ProductDecision):
            return
        if choice.rules is not None and 0 in choice.rules.pinned:  # nobody drew what stands at the top
            return
        if choice.source is not None and choice.source.name != CATALOGUE:  # a shadow would have chosen among others
            return
        is_champions = choice.arm == CHAMPION and choice.origin == self._champion_origin
        if is_champions and self._evidence.takes(_number_of(row, choice)):
            self._join.decide(row, choice)

    def on_feedback(self, row: Row, feedback: Feedback) -> None:
        """Enter what a decision earned."""
        self._join.earn(row, feedback)

    def on_activation(self, row: Row) -> None:
        """Activate a deferred decision."""
        self._join.activate(row)

    def on_tick(self, row: Row) -> None:
        """Judge the decisions that are over by now, each by what stood at its top."""
        tops = [closing for closing in self._join.tick(row.time) if closing.slot == 0 and not self._is_broken]
        for closing, decision_row in with_rows(tops, self._find_rows):
            self._judge(closing, decision_row)

    def _judge(self, closing: Closing, row: Row | None) -> None:
        # The champion may be another one already, where this has yet to read of its start: then nothing counts.
        if row is None or self._champion().origin != self._champion_origin:
            return
        decision: ProductDecision = unpack(row)
        if decision.is_forgotten:
            return
        try:
            judged = self._judged(decision, closing.reward, _number_of(row, decision))
        except Exception:  # whatever it raises: a policy may be a user's own
            self._skipped += 1
            return
        self._evidence.update(judged)

    def _judged(self, decision: ProductDecision, reward: float, visitor: int) -> Judged:
        """Return a decision as the shadow would have made it; raises what its policy does."""
        candidates = self._candidates_in(decision)
        slot = Slot(self._visitor_in(decision), None, tuple(decision.excluded), user_id_of(decision.visitor_id))
        # Exploring as much as the champion does: so it would, if it were launched.
        exploration = self._join.rules.exploration
        own = draw(self._model.policy, [slot], candidates, exploration, lambda _: 0.0).propensities
        logged = unpack_floats(decision.propensities)
        shown = decision.shown[0]
        return Judged(
            visitor=visitor,
            reward=reward,
            weight=float(own[shown] / logged[shown]),
            overlap=float(np.minimum(own, logged).sum()),
            unsupported=float(own[logged == 0.0].sum()),
        )

    @property
    def _is_alike(self) -> bool:
        """True if the shadow has the schema of the champion."""
        return self._model.fitted.fingerprint == self._champion().model.fitted.fingerprint

    def _candidates_in(self, decision: ProductDecision) -> RequestCandidates:
        """Return the candidates of a decision in the features of the shadow."""
        catalogue = self._champion().catalogue
        versions = unpack_whole(decision.versions).tolist()
        if not catalogue.has_all(versions):
            raise DataError("log of the service: a product is not known")
        candidates = catalogue.candidates(versions)
        return candidates if self._is_alike else self._recorded.candidates_in(decision, candidates)

    def _visitor_in(self, decision: ProductDecision) -> FloatArray:
        """Return the visitor of a decision in the features of the shadow."""
        if self._is_alike:
            return frozen(np.array(unpack_floats(decision.visitor_in(0))))
        return frozen(self._recorded.visitor_in(decision, 0))

    def _features_of(self, version: int) -> FloatArray:
        return self._champion().catalogue.features_of(version)

    def report(self) -> ShadowReport:
        """Return how the shadow stands."""
        return report_of(self._name, self.origin, self._time, self._skipped, self._evidence.estimate())


def _number_of(row: Row, decision: Choice) -> int:
    """Return the number of a decision's visitor, or of the decision where that is for nobody in particular."""
    who: Any = f"visitor {decision.visitor_id}" if decision.visitor_id else f"decision {decision_of(row)}"
    return int.from_bytes(short_hash(who.encode(), 8), "big")
