"""Measure spreads on the quadratic and limits of rewards in the search shop, on points and a shop of each seed."""

from studies.calibration.limits import Limits, limits_of
from studies.calibration.spreads import Scatter, Spread, spreads_of
from studies.work import measure_in_shops
from zoosim.core.search_config import SearchConfig


def _rows_of(config: SearchConfig, seed: int) -> list[Spread | Scatter | Limits]:
    return [*spreads_of(seed), *limits_of(config, seed)]


measure = measure_in_shops(_rows_of, "1000:1020")
