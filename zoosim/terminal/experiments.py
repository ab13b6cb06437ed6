"""Printed descriptions of experiments: a list of all, or one with the keys of its world."""

import inspect
from shlex import quote
from typing import TYPE_CHECKING

from zoosim.experiments import EXPERIMENTS
from zoosim.terminal.output import echo, print_lines, print_list

if TYPE_CHECKING:
    from zoosim.worlds.keys import Key


def print_experiments() -> None:
    """Print the experiments, a line or two per experiment."""
    print_list({name: experiment.summary for name, experiment in EXPERIMENTS.items()})


def print_experiment(name: str) -> None:
    """Print what an experiment asks, and the keys of its world with their values in this experiment.

    Args:
        name: An experiment, a world, FILE.world or FILE.py:Class.

    Raises:
        ConfigError, WorldError, DataError: there is none of that name, or its file is broken.
    """
    from zoosim.experiments.plan import find_experiment
    from zoosim.experiments.request import SettingValues
    from zoosim.experiments.world_parameters import read_parameters
    from zoosim.worlds.base import WORLD_FILE
    from zoosim.worlds.keys import world_keys
    from zoosim.worlds.registry import find_world

    experiment = find_experiment(name)
    world = find_world(experiment.kind)
    values, _ = read_parameters(experiment, {}, SettingValues(()), experiment.steps)
    keys = world_keys(world, values)
    echo(name, bold=True)
    about = "" if world.parameter_record is None else inspect.getdoc(world.parameter_record) or ""
    for paragraph in [experiment.question, *about.split("\n\n")]:
        if paragraph:
            print_lines([" ".join(paragraph.split())])
            echo()
    if not keys:
        echo("Its world has no parameters.")
        return
    echo("Keys below env, each with default (range): meaning", bold=True)
    print_list({key.name: _about(key) for key in keys}, indent=2)
    echo()
    if not experiment.kind.endswith(WORLD_FILE):  # of a fitted world nothing can be set
        print_lines([f"Set one: zoosim run {quote(name)} --set env.KEY=VALUE; docs/configuration.md says more."])


def _about(key: "Key") -> str:
    """Return what stands beside a key."""
    allowed = "" if key.range == "any" else f" ({key.range})"
    return f"{key.default}{allowed}: {key.meaning}" if key.meaning else f"{key.default}{allowed}"
