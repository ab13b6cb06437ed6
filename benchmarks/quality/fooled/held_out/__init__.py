"""Logs of another author than that of the checks and of the other parts, written without a look at the checks."""

from benchmarks.quality.fooled.held_out import bookings, honest, identities, kept
from benchmarks.quality.fooled.shop import Way

SHOWN: dict[str, tuple[Way, ...]] = {
    "held out: rewards not yet known": bookings.NOT_YET,
    "held out: rewards on other rows": bookings.MISPLACED,
    "held out: ids that name no people": identities.RENEWED,
    "held out: visits of no people": identities.ROBOTS,
    "held out: rows kept and lost": kept.KEPT,
}
SOUND: dict[str, tuple[Way, ...]] = {"held out: sound": honest.SOUND}
HIDDEN: dict[str, tuple[Way, ...]] = {}
"""Faults that no log can show, each beside the sound log that looks just the same."""
