"""Estimate a policy's value on simulated logs by every estimator, and compare with what it earns when the log ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from studies.known_logs import PLAIN, KnownLogs, Settings
from studies.repeated_logs import Kept, over_logs
from studies.search_logs import SearchLogs, SearchSettings, read_shifting_shop, shop_key
from studies.shops import ShopChanges
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, Progress
from zoosim.off_policy.actions.product_weights import weigh_and_predict
from zoosim.off_policy.actions.products import ESTIMATORS, estimate
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.off_policy.models.reward_model import fit_reward_model
from zoosim.off_policy.targets.products import make_target

CHUNK = 50
LOGGED = "logged"
NAMES = (*ESTIMATORS, LOGGED)
"""The estimators, and the mean of the logged rewards, which takes no notice of the policy."""

SKILL = 0.7
"""The policies that are judged are better than the one that wrote the log."""

CLICKS = PLAIN._replace(contexts=8, distance=1.0, floor=0.2, n=3_000, skill=SKILL)
WORLDS: dict[str, Settings | SearchSettings] = {
    "recommendation": CLICKS,
    "recommendation, features tell half": CLICKS._replace(coarse=True),
    "search": SearchSettings(distance=1.0, floor=0.2, n=3_000, skill=SKILL),
}
AXES: dict[str, tuple[float, ...]] = {
    "n": (300, 1_000, 3_000, 10_000, 30_000),
    "distance": (0.25, 0.5, 1.0, 2.0, 3.0),
    "drift": (0.0, 0.25, 0.5, 0.75, 1.0),
}
"""What is varied, one at a time; the others stay at 3,000 rows, a distance of 1, and no drift."""


class Place(NamedTuple):
    """A `world` of `WORLDS` with its setting `axis` at a value."""

    world: str
    axis: str
    at: float


@dataclass(frozen=True)
class Accuracy:
    """An estimator over `logs` logs of a world whose setting `axis` is `at`.

    `error` is the root mean squared error, `bias` the mean error, both as shares of `truth`, what the policy earns a
    visit when the log ends. `effective` rows of its own the log counts for, in expectation.
    """

    world: str
    axis: str
    at: float
    effective: float
    estimator: str
    logs: int
    truth: float
    error: float
    bias: float


def measure(
    *, seeds: Any = "1000:1200", jobs: Any = None, config: ShopChanges = None, progress: Progress = lambda line: None
) -> list[Accuracy]:
    """Estimate on a log a seed at every place; what is measured is kept, so a run can go on.

    `config` changes the search shop.
    """
    shop = read_shifting_shop(config)
    places = [Place(world, axis, at) for world in WORLDS for axis, values in AXES.items() for at in values]
    found = values_at(shop, places, seeds, jobs=jobs, words=_words, progress=progress)
    return [row for place, values in zip(places, found, strict=True) for row in rows_of(shop, place, values)]


def values_at(shop: SearchConfig, places: Sequence[Place], seeds: Any, **how: Any) -> list[FloatArray]:
    """Estimate on a log a seed at each of the `places`: `(s, E)` each; `how` is what `over_logs` takes."""
    kept = Kept("ope-accuracy", shop_key(shop))
    return over_logs(partial(_values, shop), places, seeds, kept, chunk=CHUNK, **how)


def _words(place: Place) -> str:
    return f"{place.world}, {place.axis} {place.at:g}"


def rows_of(shop: SearchConfig, place: Place, values: FloatArray) -> list[Accuracy]:
    """Sum up what `values_at` finds of the logs of a place."""
    logs = logs_at(shop, place)
    off = values / logs.ending - 1.0
    root, mean = np.sqrt((off**2).mean(axis=0)), off.mean(axis=0)
    figures = zip(NAMES, root.tolist(), mean.tolist(), strict=True)
    head = (*place, logs.effective)
    return [Accuracy(*head, name, len(off), logs.ending, error, bias) for name, error, bias in figures]


def logs_at(shop: SearchConfig, place: Place) -> KnownLogs | SearchLogs:
    """Return the logs of a place; a world's tables and logging policy are the same at all places."""
    settings, rng = WORLDS[place.world], stream(0, "off-policy accuracy", place.world)
    at = {"n": settings.n, "distance": settings.distance, "drift": settings.drift, place.axis: place.at}
    n, distance, drift = int(at["n"]), at["distance"], at["drift"]
    if isinstance(settings, SearchSettings):
        return SearchLogs(settings._replace(n=n, distance=distance, drift=drift), rng, shop)
    return KnownLogs(settings._replace(n=n, distance=distance, drift=drift), rng)


def _values(shop: SearchConfig, place: Place, seeds: Sequence[int]) -> FloatArray:
    logs = logs_at(shop, place)
    return np.array([_estimates(place, logs, seed) for seed in seeds])


def _estimates(place: Place, logs: KnownLogs | SearchLogs, seed: int) -> list[float]:
    log, target = logs.draw(stream(seed, "off-policy log", place.world))
    judged = weigh_and_predict(log, make_target(target, log), [fit_reward_model(log, make_clusters(len(log)))])[0]
    assert judged.expected is not None
    # The plain direct method, by the linear model that the others share; `evaluate` calibrates a model of its own.
    values = {DIRECT_METHOD: float(judged.expected.mean())}
    values |= {name: estimate(name, log.rewards, judged).value for name in ESTIMATORS if name != DIRECT_METHOD}
    return [*(values[name] for name in ESTIMATORS), float(log.rewards.mean())]
