"""Worlds of visitors who come back that are hard in one way each, and what policies are worth there, exactly.

A learner of any library enters the leaderboard by one function that learns a world and returns a policy:

    def train(world, seed):
        environment = world.make()
        ...  # learn from at most DECISIONS steps
        return choose  # takes observations (n, features), returns actions (n,)

    enter("my learner", "my library", "1.0", train, "results")
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np

from studies.result_files import Result, check_place, write_result
from studies.work import names_of
from zoosim.core.config import PERSONAS, build
from zoosim.core.types import FloatArray, Progress
from zoosim.worlds.recommendation.shocks import LOUD, SILENT
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.hidden import Bounds, belief_bounds
from zoosim.worlds.sessions.states import policy_table
from zoosim.worlds.sessions.truth import SessionTruth

VISITS = 10_000
"""Visits from which a policy of this library learns."""

DECISIONS = 65_000
"""Decisions from which others learn, about those of so many visits: an environment counts steps."""

SEEDS = "1000:1004"

SHOCK_VISITOR = 2_000
"""The visitor with whom the laws change in the world of shocks: about the middle of so many visits."""

TWO = {name: PERSONAS[name] for name in ("new_puppy_parent", "cat_connoisseur")}
"""The personas where nobody says who comes."""

Choose = Callable[..., Any]
"""A policy: takes observations `(n, features)` and returns actions `(n,)`, or probabilities of all `(n, actions)`.

In the world where products sell out one of two arguments takes which of them are there, too, `(n, actions)`, and
returns actions; one that takes observations alone is one that learned from `AxisWorld.make`."""

Policy = Choose | FloatArray
"""The same, or the probability of each kind in each state, `(P, states, kinds)`."""


class NextInStock(gymnasium.ActionWrapper[Any, Any, Any]):
    """Shows the next product that is there in place of one that is sold out, for learners that cannot mask."""

    def action(self, action: Any) -> int:
        """Return the first product from number `action` on that is there."""
        there = np.asarray(self.get_wrapper_attr("action_masks")())
        following = (int(action) + np.arange(len(there))) % len(there)
        return int(following[there[following].argmax()])


@dataclass(frozen=True)
class AxisWorld:
    """A world that is hard in one way.

    Attributes:
        name: What pages call it.
        difficulty: What is hard there, for a table.
        changes: Fields of `SessionConfig` that differ from the defaults.
    """

    name: str
    difficulty: str
    changes: Mapping[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """The fields of `SessionConfig` that make the world; policies see the state, and one product of each kind."""
        return {"observe": "state", "per_kind": 1, **self.changes}

    def environment(self, shops: int = 1) -> dict[str, Any]:
        """Return what `gymnasium.make("zoosim/Sessions-v0", ...)` takes; see `make`.

        Args:
            shops: How many environments the learner steps side by side: each then sees its share of the visitors
                before a shock.
        """
        config = self.config
        if "shocks" in config:
            config["shocks"] = [shock | {"step": max(1, shock["step"] // shops)} for shock in config["shocks"]]
        return {"config": config}

    def make(self, shops: int = 1) -> Any:
        """Return the environment for a learner that need not mask, see `NextInStock`; `shops` as in `environment`."""
        return NextInStock(gymnasium.make("zoosim/Sessions-v0", **self.environment(shops)))

    @cached_property
    def truth(self) -> SessionTruth:
        """What is true of the visitors who come when learning is over."""
        config = SessionConfig(**self.config)
        return SessionTruth(config, list(config.tables().values())[-1])

    @property
    def sees_persona(self) -> bool:
        """True where policies see a visitor's persona."""
        return self.changes.get("observe") is None

    @cached_property
    def bounds(self) -> Bounds:
        """The clicks of a new visitor under the best policy: exactly, or two bounds where no persona is seen."""
        if not self.sees_persona:
            return belief_bounds(self.truth)
        optimum = self.truth.value(self.truth.optimum)
        return Bounds(optimum, optimum, self.truth.value(self.truth.myopic))

    @property
    def optimum(self) -> float:
        """The clicks of a new visitor of which scores are shares: those of the best policy, or their upper bound."""
        return self.bounds.upper

    def percent(self, policy: Policy) -> float:
        """Return what a policy is worth that learns no more, in % of the optimum, exactly."""
        if callable(policy):
            policy = policy_table(self.truth.laws, policy, sees_persona=self.sees_persona)
        return 100.0 * self.truth.value(np.asarray(policy)) / self.optimum


def _shock(changes: Any) -> dict[str, Any]:
    return {"step": SHOCK_VISITOR, "name": changes.name, "set": changes.set}


WORLDS = {
    world.name: world
    for world in (
        AxisWorld("base", "to look ahead: who is disappointed comes back less", {}),
        AxisWorld("control", "nothing: satisfaction does not matter", {"return_by_satisfaction": 0.0}),
        AxisWorld("shock", "clicks change on the way", {"shocks": [_shock(LOUD), _shock(SILENT)]}),
        AxisWorld("censoring", "a visitor is followed for 10 decisions", {"followed": 10}),
        AxisWorld("sparse", "one click in ten is paid, and worth 10", {"paid": 0.1}),
        AxisWorld(
            "delay",
            "satisfaction is felt a visit later, and counts more",
            {"felt_after": 1, "return_by_satisfaction": 0.25},
        ),
        AxisWorld("hidden", "nobody says which of two personas comes", {"observe": "behaviour", "personas": TWO}),
        AxisWorld("sold out", "three products in ten are not there", {"sold_out": 0.3}),
    )
}
"""The worlds by name, in the order of pages."""


@dataclass(frozen=True)
class Score:
    """What a learner reached in a world with a seed: the exact worth of its policy in % of the optimum.

    `seconds` of processor time were spent on learning.
    """

    learner: str
    world: str
    seed: int
    percent: float
    seconds: float


def score(learner: str, world: AxisWorld, seed: int, train: Callable[[AxisWorld, int], Policy]) -> Score:
    """Return what a learner reaches in a world.

    Args:
        learner: Its name.
        world: The world.
        seed: Seed of the visitors and of the learner.
        train: Learns, and returns the policy that was learned.
    """
    began = time.process_time()
    policy = train(world, seed)
    seconds = time.process_time() - began
    return Score(learner, world.name, seed, world.percent(policy), seconds)


def enter(
    learner: str,
    library: str,
    version: str,
    train: Callable[[AxisWorld, int], Policy],
    folder: str | os.PathLike[str],
    *,
    seeds: Sequence[int] = range(1000, 1004),
    worlds: Sequence[str] = tuple(WORLDS),
    progress: Progress = print,
) -> Result:
    """Train a learner in all worlds, and write its result file for the leaderboard.

    Args:
        learner: Its name on the leaderboard.
        library: Where it comes from.
        version: Of the library.
        train: Takes a world and a seed, learns from at most `DECISIONS` decisions of `world.make()`, and returns what
            chooses by observations.
        folder: Takes the file.
        seeds: Seeds of the visitors and of the learner.
        worlds: Names of the worlds.
        progress: Called with a line for each world and seed.

    Returns:
        What was written. The file is written after each world, so that a run that was stopped leaves those before.

    Raises:
        ConfigError: a name, a world or a seed is none that a result file may hold; nothing is learned then.
        DataError: the file is there, and is no result or that of another learner.
    """
    names = names_of("leaderboard", "world", list(worlds), list(WORLDS), "[base, control]")
    budget = f"{DECISIONS:,} decisions"
    nothing = [Score(learner, name, seed, 0.0, 0.0) for name in names for seed in seeds]
    check_place(result_of(nothing, library, version, budget), folder)
    scores = []
    for name in names:
        for seed in seeds:
            scores.append(score(learner, WORLDS[name], seed, train))
            progress(f"{learner}, {name}, seed {seed}: {scores[-1].percent:.1f}% of the optimum")
        write_result(result_of(scores, library, version, budget), folder)
    return result_of(scores, library, version, budget)


def result_of(scores: Sequence[Score], library: str, version: str, budget: str) -> Result:
    """Return the result of one learner, whose `scores` are of the same seeds in each world.

    Args:
        scores: What it reached.
        library: Where it comes from.
        version: Of the library.
        budget: From what it learned, in words.

    Raises:
        ConfigError: they are no result: a name, a seed or a score is none that a file may hold.
    """
    by_world: dict[str, list[Score]] = {}
    for each in scores:
        by_world.setdefault(each.world, []).append(each)
    worlds = {
        name: {
            "percent": [round(each.percent, 3) for each in of_world],
            "seconds": [round(each.seconds, 1) for each in of_world],
        }
        for name, of_world in by_world.items()
    }
    values = {
        "format": 1,
        "learner": scores[0].learner if scores else "",
        "library": library,
        "version": version,
        "budget": budget,
        "seeds": [each.seed for each in scores if each.world == scores[0].world],
        "worlds": worlds,
    }
    result: Result = build(Result, values, "result")
    return result


def myopic_percent(world: AxisWorld) -> float:
    """Return what it is worth to show what is clicked most now, in % of the optimum."""
    return 100.0 * world.bounds.myopic / world.optimum
