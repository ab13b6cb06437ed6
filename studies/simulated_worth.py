"""What it is worth to show what a policy takes for best, where it does not see visitors' states: simulated.

A policy that sees the state is a table, whose worth is exact. Of another one the lives of visitors whom it never met
are played in compiled code, without learning. The same visitors under the optimum, whose worth is exact, tell how
much of the result is luck: a control variate (Lavenberg & Welch 1981).
"""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from zoosim.arena.compiled import runs_compiled
from zoosim.arena.compiled_lives import CompiledLives
from zoosim.core.types import FloatArray
from zoosim.models.visitor_types import moves_of, state_numbers
from zoosim.policies.base import Policy
from zoosim.policies.kernel import Kernel, KernelPolicy, new_draws, nothing_decided
from zoosim.policies.products.random import Random
from zoosim.policies.sessions.qmdp import QMDP
from zoosim.worlds.sessions.simulation import BeliefPolicy, simulate, simulate_beliefs
from zoosim.worlds.sessions.world import Sessions

PRECISION = 0.003
"""The standard error that is enough, as a share of the optimum."""

FEWEST, MOST = 20_000, 320_000
"""Visitors who are met at first, twice as many as long as the error is larger, and at most."""

HELD_OUT = 1_000_000
"""Added to the seed of a run: the seed of visitors whom nobody learns from."""


class Worth(NamedTuple):
    """Clicks of a new visitor, and the standard error of this."""

    clicks: float
    error: float


class Frozen:
    """What a policy takes for best, as `CompiledLives` plays it; it learns nothing."""

    floor = 0.0

    def __init__(self, policy: KernelPolicy) -> None:
        self.kernel = _frozen_kernel(policy.kernel)
        self.state = policy._exploiting()
        self.attach_block = policy.attach_block
        self.draws = new_draws(np.random.default_rng(0))

    def heed(self) -> None:
        """Warn of nothing."""


@cache
def _frozen_kernel(kernel: Kernel) -> Kernel:
    nothing_learned = Random.kernel.learn
    return replace(kernel, name=f"frozen_{kernel.name}", learn=nothing_learned, decided=nothing_decided, follow=None)


def simulated_worth(world: Sessions, policy: Policy) -> Worth:
    """Return what it is worth to show what a policy takes for best, to the `PRECISION`.

    Args:
        world: Whose visitors the policy has learned from. Its laws never change.
        policy: Who is asked.
    """
    truth = world.truth_of(0)
    optimum = truth.value(truth.optimum)
    others = Sessions(world.seed + HELD_OUT, MOST, **world.config.model_dump(exclude_unset=True))
    visitors = FEWEST
    while True:
        clicks = _clicks(others, policy, visitors)
        of_optimum = simulate(truth.laws, truth.optimum, visitors, seed=others.seed).clicks
        covariance = np.cov(clicks, of_optimum)
        weight = covariance[0, 1] / covariance[1, 1]
        without_luck = clicks - weight * (of_optimum - optimum)
        error = float(without_luck.std() / np.sqrt(visitors))
        if error < PRECISION * optimum or 2 * visitors > MOST:
            return Worth(float(without_luck.mean()), error)
        visitors *= 2


def _clicks(world: Sessions, policy: Policy, visitors: int) -> FloatArray:
    """Return the clicks of each of so many visitors `(visitors,)`."""
    if isinstance(policy, QMDP):
        return simulate_beliefs(world.truth_of(0).laws, _belief_policy(world, policy), visitors, seed=world.seed).clicks
    if not runs_compiled(type(policy)):
        return np.array([_clicks_of(world, policy, visitor) for visitor in range(visitors)])
    frozen: Any = Frozen(policy)  # type: ignore[arg-type]
    rows = CompiledLives(world, world.as_compiled(), frozen, judged=False).play(0, visitors)
    clicks: FloatArray = np.bincount(rows.visitors, weights=rows.rewards, minlength=visitors).astype(float)
    return clicks


def _belief_policy(world: Sessions, policy: QMDP) -> BeliefPolicy:
    """Return what a policy that guesses types has learned of the kinds of a world, which it has met all."""
    features = world.all_products().features[: 2 * len(world.config.categories)]
    numbers = [policy._number(row) for row in features]
    tally = policy.tally
    moves = moves_of(tally)
    states = len(moves.after_visit)
    clicks = policy._clicks[:, :, numbers]
    return BeliefPolicy(
        prior=policy._shares,
        values=np.ascontiguousarray(policy._expected[:, :, numbers]),
        chances=np.repeat(clicks, states // clicks.shape[1], axis=1),
        after_click=np.ascontiguousarray(moves.after_click[:, numbers]),
        after_visit=moves.after_visit,
        start=int(state_numbers(np.array([0, tally.bound, 0]), len(numbers), tally.bound)),
    )


def _clicks_of(world: Sessions, policy: Policy, visitor: int) -> float:
    clicks = 0.0
    visit: Any = world.arrive(visitor)
    while visit is not None:
        outcome = world.serve(visit, policy.recommend(world.context(visit)))
        clicks += outcome.reward
        visit = outcome.next.visit if outcome.next else None
    return clicks
