"""Logs of another author than that of the checks.

They were held out until the checks met them for the first time (docs/off-policy.md has the figures). Since then checks
are written in view of them.
"""

from benchmarks.quality.fooled.shop import Way
from benchmarks.quality.fooled.third_round import (
    amounts,
    hidden,
    identities,
    places,
    same_rows,
    sessions,
    timing,
    twins,
)

SHOWN: dict[str, tuple[Way, ...]] = {
    "third round: rewards of a session": sessions.SESSIONS,
    "third round: ids of devices and visits": identities.RENEWED,
    "third round: farms with ids": identities.FARMS,
    "third round: idle users missing": identities.IDLE,
    "third round: hours and days alike": places.HOURS_AND_DAYS,
    "third round: stores alike": places.STORES_ALIKE,
    "third round: returns": timing.RETURNS,
    "third round: clocks": timing.CLOCKS,
    "third round: amounts": amounts.AMOUNTS,
    "third round: rows of days and hosts": amounts.SAMPLED,
    "third round: cells of the same rows": same_rows.CELLS,
    "third round: models of the same rows": same_rows.MODELS,
}
SOUND: dict[str, tuple[Way, ...]] = {"third round: sound": twins.SOUND}
HIDDEN: dict[str, tuple[Way, ...]] = {"third round: no log can show": hidden.HIDDEN}
