"""S28 and S29: decisions in the world of sessions, and how long its exact ladder takes, in processor time."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from zoosim.core.rng import stream
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.simulation import simulate
from zoosim.worlds.sessions.truth import SessionTruth, Step
from zoosim.worlds.sessions.world import Sessions

VISITORS = 400_000
ROWS = 1_024
STEPS = 1_000
PLAIN = 20_000
"""Decisions of the plain loop."""

TIMES = 3
"""Repetitions, of which the fastest counts."""

PERSONAS, CATEGORIES = 10, 25
LOW, HIGH = 0.02, 0.6
"""Sizes and click probabilities of the large shop."""


def decisions() -> None:
    """Print decisions per second on one core: compiled lives, the vector environment, and the world's plain loop."""
    truth = SessionTruth(SessionConfig())
    simulate(truth.laws, truth.optimum, 10, seed=0)
    seconds, lives = _fastest(lambda: simulate(truth.laws, truth.optimum, VISITORS, seed=0))
    compiled = float(lives.steps.sum()) / seconds
    by_row = _vector_rate()
    plain = _plain_rate()
    for name, rate in {
        "compiled lives under the optimum": compiled,
        f"vector environment, {ROWS:,} rows": by_row,
    }.items():
        print(
            f"S28 sessions: {name}: {rate:,.0f} decisions per second of processor time, plain loop {plain:,.0f}: "
            f"{rate / plain:,.0f} times"
        )


def _fastest(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least seconds of processor time that some work took, and what it returned."""
    best = np.inf
    for _ in range(TIMES):
        began = time.process_time()
        result = work()
        best = min(best, time.process_time() - began)
    return best, result


def _vector_rate() -> float:
    """Return decisions per second of the vector environment under random actions."""
    env = gymnasium.make_vec("zoosim/Sessions-v0", num_envs=ROWS, config={"observe": "state"})
    env.reset(seed=0)
    kinds = 2 * len(SessionConfig().categories)
    actions = stream(0, "actions").integers(kinds, size=(STEPS, ROWS))
    env.step(actions[0])

    def play() -> None:
        for chosen in actions:
            env.step(chosen)

    return STEPS * ROWS / _fastest(play)[0]


def _plain_rate() -> float:
    """Return decisions per second of a loop over the world's methods under random actions."""
    world = Sessions(0, PLAIN, observe="state", per_kind=1)
    actions = stream(0, "actions").integers(len(world.all_products().ids), size=PLAIN).tolist()

    def play() -> None:
        visitor = 0
        visit = world.arrive(visitor)
        for action in actions:
            world.context(visit)
            outcome = world.serve(visit, action)
            if outcome.next is None:
                visitor += 1
                visit = world.arrive(visitor)
            else:
                visit = outcome.next.visit

    return PLAIN / _fastest(play)[0]


def _ladder_of(config: SessionConfig) -> list[Step]:
    return SessionTruth(config).ladder()


def ladder() -> None:
    """Print how long the exact ladder takes, of the default shop and of one with 10 personas and 25 categories."""
    rng = stream(0, "large shop")
    categories = [f"category {number}" for number in range(CATEGORIES)]
    personas = {
        f"persona {number}": dict(zip(categories, rng.uniform(LOW, HIGH, CATEGORIES).tolist(), strict=True))
        for number in range(PERSONAS)
    }
    companions = dict(zip(categories[::5], categories[1::5], strict=True))
    shops = {"default": SessionConfig(), "large": SessionConfig(personas=personas, companions=companions)}
    for name, config in shops.items():
        seconds, rungs = _fastest(partial(_ladder_of, config))
        truth = SessionTruth(config)
        states = truth.optimum.shape[0] * truth.optimum.shape[1]
        print(
            f"S29 ladder of sessions: {name} shop, {states:,} states, {truth.laws.kinds} kinds, {len(rungs)} policies: "
            f"{seconds:.2f} s of processor time"
        )
