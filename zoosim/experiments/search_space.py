"""The settings that are tried when policies are tuned: lists of values, and ranges that values are drawn from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import yaml

from zoosim.core.digests import value_digest
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import Parameter, check_parameters, parameters_of, shown, unknown
from zoosim.core.rng import stream
from zoosim.core.yaml_text import parse_yaml
from zoosim.policies.registry import PolicyEntry, make_entry

DRAWN = 32
"""Settings that are drawn for each policy with a range, by default."""

MOST = 10_000
"""Most settings of a policy."""

EXPECTED = "expected POLICY.KEY=A,B,C, or POLICY.KEY=LOW:HIGH, or POLICY.KEY=LOW:HIGH:log"


class Values(NamedTuple):
    """What a parameter may be: one of a list, or anything between two ends, evenly or evenly in its logarithm."""

    listed: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False

    def drawn(self, rng: np.random.Generator, declared: Parameter) -> Any:
        """Return a value, whole where the parameter is."""
        if self.listed:
            return self.listed[int(rng.integers(len(self.listed)))]
        share = float(rng.random())
        if self.is_log:
            value = math.exp((1.0 - share) * math.log(self.low) + share * math.log(self.high))
        else:
            value = (1.0 - share) * self.low + share * self.high
        return round(value) if isinstance(declared.default, int) else value


Space = Mapping[str, Values]
"""What is tried of each of a policy's parameters."""


def read_spaces(texts: Sequence[str]) -> dict[str, dict[str, Values]]:
    """Return what is tried of each policy, by its name, as texts such as `linucb.alpha=0.1,0.2` say.

    Raises:
        ConfigError: a text says something else, or names a parameter twice.
    """
    spaces: dict[str, dict[str, Values]] = {}
    for text in texts:
        path, is_given, values = str(text).partition("=")
        policy, dot, name = path.strip().rpartition(".")
        if not (is_given and dot and policy and name):
            raise ConfigError(f"over: got {shown(text)}, {EXPECTED}")
        if name in spaces.setdefault(policy, {}):
            raise ConfigError(f"over: {path} comes twice; give all its values at once")
        spaces[policy][name] = _read_values(text, values)
    if not spaces:
        raise ConfigError(f"over: nothing is to be tried, {EXPECTED}")
    return spaces


def _read_values(text: str, values: str) -> Values:
    ends = values.split(":")
    if len(ends) == 1:
        listed = [_read_value(text, part) for part in values.split(",")]
        return Values(tuple(listed))
    numbers = [_read_value(text, end) for end in ends[:2]]
    is_log = ends[2:] == ["log"]
    if not all(type(number) in (int, float) for number in numbers) or (ends[2:] and not is_log):
        raise ConfigError(f"over: got {shown(text)}, {EXPECTED}")
    low, high = map(float, numbers)
    if not low < high < math.inf or (is_log and low <= 0.0):
        raise ConfigError(f"over: got {shown(text)}, expected LOW below HIGH{', both above 0' if is_log else ''}")
    return Values((), low, high, is_log)


def _read_value(text: str, part: str) -> Any:
    try:
        value = parse_yaml(part)
    except (yaml.YAMLError, ValueError, RecursionError):
        value = None
    if value is None or isinstance(value, dict | list):
        raise ConfigError(f"over: got {shown(text)}, {EXPECTED}")
    return value


def settings_of(entry: PolicyEntry, space: Space, count: int | None) -> list[PolicyEntry]:
    """Return the policy as it is, and with each setting that is tried; names tell by what a setting is.

    All combinations of lists are tried, unless there are more than `count`; with a range, `count` settings are drawn,
    always the same. More of them begin with the same ones.

    Args:
        entry: The policy, whose other parameters stay as they are.
        space: What is tried.
        count: How many settings at most; by default all of lists, and `DRAWN` with a range.

    Raises:
        ConfigError: the policy has no such parameter, or a value is not allowed.
    """
    declared = parameters_of(entry.cls) if entry.params else {}
    for name, values in space.items():
        if name not in declared:
            raise ConfigError(unknown(f"over: {entry.name} has no parameter", name, declared))
        if not values.listed and not isinstance(declared[name].default, int | float):
            raise ConfigError(f"over: {entry.name}.{name} is no number; list its values")
        for value in values.listed or (values.low, values.high):
            whole = round(value) if not values.listed and isinstance(declared[name].default, int) else value
            check_parameters(entry.name, entry.cls, {**entry.params, name: whole})
    entries = {entry.fingerprint: entry}
    for chosen in _combinations(entry, space, declared, count):
        other = make_entry(entry.source, entry.name, {**entry.params, **chosen})
        label = f"{entry.name[:56]}-{value_digest(other.params)[:6]}"
        entries.setdefault(other.fingerprint, replace(other, name=label))
    return list(entries.values())


def _combinations(
    entry: PolicyEntry, space: Space, declared: Mapping[str, Parameter], count: int | None
) -> list[dict[str, Any]]:
    sizes = [len(values.listed) for values in space.values()]
    is_grid = all(sizes) and math.prod(sizes) <= (MOST if count is None else count)
    if is_grid:
        return [dict(zip(space, chosen, strict=True)) for chosen in product(*(each.listed for each in space.values()))]
    if count is None and all(sizes):
        raise ConfigError(
            f"over: {entry.name} has {math.prod(sizes):,} combinations; give how many are drawn, --candidates"
        )
    draws = (stream(0, "tune", entry.name, str(number)) for number in range(DRAWN if count is None else count))
    return [{name: values.drawn(rng, declared[name]) for name, values in space.items()} for rng in draws]
