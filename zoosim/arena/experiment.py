"""Experiments: a question, a world, a length, and the policies that compete. Constants only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class Hypothesis(NamedTuple):
    """A hypothesis of an experiment: in one of its phases, by number from 0, a policy earns more than another.

    Args:
        text: The hypothesis in words.
        better: The policy that is thought to earn more.
        worse: The other policy.
        phase: The phase of the run, as shocks cut it.
    """

    text: str
    better: str
    worse: str
    phase: int


@dataclass(frozen=True)
class Experiment:
    """A named experiment.

    `policies` maps each contestant to what differs from its defaults: parameters, and `type` where the name is not
    that of a built-in policy. `kind` names the world, `env` is what differs from its defaults; `shocks` are built
    in, so that a shorter run may drop them; `tail` is the share of the visits that are set apart at the end as a
    phase of their own. With a `world_seed` there is one world, with the same visitors for all, and seeds only tell
    the random draws of the policies apart. `features` maps contestants to their learner and to the set of features
    that it sees; the others are compared with the first set. `hypotheses` are told apart by the run's rewards.
    """

    name: str
    summary: str
    question: str
    steps: int
    policies: Mapping[str, Mapping[str, Any]]
    kind: str = "recommendation"
    env: Mapping[str, Any] = field(default_factory=dict)
    shocks: tuple[Any, ...] = ()
    seeds: int = 10
    tail: float = 0.0
    world_seed: int | None = None
    features: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    hypotheses: tuple[Hypothesis, ...] = ()

    @property
    def title(self) -> str:
        """Name of the experiment in tables and pages: its name, of a file that without folders, or the class."""
        return Path(self.name.rpartition(":")[2]).name
