"""Logs of another author than that of the checks and of the other parts, written without a look at the checks."""

from benchmarks.quality.fooled.held_out import (
    bookings,
    climbed,
    counted,
    figures,
    hidden,
    honest,
    identities,
    kept,
    learned,
    places,
    served,
)
from benchmarks.quality.fooled.shop import Way

SHOWN: dict[str, tuple[Way, ...]] = {
    "held out: rewards not yet known": bookings.NOT_YET,
    "held out: rewards on other rows": bookings.MISPLACED,
    "held out: ids that name no people": identities.RENEWED,
    "held out: visits of no people": identities.ROBOTS,
    "held out: rows kept and lost": kept.KEPT,
    "held out: places and times alike": places.ALIKE,
    "held out: clocks": places.CLOCKS,
    "held out: units": figures.UNITS,
    "held out: propensities": figures.CHANCES,
    "held out: policies of these rows' cells": learned.OF_CELLS,
    "held out: policies of these rows' models": learned.OF_MODELS,
    "held out: rewards that count once": counted.COUNTED,
    "held out: products served otherwise": served.SERVED,
    "held out: policies that climbed or remember": climbed.FITTED,
}
SOUND: dict[str, tuple[Way, ...]] = {
    "held out: sound": honest.SOUND,
    "held out: policies of other rows": (*learned.OF_OTHER_ROWS, *climbed.FITTED_BEFORE),
    "held out: twins of what no log can show": (*hidden.TWINS, *served.TWINS),
}
HIDDEN: dict[str, tuple[Way, ...]] = {"held out: no log can show": (*hidden.HIDDEN, *served.HIDDEN)}
"""Faults that no log can show, each beside the sound log that looks just the same."""
