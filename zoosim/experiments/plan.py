"""Turn what a user asks for into a plan: a checked world, steps, seeds and contestants. Nothing is written here."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.arena.metrics import WINDOW
from zoosim.arena.older_runs import FORMATS, OLDER
from zoosim.arena.plan import FORMAT, Plan
from zoosim.core.checks import check_whole
from zoosim.core.config import read_config
from zoosim.core.digests import value_digest
from zoosim.core.errors import ConfigError
from zoosim.core.feedback import AT_ONCE, FeedbackTiming
from zoosim.core.number_format import VISIT, VISITOR
from zoosim.core.parameters import check_parameters, shown, unknown
from zoosim.core.seal import KEY
from zoosim.core.user_code import is_file_source
from zoosim.experiments import EXPERIMENTS, STUDIES, Experiment
from zoosim.experiments.request import RunRequest, SettingValues, parse_seeds
from zoosim.experiments.world_parameters import read_parameters
from zoosim.policies.base import Policy
from zoosim.policies.files import is_file
from zoosim.policies.registry import BUILT_IN, PolicyEntry, check_own_name, find_class, make_entry
from zoosim.policies.requests import LARGEST

MAX_STEPS = 100_000_000
RUN_KEYS = ("steps", "seeds", "delay", "batch", "window")

WRITTEN = ("experiment", "format", "config_hash", "files", KEY, OLDER)
"""Keys of config.yaml beside those that a user would write."""


def finished_plan(config: Mapping[str, Any]) -> Plan:
    """Return the plan of the run that a config.yaml tells of, in this format or an older one."""
    return make_plan(RunRequest(str(config.get("experiment")), config=config, finished=True))


def make_plan(request: RunRequest) -> Plan:
    """Check a request and return its plan; raises `ConfigError`, `DataError` or `PolicyError` with one clear line."""
    experiment = find_experiment(request.experiment, finished=request.finished)
    config = _read_config(request, experiment)
    changes = SettingValues(request.settings)
    # Noted before parts of the plan take the settings that are for them.
    named_policies = changes.policy_names()
    asked_steps = _run_value("steps", request.steps, config, changes, None)
    steps = check_whole("steps", experiment.steps if asked_steps is None else asked_steps, 1, MAX_STEPS)
    feedback = _feedback(config, changes)
    params, notes = read_parameters(experiment, config, changes, steps, finished=request.finished)
    seeds = parse_seeds(_run_value("seeds", request.seeds, config, changes, experiment.seeds))
    window = _run_value("window", None, config, changes, WINDOW)
    plan = Plan(
        experiment, params, steps, seeds, feedback=feedback, notes=notes, window=window, finished=request.finished
    )
    if request.finished:
        return _finished_plan(config, plan)
    if asked_steps is None:
        # A default gives way to a world that ends sooner; what was asked for is refused below.
        plan = replace(plan, steps=min(steps, plan.any_world.longest_run or steps))
    plan.any_world.check_seeds(seeds if experiment.world_seed is None else (experiment.world_seed,))

    overrides = _overrides(experiment, config, changes)
    entries = tuple(_tuned(entry, changes) for entry in _entries(request, config, experiment, overrides))
    changes.refuse_unused([entry.name for entry in entries])
    plan = replace(plan, entries=entries)
    _check_fit(plan)
    notes = (
        *notes,
        *_above_oracle(plan),
        *_unheard(named_policies, entries),
        *_late(feedback, VISITOR if plan.any_world.episodic else VISIT),
    )
    return replace(plan, config_hash=value_digest(plan.identity), notes=notes)


def find_experiment(name: str | os.PathLike[str], *, finished: bool = False) -> Experiment:
    """Return an experiment by name, or that of a world.

    Args:
        name: An experiment, a world, FILE.world or FILE.py:World.
        finished: Whether it is that of a finished run, whose files need not be there any more.

    Raises:
        ConfigError: there is none of that name.
        WorldError: the file has no such world.
        DataError: the file of a fitted world is broken.
    """
    if isinstance(name, os.PathLike):
        name = os.fspath(name)
    if not isinstance(name, str):
        raise ConfigError(f"experiment: got {name!r}, expected a name (`zoosim list`), FILE.world or FILE.py:World")
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    from zoosim.experiments.own import own_experiment  # brings the code of fitted worlds, which most runs do without

    experiment = own_experiment(name, finished=finished)
    if experiment is not None:
        return experiment
    if name in STUDIES:
        raise ConfigError(
            f"{name} is a study, which compares no policies; run `python -m studies {name}` in a checkout"
        )
    expected = unknown("unknown experiment", name, EXPERIMENTS)
    raise ConfigError(f"{expected}; a world of your own is given as FILE.py:World, a fitted one as FILE.world")


def _finished_plan(config: Mapping[str, Any], plan: Plan) -> Plan:
    """Complete a plan by what a run's config.yaml says; neither its policies' code nor its files need be there."""
    return replace(
        plan,
        entries=tuple(_finished_entry(item) for item in _listed(config) or []),
        config_hash=str(config.get("config_hash")),
        files=str(config.get("files", "")) if config.get("format", 1) != 1 else None,
    )


def _run_value(name: str, value: Any, config: Mapping[str, Any], changes: SettingValues, default: Any) -> Any:
    """Return `run.NAME`: the `value` that was asked for, else the last setting, the file's, or the default."""
    taken = changes.take("run", name)
    if any(path for path, _ in taken):
        raise ConfigError(f"--set run.{name}: expected one value, such as run.{name}=1000")
    settings = [setting for _, setting in taken]
    _check_run(name, [*settings, config.get("run", {}).get(name)])
    candidates = (value, *reversed(settings), config.get("run", {}).get(name))
    return next((candidate for candidate in candidates if candidate is not None), default)


def _check_run(name: str, values: Iterable[Any]) -> None:
    """Refuse a value of `run.NAME` that is none, even where another one is used."""
    for value in values:
        if value is not None and name in ("steps", "window"):
            check_whole(f"run.{name}", value, 1, MAX_STEPS)
        elif value is not None:
            parse_seeds(value)


def _read_config(request: RunRequest, experiment: Experiment) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if isinstance(request.config, Mapping):
        config = dict(request.config)
    elif request.config is not None:
        config = read_config(Path(request.config))
    for key in config:
        if key not in ("env", "run", "policies", "parameters", *WRITTEN):
            raise ConfigError(unknown("config: unknown key", str(key), ["env", "run", "policies", "parameters"]))
    if config.get("format", FORMAT) not in (*FORMATS, FORMAT):
        raise ConfigError(f"config format: got {shown(config['format'])}, expected 1 to {FORMAT}; get a newer zoosim")
    if config.get("experiment", experiment.name) != experiment.name:
        raise ConfigError(f"config: is for the experiment {shown(config['experiment'])}, not for {experiment.name}")
    for key in ("env", "run", "parameters"):
        if config.get(key) is None:
            config.pop(key, None)
        elif not isinstance(config[key], Mapping):
            raise ConfigError(f"config {key}: got {shown(config[key])}, expected a mapping of keys")
    for key in config.get("run", {}):
        if key not in RUN_KEYS:
            raise ConfigError(unknown("config run: unknown key", str(key), list(RUN_KEYS)))
    return config


def _feedback(config: Mapping[str, Any], changes: SettingValues) -> FeedbackTiming:
    """Return when rewards arrive: `run.delay` and `run.batch`, of the settings before the file."""
    values = {name: config.get("run", {}).get(name, getattr(AT_ONCE, name)) for name in ("delay", "batch")}
    for name in values:
        for path, value in changes.take("run", name):
            if path:
                raise ConfigError(f"--set run.{name}: expected one number, such as run.{name}=1000")
            values[name] = value
    return FeedbackTiming(**values)


def _overrides(experiment: Experiment, config: Mapping[str, Any], changes: SettingValues) -> dict[str, dict[str, Any]]:
    """Return what differs from the defaults of every built-in policy; what the user changed is checked.

    Sources, later ones win: the experiment, `parameters:` in the config file, `policies:` in it, --set.
    """
    published = {name: dict(experiment.policies.get(name, {})) for name in BUILT_IN}
    values_of = {name: dict(params) for name, params in published.items()}
    for name, values in config.get("parameters", {}).items():
        if name not in values_of:
            raise ConfigError(unknown("config parameters: unknown policy", str(name), BUILT_IN))
        if not isinstance(values, Mapping):
            raise ConfigError(
                f"config parameters {name}: got {shown(values)}, expected a mapping, such as {{alpha: 1.0}}"
            )
        values_of[name].update(values)

    for item in _listed(config) or []:
        name = item["name"]
        is_built_in = name in values_of and item.get("type", name) == name
        if is_built_in:  # with another `type` it is a new policy, which overrides nothing
            values_of[name].update({key: value for key, value in item.items() if key not in ("name", "type")})

    for name in changes.policy_names():
        if name in values_of:
            values_of[name].update(changes.take_parameters(name))

    for name, values in values_of.items():
        if values != published[name]:
            check_parameters(name, find_class(name), values)
    return values_of


def _listed(config: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the policies of a YAML file as mappings with a name."""
    given = config.get("policies")
    if given is None:
        return None
    if not isinstance(given, list) or not given:
        raise ConfigError(f"config policies: got {shown(given)}, expected a list of names or of {{name, type, ...}}")
    entries = [{"name": item} if isinstance(item, str) else item for item in given]
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"config policies: got {shown(entry)}, expected a name or {{name, type, ...parameters}}")
    return entries


def _entries(
    request: RunRequest, config: Mapping[str, Any], experiment: Experiment, overrides: Mapping[str, dict[str, Any]]
) -> tuple[PolicyEntry, ...]:
    """Return who competes; the code of policies that do not is not even imported."""
    listed: dict[str, Mapping[str, Any]] = {}
    for item in _listed(config) or [{"name": name, **params} for name, params in experiment.policies.items()]:
        if item["name"] in listed:
            raise ConfigError(f"policy name: two policies are called {item['name']!r}; give one of them another name")
        listed[item["name"]] = item
    extra: dict[str, PolicyEntry] = {}
    for source in request.extra:
        _add(extra, make_entry(source))
    for name in sorted(extra.keys() & listed.keys()):
        raise ConfigError(f"policy name: two policies are called {name!r}; give one of them another name")
    if request.policies is None:
        return (*(_listed_entry(item, overrides) for item in listed.values()), *extra.values())
    return _chosen(request.policies, listed, extra, overrides)


def _check_fit(plan: Plan) -> None:
    """Refuse policies that choose in another action space, or want or expect what the world does not have."""
    world = plan.any_world
    title = plan.experiment.title
    for entry in plan.entries:
        if not any(find_action_space(space).accepts(entry.cls) for space in world.action_spaces):
            chosen = " or ".join(entry.cls.chooses)
            asked = " or ".join(world.action_spaces)
            raise ConfigError(
                f"policy {entry.name}: chooses {chosen}, and {title} asks for {asked}; leave it out of --policies"
            )
    for entry in plan.entries:
        if entry.cls.needs_user_ids and not world.knows_users:
            raise ConfigError(f"policy {entry.name}: needs user ids, but {title} has none; leave it out")
    for entry in plan.entries:
        if entry.past_visits and not world.has_past:
            raise ConfigError(f"policy {entry.name}: wants a log of the past, and {title} has none")
        _check_rewards(plan, entry)


def _check_rewards(plan: Plan, entry: PolicyEntry) -> None:
    """Refuse a policy that learns from a smaller range of rewards than the world's."""
    learned_low, learned_high = getattr(entry.cls, "rewards", (-np.inf, np.inf))
    low, high = plan.any_world.reward_range
    if learned_low > max(low, -LARGEST) or learned_high < min(high, LARGEST):
        rewards = plan.any_world.reward_scale.unit if high == np.inf else ""
        raise ConfigError(
            f"policy {entry.name}: learns from rewards of {learned_low:g} to {learned_high:g}, "
            f"and those of {plan.experiment.title} are {rewards or f'{low:g} to {high:g}'}"
        )


def _above_oracle(plan: Plan) -> tuple[str, ...]:
    """Say what 100% of the oracle is where policies compete that may earn more."""
    spaces = {plan.action_space(entry) for entry in plan.entries}
    if all(find_action_space(space).oracle_is_best for space in spaces) or not plan.any_world.oracle_note:
        return ()
    return (plan.any_world.oracle_note,)


def _late(feedback: FeedbackTiming, unit: str) -> tuple[str, ...]:
    """Say when rewards come late, as every figure of the run hangs on it."""
    if feedback == AT_ONCE:
        return ()
    batches = f", in batches of {feedback.batch:,}" if feedback.batch > 1 else ""
    return (f"rewards reach the policies {feedback.delay:,} {unit}s late{batches}",)


def _unheard(named: Iterable[str], entries: Sequence[PolicyEntry]) -> tuple[str, ...]:
    """Return notes on those of the policies `named` by --set that do not compete, or under other names alone."""
    names = {entry.name for entry in entries}
    notes = []
    for name in dict.fromkeys(named):
        if name in names:
            continue
        relatives = [entry.name for entry in entries if entry.source == name]
        advice = f"set {', '.join(relatives)}" if relatives else "what is set of it changes nothing"
        notes.append(f"policies.{name}: does not compete; {advice}")
    return tuple(notes)


def _chosen(
    wanted: Sequence[str | type[Policy]],
    listed: Mapping[str, Mapping[str, Any]],
    extra: Mapping[str, PolicyEntry],
    overrides: Mapping[str, dict[str, Any]],
) -> tuple[PolicyEntry, ...]:
    """Return the entries asked for by name, by file or as classes; `extra` ones compete in any case."""
    chosen: dict[str, PolicyEntry] = {}
    for source in wanted:
        if not isinstance(source, str):
            _add(chosen, make_entry(source))
        elif source in extra:
            _add(chosen, extra[source])
        elif source in listed:
            _add(chosen, _listed_entry(listed[source], overrides))
        elif source in BUILT_IN:
            _add(chosen, make_entry(source, params=overrides[source]))
        elif is_file(source) or is_file_source(source):
            _add(chosen, make_entry(source))
        else:
            names = [*listed, *extra]
            raise ConfigError(unknown("unknown policy", source, [*names, *(n for n in BUILT_IN if n not in names)]))
    if not chosen and not extra:
        raise ConfigError("policies: none were named; give at least one")
    for name, entry in extra.items():
        if name not in chosen:
            _add(chosen, entry)
    return tuple(chosen.values())


def _listed_entry(item: Mapping[str, Any], overrides: Mapping[str, dict[str, Any]]) -> PolicyEntry:
    name = item["name"]
    source = item.get("type", item["name"])
    if name == source and name in overrides:
        return make_entry(name, params=overrides[name])
    if not isinstance(source, str):
        raise ConfigError(f"config policies {name}: type is {shown(source)}, expected a policy's name or FILE.py:Class")
    if name in BUILT_IN:
        raise ConfigError(f"config policies {name}: is the name of a built-in policy; call this {source} another name")
    return make_entry(source, name, {k: v for k, v in item.items() if k not in ("name", "type")})


def _tuned(entry: PolicyEntry, changes: SettingValues) -> PolicyEntry:
    """Return an entry with what `--set` says of it; for the built-in names that has happened before."""
    changed = changes.take_parameters(entry.name)
    return make_entry(entry.source, entry.name, {**entry.params, **changed}) if changed else entry


def _finished_entry(item: Mapping[str, Any]) -> PolicyEntry:
    params = {key: value for key, value in item.items() if key not in ("name", "type")}
    return PolicyEntry(item["name"], item.get("type", item["name"]), params)


def _add(entries: dict[str, PolicyEntry], entry: PolicyEntry) -> None:
    if entry.name in entries:
        raise ConfigError(f"policy name: two policies are called {entry.name!r}; give one of them another name")
    check_own_name(entry)
    entries[entry.name] = entry
