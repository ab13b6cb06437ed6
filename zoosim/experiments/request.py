"""What a user asks for, as it comes from the command line, from a notebook or from a file."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoosim.core.config import read_setting
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import unknown
from zoosim.policies.base import Policy
from zoosim.policies.registry import BUILT_IN

MAX_SEED = 2**32 - 1


@dataclass(frozen=True)
class Request:
    """What a user asks for, as it came: the command line and `zoosim.run` both fill this in."""

    experiment: str
    seeds: str | int | Sequence[int] | None = None
    steps: int | None = None
    policies: Sequence[str | type[Policy]] | None = None
    extra: Sequence[str | type[Policy]] = ()
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None
    settings: Sequence[str] = ()
    finished: bool = False
    """Whether `config` is a run's own: its policies are then taken as they stand, their code is not looked for."""


def parse_seeds(value: Any) -> tuple[int, ...]:
    """Read seeds: a count n (0 to n - 1), `a:b` (b left out), or a list."""
    expected = "expected a count such as 10, a range such as 1000:1032, or a list of different seeds of 0 or more"
    if isinstance(value, str):
        parts = value.split(":")
        if not all(part.strip().isascii() and part.strip().isdigit() for part in parts) or len(parts) > 2:
            raise ConfigError(f"seeds: got {value!r}, {expected}")
        bounds = [int(part) for part in parts]
        found: Sequence[Any] = range(*bounds) if bounds[-1] <= 10_000_000 or len(parts) == 2 else ()
    elif isinstance(value, int) and not isinstance(value, bool):
        found = range(value) if value <= 10_000_000 else ()
    elif isinstance(value, Iterable):
        found = list(value)
    else:
        raise ConfigError(f"seeds: got {value!r}, {expected}")
    plain = all(isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed <= MAX_SEED for seed in found[:2])
    if not found or not plain or len(found) > 100_000:
        raise ConfigError(f"seeds: got {value!r}, {expected}")
    if any(not isinstance(s, int) or isinstance(s, bool) or not 0 <= s <= MAX_SEED for s in found):
        raise ConfigError(f"seeds: got {value!r}, {expected}")
    if len(set(found)) < len(found):
        raise ConfigError(f"seeds: got {value!r} with a seed twice, {expected}")
    return tuple(sorted(found))


class Settings:
    """The `--set` values, each to be taken once by whoever it is for."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._left = [read_setting(text) for text in texts]
        for path, _ in self._left:
            if path[0] not in ("env", "policies", "run") or len(path) < 2:
                raise ConfigError(f"--set: got {'.'.join(path)}, expected env.KEY, policies.NAME.KEY or run.KEY")

    def take(self, *prefix: str) -> list[tuple[list[str], Any]]:
        """Take the settings below `prefix`, as paths relative to it."""
        size = len(prefix)
        taken = [(path[size:], value) for path, value in self._left if tuple(path[:size]) == prefix]
        self._left = [item for item in self._left if tuple(item[0][:size]) != prefix]
        return taken

    def take_parameters(self, name: str) -> dict[str, Any]:
        """Take the parameters of the policy called `name`."""
        taken = self.take("policies", name)
        if any(len(path) != 1 for path, _ in taken):
            raise ConfigError(f"--set policies.{name}: expected one parameter, such as policies.linucb.alpha=.5")
        return {path[0]: value for path, value in taken}

    def policy_names(self) -> list[str]:
        """List the policies that settings are left for."""
        return [path[1] for path, _ in self._left if path[0] == "policies"]

    def refuse_unused(self, names: Sequence[str]) -> None:
        """Refuse what nobody took."""
        for path, _ in self._left:
            if path[0] == "policies":
                raise ConfigError(unknown("--set policies: unknown policy", path[1], [*BUILT_IN, *names]))
            raise ConfigError(f"--set: got {'.'.join(path)}, expected run.steps, run.seeds, run.delay or run.batch")
