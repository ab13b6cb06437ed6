"""Play drawn shops with each parameter of a policy halved and doubled."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from studies.cache import kept_array
from studies.reached import percent_of_oracle
from studies.work import rows_by_task
from zoosim.arena.plan import Plan
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import Parameter, parameters_of
from zoosim.core.types import Progress
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import RunRequest, parse_seeds
from zoosim.policies.registry import find_class

DEFAULTS = "defaults"
FACTORS = (0.5, 2.0)


@dataclass(frozen=True)
class Tried:
    """The share of the oracle's expected rewards, in %, that a policy reached in the shop of a seed.

    `value` of the `parameter`, the others at their defaults; `DEFAULTS` where all of them are.
    """

    policy: str
    parameter: str
    value: float
    seed: int
    percent: float


def measure(
    *,
    seeds: Any = "0:40",
    jobs: Any = None,
    policies: str = "adaptive",
    steps: int | None = None,
    progress: Progress = lambda line: None,
) -> list[Tried]:
    """Play `shops` for so many `steps` with the defaults of one of the `policies` and with each other value."""
    tried = settings_of(policies)
    entries = [
        {"name": _entry_name(parameter, value), "type": policies}
        | ({} if parameter == DEFAULTS else {parameter: value})
        for parameter, value in tried
    ]
    plan = make_plan(RunRequest("shops", parse_seeds(seeds), steps, config={"policies": entries}))
    tasks = [(parameter, value, seed) for seed in plan.seeds for parameter, value in tried]
    work = partial(_rows_of, plan, policies)
    return rows_by_task(
        work, tasks, jobs=jobs, words=lambda task: f"{_entry_name(*task[:2])}, seed {task[2]}", progress=progress
    )


def settings_of(policy: str) -> list[tuple[str, float]]:
    """Return the parameters of a policy, each with half and twice its default, as far as its range allows.

    Words, switches, and what is 0 by default have no half; the first entry stands for the defaults.
    """
    tried = [(DEFAULTS, 0.0)]
    for name, parameter in parameters_of(find_class(policy)).items():
        default = parameter.default
        if isinstance(default, bool | str) or default == 0:
            continue
        values = {_in_range(parameter, factor * default) for factor in FACTORS} - {default}
        tried += [(name, value) for value in sorted(values)]
    if len(tried) == 1:
        raise ConfigError(f"policies: {policy} has no parameter to halve or double")
    return tried


def _in_range(parameter: Parameter, value: float) -> float:
    low = value if parameter.low is None else parameter.low
    high = value if parameter.high is None else parameter.high
    cut = min(max(value, low), high)
    return int(cut) if isinstance(parameter.default, int) else cut


def _entry_name(parameter: str, value: float) -> str:
    return parameter if parameter == DEFAULTS else f"{parameter}-{value:g}"


def _rows_of(plan: Plan, policy: str, task: tuple[str, float, int]) -> list[Tried]:
    parameter, value, seed = task
    name = _entry_name(parameter, value)
    [entry] = [entry for entry in plan.entries if entry.name == name]
    key = (entry.fingerprint, plan.config_hash, plan.world_code, seed)
    alike = replace(entry, name=policy)  # draws follow from the name: all settings have those of the policy itself
    percent = float(kept_array("parameter-sensitivity", key, partial(percent_of_oracle, plan, alike, seed)))
    return [Tried(policy, parameter, value, seed, percent)]
