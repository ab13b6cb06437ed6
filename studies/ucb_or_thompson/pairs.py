"""The pairs: two policies that explore on one model, by a bound and by draws, and the experiment that they meet in."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from zoosim.arena.plan import Plan
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import parameters_of, unknown
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import RunRequest
from zoosim.experiments.suite.template_bandits import WIDTHS
from zoosim.policies.registry import find_class


class Pair(NamedTuple):
    """Two policies on one model, which meet in an experiment; `params` of each that are not its defaults."""

    ucb: str
    thompson: str
    experiment: str
    params: Mapping[str, Mapping[str, Any]]


def _template_params(policy: str) -> dict[str, Any]:
    """Return the parameters of a bandit over templates that sees segments and query types alone."""
    return {"context": "simple", **WIDTHS[policy]["simple"]}


PAIRS = (
    Pair("shared-linucb", "shared-lin-ts", "showdown", {}),
    Pair("product-linucb", "product-lin-ts", "showdown", {}),
    Pair("neural-ucb", "neural-ts", "showdown", {}),
    Pair(
        *("template-linucb", "template-ts", "template-bandits"),
        {name: _template_params(name) for name in ("template-linucb", "template-ts")},
    ),
)


def named_pairs(names: str | None) -> list[Pair]:
    """Return the pairs whose upper confidence bounds are named, with commas between; all for None."""
    if names is None:
        return list(PAIRS)
    by_name = {pair.ucb: pair for pair in PAIRS}
    for name in names.split(","):
        if name not in by_name:
            raise ConfigError(unknown("pairs", name, by_name))
    return [by_name[name] for name in names.split(",")]


def plan_of(pair: Pair, factors: Sequence[float], seeds: Sequence[int], steps: int | None) -> Plan:
    """Plan the experiment of a pair, with an entry for each policy at each of the `factors` of its width."""
    entries = [
        {
            "name": entry_name(policy, factor),
            "type": policy,
            **pair.params.get(policy, {}),
            "alpha": factor * width_of(pair, policy),
        }
        for policy in (pair.ucb, pair.thompson)
        for factor in factors
    ]
    return make_plan(RunRequest(pair.experiment, list(seeds), steps, config={"policies": entries}))


def width_of(pair: Pair, policy: str) -> float:
    """Return the width that a policy of a pair explores with, in standard deviations of an estimate."""
    default = parameters_of(find_class(policy))["alpha"].default
    return float(pair.params.get(policy, {}).get("alpha", default))


def entry_name(policy: str, factor: float) -> str:
    """Return the name of a policy in a plan, at a `factor` of its width."""
    return f"{policy}-x{factor:g}"
