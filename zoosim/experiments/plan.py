"""Turn what a user asks for into a plan: a checked world, steps, seeds and contestants. Nothing is written here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from zoosim.core.config import EnvConfig, LabelledConfig, Shock, config_hash, read_yaml
from zoosim.core.errors import ConfigError
from zoosim.core.market_shift import MarketShift
from zoosim.core.parameters import check_parameters, unknown
from zoosim.core.search_config import SearchConfig
from zoosim.envs.template_world import template_world
from zoosim.experiments import CONTINUOUS_VS_DISCRETE, EXPERIMENTS, STUDIES, Experiment
from zoosim.experiments.env import check_worlds, read_env
from zoosim.experiments.request import Request, Settings, parse_seeds
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.registry import BUILT_IN, PolicyEntry, find_class, make_entry
from zoosim.world.labelled import Table, build_labelled_world, read_table
from zoosim.world.recommendation import build_world, drawn, resolve_shocks
from zoosim.world.tables import digest
from zoosim.world.world import World

MAX_STEPS = 100_000_000


@dataclass(frozen=True)
class Plan:
    """A checked run."""

    experiment: Experiment
    env: EnvConfig | LabelledConfig | SearchConfig
    steps: int
    seeds: tuple[int, ...]
    entries: tuple[PolicyEntry, ...]
    parameters: Mapping[str, dict[str, Any]]
    """The parameters of every built-in policy, whether it competes or not."""
    config_hash: str = ""
    notes: tuple[str, ...] = ()

    @cached_property
    def table(self) -> Table:
        """Read the labelled table, once."""
        assert isinstance(self.env, LabelledConfig)
        return read_table(self.env)

    @cached_property
    def shop(self) -> EnvConfig:
        """The recommendation world with what follows from the length of the run."""
        assert isinstance(self.env, EnvConfig)
        return resolve_shocks(self.env, self.steps)

    def world(self, seed: int, entry: PolicyEntry | None = None) -> World:
        """Build the world of a seed, for a search shop as `entry` sees it."""
        source = self._world_seed(seed)
        if isinstance(self.env, SearchConfig):
            own = entry is not None and entry.built_in and "context" in entry.params
            seen = {"context": entry.params["context"]} if entry is not None and own else {}
            world = template_world(self.env.model_copy(update=seen), seed=source, steps=self.steps)
        elif isinstance(self.env, LabelledConfig):
            world = build_labelled_world(self.table, seed=source, steps=self.steps)
        else:
            world = build_world(self.shop, seed=source)
        return world if source == seed else replace(world, seed=seed)

    def _world_seed(self, seed: int) -> int:
        return seed if self.experiment.world_seed is None else self.experiment.world_seed

    @property
    def shocks(self) -> tuple[Shock | MarketShift, ...]:
        """List the shocks, or the market shifts, that all worlds share, in order."""
        if isinstance(self.env, LabelledConfig):
            return ()
        events: list[Shock | MarketShift] = (
            [*self.env.shocks] if isinstance(self.env, EnvConfig) else [*self.env.shifts]
        )
        return tuple(sorted(events, key=lambda event: event.step))

    @property
    def shock_names(self) -> tuple[str, ...]:
        """Name the shocks of every world; those that each world draws for itself are numbered."""
        drawing = self.env.random_shocks if isinstance(self.env, EnvConfig) else None
        if drawing is not None:
            return tuple(f"shock {number}" for number in range(1, drawing.count + 1))
        return tuple(shock.name for shock in self.shocks)

    def shock_spans(self, seed: int) -> tuple[tuple[int, int], ...]:
        """Return for each shock of a seed's world its step, and that of the next shock or the end."""
        own = drawn(self.shop, self._world_seed(seed)).shocks if isinstance(self.env, EnvConfig) else self.shocks
        starts = sorted(shock.step for shock in own)
        ends = [next((later for later in starts if later > start), self.steps) for start in starts]
        return tuple(zip(starts, ends, strict=True))

    @property
    def phases(self) -> tuple[tuple[int, int], ...]:
        """Cut the run into phases (from, to), `to` exclusive: between shocks, and the tail where there is one."""
        starts = {0, *(shock.step for shock in self.shocks)}
        if 0 < self.experiment.tail < self.steps:
            starts.add(self.steps - self.experiment.tail)
        ordered = sorted(starts)
        return tuple(zip(ordered, [*ordered[1:], self.steps], strict=True))

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as it is written to config.yaml and read again by `--config`."""
        env = self.env.model_dump(exclude_none=True)
        if "random_personas" in env:
            del env["personas"]  # they follow from it
        policies = [{"name": e.name, "type": type_label(e), **e.params} for e in self.entries]
        run = {"steps": self.steps, "seeds": list(self.seeds)}
        head = {"experiment": self.experiment.name, "config_hash": self.config_hash}
        return {**head, "env": env, "run": run, "policies": policies, **self._changed_parameters()}

    def _changed_parameters(self) -> dict[str, Any]:
        """Return what was set for built-in policies that do not compete: it belongs to the hash."""
        competing, published = {entry.name for entry in self.entries}, self.experiment.policies
        left = {name: params for name, params in self.parameters.items() if name not in competing}
        changed = {
            name: params
            for name, params in left.items()
            if params != check_parameters(name, find_class(name), published.get(name, {}))
        }
        return {"parameters": changed} if changed else {}


def type_label(entry: PolicyEntry) -> str:
    """Say what an entry is made from; a file by its whole path, so that it is found from everywhere."""
    if isinstance(entry.source, type):
        return entry.source.__qualname__
    file, colon, name = entry.source.rpartition(":")
    return f"{Path(file).resolve()}:{name}" if colon else entry.source


def make_plan(request: Request) -> Plan:
    """Check a request and return its plan; raises `ConfigError`, `DataError` or `PolicyError` with one clear line."""
    experiment = EXPERIMENTS.get(request.experiment)
    if request.experiment in STUDIES:
        name = request.experiment
        raise ConfigError(
            f"{name} is a study, which compares no policies; run `python -m studies {name}` in a checkout"
        )
    if request.experiment == CONTINUOUS_VS_DISCRETE:
        raise ConfigError(f"{request.experiment}: runs on the command line alone, `zoosim run {request.experiment}`")
    if experiment is None:
        raise ConfigError(unknown("unknown experiment", request.experiment, [*EXPERIMENTS, CONTINUOUS_VS_DISCRETE]))
    config, changes = _read_config(request, experiment), Settings(request.settings)
    named = changes.policy_names()
    steps = _steps(request, config, changes, experiment)
    env, notes = read_env(experiment, config, changes, steps, finished=request.finished)
    set_seeds = [value for path, value in changes.take("run", "seeds") if not path]
    seeds = parse_seeds(
        _first(request.seeds, *reversed(set_seeds), config.get("run", {}).get("seeds"), experiment.seeds)
    )
    check_worlds(env, seeds if experiment.world_seed is None else (experiment.world_seed,))
    overrides = _overrides(experiment, config, changes)
    entries = tuple(_tuned(entry, changes) for entry in _entries(request, config, experiment, overrides))
    changes.refuse_unused([entry.name for entry in entries])
    _check_fit(experiment, entries)
    notes += _left_out(request, {entry.name for entry in entries}) + _unheard(named, entries)
    plan = Plan(experiment, env, steps, seeds, entries, overrides, notes=notes)
    if request.finished and isinstance(env, SearchConfig):
        return replace(plan, config_hash=str(config.get("config_hash")))  # its files may have moved
    return replace(plan, config_hash=_hash(plan))


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _read_config(request: Request, experiment: Experiment) -> dict[str, Any]:
    given = request.config
    config = dict(given) if isinstance(given, Mapping) else read_yaml(Path(given)) if given is not None else {}
    for key in config:
        if key not in ("env", "run", "policies", "parameters", "experiment", "config_hash"):
            raise ConfigError(unknown("config: unknown key", str(key), ["env", "run", "policies", "parameters"]))
    if config.get("experiment", experiment.name) != experiment.name:
        raise ConfigError(f"config: is for the experiment {config['experiment']!r}, not for {experiment.name}")
    for key in ("env", "run", "parameters"):
        if config.get(key) is None:
            config.pop(key, None)
        elif not isinstance(config[key], Mapping):
            raise ConfigError(f"config {key}: got {config[key]!r}, expected a mapping of keys")
    for key in config.get("run", {}):
        if key not in ("steps", "seeds"):
            raise ConfigError(unknown("config run: unknown key", str(key), ["steps", "seeds"]))
    return config


def _steps(request: Request, config: Mapping[str, Any], changes: Settings, experiment: Experiment) -> int:
    settings = [value for path, value in changes.take("run", "steps") if not path]
    steps = _first(request.steps, *reversed(settings), config.get("run", {}).get("steps"), experiment.steps)
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MAX_STEPS:
        raise ConfigError(f"steps: got {steps!r}, expected a whole number from 1 to {MAX_STEPS}")
    return steps


def _overrides(experiment: Experiment, config: Mapping[str, Any], changes: Settings) -> dict[str, dict[str, Any]]:
    """Return what differs from the defaults of each built-in policy, whether it competes or not."""
    found = {name: dict(experiment.policies.get(name, {})) for name in BUILT_IN}
    for name, given in config.get("parameters", {}).items():
        if name not in found or not isinstance(given, Mapping):
            raise ConfigError(unknown("config parameters: expected {NAME: {...}}, got", str(name), BUILT_IN))
        found[name].update(given)
    for entry in _listed(config) or []:
        if entry["name"] in found and entry.get("type", entry["name"]) == entry["name"]:
            found[entry["name"]].update({k: v for k, v in entry.items() if k not in ("name", "type")})
    for name in changes.policy_names():
        if name in found:
            found[name].update(changes.take_parameters(name))
    return {name: check_parameters(name, find_class(name), given) for name, given in found.items()}


def _listed(config: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the policies of a YAML file as mappings with a name."""
    given = config.get("policies")
    if given is None:
        return None
    if not isinstance(given, list) or not given:
        raise ConfigError(f"config policies: got {given!r}, expected a list of names or of {{name, type, ...}}")
    entries = [{"name": item} if isinstance(item, str) else item for item in given]
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"config policies: got {entry!r}, expected a name or {{name, type, ...parameters}}")
    return entries


def _entries(
    request: Request, config: Mapping[str, Any], experiment: Experiment, overrides: Mapping[str, dict[str, Any]]
) -> tuple[PolicyEntry, ...]:
    if request.finished:
        return tuple(_finished_entry(item) for item in _listed(config) or [])
    known: dict[str, PolicyEntry] = {}
    for item in _listed(config) or [{"name": name, **params} for name, params in experiment.policies.items()]:
        _add(known, _listed_entry(item, overrides))
    for source in request.extra:
        _add(known, make_entry(source))
    if request.policies is None:
        return tuple(known.values())
    return _chosen(request.policies, known, overrides)


def _check_fit(experiment: Experiment, entries: Sequence[PolicyEntry]) -> None:
    """Refuse policies that are made for other worlds, know visitors by their id, or cannot learn from EUR."""
    classes = {entry.name: find_class(entry.source) for entry in entries if entry.source in BUILT_IN}
    others = {name: cls.only_for for name, cls in classes.items() if cls.only_for not in ("", experiment.kind)}
    for name, kind in others.items():
        place = {"search": "template-bandits", "boosts": "zoosim/Search-v0"}[kind]
        raise ConfigError(f"policy {name}: is made for {place}, not for {experiment.name}")
    needy = [name for name, cls in classes.items() if cls.needs_user_ids]
    if experiment.kind != "recommendation" and needy:
        raise ConfigError(f"policy {needy[0]}: knows visitors by their id, and those of {experiment.name} have none")
    students = [
        entry.name for entry in entries if getattr(entry.source, "past_visits", entry.params.get("past_visits"))
    ]
    if experiment.kind == "search" and students:
        raise ConfigError(f"policy {students[0]}: wants a log of the past, and {experiment.name} has none")
    narrow = [name for name, cls in classes.items() if getattr(cls, "rewards", (0.0, np.inf))[1] <= 1.0]
    if experiment.kind == "search" and narrow:
        raise ConfigError(f"policy {narrow[0]}: learns from rewards of 0 to 1, and those of {experiment.name} are EUR")


def _unheard(named: Iterable[str], entries: Sequence[PolicyEntry]) -> tuple[str, ...]:
    """Tell which of the policies `named` by --set compete under other names alone."""
    names = {entry.name for entry in entries}
    found = []
    for name in named:
        relatives = [entry.name for entry in entries if entry.source == name]
        if name not in names and relatives:
            found.append(f"policies.{name}: does not compete; set {', '.join(relatives)}")
    return tuple(found)


def _left_out(request: Request, competing: set[str]) -> tuple[str, ...]:
    """Tell which policies were given, but not named among those that compete."""
    given = [policy_name(find_class(source)) for source in request.extra]
    return tuple(f"{name}: left out, since the policies named do not include it" for name in set(given) - competing)


def _chosen(
    wanted: Sequence[str | type[Policy]], known: Mapping[str, PolicyEntry], overrides: Mapping[str, dict[str, Any]]
) -> tuple[PolicyEntry, ...]:
    """Return the entries asked for by name, by file or as classes."""
    chosen: dict[str, PolicyEntry] = {}
    for source in wanted:
        if isinstance(source, str) and source in known:
            _add(chosen, known[source])
        elif isinstance(source, str) and source in BUILT_IN:
            _add(chosen, make_entry(source, params=overrides[source]))
        elif isinstance(source, str) and not (":" in source or source.endswith(".py")):
            raise ConfigError(unknown("unknown policy", source, [*known, *(n for n in BUILT_IN if n not in known)]))
        else:
            _add(chosen, make_entry(source))
    if not chosen:
        raise ConfigError("policies: none were named; give at least one")
    return tuple(chosen.values())


def _listed_entry(item: Mapping[str, Any], overrides: Mapping[str, dict[str, Any]]) -> PolicyEntry:
    name, source = item["name"], item.get("type", item["name"])
    if name == source and name in overrides:
        return make_entry(name, params=overrides[name])
    if not isinstance(source, str):
        raise ConfigError(f"config policies {name}: type is {source!r}, expected a policy's name or FILE.py:Class")
    if name in BUILT_IN:
        raise ConfigError(f"config policies {name}: is the name of a built-in policy; call this {source} another name")
    return make_entry(source, name, {k: v for k, v in item.items() if k not in ("name", "type")})


def _tuned(entry: PolicyEntry, changes: Settings) -> PolicyEntry:
    """Return an entry with what `--set` says of it; for the built-in names that has happened before."""
    own = changes.take_parameters(entry.name)
    return make_entry(entry.source, entry.name, {**entry.params, **own}) if own else entry


def _finished_entry(item: Mapping[str, Any]) -> PolicyEntry:
    params = {key: value for key, value in item.items() if key not in ("name", "type")}
    return PolicyEntry(item["name"], item.get("type", item["name"]), params)


def _add(entries: dict[str, PolicyEntry], entry: PolicyEntry) -> None:
    if entry.name in entries:
        raise ConfigError(f"policy name: two policies are called {entry.name!r}; give one of them another name")
    if entry.name in BUILT_IN and not entry.built_in:
        raise ConfigError(f"policy name: {entry.name!r} is a built-in policy; give your class another `name`")
    entries[entry.name] = entry


def _hash(plan: Plan) -> str:
    """Hash world, steps and parameters: not seeds, not who competes."""
    if isinstance(plan.env, LabelledConfig):
        env: dict[str, Any] = {"table": plan.table.digest}
    elif isinstance(plan.env, SearchConfig):
        tables = (plan.env.categories, plan.env.segments, plan.env.query_types)
        paths = dict.fromkeys(plan.env.files)  # what the files hold counts, not where they lie
        env = {**plan.env.model_dump(), **paths, "order": [list(table) for table in tables], "files": digest(plan.env)}
    else:  # personas and categories are numbered in their order
        env = {**plan.shop.model_dump(), "order": [list(plan.env.personas), plan.env.categories]}
    values = {"experiment": plan.experiment.name, "env": env, "steps": plan.steps, "parameters": plan.parameters}
    return config_hash(values)
