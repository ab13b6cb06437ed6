"""Let critics learn from random boosts, then from their own picks, and compare what they promise with what it earns.

max E[Q] <= E[max Q]: who maximises over estimates with errors picks errors (Thrun & Schwartz 1993). Every critic learns
from visits of its own and then picks for visitors whom it has not seen; the shop's own truth says what that earns.
"""

import json
from dataclasses import asdict, dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from studies.cache import kept_array
from studies.held_out import boosts_reward, open_shop
from studies.overestimation.critics import DOUBT, HALVES, MEAN, MINIMUM, SINGLE, D, Learner, critics
from studies.work import measure_in_shops
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray
from zoosim.worlds.search.shop import SearchShop, SearchVisit
from zoosim.worlds.search.tables import digest

OWN, RANDOM = "its own picks", "random boosts"
ROUNDS, RANDOM_ROUNDS, ROUND, EPOCHS = 10, 4, 500, 3
LONG = 10
"""Epochs of the one training on random boosts alone."""

JUDGED, REPLICATES = 300, 100


@dataclass(frozen=True)
class Pick:
    """How a critic's own picks do, by itself and by the truth, in EUR a visit, for visitors it has not seen.

    It has `learned` from 5,000 visits: random boosts alone, or from the 2,001st on its own picks. What it `promised`,
    what was `earned` in expectation, their mean difference `error`, its mean `size` and the `largest`. `spread` is the
    standard deviation of expected reward over visitors under random boosts, and `share` is error / spread.
    """

    seed: int
    critic: str
    learned: str
    promised: float
    earned: float
    error: float
    size: float
    largest: float
    spread: float
    share: float


class Scene(NamedTuple):
    """A shop with its visits and what it observed of them, the same for all critics."""

    shop: SearchShop
    visits: list[SearchVisit]
    states: FloatArray

    def random_boosts(self, name: str, n: int) -> FloatArray:
        """Draw boosts `(n, 10)` anywhere in the box from the stream of that name."""
        a_max = self.shop.world.config.a_max
        return stream(self.shop.world.seed, name).uniform(-a_max, a_max, (n, D))

    def rewards(self, start: int, actions: FloatArray) -> FloatArray:
        """Return what visits `start`, ... bring with `actions (m, 10)`."""
        pairs = zip(self.visits[start : start + len(actions)], actions, strict=True)
        return np.array([self.shop.serve(visit, self.shop.rank(visit, action)).reward for visit, action in pairs])

    def expected(self, start: int, actions: FloatArray) -> FloatArray:
        """Return what they bring in expectation."""
        pairs = zip(self.visits[start : start + len(actions)], actions, strict=True)
        return np.array([boosts_reward(self.shop, visit, action, REPLICATES) for visit, action in pairs])


def _rows_of(config: SearchConfig, seed: int) -> list[Pick]:
    """Measure every critic in the shop of a seed; what is measured is kept, so a run can go on."""
    sizes = ROUNDS, RANDOM_ROUNDS, ROUND, EPOCHS, LONG, JUDGED, REPLICATES
    key = (seed, *sizes, config.model_dump_json(), digest(config))
    found = kept_array("overestimation", key, partial(_picks_as_json, config, seed))
    return [Pick(**row) for row in json.loads(str(found))]


def _picks_as_json(config: SearchConfig, seed: int) -> str:
    return json.dumps([asdict(pick) for pick in picks_of(config, seed)])


measure = measure_in_shops(_rows_of, "1000:1020")


def picks_of(config: SearchConfig, seed: int) -> list[Pick]:
    """Return how all critics do after both ways of learning."""
    scene = _scene(config, seed)
    random = scene.random_boosts("judged", JUDGED)
    spread = float(scene.expected(ROUNDS * ROUND, random).std())
    taught = {OWN: _taught_by_picks(scene, seed), RANDOM: _taught_by_chance(scene, seed)}
    return [
        Pick(seed, name, learned, **_judged(scene, learner, spread))
        for learned, learners in taught.items()
        for name, learner in learners.items()
    ]


def _scene(config: SearchConfig, seed: int) -> Scene:
    shop = open_shop(config, seed)
    visits = [shop.arrive(step) for step in range(ROUNDS * ROUND + JUDGED)]
    return Scene(shop, visits, np.array([shop.features(visit) for visit in visits]))


def _taught_by_picks(scene: Scene, seed: int) -> dict[str, Learner]:
    """Let each critic learn in rounds: from random boosts, then from its own picks."""
    made = critics(scene.states.shape[1], seed, scene.shop.world.config.a_max)
    for learner in made.values():
        actions, rewards = scene.random_boosts("boosts", ROUNDS * ROUND), np.zeros(ROUNDS * ROUND)
        for number in range(ROUNDS):
            start, end = number * ROUND, (number + 1) * ROUND
            if number >= RANDOM_ROUNDS:
                actions[start:end] = learner.pick(scene.states[start:end])[0]
            rewards[start:end] = scene.rewards(start, actions[start:end])
            learner.learn(scene.states[:end], actions[:end], rewards[:end], EPOCHS)
    return made


def _taught_by_chance(scene: Scene, seed: int) -> dict[str, Learner]:
    """Let them learn from the same random boosts; those of one ensemble differ in how they pick alone."""
    made = critics(scene.states.shape[1], seed, scene.shop.world.config.a_max)
    actions = scene.random_boosts("boosts", ROUNDS * ROUND)
    rewards = scene.rewards(0, actions)
    for name in (SINGLE, MEAN, HALVES):
        made[name].learn(scene.states[: len(actions)], actions, rewards, LONG)
    for name in (MINIMUM, DOUBT):
        made[name].ensembles[0].load_state_dict(made[MEAN].ensembles[0].state_dict())
    return made


def _judged(scene: Scene, learner: Learner, spread: float) -> dict[str, float]:
    """Return the figures of a critic over visitors whom it has not seen."""
    start = ROUNDS * ROUND
    actions, promised = learner.pick(scene.states[start:])
    earned = scene.expected(start, actions)
    error = promised - earned
    return {
        "promised": float(promised.mean()),
        "earned": float(earned.mean()),
        "error": float(error.mean()),
        "size": float(np.abs(error).mean()),
        "largest": float(error.max()),
        "spread": spread,
        "share": float(error.mean()) / spread,
    }
