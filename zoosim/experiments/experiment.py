"""What an experiment is: a question, a world, a length, and who competes. Constants only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from zoosim.core.config import Shock


@dataclass(frozen=True)
class Experiment:
    """A named experiment.

    `policies` maps each contestant to the parameters that differ from its defaults; `shocks` are built in, so that a
    shorter run may drop them; `tail` sets the last visits apart as a phase of their own.
    """

    name: str
    summary: str
    question: str
    steps: int
    policies: Mapping[str, Mapping[str, Any]]
    kind: Literal["recommendation", "labelled"] = "recommendation"
    shocks: tuple[Shock, ...] = ()
    seeds: int = 10
    tail: int = 0
    reward_name: str = field(default="CTR")
