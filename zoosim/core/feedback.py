"""Delays and batches in which rewards reach a policy."""

from dataclasses import dataclass

from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown

LATEST = 100_000_000


@dataclass(frozen=True)
class FeedbackTiming:
    """The arrival of rewards at a policy: after `delay` further visits, and then in batches of `batch` visits.

    With 0 and 1 a reward is learned before the next visit comes.

    Raises:
        ConfigError: the delay is not a whole number of 0 or more, or the batch not one of 1 or more.
    """

    delay: int = 0
    batch: int = 1

    def __post_init__(self) -> None:
        """Check the numbers of visits."""
        for name, lowest in (("delay", 0), ("batch", 1)):
            visits = getattr(self, name)
            if isinstance(visits, bool) or not isinstance(visits, int) or not lowest <= visits <= LATEST:
                expected = f"a whole number of visits from {lowest} to {LATEST:,}"
                raise ConfigError(f"run.{name}: got {shown(visits)}, expected {expected}")


AT_ONCE = FeedbackTiming()
"""Each reward is learned before the next visit."""
