"""Forecasts: what is predicted of a model, kept beforehand, so that it can be scored when the truth comes in.

They stand in a file beside the model, a JSON object per line, that whoever predicts something of it adds to. A service
that gets the model takes them into its log. Reading executes nothing, and refuses what no forecast can be.
"""

import json
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from zoosim.core.action_space import PRODUCTS
from zoosim.core.config import Strict, build
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.files import read_text, write_text
from zoosim.core.parameters import shown

SUFFIX = ".forecasts.jsonl"
"""Ending of the file beside a model; it stands in the place of the model's own."""

MOST = 50
"""Forecasts of a model that are kept, the newest."""

MOST_BYTES = 200_000
"""Bytes of a file of forecasts at most."""

Quantity = Literal["reward per visit", "reward per visitor", "visitors until found"]
PER_VISIT: Quantity = "reward per visit"
PER_VISITOR: Quantity = "reward per visitor"
UNTIL_FOUND: Quantity = "visitors until found"
"""What is predicted: the mean reward of a decision of the model or of a visitor, or how soon a launch tells."""

LEAST_DECISIONS = 100
"""Decisions after which a mean reward is scored, at least."""

Text = Annotated[str, Field(max_length=300)]


class Forecast(Strict):
    """A prediction about a model, with the interval in which the truth is expected.

    Args:
        quantity: What is predicted.
        reward: The name of the reward that it is about.
        value, low, high: The prediction and its interval.
        level: The probability with which the interval is to hold.
        horizon: Decisions of the model, or visitors of its launch, after which it can be scored.
        made: When, in UTC, as ISO 8601 has it.
        by: The command that made it.
        version: That of zoosim.
        policy: The name of the model's policy.
        model: The digest of the model.
        log: What the log was called that it rests on; empty where there was none.
        log_digest: The digest of that log's decisions and rewards.
        rows: Rows of the log that it rests on.
        verdict: How far to trust it, `trust` or `weak`; empty where nobody says.
        about: A condition that it holds under, such as "a drop of 20%"; empty for none.
        action_space: What decisions choose: `products` stand for the top of what is shown, `rankings` for all of it.
    """

    quantity: Quantity
    reward: Text
    value: float
    low: float
    high: float
    level: Annotated[float, Field(gt=0, lt=1)]
    horizon: Annotated[int, Field(ge=0, le=10**12)]
    made: Text
    by: Text
    version: Text = ""
    policy: Text = ""
    model: Annotated[str, Field(pattern=r"^[0-9a-f]{0,64}$")] = ""
    log: Text = ""
    log_digest: Text = ""
    rows: Annotated[int, Field(ge=0, le=10**12)] = 0
    verdict: Text = ""
    about: Text = ""
    action_space: Text = PRODUCTS

    @field_validator("made")
    @classmethod
    def _is_a_time(cls, value: str) -> str:
        try:
            when = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"got {shown(value)}, expected a time, such as 2026-11-28T12:00:00+00:00") from None
        if when.tzinfo is None:
            raise ValueError(f"got {shown(value)}, expected a time with its zone, such as +00:00")
        return value

    @model_validator(mode="after")
    def _is_an_interval(self) -> "Forecast":
        if self.low > self.high:
            raise ValueError(f"got the interval {self.low:g} to {self.high:g}, expected the lower end first")
        return self

    @property
    def plain(self) -> dict[str, Any]:
        """It as plain values by name, without those that are not told."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def subject(self) -> tuple[str, ...]:
        """What it predicts, of what and by what: a later forecast of the same takes its place."""
        return self.quantity, self.reward, self.by, self.model, self.log_digest, self.about, self.action_space


def made_now() -> str:
    """Return the time, as forecasts hold it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def checked_forecasts(entries: Any, label: str) -> list[Forecast]:
    """Return the forecasts that plain values hold.

    Args:
        entries: A list of mappings.
        label: What messages call them.

    Raises:
        ConfigError: they hold something else, or more than `MOST`.
    """
    if not isinstance(entries, list) or len(entries) > MOST:
        raise ConfigError(f"{label}: got {shown(entries)}, expected a list of at most {MOST} forecasts")
    return [_checked(entry, f"{label} {place}") for place, entry in enumerate(entries, 1)]


def _checked(entry: Any, label: str) -> Forecast:
    if not isinstance(entry, dict):
        raise ConfigError(f"{label}: got {shown(entry)}, expected the fields of a forecast by name")
    forecast: Forecast = build(Forecast, entry, label)
    return forecast


def forecasts_path(model: str | Path) -> Path:
    """Return the file of forecasts beside that of a model."""
    return Path(model).with_suffix(SUFFIX)


def read_forecasts(path: Path) -> list[Forecast]:
    """Return the forecasts in a file, none where there is no file.

    Raises:
        DataError: the file cannot be read, or holds something else; the message names the line.
    """
    remedy = "mend or remove the file"
    try:
        lines = read_text(path, MOST_BYTES).rstrip("\n").split("\n")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}); {remedy}") from None
    forecasts = []
    for number, line in enumerate(filter(None, lines), 1):
        try:
            forecasts.append(_checked(json.loads(line), f"line {number}"))
        except (ValueError, RecursionError) as error:  # a `ConfigError` is one, too
            is_json = isinstance(error, ConfigError)
            reason = error if is_json else f"line {number}: got {shown(line)}, expected a forecast as JSON"
            raise DataError(f"{path}: {reason}; {remedy}") from None
    return forecasts[-MOST:]


def write_forecasts(path: Path, forecasts: Sequence[Forecast]) -> None:
    """Write forecasts to a file, the newest `MOST` of them; without any there is none."""
    if not forecasts:
        path.unlink(missing_ok=True)
        return
    write_text(path, "".join(json.dumps(each.plain) + "\n" for each in forecasts[-MOST:]))


def add_forecasts(path: Path, new: Iterable[Forecast]) -> None:
    """Add forecasts to those in a file; one takes the place of an earlier one of the same; raises as reading does."""
    kept = {each.subject: each for each in read_forecasts(path)}
    for forecast in new:
        kept.pop(forecast.subject, None)
        kept[forecast.subject] = forecast
    write_forecasts(path, list(kept.values()))


def decisions_to_score(deviation: float, half_width: float, reach: float) -> int:
    """Return after how many decisions the mean of what they earned is as exact as a forecast of it.

    Args:
        deviation: Standard deviation of a decision's reward.
        half_width: Half the width of the forecast's interval.
        reach: Standard errors that the interval reaches to each side.
    """
    if not half_width > 0.0:
        return LEAST_DECISIONS
    errors = min(reach * deviation / half_width, 3e4)  # squared, 900 million decisions
    return max(math.ceil(errors * errors), LEAST_DECISIONS)
