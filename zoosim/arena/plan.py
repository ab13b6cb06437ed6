"""The plan of a run: a checked world, steps, seeds and contestants, and what is written of them to config.yaml."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from zoosim.action_spaces import find_action_space
from zoosim.arena.experiment import Experiment
from zoosim.arena.metrics import WINDOW
from zoosim.core.digests import value_digest
from zoosim.core.feedback import AT_ONCE, FeedbackTiming
from zoosim.core.files import resolved
from zoosim.core.user_code import code_digest
from zoosim.policies.registry import PolicyEntry, make_entry
from zoosim.worlds.base import World
from zoosim.worlds.facts import Change, Trait
from zoosim.worlds.registry import find_world, make_world, world_for_policy

FORMAT = 3
"""The format of config.yaml, and of the folder that it stands in.

In format 1, which does not name itself, `config_hash` covers policies' parameters too; 2 is that of folders without a
manifest.
"""


@dataclass(frozen=True)
class Plan:
    """A checked run; `params` are those of its world, by name."""

    experiment: Experiment
    params: Mapping[str, Any]
    steps: int
    seeds: tuple[int, ...]
    entries: tuple[PolicyEntry, ...] = ()
    feedback: FeedbackTiming = AT_ONCE
    config_hash: str = ""
    notes: tuple[str, ...] = ()
    files: str | None = None
    """Digest of the world's files in `config.yaml`; None where it has to be read."""
    window: int = WINDOW
    """Visits in the moving averages of the page."""
    finished: bool = False
    """True where the run is over, so that a user's file need not be there."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave the worlds out, whose classes other processes may not know."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def any_world(self) -> World:
        """A world of the run, of which is asked what is the same for all seeds."""
        return self._world_of(self.seeds[0])

    def _world_of(self, seed: int) -> World:
        """Return the world of a seed, whoever chooses in it."""
        cls = find_world(self.experiment.kind, finished=self.finished)
        return make_world(cls, self._world_seed(seed), self.steps, self.params)

    @property
    def env(self) -> Any:
        """The parameters of the world, as its record where it has one."""
        return find_world(self.experiment.kind, finished=self.finished).checked_parameters(self.params)

    @cached_property
    def world_code(self) -> str:
        """A hash of the code that decides what happens in the world."""
        return code_digest(find_world(self.experiment.kind))

    def action_space(self, entry: PolicyEntry) -> str:
        """Return what a policy chooses in this world: the first that the world offers and the policy can choose."""
        return _action_space(self.any_world, entry)

    def world(self, seed: int, entry: PolicyEntry | None = None) -> World:
        """Build the world of a seed, as the policy of an `entry` sees it and chooses in it."""
        whole = self._world_of(seed)
        space = whole.action_spaces[0] if entry is None else _action_space(whole, entry)
        params = entry.params if entry is not None and entry.built_in else {}
        world = world_for_policy(whole, space, params)
        # One world for all seeds: a copy, which may be frozen, has the seed that tells policies' draws apart.
        if world.seed != seed:
            world = copy.copy(world)
            object.__setattr__(world, "seed", seed)
        return world

    def _world_seed(self, seed: int) -> int:
        return seed if self.experiment.world_seed is None else self.experiment.world_seed

    @property
    def shocks(self) -> tuple[Change, ...]:
        """List the shocks that all worlds share, in order."""
        return () if self.any_world.shocks_differ else self.any_world.reported_shocks

    @property
    def shock_names(self) -> tuple[str, ...]:
        """Name the shocks of every world; those that each world draws for itself are numbered."""
        return tuple(shock.name for shock in self.any_world.reported_shocks)

    def shock_spans(self, seed: int) -> tuple[tuple[int, int], ...]:
        """Return for each shock of a seed's world its step, and that of the next shock or the end."""
        world = self._world_of(seed) if self.any_world.shocks_differ else self.any_world
        starts = sorted(shock.step for shock in world.reported_shocks)
        ends = [next((later for later in starts if later > start), self.steps) for start in starts]
        return tuple(zip(starts, ends, strict=True))

    def traits(self, seed: int) -> Sequence[Trait]:
        """Return what kind of world a seed has; empty where all are of one kind."""
        if not self.any_world.reported_traits(self.feedback.delay):
            return ()
        return self._world_of(seed).reported_traits(self.feedback.delay)

    @property
    def phases(self) -> tuple[tuple[int, int], ...]:
        """Cut the run into phases (from, to), `to` exclusive: between shocks, and the tail where there is one."""
        starts = {0, *(shock.step for shock in self.shocks)}
        starts.add(self.steps - round(self.experiment.tail * self.steps))
        ordered = sorted(starts - {self.steps})
        return tuple(zip(ordered, [*ordered[1:], self.steps], strict=True))

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The identity of the run: experiment, world and steps, by their names in config.yaml.

        Seeds and policies do not: trials of any join one folder, each with its own parameters and code version.
        """
        # What files hold counts, not where they lie; what a world numbers is numbered in its order.
        return {
            "experiment": self.experiment.title,
            "run.steps": self.steps,
            "run.delay": self.feedback.delay,
            "run.batch": self.feedback.batch,
            **self.any_world.run_identity,
            "the content of the files": self._file_digest(),
        }

    def _file_digest(self) -> str:
        return self.any_world.files_digest if self.files is None else self.files

    def differences(self, other: "Plan") -> tuple[str, ...]:
        """Name what makes the other plan another run than this one."""
        names = {**self.identity, **other.identity}
        return tuple(name for name in names if self.identity.get(name) != other.identity.get(name))

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as it is written to config.yaml and read again by `--config`."""
        policies = [{"name": e.name, "type": type_label(e), **e.params} for e in self.entries]
        late = {name: visits for name, visits in asdict(self.feedback).items() if visits != getattr(AT_ONCE, name)}
        window = {"window": self.window} if self.window != WINDOW else {}
        run = {"steps": self.steps, **late, **window, "seeds": list(self.seeds)}
        head = {"experiment": self.experiment.name, "format": FORMAT, "config_hash": self.config_hash}
        files = self._file_digest()
        return {
            **head,
            **({"files": files} if files else {}),
            "env": self.any_world.yaml_settings,
            "run": run,
            "policies": policies,
        }

    @property
    def folder_hash(self) -> str:
        """The hash in the name of the run's own folder: runs with other parameters do not meet in one by default."""
        changed = {
            entry.name: entry.params
            for entry in self.entries
            if entry.params != make_entry(entry.source, entry.name, self._listed_parameters(entry.name)).params
        }
        return value_digest({**self.identity, "parameters": changed}) if changed else self.config_hash

    def _listed_parameters(self, name: str) -> dict[str, Any]:
        """Return what the experiment sets of a policy."""
        listed = self.experiment.policies.get(name, {})
        return {key: value for key, value in listed.items() if key != "type"}


def _action_space(world: World, entry: PolicyEntry) -> str:
    return next(space for space in world.action_spaces if find_action_space(space).accepts(entry.cls))


def type_label(entry: PolicyEntry) -> str:
    """Say what an entry is made from; a file by its whole path, so that it is found from everywhere."""
    if isinstance(entry.source, type):
        return entry.source.__qualname__
    file, colon, name = entry.source.rpartition(":")
    return f"{resolved(file)}:{name}" if colon else entry.source
