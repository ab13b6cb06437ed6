"""Fault points: what may go wrong in a simulated day, each with a count of how often it did."""

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from random import Random


class Fault(StrEnum):
    """Fault points by their names."""

    APPEND_REFUSED = "append refused"
    APPEND_ANSWER_LOST = "append took effect, and its answer was lost"
    APPEND_LATE = "append took effect after its sender gave up"
    FULL_BATCH = "full batch"
    SYNC_FAILED = "sync failed"
    READ_FAILED = "read failed"
    SLOW_STORE = "store slow"
    STORE_AWAY = "store away"
    ROWS_LOST = "store restarted without rows that nobody synced"
    LEASE_LOST = "lease lost between read and write"
    LEASE_EXPIRED = "lease expired while its holder was paused or cut off"
    SERVICE_KILLED = "service killed"
    SERVICE_STOPPED = "service stopped in good order"
    START_FAILED = "service failed at its start"
    MACHINE_LOST = "folder of a machine lost"
    SERVICE_PAUSED = "service paused"
    LEARNER_KILLED = "learner killed"
    LEARNER_PAUSED = "learner paused"
    LEARNER_BEHIND = "rows removed that a learner had not learned"
    SERVICE_BEHIND = "rows removed that a service had not read"
    LATE_TICK = "late tick"
    CLOCK_FORWARD = "clock forward"
    CLOCK_BACK = "clock back"
    SNAPSHOT_TORN = "snapshot torn"
    SNAPSHOT_MISSING = "snapshot missing"
    DISK_FULL = "disk full at a snapshot"
    LEARNER_ORPHANED = "learner outlived its service"
    SAME_ID_ELSEWHERE = "same decision asked of another service"
    SAME_ID_AT_ONCE = "same decision asked of two services at once"
    OTHER_BODY = "id of a decision with another body"
    GAVE_UP = "client gave up before the answer"
    FEEDBACK_REPEATED = "feedback repeated"
    FEEDBACK_CHANGED = "id of feedback with another body"
    FEEDBACK_LATE = "feedback after the wait"
    FEEDBACK_UNKNOWN = "feedback to an unknown decision"
    FEEDBACK_CEASED = "feedback ceased"
    NEVER_ACTIVATED = "deferred and never activated"
    PRODUCT_CHANGED = "product changed"
    PRODUCT_NEW = "product that nobody knew"
    SETTINGS_CHANGED = "settings changed"
    MODEL_SWITCHED = "model switched"
    ARMS_CHANGED = "arms of the settings changed"
    DEPLOYED = "change of what decides asked for"
    CHANGE_REPEATED = "same change asked for again"
    CHANGE_ID_TAKEN = "id of a change with another body"
    LOG_DELETED = "log deleted"
    HEAVY_VISITOR = "visitor who decides far more often than others"


class Faults:
    """Draws which faults happen in one day.

    Each day leaves out some of them, else rare combinations would never come up alone (swarm testing, Groce et al.
    2012).

    Attributes:
        counts: How often each happened.
        is_calm: Whether nothing fails any more.
        now: Returns the time of the day.
    """

    def __init__(self, rng: Random) -> None:
        """Draw which faults the day has at all."""
        self.counts: Counter[Fault] = Counter()
        self.is_calm = False
        self.now: Callable[[], float] = lambda: 0.0
        self._rng = rng
        self._possible = {fault for fault in Fault if rng.random() < 0.6}

    def has(self, fault: Fault) -> bool:
        """Return whether a fault belongs to the day."""
        return fault in self._possible and not self.is_calm

    def happens(self, fault: Fault, chance: float) -> bool:
        """Return whether a fault happens now, and count it if so."""
        if not self.has(fault) or self._rng.random() >= chance:
            return False
        self.note(fault)
        return True

    def note(self, fault: Fault) -> None:
        """Count a fault that happened by itself."""
        self.counts[fault] += 1
