"""The settings of a service: from a YAML file, the environment and the command line, the later over the earlier."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from zoosim.core.config import Strict, build, read_yaml
from zoosim.core.errors import ConfigError
from zoosim.serving.events import CHAMPION, PREVIOUS, ROLES
from zoosim.serving.rules import Rules
from zoosim.serving.store.address import Address, parse_address

PREFIX = "ZOOSIM_SERVE_"
"""Prefix of the names of environment variables: `ZOOSIM_SERVE_PORT` sets `port`."""

STORE = f"{PREFIX}STORE"
"""The variable that sets `store`."""

NO_ARMS = "none"
"""Text that sets no arm beside the champion."""

TRUTHS = {"true": True, "false": False}
LOOPBACK = ("127.0.0.1", "::1", "localhost")
KEYS = tuple(f"{role}_key" for role in ("decide", "feedback", "admin"))
PLACES = ("store", "loops", "arms")
"""Settings of a service that its loops do not take over: where they lie, and what decides in one of them."""

OF_SERVICE = (*PLACES, "host", "port", "hosts", "most_connections", "rate", "key", *KEYS)
"""Settings that all loops of a service have in common, so that none sets them for itself."""


class ArmSetting(Strict):
    """An arm beside the champion.

    Args:
        name: Its name in the log.
        model: The file of its model.
        share: The share of visitors for whom it decides.
        role: "challenger", or "holdback": it decides, and never learns.
        sticky: "visitor": a visitor keeps the arm; "event": it is drawn for each decision anew.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
    model: Annotated[str, Field(min_length=1)]
    share: Annotated[float, Field(ge=0, le=1)]
    role: Literal["challenger", "holdback"] = "challenger"
    sticky: Literal["visitor", "event"] = "visitor"

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """Take NAME=MODEL:SHARE, or NAME=MODEL:SHARE:ROLE."""
        if not isinstance(value, str):
            return value
        name, _, rest = value.partition("=")
        model, _, share = rest.rpartition(":")
        role = {}
        if share in ROLES:
            role = {"role": share}
            model, _, share = model.rpartition(":")
        try:
            return {"name": name, "model": model, "share": float(share), **role}
        except ValueError:
            raise ValueError(f"got {value}, expected NAME=MODEL.zoosim:SHARE, such as new=model.zoosim:0.2") from None


class Settings(Rules):
    """Settings of a service; the fields of `Rules`, by which it learns, are among them.

    Args:
        host, port: Where it listens. Beyond this machine it listens with keys alone.
        store: Where its log, snapshots and models lie: `sqlite:FOLDER`, or `redis://HOST:PORT/DB?name=LOOP&folder=FOLDER`
            for a log on a Redis or Valkey server.
        loops: A folder of several loops, each in a sub-folder, in place of the one at `store`; empty for one loop.
        key: The key that opens everything; clients send it as `Authorization: Bearer KEY`.
        decide_key, feedback_key, admin_key: Keys that open one part.
        sync: "feedback": feedback is on the disk before it is acknowledged, decisions are in the hands of the operating
            system; "all": decisions too, which takes the time of the disk.
        keep_days: Days after which rows of the log are removed; 0 keeps them for ever.
        arms: Models that decide beside the champion, each for a share of the visitors; an empty list for the champion
            alone, and where it is left out those of the log.
        grow: Whether the schema takes up columns and levels of requests that it does not express. Without, it stays as
            the model was trained, or as the first requests made it.
        strict: Whether requests are refused that hold what the model was not made for, or lack a column of it; without,
            the answer says so. Requests of Personalizer are not.
        tick: Seconds between two steps of learning.
        snapshot: Seconds between two snapshots.
        hosts: Names, separated by commas, by which requests may ask for a service without a key, beside those of this
            machine and the address that it listens at; `*` for any.
        most_connections: The most open connections, of which one address has half at most.
        most_bytes: The largest request body.
        most_candidates: The most candidates of a request.
        most_waiting: Requests that may wait for the log at once; further ones are told to come back (429).
        most_delay: Seconds for which requests that came together are answered; the rest is told to come back (429).
        rate: Requests per second that one key may make, 0 for any number.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8100
    store: Annotated[str, Field(min_length=1)] = "sqlite:zoosim-service"
    loops: str = ""
    key: str = ""
    decide_key: str = ""
    feedback_key: str = ""
    admin_key: str = ""
    sync: Literal["feedback", "all"] = "feedback"
    keep_days: Annotated[int, Field(ge=0, le=36_500)] = 90
    arms: list[ArmSetting] | None = None
    grow: bool = True
    strict: bool = False
    tick: Annotated[float, Field(ge=0.01, le=10)] = 0.1
    snapshot: Annotated[float, Field(ge=0.1, le=86_400)] = 60.0
    hosts: str = ""
    most_connections: Annotated[int, Field(ge=10, le=1_000_000)] = 4_000
    most_bytes: Annotated[int, Field(ge=1_000, le=100_000_000)] = 1_000_000
    most_candidates: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    most_waiting: Annotated[int, Field(ge=1, le=100_000)] = 256
    most_delay: Annotated[float, Field(ge=0.001, le=60)] = 0.03
    rate: Annotated[float, Field(ge=0, le=1_000_000)] = 0.0

    @field_validator("arms", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """Take a text, as of a variable, as a list that commas separate, and `none` as an empty one."""
        values = value.split(",") if isinstance(value, str) else value
        return [] if values in ([""], [NO_ARMS]) else values

    @field_validator("arms")
    @classmethod
    def _are_arms(cls, arms: list[ArmSetting] | None) -> list[ArmSetting] | None:
        names = [CHAMPION, PREVIOUS, *(arm.name for arm in arms or ())]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f"got two arms called {name}, expected each another name; {CHAMPION} and {PREVIOUS} are taken"
                )
        total = math.fsum(arm.share for arm in arms or ())
        if total > 1.0:
            raise ValueError(f"got shares that add up to {total:g}, expected at most 1; the champion gets the rest")
        return arms

    @model_validator(mode="after")
    def _has_one_place(self) -> "Settings":
        for name in ("store", "arms"):
            if self.loops and name in self.model_fields_set and getattr(self, name) is not None:
                raise ValueError(f"{name}: got a value beside loops, whose loops each have their own; leave it out")
        return self

    @model_validator(mode="after")
    def _is_safe(self) -> "Settings":
        if self.host not in LOOPBACK and not any(self.keys.values()):
            raise ValueError(f"host: got {self.host}, which others can reach; set a key ({PREFIX}KEY) first")
        for name, key in self.keys.items():
            if key and len(key) < 16:
                raise ValueError(f"{name}: got {len(key)} characters, expected at least 16 that nobody guesses")
        return self

    @property
    def keys(self) -> dict[str, str]:
        """The keys by the names of their settings."""
        return {name: getattr(self, name) for name in ("key", *KEYS)}

    @property
    def rules(self) -> Rules:
        """The settings by which the service learns."""
        return Rules(**{name: getattr(self, name) for name in Rules.model_fields})

    @property
    def address(self) -> Address:
        """Address of the store; raises `ConfigError`."""
        return parse_address(self.store)


def changed_settings(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Return settings with changes; raises `ConfigError` for what they cannot be."""
    values = {name: getattr(settings, name) for name in settings.model_fields_set}
    new_settings: Settings = build(Settings, {**values, **changes}, "changed settings of the service")
    return new_settings


def read_settings(
    path: str | os.PathLike[str] | None, environment: Mapping[str, str], given: Mapping[str, Any]
) -> Settings:
    """Return the settings of a service.

    Args:
        path: A YAML file of settings, None for none.
        environment: Variables, such as `os.environ`; those that begin with `ZOOSIM_SERVE_` are settings.
        given: Settings that override both; None stands for what was not given.

    Raises:
        ConfigError: a setting is unknown, of another type or out of range.
    """
    values: dict[str, Any] = {} if path is None else dict(read_yaml(Path(path)))
    for variable, text in environment.items():
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower()
            values[name] = _read_value(name, variable, text)
    values |= {name: value for name, value in given.items() if value is not None}
    settings: Settings = build(Settings, values, "settings of the service" if path is None else str(path))
    return settings


def read_loop_settings(common: Settings, own: Mapping[str, Any], folder: Path, label: str) -> Settings:
    """Return the settings of one of several loops of a service.

    Args:
        common: Those of the service, which hold for each loop unless it has its own.
        own: Those of the loop.
        folder: Where its log lies.
        label: Where its settings come from, for messages.

    Raises:
        ConfigError: one is unknown, of another type or out of range, or is one of the whole service.
    """
    for name in own:
        if name in OF_SERVICE:
            raise ConfigError(f"{label}: {name}: is a setting of the whole service, not of one loop; leave it out")
    values = {name: getattr(common, name) for name in common.model_fields_set if name not in PLACES}
    settings: Settings = build(Settings, {**values, **own, "store": f"sqlite:{folder}"}, label)
    return settings


def _read_value(name: str, variable: str, text: str) -> Any:
    """Return the value of a variable in the type of its setting."""
    field = Settings.model_fields.get(name)
    if field is None:
        raise ConfigError(f"{variable}: sets nothing; expected one of {', '.join(sorted(Settings.model_fields))}")
    kinds = {int: "a whole number", float: "a number", bool: "true or false"}
    if field.annotation not in kinds:
        return text
    try:
        return TRUTHS[text.lower()] if field.annotation is bool else field.annotation(text)
    except (ValueError, LookupError):
        raise ConfigError(f"{variable}: got {text!r}, expected {kinds[field.annotation]}") from None
