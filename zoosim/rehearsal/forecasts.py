"""What a rehearsal forecasts of a policy: what it earns per visit over the horizon in a shop that the log allows."""

import math
from typing import Any

import numpy as np

from zoosim.core.forecasts import PER_VISIT, Forecast, made_now
from zoosim.core.statistics import t_quantile
from zoosim.core.types import FloatArray

LEVEL = 0.95


def forecast_of(policy: str, reward: str, values: FloatArray, horizon: int, **made: Any) -> Forecast:
    """Return a forecast from a policy's mean rewards in shops that were drawn given the log.

    The interval is one for a further shop (a prediction interval, Student's t), not for the mean of many: the shop that
    wrote the log is one of those that it allows.

    Args:
        policy: The policy's name.
        reward: What it earns.
        values: Its mean reward per visit over the horizon in each shop `(n,)`, at least 2.
        horizon: Visits that it is about.
        **made: Further fields of the forecast: what it rests on.
    """
    n = len(values)
    mean = float(np.mean(values))
    spread = float(np.std(values, ddof=1)) * math.sqrt(1.0 + 1.0 / n)
    half = t_quantile(n - 1, 0.5 + LEVEL / 2.0) * spread
    return Forecast(
        quantity=PER_VISIT,
        reward=reward,
        value=mean,
        low=mean - half,
        high=mean + half,
        level=LEVEL,
        horizon=horizon,
        made=made_now(),
        by="zoosim recommend",
        policy=policy,
        **made,
    )
