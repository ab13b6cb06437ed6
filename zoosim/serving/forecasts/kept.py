"""Forecasts as the log of a service keeps them, beside the models that they are about."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from zoosim.core.errors import ConfigError
from zoosim.core.forecasts import Forecast, checked_forecasts, forecasts_path, read_forecasts
from zoosim.serving.events import Start

FORECASTS = "forecasts"
"""The part of the changes in a log that holds forecasts of its models."""

MOST = 100
"""Forecasts of a log that are kept, the newest."""


def forecasts_of_file(model_file: Any, digest: str) -> list[Forecast]:
    """Return what is forecast of a model, by the file beside its own; raises `DataError` for what is none.

    Args:
        model_file: The file of the model.
        digest: Its digest. What the file forecasts of others, such as the one that was there before, is left out.
    """
    return [forecast for forecast in read_forecasts(forecasts_path(model_file)) if forecast.model == digest]


def checked_of_model(entries: Any, digest: str) -> list[Forecast]:
    """Return the forecasts of a request; raises `ConfigError` for what is none, or is about another model."""
    forecasts = checked_forecasts(entries, FORECASTS)
    for number, forecast in enumerate(forecasts, 1):
        if forecast.model != digest:
            raise ConfigError(f"forecasts {number}: model: got {forecast.model!r}, expected the launched one, {digest}")
    return forecasts


def forecasts_in(start: Start) -> list[Forecast]:
    """Return the forecasts of a log; those of a release that knows others are left out."""
    forecasts = []
    for entry in json.loads(start.changes).get(FORECASTS, []):
        try:
            forecasts += checked_forecasts([entry], FORECASTS)
        except ConfigError:
            continue
    return forecasts


def with_forecasts(start: Start, new: Sequence[Forecast]) -> Start:
    """Return a start that holds further forecasts; one takes the place of an earlier one of the same."""
    if not new:
        return start
    kept = {forecast.subject: forecast for forecast in forecasts_in(start)}
    for forecast in new:
        kept.pop(forecast.subject, None)
        kept[forecast.subject] = forecast
    changes = {**json.loads(start.changes), FORECASTS: [each.plain for each in kept.values()][-MOST:]}
    return msgspec.structs.replace(start, changes=json.dumps(changes, sort_keys=True).encode())
