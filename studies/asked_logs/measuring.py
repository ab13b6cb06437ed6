"""Ask logs of shops with known laws whether planning pays there."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from studies.session_logs import SessionLogs
from studies.work import names_of, rows_by_task
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.fitting.look_ahead import DRAWS, MYOPIC, look_ahead
from zoosim.fitting.visits import read_kinds, read_visits
from zoosim.worlds.sessions.config import SessionConfig

DEFAULT, CONTROL = "default laws", "satisfaction does not matter"
SHOPS: dict[str, dict[str, Any]] = {DEFAULT: {}, CONTROL: {"return_by_satisfaction": 0.0}}
"""Shops, by what is other than by default."""


@dataclass(frozen=True)
class Asked:
    """The answer of a log of so many `visitors`: the share of the next click with its interval, and the `advice`.

    `truth` is that share by the shop's laws. The share is None where the log cannot say.
    """

    shop: str
    visitors: int
    seed: int
    truth: float
    advice: str
    share: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def held(self) -> bool:
        """True where the interval holds the truth."""
        return self.low is not None and self.high is not None and self.low <= self.truth <= self.high


def measure(
    *,
    seeds: Any = "1040:1080",
    shops: Any = None,
    visitors: int = 3_000,
    draws: int = DRAWS,
    jobs: Any = None,
    progress: Progress = lambda line: None,
) -> list[Asked]:
    """Ask a log of each shop for each seed.

    Args:
        seeds: Of logs, such as "1040:1080".
        shops: Names of `SHOPS`; all by default.
        visitors: Of a log, whose bandit shows any kind in 30% of its decisions.
        draws: Models that are drawn from the posterior.
        jobs: Processes; None for one per core.
        progress: Called with a line for each log.

    Raises:
        ConfigError: there is no such shop.
    """
    names = names_of("asked-logs", "shop", shops, list(SHOPS), f"[{DEFAULT}]")
    tasks = [(shop, int(visitors), seed, int(draws)) for shop in names for seed in parse_seeds(seeds)]
    return rows_by_task(_asked, tasks, jobs=jobs, words=_words, progress=progress)


def _words(task: tuple[str, int, int, int]) -> str:
    shop, visitors, seed, _ = task
    return f"{shop}, {visitors:,} visitors, seed {seed}"


def _asked(task: tuple[str, int, int, int]) -> list[Asked]:
    shop, visitors, seed, draws = task
    logs = _logs(shop)
    log, _ = logs.draw(visitors, seed)
    kinds = read_kinds(log)
    found = look_ahead(read_visits(log, kinds), kinds, source=log.source, seed=seed, draws=draws)
    truth = logs.truth.value(logs.truth.myopic) / logs.truth.value(logs.truth.optimum)
    if found.shares is None:
        return [Asked(shop, visitors, seed, truth, found.advice)]
    return [Asked(shop, visitors, seed, truth, found.advice, *found.shares[MYOPIC])]


@cache
def _logs(shop: str) -> SessionLogs:
    return SessionLogs(SessionConfig(per_kind=1, **SHOPS[shop]))
