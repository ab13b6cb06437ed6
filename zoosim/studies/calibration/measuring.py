"""Measure both parts for every seed."""

from typing import Any

from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.studies.calibration.limits import Limits, limits_of
from zoosim.studies.calibration.spreads import Spread, spreads_of


def measure(*, seeds: Any = "1000:1020", progress: Progress = lambda line: None) -> list[Spread | Limits]:
    """Measure spreads on the quadratic and limits of rewards in the search shop, on points and a shop of each seed."""
    rows: list[Spread | Limits] = []
    for seed in parse_seeds(seeds):
        progress(f"seed {seed}")
        rows += spreads_of(seed)
        rows += limits_of(seed)
    return rows
