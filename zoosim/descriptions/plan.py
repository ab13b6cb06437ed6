"""Find the world that a user wants described."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoosim.arena.plan import Plan
from zoosim.core.checks import check_whole
from zoosim.core.config import read_config, read_setting
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown, unknown
from zoosim.experiments import EXPERIMENTS
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import MAX_SEED, RunRequest
from zoosim.worlds.registry import find_world

WORLDS = {"search": "template-bandits", "recommendation": "gauntlet", "sessions": "long-term"}
"""Worlds by name, and the experiment whose world each is; the names of experiments do as well."""

MAX_VISITS = 1_000_000
LEFT_OUT = ("policies", "parameters", "format", "config_hash", "files")
"""Keys of a YAML file that may stand beside a world; this does not change a description."""


def read_world(
    name: str,
    seed: int,
    visits: int,
    config: str | os.PathLike[str] | Mapping[str, Any] | None,
    settings: Sequence[str],
    steps: int | None = None,
) -> Plan:
    """Return the plan of a run in a world by name, with its own number of steps or `steps`.

    Raises `ConfigError` or `DataError`.
    """
    experiments = [
        key for key, experiment in EXPERIMENTS.items() if find_world(experiment.kind).description is not None
    ]
    experiment = WORLDS.get(name, name)
    if experiment not in experiments:
        files = "; or give a FILE.world of fit-world or a FILE.zoosim of train"
        raise ConfigError(unknown("unknown world", name, [*WORLDS, *experiments]) + files)
    check_whole("seed", seed, 0, MAX_SEED)
    check_whole("visits", visits, 1, MAX_VISITS)
    if isinstance(settings, str) or not isinstance(settings, Sequence):
        raise ConfigError(f"settings: got {shown(settings)}, expected a list such as ['env.n_products=500']")
    for text in settings:
        path, _ = read_setting(text)
        if path[0] != "env":
            raise ConfigError(f"--set: got {'.'.join(path)}, expected env.KEY, since a description has no policies")
    values: Mapping[str, Any] = {}
    if isinstance(config, Mapping):
        values = config
    elif isinstance(config, str | os.PathLike):
        values = read_config(Path(config))
    elif config is not None:
        raise ConfigError(f"config: got {shown(config)}, expected the path of a YAML file, or what it would hold")
    world = {key: value for key, value in values.items() if key not in LEFT_OUT}
    return make_plan(RunRequest(experiment, [seed], steps=steps, config=world, settings=settings))
