"""Measure false alarms, and events until a drop is found."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from studies.guardrails.growthbook import LOOK, GrowthBookTest
from studies.guardrails.streams import NUMBER_OF_STRATA, Events, Stream, World
from studies.work import rows_by_seed
from zoosim.core.checks import check_whole
from zoosim.core.types import Progress
from zoosim.monitoring import HARM, DifferenceTest, Reward
from zoosim.monitoring.sample_size import fixed_test_events

LEVEL = 0.01
DROP = 0.2
RATES = (0.02, 0.05, 0.1, 0.3)
SHARES = {"10% holdback": 0.9, "equal shares": 0.5}
RAMP = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of the new policy in a ramp."""

LATE = (20_000, 200_000)
"""Harmless decisions before a drop that comes late."""

BETTING = "betting"
REDUCED = "betting, variance reduced"
GROWTHBOOK = "GrowthBook, tuned to 5,000"
TUNED = "GrowthBook, tuned to the test"
METHODS = (BETTING, REDUCED, GROWTHBOOK, TUNED)
CHUNK = 8_192
LONGEST = 5_000_000
"""Events after which the search for a drop is given up."""

RAMP_PART = 5
"""A ramp takes this part of the events, a fifth."""


@dataclass(frozen=True)
class Run:
    """What a method found in one stream; `found_at` is 0 where it found nothing in `events`."""

    seed: int
    shares: str
    rate: float
    drop: float
    harmless: int
    method: str
    events: int
    found_at: int


class _Test(Protocol):
    def update(self, events: Events) -> None: ...

    @property
    def found_at(self) -> int: ...


class _Betting:
    """The package's test, with or without what was known of each event."""

    def __init__(self, *, is_reduced: bool) -> None:
        self._test = DifferenceTest(Reward("click", drop=DROP), strata=NUMBER_OF_STRATA if is_reduced else 1)
        self._is_reduced = is_reduced

    def update(self, events: Events) -> None:
        known = (events.prediction, events.stratum) if self._is_reduced else ()
        self._test.update(events.treated, events.share, events.click, *known)

    @property
    def found_at(self) -> int:
        return int(self._test.shown_at[HARM])


def measure(
    *,
    seeds: Any = "1000:1500",
    jobs: Any = None,
    events: int = 1_000_000,
    progress: Progress = lambda line: None,
) -> list[Run]:
    """Return what each method found in streams with and without a drop, by seed; about `events` in those without."""
    count = check_whole("guardrails: events", events, 1_000, 1_000_000_000)
    rounded = count // (RAMP_PART * LOOK) * RAMP_PART * LOOK
    return rows_by_seed(partial(_at_seed, events=rounded), seeds, jobs=jobs, progress=progress)


def _at_seed(seed: int, *, events: int) -> list[Run]:
    rows = []
    rngs = np.random.default_rng(seed)
    for name, share in SHARES.items():
        rows += _watch(seed, name, World(0.1, (share,)), events, rngs.spawn(1)[0])
    in_ramp = events // RAMP_PART
    rows += _watch(seed, "ramp", World(0.1, RAMP, span=in_ramp), in_ramp, rngs.spawn(1)[0])
    for rate in RATES:
        for name, share in SHARES.items():
            rows += _watch(seed, name, World(rate, (share,), DROP), LONGEST, rngs.spawn(1)[0])
    name, share = next(iter(SHARES.items()))
    for harmless in LATE:
        rows += _watch(seed, name, World(0.1, (share,), DROP, harmless), LONGEST, rngs.spawn(1)[0])
    return rows


def fixed_events(rate: float, share: float) -> float:
    """Return the events of a fixed test of the same level, which finds the drop in half of all cases."""
    return fixed_test_events(DROP * rate, variance_of(rate, share), share, LEVEL)


def variance_of(rate: float, share: float) -> float:
    """Return the variance of clicks of both arms, where there is a drop, as their difference weighs it."""
    lower = rate * (1.0 - DROP)
    return (1.0 - share) * lower * (1.0 - lower) + share * rate * (1.0 - rate)


def _watch(seed: int, name: str, world: World, events: int, rng: np.random.Generator) -> list[Run]:
    """Run all methods on the same stream, until all have found something or the events are over."""
    stream = Stream(world, rng)
    tuned_to = fixed_events(world.rate, world.shares[0])
    tests: dict[str, _Test] = {
        BETTING: _Betting(is_reduced=False),
        REDUCED: _Betting(is_reduced=True),
        GROWTHBOOK: GrowthBookTest(LEVEL, 5_000),
        TUNED: GrowthBookTest(LEVEL, tuned_to),
    }
    seen = 0
    while seen < events and not all(test.found_at for test in tests.values()):
        batch = stream.next(min(CHUNK, events - seen))
        seen += len(batch.click)
        for test in tests.values():
            if not test.found_at:
                test.update(batch)
    return [
        Run(seed, name, world.rate, world.drop, world.harmless, method, seen, test.found_at)
        for method, test in tests.items()
    ]


def false_alarms(rows: Sequence[Run], shares: str, method: str) -> tuple[int, int]:
    """Return in how many runs without a drop a method found one, and how many runs there are."""
    runs = [row for row in rows if row.drop == 0.0 and row.shares == shares and row.method == method]
    return sum(row.found_at > 0 for row in runs), len(runs)
