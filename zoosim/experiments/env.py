"""Read what world a user asks for: the experiment's, the file's and the settings', from weakest to strongest."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zoosim.core.config import EnvConfig, LabelledConfig, Shock, build
from zoosim.core.errors import ConfigError
from zoosim.core.market_shift import MarketShift
from zoosim.core.parameters import unknown
from zoosim.core.search_config import SearchConfig
from zoosim.experiments.experiment import Experiment
from zoosim.experiments.request import Settings
from zoosim.worlds.recommendation.world import build_world, resolve_shocks
from zoosim.worlds.search.tables import settled


def read_env(
    experiment: Experiment, config: Mapping[str, Any], changes: Settings, steps: int, *, finished: bool = False
) -> tuple[EnvConfig | LabelledConfig | SearchConfig, tuple[str, ...]]:
    """Return the checked world of a run of `steps`, and notes on what had to give way; raises `ConfigError`.

    The files of a `finished` run are not read again.
    """
    given, settings = dict(config.get("env", {})), changes.take("env")
    values = _without(experiment.env, given) | given
    _check_cells(values, settings)
    values = _without(values, {path[0]: value for path, value in settings})
    for path, value in settings:
        _put(values, path, value, experiment)
    if experiment.kind == "labelled":
        return build(LabelledConfig, values, "env"), ()
    if experiment.kind == "search":
        shop: SearchConfig = build(SearchConfig, values, "env")
        _check_late([f"shifts: {s.name!r} is at step {s.step}" for s in shop.shifts if s.step >= steps], steps)
        notes = tuple[str, ...]()
        if "shifts" not in values:
            shifts, notes = _built_in(experiment, steps, lambda shift: _fits(shift, shop))
            shop = shop.model_copy(update={"shifts": shifts})
        return (shop if finished else settled(shop)), notes
    asked: EnvConfig = build(EnvConfig, values, "env")
    _check_over(asked, steps)
    env, notes = resolve_shocks(asked, steps), tuple[str, ...]()
    if "shocks" not in values and "random_shocks" not in values:
        shocks, notes = _built_in(experiment, steps, lambda shock: _cells_known(shock, env))
        env = env.model_copy(update={"shocks": shocks})
    late = [f"shocks: {shock.name!r} is at step {shock.step}" for shock in env.shocks if shock.step >= steps]
    late += [f"availability: {e.change} is at step {e.step}" for e in env.availability if e.step >= steps]
    _check_late(late, steps)
    return (env if env.random_shocks is None else asked), notes


def _check_late(late: Sequence[str], steps: int) -> None:
    if late:
        raise ConfigError(f"env.{late[0]}, beyond the run of {steps} steps")


def _check_over(env: EnvConfig, steps: int) -> None:
    """Refuse shocks that are spread over more than the run: some would never come."""
    over = None if env.random_shocks is None else env.random_shocks.over
    if over is not None and over > steps:
        expected = f"expected at most {steps}, the length of the run"
        raise ConfigError(f"env.random_shocks.over: got {over}, {expected}; leave it out, or give the run more steps")


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


def _built_in(
    experiment: Experiment, steps: int, known: Callable[[Any], bool]
) -> tuple[list[Shock | MarketShift], tuple[str, ...]]:
    """Return the experiment's shocks that fit the world and the run, and a note on each that does not."""
    kept, notes = [], []
    for shock in experiment.shocks:
        if known(shock) and shock.step < steps:
            kept.append(shock)
        else:
            why = f"the run ends at {steps}" if known(shock) else "it does not fit this world"
            notes.append(f"shock {shock.name!r} at step {shock.step} is dropped: {why}")
    return kept, tuple(notes)


def _cells_known(shock: Shock, env: EnvConfig) -> bool:
    return all(persona in env.personas and set(row) <= set(env.categories) for persona, row in shock.set.items())


def _fits(shift: MarketShift, shop: SearchConfig) -> bool:
    first = {name: segment.share for name, segment in shop.segments.items()}
    try:
        shift.shares(first)
    except ValueError:  # those that it leaves out have no share that could make up the rest
        return False
    return set(shift.segments) <= set(first) and set(shift.categories) <= set(shop.categories)


def check_worlds(env: EnvConfig | LabelledConfig | SearchConfig, seeds: Sequence[int]) -> None:
    """Refuse a shop that has nothing for sale at some time; which products a category has depends on the seed."""
    if isinstance(env, EnvConfig) and env.availability:
        for seed in seeds:
            build_world(env.model_copy(update={"n_users": 1, "random_shocks": None}), seed=seed)


def _put(values: dict[str, Any], path: list[str], value: Any, experiment: Experiment) -> None:
    """Set one nested value; tables that were not given start from the defaults."""
    place = values
    if path[0] == "personas" and len(path) == 3 and experiment.kind == "recommendation":
        _check_cell(values.get("personas", _default(["personas"], experiment)), path)
    for depth, key in enumerate(path[:-1]):
        if key not in place:
            place[key] = _default(path[: depth + 1], experiment)
        if isinstance(place[key], Mapping):
            place[key] = dict(place[key])
        if not isinstance(place[key], dict):
            raise ConfigError(f"--set env.{'.'.join(path)}: {key} holds no keys; write it in a YAML file (--config)")
        place = place[key]
    place[path[-1]] = value


def _check_cell(personas: Any, path: Sequence[str]) -> None:
    """Refuse a click probability of a persona or a category that is not there: it would be a slip of the pen."""
    rows = personas if isinstance(personas, Mapping) else {}
    if path[1] not in rows:
        raise ConfigError(unknown("--set env.personas: unknown persona", path[1], rows))
    known = {category: 0 for row in rows.values() if isinstance(row, Mapping) for category in row}
    if path[2] not in known:
        raise ConfigError(unknown("--set env.personas: unknown category", path[2], known))


def _default(path: list[str], experiment: Experiment) -> Any:
    """Return the default at `path` of an experiment's kind of world, as plain data; empty where there is none."""
    place: Any = (SearchConfig() if experiment.kind == "search" else EnvConfig()).model_dump()
    for key in path:
        place = place.get(key) if isinstance(place, dict) else None
    return place if isinstance(place, dict) else {}
