"""Printed descriptions of policies: a list of all, or one with its parameters."""

import inspect

from zoosim.action_spaces import find_action_space
from zoosim.core.parameters import parameters_of, written
from zoosim.core.tables import table_of_rows
from zoosim.policies.base import Policy
from zoosim.policies.registry import BUILT_IN, find_class
from zoosim.terminal.output import echo, print_lines, print_list, print_table

KINDS = {
    "products": "Choose a product, learn online",
    "from_log": "Choose a product, learn from a log",
    "sessions": "Choose a product, learn what visitors bring from there on",
    "templates": "Choose a ranking template",
    "boosts": "Choose boosts of a ranking",
}
"""By the package that a policy stands in, what policies of this kind do."""


def print_policies() -> None:
    """Print the built-in policies by kind, a line or two per policy."""
    for kind, heading in KINDS.items():
        echo(f"{heading}:", bold=True)
        names = [name for name, place in BUILT_IN.items() if place.split(".")[2] == kind]
        print_list({name: _summary(find_class(name)) for name in names}, indent=2)
        echo()
    print_lines(["`zoosim policies NAME` prints one with its parameters; docs/policies.md compares them."])


def print_policy(name: str) -> None:
    """Print a policy: what it does, its parameters, and how to use it; raises `ConfigError` or `PolicyError`."""
    cls = find_class(name)
    echo(name, bold=True)
    for paragraph in (inspect.getdoc(cls) or "It has no docstring.").split("\n\n"):
        print_lines([" ".join(paragraph.split())])
        echo()
    parameters = parameters_of(cls)
    if parameters:
        rows = [(key, written(value.default), value.range, value.help) for key, value in parameters.items()]
        print_table(table_of_rows("Parameters", ("name", "default", "range", "meaning"), rows, n_text=4))
    else:
        echo("It has no parameters.")
    example = next(iter(parameters.items()), None)
    experiment = find_action_space(cls.chooses[0]).experiment
    print_lines([f"Compare it with others: zoosim run {experiment} --policies {name},random"])
    if example is not None:
        key, value = example
        print_lines([f"Set a parameter: zoosim run EXPERIMENT --set policies.{name}.{key}={value.default}"])


def _summary(cls: type[Policy]) -> str:
    mark = " [baseline as published, only to compare with]" if cls.baseline_only else ""
    return (inspect.getdoc(cls) or "").partition("\n")[0] + mark
