"""Read what world a user asks for: the experiment's, the file's and the settings', from weakest to strongest."""

from collections.abc import Mapping, Sequence
from typing import Any

from zoosim.arena.experiment import Experiment
from zoosim.core.errors import ConfigError
from zoosim.experiments.request import Settings
from zoosim.worlds.setup import WorldSetup, setup_class


def read_setup(
    experiment: Experiment, config: Mapping[str, Any], changes: Settings, steps: int, *, finished: bool = False
) -> WorldSetup:
    """Return the checked world of a run of `steps`; raises `ConfigError`, `DataError` or `WorldError`.

    The files of a `finished` run are not read again.
    """
    cls = setup_class(experiment.kind)
    given = dict(config.get("env", {}))
    settings = changes.take("env")
    values = _without(experiment.env, given) | given
    _check_cells(values, settings)
    values = _without(values, {path[0]: value for path, value in settings})
    for path, value in settings:
        cls.check_setting(values, path)
        _put(values, path, value, cls.defaults())
    return cls.read(experiment.kind, values, experiment.shocks, steps, finished=finished)


def _without(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what gives way to what is `given`: a random table to a written one, say, or the other way round."""
    gone = {_counterpart(key) for key, value in given.items() if value is not None} - set(given)
    return {key: value for key, value in values.items() if key not in gone}


def _counterpart(key: str) -> str:
    return key.removeprefix("random_") if key.startswith("random_") else f"random_{key}"


def _check_cells(values: Mapping[str, Any], settings: Sequence[tuple[list[str], Any]]) -> None:
    """Refuse to set cells of a table that each world draws for itself."""
    rows = [path for path, _ in settings if path[0] == "personas" and len(path) > 1]
    whole = any(path == ["personas"] or (path == ["random_personas"] and value is None) for path, value in settings)
    if rows and not whole and values.get("random_personas") is not None:
        raise ConfigError(
            f"--set env.{'.'.join(rows[0])}: this world draws its table at random (env.random_personas); give a whole "
            "one (personas in a YAML file), or take the shop's with --set env.random_personas=null"
        )


def _put(values: dict[str, Any], path: list[str], value: Any, defaults: Mapping[str, Any]) -> None:
    """Set one nested value; tables that were not given start from the defaults."""
    place = values
    for depth, key in enumerate(path[:-1]):
        if key not in place:
            place[key] = _default(path[: depth + 1], defaults)
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
