"""A user's request, as it comes from the command line, from a notebook or from a file."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoosim.core.config import read_setting
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown, unknown
from zoosim.policies.base import Policy
from zoosim.policies.registry import BUILT_IN

MAX_SEED = 2**32 - 1
MOST_SEEDS = 100_000


@dataclass(frozen=True)
class RunRequest:
    """A user's request, as it came: the command line and `zoosim.run` both fill this in."""

    experiment: str | os.PathLike[str]
    seeds: str | int | Sequence[int] | None = None
    steps: int | None = None
    policies: Sequence[str | type[Policy]] | None = None
    extra: Sequence[str | type[Policy]] = ()
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None
    settings: Sequence[str] = ()
    finished: bool = False
    """True where `config` is a run's own: its policies are then taken as they stand, their code is not looked for."""


def parse_seeds(value: Any) -> tuple[int, ...]:
    """Read seeds: a count n (0 to n - 1), `a:b` (b left out), or a list."""
    expected = "expected a count such as 10, a range such as 1000:1032, or a list of different seeds of 0 or more"
    seeds = _listed_seeds(value)
    # A long range is refused by its length, before its seeds are looked at.
    if not 0 < len(seeds) <= MOST_SEEDS or not all(map(_is_seed, seeds)):
        raise ConfigError(f"seeds: got {shown(value)}, {expected}")
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds: got {shown(value)} with a seed twice, {expected}")
    return tuple(sorted(seeds))


def _listed_seeds(value: Any) -> Sequence[Any]:
    """Return the seeds that a value names, unchecked; none where it names none."""
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(":")]
        if len(parts) > 2 or not all(part.isascii() and part.isdigit() for part in parts):
            return ()
        # Cut, as the length of a range must fit a machine word, and Python reads no number of thousands of digits;
        # beyond `MAX_SEED` all is refused anyway.
        ends = [min(int(part.lstrip("0")[:19] or "0"), MAX_SEED + 2) for part in parts]
        return range(*ends)
    if isinstance(value, int) and not isinstance(value, bool):
        return range(min(value, MAX_SEED))
    return list(value) if isinstance(value, Iterable) else ()


def _is_seed(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SEED


class SettingValues:
    """The `--set` values, each to be taken once by whoever it is for."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._unused = [read_setting(text) for text in texts]
        for path, _ in self._unused:
            if path[0] not in ("env", "policies", "run") or len(path) < 2:
                raise ConfigError(f"--set: got {'.'.join(path)}, expected env.KEY, policies.NAME.KEY or run.KEY")

    def take(self, *prefix: str) -> list[tuple[list[str], Any]]:
        """Take the settings below `prefix`, as paths relative to it."""
        size = len(prefix)
        taken = [(path[size:], value) for path, value in self._unused if tuple(path[:size]) == prefix]
        self._unused = [item for item in self._unused if tuple(item[0][:size]) != prefix]
        return taken

    def take_parameters(self, name: str) -> dict[str, Any]:
        """Take the parameters of the policy called `name`."""
        taken = self.take("policies", name)
        if any(len(path) != 1 for path, _ in taken):
            raise ConfigError(f"--set policies.{name}: expected one parameter, such as policies.linucb.alpha=.5")
        return {path[0]: value for path, value in taken}

    def policy_names(self) -> list[str]:
        """List the policies that unused settings are for."""
        return [path[1] for path, _ in self._unused if path[0] == "policies"]

    def refuse_unused(self, names: Sequence[str]) -> None:
        """Refuse what nobody took."""
        for path, _ in self._unused:
            if path[0] == "policies":
                raise ConfigError(unknown("--set policies: unknown policy", path[1], [*BUILT_IN, *names]))
            raise ConfigError(
                f"--set: got {'.'.join(path)}, expected run.steps, run.seeds, run.delay, run.batch or run.window"
            )
