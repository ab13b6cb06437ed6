"""Serve a launch over HTTP, and estimate by its log what policies earn in that shop."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from studies.results_file import ResultsFile
from zoosim.api.logs import evaluate
from zoosim.core.checks import check_whole
from zoosim.core.types import FloatArray, Progress
from zoosim.experiments.request import parse_seeds
from zoosim.off_policy.results import Result
from zoosim.playground.service import ServiceProcess
from zoosim.playground.shop import Shop
from zoosim.playground.visitors import RATE, draw_visitors
from zoosim.playground.world import COUNTRIES, PRODUCTS, SmallShop, small_shop, teach
from zoosim.policies.model import load_model
from zoosim.serving.client import Client

SERVED = {"champion and holdback": "product-lin-ts", "challenger": "adaptive"}
"""The models that are served, and their policies, which both learn; the holdback is the champion as it began."""

NEVER_SERVED = {"linucb": "linucb", "linear": "linear"}
"""Models that were not, and their policies; `random` is judged, too."""

RANDOM = "random"
TARGETS = (*SERVED, *NEVER_SERVED, RANDOM)

ESTIMATORS = ("ips", "snips", "dr")

SETTINGS: dict[str, Any] = {"exploration": 0.2, "most_delay": 30.0, "snapshot": 3_600.0}
PLAN = {"steps": [0.2, 0.5], "hours": 1.0, "holdback": 0.1}
"""By which the challenger is launched, so that shares change in each log."""

APPEAL = (1.5, 4.5)
"""How many times as much as in the shops of `launches` countries click on products: 15% of all on average."""


@dataclass(frozen=True)
class Row:
    """An estimate of a policy's clicks per visitor, its interval and verdict, and the truth."""

    seed: int
    policy: str
    estimator: str
    value: float
    low: float
    high: float
    verdict: str
    truth: float
    ess: float

    @property
    def holds(self) -> bool:
        """True where the interval has the truth."""
        return self.low <= self.truth <= self.high


def measure(
    *,
    seeds: Any = "1000:1030",
    visitors: int = 4_000,
    results: Any = None,
    progress: Progress = lambda line: None,
) -> list[Row]:
    """Return the estimates, a service at a time, since it keeps two cores busy.

    Args:
        seeds: The shops.
        visitors: How many come to each.
        results: A file to which estimates are appended shop by shop; the shops that it holds are not served again.
        progress: Called with a line for each shop.

    Raises:
        ConfigError: an option is none.
    """
    count = check_whole("served-values: visitors", visitors, 1_000, 100_000)
    file = ResultsFile(results, Row, ["seed"])
    rows = []
    for seed in parse_seeds(seeds):
        estimates = file.rows(seed) or file.add(_estimates(seed, count))
        held = sum(row.holds for row in estimates)
        progress(f"seed {seed}: {held} of {len(estimates)} intervals hold")
        rows += estimates
    return rows


def _estimates(seed: int, count: int) -> list[Row]:
    """Return the estimates by the log of one service."""
    rng = np.random.default_rng((seed, 3))
    appeal = rng.uniform(*APPEAL, (len(COUNTRIES), len(PRODUCTS)))
    world = small_shop(draw_visitors(seed, days=2), appeal, seed)
    with TemporaryDirectory(prefix="zoosim-shop-") as name:
        folder = Path(name)
        files = {}
        for number, (target, policy) in enumerate({**SERVED, **NEVER_SERVED}.items()):
            # Each learned from another log, so that they differ.
            files[target] = teach(RATE * appeal, folder / f"{number}.zoosim", policy, seed=100 * seed + number)
        champion, challenger = (files[target] for target in SERVED)
        process = ServiceProcess(folder / "shop", champion, SETTINGS)
        with process as service, Client(service.url, timeout=30.0) as client:
            shop = Shop(world, service.url, service.time)
            client.deploy("launch", arm="new", model=client.keep_model(challenger.read_bytes()), plan=PLAN)
            shop.visit(lambda shop: len(shop.visits) >= count)
        evaluation = evaluate(
            service.store, {RANDOM: RANDOM, **files}, estimators=list(ESTIMATORS), seed=seed, progress=None
        )
        truths = {target: _truth(file, world, shop) for target, file in files.items()}
        truths[RANDOM] = _mean_rate(np.full(appeal.shape, 1.0 / len(PRODUCTS)), world, shop)
    return [_row(seed, result, truths[result.policy]) for result in evaluation.results]


def _truth(file: Path, world: SmallShop, shop: Shop) -> float:
    """Return what a model would have earned on average with the visitors who came."""
    model = load_model(file)
    by_country = [model.propensities({"country": country}) for country in COUNTRIES]
    chances = np.array([[each[product] for product in PRODUCTS] for each in by_country])
    return _mean_rate(chances, world, shop)


def _mean_rate(chances: FloatArray, world: SmallShop, shop: Shop) -> float:
    """Return the mean chance of a click, by how likely each country `(C, P)` is shown each product."""
    rates = [float(world.click_rates(visit.visitor) @ chances[world.country[visit.visitor]]) for visit in shop.visits]
    return float(np.mean(rates))


def _row(seed: int, result: Result, truth: float) -> Row:
    low = float("-inf") if result.low is None else result.low
    high = float("inf") if result.high is None else result.high
    figures = (float(result.value), float(low), float(high))
    return Row(seed, result.policy, result.estimator, *figures, result.verdict, truth, float(result.ess))
