"""Train policies on the earlier part of a log, to judge them by the later."""

import hashlib
from typing import NamedTuple

import numpy as np

from zoosim.core.blame import blamed
from zoosim.core.errors import DataError
from zoosim.core.types import Progress
from zoosim.logs.log import Log
from zoosim.policies.base import Policy

EARLIER = 0.6
LEAST_ROWS = 50


class Training(NamedTuple):
    """A policy that has learned nothing yet, and the log that it learns from before it is judged by another."""

    policy: Policy
    log: Log

    def run(self, progress: Progress) -> Policy:
        """Train the policy and return it; raises `PolicyError`."""
        with blamed("cannot learn from the log: "):
            self.policy.fit(self.log, progress)
        return self.policy


def fingerprint(log: Log) -> str:
    """Return a hash of what the visits of a log chose and earned, by which they are known again."""
    arrays = (log.actions, log.rewards, log.features)
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:16]


def earlier_and_later(log: Log, share: float = EARLIER) -> tuple[Log, Log]:
    """Cut a log in two: the first rows in order of time, a `share` of all, to learn from, and the rest, to judge by.

    Raises `DataError` where the later part has few rows.
    """
    ordered = log.in_order()
    cut = int(share * len(log))
    if len(log) - cut < LEAST_ROWS:
        raise DataError(f"{log.source}: {len(log):,} rows, too few to learn from some and judge by the others")
    return ordered.rows(np.arange(cut)), ordered.rows(np.arange(cut, len(log)))
