"""Logs that no check was written against: neither their author nor that of the checks saw the other's work."""

from benchmarks.quality.fooled.held_out import amounts, hidden, identities, places, same_rows, sessions, timing, twins
from benchmarks.quality.fooled.shop import Way

SHOWN: dict[str, tuple[Way, ...]] = {
    "held out: rewards of a session": sessions.SESSIONS,
    "held out: ids of devices and visits": identities.RENEWED,
    "held out: farms with ids": identities.FARMS,
    "held out: idle users missing": identities.IDLE,
    "held out: hours and days alike": places.HOURS_AND_DAYS,
    "held out: stores alike": places.STORES_ALIKE,
    "held out: returns": timing.RETURNS,
    "held out: clocks": timing.CLOCKS,
    "held out: amounts": amounts.AMOUNTS,
    "held out: rows of days and hosts": amounts.SAMPLED,
    "held out: cells of the same rows": same_rows.CELLS,
    "held out: models of the same rows": same_rows.MODELS,
}
SOUND: dict[str, tuple[Way, ...]] = {"held out: sound": twins.SOUND}
HIDDEN: dict[str, tuple[Way, ...]] = {"held out: no log can show": hidden.HIDDEN}
