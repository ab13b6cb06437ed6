"""Let quarters pass in simulated shops, and score what was forecast in them."""

from dataclasses import dataclass
from typing import Any

from studies.forecast_ledger.quarter import DAYS, quarter_of
from studies.results_file import ResultsFile
from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.forecasts import PER_VISIT
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.serving.forecasts.scores import EARLY, HELD, MISSED, Score

CALM, SHOCKED = "calm", "shocked"
SHOPS = (CALM, SHOCKED)


@dataclass(frozen=True)
class Row:
    """A forecast of a quarter, and what came of it; `came` and `error` are 0 where nothing did."""

    seed: int
    shop: str
    kind: str
    policy: str
    verdict: str
    value: float
    low: float
    high: float
    horizon: int
    outcome: str
    decisions: int
    came: float
    error: float

    @property
    def is_scored(self) -> bool:
        """True where the truth came."""
        return self.outcome in (HELD, MISSED)

    @property
    def is_early(self) -> bool:
        """True where the quarter ended before."""
        return self.outcome == EARLY


def measure(
    *,
    seeds: Any = "1000:1020",
    shops: Any = None,
    days: int = DAYS,
    results: Any = None,
    progress: Progress = lambda line: None,
) -> list[Row]:
    """Return the forecasts, quarter by quarter.

    Args:
        seeds: The shops.
        shops: Of `SHOPS`: whether visitors change their minds in the middle of the quarter. Default: both.
        days: Days of each quarter.
        results: A file to which forecasts are appended quarter by quarter; those that it holds are not made again.
        progress: Called with a line for each quarter.

    Raises:
        ConfigError: an option is none.
    """
    count = check_whole("forecast-ledger: days", days, 1, 365)
    file = ResultsFile(results, Row, ["seed", "shop"])
    rows = []
    for seed in parse_seeds(seeds):
        for shop in _shops(shops):
            forecasts = file.rows(seed, shop)
            if forecasts is None:
                scores = quarter_of(seed, count, shop == SHOCKED)
                forecasts = file.add([_row(seed, shop, score) for score in scores])
            scored = [row for row in forecasts if row.is_scored]
            held = sum(row.outcome == HELD for row in scored)
            progress(f"seed {seed}, {shop}: {held} of {len(scored)} held, of {len(forecasts)} forecasts")
            rows += forecasts
    return rows


def _shops(shops: Any) -> list[str]:
    """Return the shops that are asked for; raises `ConfigError`."""
    chosen = list(SHOPS) if shops is None else shops if isinstance(shops, list) else [shops]
    for shop in chosen:
        if shop not in SHOPS:
            raise ConfigError(f"forecast-ledger: shops: got {shop!r}, expected some of {list(SHOPS)}")
    return chosen


def _row(seed: int, shop: str, score: Score) -> Row:
    forecast = score.said
    kind = forecast.by.removeprefix("zoosim ")
    if forecast.quantity != PER_VISIT:
        kind = "launch, a lift" if "lift" in forecast.about else "launch, a drop"
    return Row(
        seed=seed,
        shop=shop,
        kind=kind,
        policy=forecast.policy,
        verdict=forecast.verdict,
        value=forecast.value,
        low=forecast.low,
        high=forecast.high,
        horizon=forecast.horizon,
        outcome=score.outcome,
        decisions=score.decisions,
        came=score.came or 0.0,
        error=score.error,
    )
