"""Find the world that a user wants described, and describe it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoosim.arena.plan import Plan
from zoosim.core.checks import check_whole
from zoosim.core.config import read_config, read_setting
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import unknown
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import Progress
from zoosim.descriptions.recommendation import RecommendationDescription, describe_recommendation
from zoosim.descriptions.search import SearchDescription, describe_search
from zoosim.experiments import EXPERIMENTS
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import MAX_SEED, Request

WORLDS = {"search": "template-bandits", "recommendation": "gauntlet"}
"""Worlds by name, and the experiment whose world each is; the names of experiments do as well."""

MAX_VISITS = 1_000_000
LEFT_OUT = ("policies", "parameters", "format", "config_hash", "files")
"""What a YAML file may hold beside a world; it does not change a description."""


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
    experiments = {key: value for key, value in EXPERIMENTS.items() if value.kind in ("search", "recommendation")}
    experiment = WORLDS.get(name, name)
    if experiment not in experiments:
        files = "; or give a FILE.world of fit-world or a FILE.zoosim of train"
        raise ConfigError(unknown("unknown world", name, [*WORLDS, *experiments]) + files)
    check_whole("seed", seed, 0, MAX_SEED)
    check_whole("visits", visits, 1, MAX_VISITS)
    for text in settings:
        path, _ = read_setting(text)
        if path[0] != "env":
            raise ConfigError(f"--set: got {'.'.join(path)}, expected env.KEY, since a description has no policies")
    values: Mapping[str, Any] = {}
    if isinstance(config, Mapping):
        values = config
    elif config is not None:
        values = read_config(Path(config))
    world = {key: value for key, value in values.items() if key not in LEFT_OUT}
    return make_plan(Request(experiment, [seed], steps=steps, config=world, settings=settings))


def describe_plan(plan: Plan, visits: int, progress: Progress) -> SearchDescription | RecommendationDescription:
    """Describe the world of a plan's one seed; in a search world `visits` are simulated."""
    if isinstance(plan.env, SearchConfig):
        return describe_search(plan.env, seed=plan.seeds[0], visits=visits, progress=progress)
    table = plan.world(plan.seeds[0]).as_table()
    assert table is not None
    return describe_recommendation(table, steps=plan.steps)
