"""Read the parameters of a run's world: the experiment's, then those of the file, then those of --set."""

from collections.abc import Mapping
from typing import Any

from zoosim.arena.experiment import Experiment
from zoosim.core.errors import ConfigError
from zoosim.experiments.request import SettingValues
from zoosim.worlds.registry import find_world


def read_parameters(
    experiment: Experiment, config: Mapping[str, Any], changes: SettingValues, steps: int, *, finished: bool = False
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the checked parameters of a run of `steps`, by name, and notes on what had to give way.

    The files of a `finished` run are not read again.

    Raises:
        ConfigError: one is invalid.
        DataError: a file that one names is.
        WorldError: the world is.
    """
    cls = find_world(experiment.kind, finished=finished)
    given = dict(config.get("env", {}))
    settings = changes.take("env")
    values = _without(experiment.env, given) | given
    cls.check_settings(values, settings)
    values = _without(values, {path[0]: value for path, value in settings})
    for path, value in settings:
        _put(values, path, value, cls.default_parameters())
    checked, notes = cls.read_parameters(values, experiment.shocks, steps, finished=finished)
    return dict(checked), notes


def _without(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what gives way to what is `given`: a random table to a written one, say, or the other way round."""
    gone = {_counterpart(key) for key, value in given.items() if value is not None} - set(given)
    return {key: value for key, value in values.items() if key not in gone}


def _counterpart(key: str) -> str:
    return key.removeprefix("random_") if key.startswith("random_") else f"random_{key}"


def _put(values: dict[str, Any], path: list[str], value: Any, defaults: Mapping[str, Any]) -> None:
    """Set one nested value; tables that were not given start from the defaults."""
    place = values
    for depth, key in enumerate(path[:-1]):
        if key not in place:
            place[key] = _default(path[: depth + 1], defaults)
        # A copy, since this may be the experiment's own mapping or a default.
        if isinstance(place[key], Mapping):
            place[key] = dict(place[key])
        if not isinstance(place[key], dict):
            raise ConfigError(f"--set env.{'.'.join(path)}: {key} holds no keys; write it in a YAML file (--config)")
        place = place[key]
    place[path[-1]] = value


def _default(path: list[str], defaults: Mapping[str, Any]) -> Any:
    """Return the default at `path`, as plain data; empty where there is none."""
    place: Any = defaults
    for key in path:
        place = place.get(key) if isinstance(place, Mapping) else None
    return place if isinstance(place, dict) else {}
