"""Time single decisions of a policy that has learned, through the calls that a shop makes, and count their chances."""

import time
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from zoosim.arena.loop import play
from zoosim.arena.past import fit_policy
from zoosim.policies.kernel import DrawingPolicy
from zoosim.policies.registry import PolicyEntry
from zoosim.worlds.base import World

TAUGHT = 2_000
"""Visits that a policy learns from before it is timed."""

WARM_UP, CALLS = 20, 400
"""Visits that are served and not timed, and those that are."""


@dataclass(frozen=True)
class Timed:
    """Median microseconds of a decision, of one with its propensities, and of an update, on one thread.

    `chances` is the mean number of candidates that a decision could have shown, of `candidates`.
    """

    policy: str
    decision: float
    with_propensities: float
    update: float
    chances: float
    candidates: int


def time_policy(name: str, entry: PolicyEntry, world: World) -> Timed:
    """Let a policy learn from some visits to a world, and time it at the next ones."""
    with threadpool_limits(1):
        policy, _ = fit_policy(entry, world, TAUGHT + WARM_UP + CALLS, lambda line: None)
        for _ in play(world, policy, TAUGHT):
            pass
        if not isinstance(policy, DrawingPolicy):
            raise TypeError(f"{name} draws from no distribution")
        spans = np.empty((CALLS, 3))
        chances = np.empty(CALLS)
        for call in range(-WARM_UP, CALLS):
            spans[call], chances[call] = _visit(policy, world, TAUGHT + WARM_UP + call)
        candidates = len(world.context(world.arrive(0)).available)
    decision, with_propensities, update = map(float, 1e6 * np.median(spans, axis=0))
    return Timed(name, decision, with_propensities, update, float(chances.mean()), candidates)


def _visit(policy: DrawingPolicy, world: World, step: int) -> tuple[list[float], int]:
    """Decide a visit twice, without and with propensities, and learn; return the seconds of each, and the chances."""
    visit = world.arrive(step)
    context = world.context(visit)
    began = time.perf_counter()
    policy.select_action(context)
    chosen = time.perf_counter()
    decision = policy.decide(context)
    decided = time.perf_counter()
    reward = world.serve(visit, decision.action).reward
    served = time.perf_counter()
    policy.update(context, decision.action, reward)
    learned = time.perf_counter()
    spans = [chosen - began, decided - chosen, learned - served]
    return spans, int(np.count_nonzero(decision.propensities))
