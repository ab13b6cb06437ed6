"""Solve shops of visitors who come back, by one number of the laws after another, and large ones drawn at random."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.work import rows_by_task
from zoosim.core.rng import stream
from zoosim.core.types import Progress
from zoosim.descriptions.sessions import describe_sessions
from zoosim.experiments.request import parse_seeds
from zoosim.worlds.recommendation.shocks import random_chances
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.world import Sessions

DRAWN = "drawn at random"
"""The law of shops that are drawn, whose number is the seed."""

PERSONAS, CATEGORIES, COMPANIONS = 10, 25, 10
"""Of a drawn shop; so many categories lead to another one, the same share as by default."""


@dataclass(frozen=True)
class Law:
    """A number of the laws: its `name`, the fields of `SessionConfig` that it sets, and its `values`.

    If it is a `factor`, the fields are so many times their defaults.
    """

    name: str
    fields: Sequence[str]
    values: Sequence[float]
    factor: bool = False

    @property
    def default(self) -> float:
        """The number by default."""
        return 1.0 if self.factor else self._defaults()[self.fields[0]]

    def changes(self, value: float) -> dict[str, float]:
        """Return the fields by a value of the number."""
        defaults = self._defaults()
        return {field: value * defaults[field] if self.factor else value for field in self.fields}

    def _defaults(self) -> dict[str, float]:
        return {field: SessionConfig.model_fields[field].default for field in self.fields}


LAWS = {
    law.name: law
    for law in (
        Law("weight of satisfaction", ["return_by_satisfaction"], (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)),
        Law("a visit goes on by", ["go_on"], (0.6, 0.7, 0.8, 0.85, 0.9)),
        Law("levels of satisfaction", ["levels"], (1, 2, 3, 4, 5)),
        Law("lure of teasers", ["teaser"], (0.0, 0.6, 1.2, 2.0, 3.0)),
        Law("intent and boredom, times", ["intent", "boredom"], (0.0, 0.5, 1.0, 1.5), factor=True),
        Law("comes back without a click by", ["comes_back"], (0.1, 0.2, 0.35, 0.5)),
        Law("weight of a click for a return", ["return_by_click"], (0.0, 0.1, 0.2, 0.3)),
    )
}


@dataclass(frozen=True)
class Solved:
    """A shop in exact figures.

    `number` is that of the `law` that differs from the defaults, or the seed of a drawn shop. `optimum` in clicks of a
    new visitor; `shares` of it by policy; `advice` is the simplest way that comes near the optimum, `sentence` says it.
    """

    law: str
    number: float
    optimum: float
    shares: Mapping[str, float]
    advice: str
    sentence: str


def measure(*, seeds: Any = "1000:1008", jobs: Any = None, progress: Progress = lambda line: None) -> list[Solved]:
    """Solve a shop for each value of each law, and for each of the `seeds` a large shop that is drawn."""
    tasks = [(law.name, value) for law in LAWS.values() for value in law.values]
    tasks += [(DRAWN, seed) for seed in parse_seeds(seeds)]
    return rows_by_task(solve, tasks, jobs=jobs, words=lambda task: f"{task[0]}: {task[1]:g}", progress=progress)


def solve(task: tuple[str, float]) -> list[Solved]:
    """Return the figures of the shop with a law's number, or of the one that is drawn by a seed."""
    law, number = task
    changes = drawn_shop(int(number)) if law == DRAWN else LAWS[law].changes(number)
    world = Sessions(0, 1, observe="state", per_kind=1, **changes)
    description = describe_sessions(world)
    shares = {rung.policy: rung.share for rung in description.ladder}
    return [Solved(law, number, world.optimal_clicks, shares, description.advice, description.answer)]


def drawn_shop(seed: int) -> dict[str, Any]:
    """Return a shop of 10 personas and 25 categories, whose chances are those of shops drawn for runs."""
    rng = stream(seed, "large shop")
    categories = [f"category {number}" for number in range(1, CATEGORIES + 1)]
    personas = {
        f"persona {number}": dict(zip(categories, random_chances(rng, CATEGORIES), strict=True))
        for number in range(1, PERSONAS + 1)
    }
    leading = rng.permutation(CATEGORIES)[:COMPANIONS]
    # Each leads to another one: a step of 1 to 24 around.
    steps = rng.integers(1, CATEGORIES, COMPANIONS)
    companions = {
        categories[first]: categories[(first + step) % CATEGORIES] for first, step in zip(leading, steps, strict=True)
    }
    return {"personas": personas, "companions": companions}


def is_default(row: Solved) -> bool:
    """Return whether a shop is the one of the defaults."""
    return row.law != DRAWN and row.number == LAWS[row.law].default


def best_rule(row: Solved, rules: Sequence[str]) -> float:
    """Return the largest share of the optimum among some policies."""
    return float(np.max([row.shares[rule] for rule in rules]))
