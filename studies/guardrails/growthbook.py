"""GrowthBook's sequential interval, to be compared with: an asymptotic confidence sequence of the difference of means.

Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (2103.06476), one-sided (eq. 134 and 161 of its version 7),
with the variance of the two samples; GrowthBook tunes it to 5,000 events unless told otherwise.
"""

import math

import numpy as np

from studies.guardrails.streams import Events
from zoosim.core.types import FloatArray

LOOK = 8
"""Events between two looks at the interval; the package's test looks after each."""


class GrowthBookTest:
    """Looks whether the upper end of the interval lies below 0."""

    def __init__(self, level: float, tuned_to: float) -> None:
        """Begin without events; `tuned_to` is the number at which the interval is narrowest."""
        self._level = level
        self._tuned_to = tuned_to
        self._sums = np.zeros(4)
        """Events, those of the new policy, clicks, those of the new policy."""
        self.found_at = 0

    def update(self, events: Events) -> None:
        """Take events, a multiple of `LOOK`; clicks are 0 or 1."""
        steps = (np.ones(events.click.size), 1.0 * events.treated, events.click, events.click * events.treated)
        sums = np.stack([np.cumsum(step)[LOOK - 1 :: LOOK] for step in steps]) + self._sums[:, None]
        self._sums = sums[:, -1]
        seen, treated, clicked, treated_clicked = sums
        counts = np.stack([seen - treated, treated])
        clicks = np.stack([clicked - treated_clicked, treated_clicked])
        means = clicks / np.maximum(counts, 1.0)
        half = interval_half_width(counts, clicks, self._level, self._tuned_to)
        # Without a click in either arm the estimated variance is 0: no interval yet.
        is_below = (means[1] - means[0] + half < 0.0) & (clicks.min(axis=0) >= 1.0)
        if not self.found_at and is_below.any():
            self.found_at = int(seen[np.argmax(is_below)])


def interval_half_width(counts: FloatArray, clicks: FloatArray, level: float, tuned_to: float) -> FloatArray:
    """Return by how much the difference of two arms' click rates may exceed what was seen.

    Args:
        counts, clicks: Events and clicks of the holdback and the new policy, `(2, ...)`.
        level: Probability that the difference is ever above that, for large numbers of events.
        tuned_to: Number of events at which the interval is narrowest.
    """
    log_level = math.log(2.0 * level)
    rho_squared = (-2.0 * log_level + math.log(1.0 - 2.0 * log_level)) / tuned_to
    means = clicks / np.maximum(counts, 1.0)
    variances = (means * (1.0 - means) / np.maximum(counts, 1.0)).sum(axis=0)
    n = counts.sum(axis=0)
    scaled = n * rho_squared + 1.0
    log_term = np.log1p(np.sqrt(scaled) / (2.0 * level))
    return np.asarray(np.sqrt(variances * n) * np.sqrt(2.0 * scaled / (n * n * rho_squared) * log_term))
