"""Let critics learn from random boosts, then from their own picks, and compare what they promise with what it earns.

max E[Q] <= E[max Q]: who maximises over estimates with errors picks errors (Thrun & Schwartz 1993). Every critic learns
from visits of its own and then picks for visitors whom it has not seen; the shop's own truth says what that earns.
"""

import json
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.array_cache import kept
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, Progress
from zoosim.envs.search_shop import SearchShop, Visit
from zoosim.evaluation.boost_run import expected, open_shop
from zoosim.experiments.request import parse_seeds
from zoosim.studies.overestimation.critics import A_MAX, DOUBT, HALVES, MEAN, MINIMUM, SINGLE, D, Learner, critics

CONFIG = {"n_products": 1_000, "a_max": A_MAX}
OWN, RANDOM = "its own picks", "random boosts"
ROUNDS, RANDOM_ROUNDS, ROUND, EPOCHS = 10, 4, 500, 3
LONG = 10
"""Epochs of the one training on random boosts alone."""

JUDGED, MOODS = 300, 100


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
    visits: list[Visit]
    states: FloatArray

    def rewards(self, start: int, actions: FloatArray) -> FloatArray:
        """Return what visits `start`, ... bring with `actions (m, 10)`."""
        pairs = zip(self.visits[start : start + len(actions)], actions, strict=True)
        return np.array([self.shop.serve(visit, self.shop.rank(visit, action)).reward for visit, action in pairs])

    def expected(self, start: int, actions: FloatArray) -> FloatArray:
        """Return what they bring in expectation."""
        pairs = zip(self.visits[start : start + len(actions)], actions, strict=True)
        return np.array([expected(self.shop, visit, action, MOODS) for visit, action in pairs])


def measure(*, seeds: Any = "1000:1020", progress: Progress = lambda line: None) -> list[Pick]:
    """Measure every critic in the shop of each seed; what is measured is kept, so a run can go on."""
    rows: list[Pick] = []
    for seed in parse_seeds(seeds):
        progress(f"seed {seed}")
        sizes = ROUNDS, RANDOM_ROUNDS, ROUND, EPOCHS, LONG, JUDGED, MOODS
        found = kept("overestimation", (seed, *sizes), ("picks",), partial(_made, seed))
        rows += [Pick(**row) for row in json.loads(str(found["picks"]))]
    return rows


def _made(seed: int) -> dict[str, Any]:
    return {"picks": np.array(json.dumps([asdict(pick) for pick in picks_of(seed)]))}


def picks_of(seed: int) -> list[Pick]:
    """Return how all critics do after both ways of learning."""
    scene = _scene(seed)
    random = stream(seed, "judged").uniform(-A_MAX, A_MAX, (JUDGED, D))
    spread = float(scene.expected(ROUNDS * ROUND, random).std())
    taught = {OWN: _taught_by_picks(scene, seed), RANDOM: _taught_by_chance(scene, seed)}
    return [
        Pick(seed, name, learned, **_judged(scene, learner, spread))
        for learned, learners in taught.items()
        for name, learner in learners.items()
    ]


def _scene(seed: int) -> Scene:
    shop = open_shop(CONFIG, seed)
    visits = [shop.arrive(step) for step in range(ROUNDS * ROUND + JUDGED)]
    return Scene(shop, visits, np.array([shop.features(visit) for visit in visits]))


def _taught_by_picks(scene: Scene, seed: int) -> dict[str, Learner]:
    """Let each critic learn in rounds: from random boosts, then from its own picks."""
    made = critics(scene.states.shape[1], seed)
    for learner in made.values():
        actions, rewards = _random_boosts(seed), np.zeros(ROUNDS * ROUND)
        for number in range(ROUNDS):
            start, end = number * ROUND, (number + 1) * ROUND
            if number >= RANDOM_ROUNDS:
                actions[start:end] = learner.pick(scene.states[start:end])[0]
            rewards[start:end] = scene.rewards(start, actions[start:end])
            learner.learn(scene.states[:end], actions[:end], rewards[:end], EPOCHS)
    return made


def _taught_by_chance(scene: Scene, seed: int) -> dict[str, Learner]:
    """Let them learn from the same random boosts; those of one ensemble differ in how they pick alone."""
    made, actions = critics(scene.states.shape[1], seed), _random_boosts(seed)
    rewards = scene.rewards(0, actions)
    for name in (SINGLE, MEAN, HALVES):
        made[name].learn(scene.states[: len(actions)], actions, rewards, LONG)
    for name in (MINIMUM, DOUBT):
        made[name].ensembles[0].load_state_dict(made[MEAN].ensembles[0].state_dict())
    return made


def _random_boosts(seed: int) -> FloatArray:
    return stream(seed, "boosts").uniform(-A_MAX, A_MAX, (ROUNDS * ROUND, D))


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
