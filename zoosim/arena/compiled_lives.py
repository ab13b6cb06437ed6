"""The fast path of the loop in worlds of visitors who come back: the world's and the policy's kernels in one loop."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from zoosim.arena.block import Block, sections
from zoosim.core.feedback import AT_ONCE
from zoosim.core.jit import bind
from zoosim.core.rng import uniform
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.lives import Lives
from zoosim.policies.kernel import DecisionDraws, Kernel, floored_choice
from zoosim.worlds.base import World
from zoosim.worlds.compiled import GONE, RETURNED, CompiledWorld, VisitorKernel
from zoosim.worlds.episodes import MOST_STEPS

ROOM = 2 * MOST_STEPS
"""Decisions that there is room for: a visitor begins only while those of a whole life fit."""

# `compiled_lives` puts each world's and policy's own functions in the place of these.
arrive: Any = None
observe: Any = None
offer: Any = None
serve: Any = None
worth: Any = None
choose: Any = None
decided: Any = None
learn: Any = None
follow: Any = None


class LifeRows(NamedTuple):
    """Decisions of visitors, one after another, each array `(ROOM,)`."""

    visitors: IntArray
    visits: IntArray
    steps: IntArray
    ended: BoolArray
    censored: BoolArray
    actions: IntArray
    rewards: FloatArray
    expected: FloatArray
    best: FloatArray


class CompiledLives:
    """A policy's and a world's kernels in one loop, which visitors are sent through."""

    def __init__(self, world: World, compiled: CompiledWorld, policy: Any, *, judged: bool) -> None:
        """Compile the loop, or take what was compiled.

        Args:
            world: The world.
            compiled: The same world as compiled functions.
            policy: A `KernelPolicy`, which decides and learns.
            judged: Whether the worth of actions is computed; NaN where it is not.
        """
        self._run = compiled_lives(policy.kernel, compiled.kernel)
        self._compiled = compiled
        self._policy = policy
        self._judged = judged
        self._rows = _room()
        self._place = np.zeros(compiled.place_size, np.int64)
        self._users = np.zeros((2, world.spec(1).user_dim))
        self._available = np.ones((2, len(compiled.product_ids)), np.bool_)

    def play(self, start: int, stop: int) -> LifeRows:
        """Return the decisions of visitors `start` to `stop - 1`, whose rewards are learned at once.

        Raises:
            ValueError: a visitor is still there after `MOST_STEPS` decisions.
        """
        compiled = self._compiled
        policy = self._policy
        parts = []
        visitor = start
        while visitor < stop:
            candidates = policy.attach_block(compiled.product_ids, compiled.products, ROOM)
            learner = (policy.state, candidates, policy.draws, policy.floor)
            visit = (compiled.arrays, compiled.followed, self._place, self._users, self._available)
            count, visitor = self._run(*learner, *visit, visitor, stop, self._judged, *self._rows)
            if count > ROOM:
                raise ValueError(f"visitor {visitor} is still there after {MOST_STEPS:,} decisions")
            parts.append(LifeRows._make(column[:count].copy() for column in self._rows))
        policy.heed()
        return LifeRows._make(map(np.concatenate, zip(*parts, strict=True)))


def play_lives(world: World, compiled: CompiledWorld, policy: Any, steps: int, *, judged: bool) -> Iterator[Block]:
    """Run a kernel over the lives of visitors 0 to `steps - 1`, block by block; see `CompiledLives`."""
    lives = CompiledLives(world, compiled, policy, judged=judged)
    for start, stop in sections(world, steps, AT_ONCE):
        yield _block(start, lives.play(start, stop))


def _room() -> LifeRows:
    types = {"rewards": float, "expected": float, "best": float, "ended": bool, "censored": bool}
    return LifeRows._make(np.empty(ROOM, types.get(name, np.int64)) for name in LifeRows._fields)


def _block(start: int, rows: LifeRows) -> Block:
    return Block(
        start,
        rows.visitors,
        rows.actions,
        rows.rewards,
        np.full(len(rows.actions), np.nan),
        rows.expected,
        rows.best,
        lives=Lives(rows.visitors, rows.visits, rows.steps, rows.ended, rows.censored),
    )


@cache
def compiled_lives(kernel: Kernel, world: VisitorKernel) -> Callable[..., tuple[int, int]]:
    """Compile the loop over visitors around a policy's kernel and a world's."""
    follows = kernel.follow or bind(_follow, f"follow_{kernel.name}", learn=kernel.learn)
    return bind(
        _live,
        f"lives_{kernel.name}_{world.name}",
        choose=floored_choice(kernel),
        decided=kernel.decided,
        learn=kernel.learn,
        follow=follows,
        arrive=world.arrive,
        observe=world.observe,
        offer=world.offer,
        serve=world.serve,
        worth=world.worth,
    )


def _follow(
    state: Any,
    candidates: Any,
    user_id: int,
    user: FloatArray,
    action: int,
    reward: float,
    visit_ended: bool,
    next_candidates: Any,
    next_user: FloatArray,
    next_available: BoolArray,
) -> None:
    """Learn from a reward as policies do that do not look ahead."""
    learn(state, candidates, user_id, user, action, reward)


def _live(
    state: Any,
    candidates: Any,
    draws: DecisionDraws,
    floor: float,
    arrays: Any,
    followed: int,
    place: IntArray,
    users: FloatArray,
    availables: BoolArray,
    visitor: int,
    stop: int,
    judged: bool,
    visitors: IntArray,
    visits: IntArray,
    steps: IntArray,
    ended: BoolArray,
    censored: BoolArray,
    actions: IntArray,
    rewards: FloatArray,
    expected: FloatArray,
    best: FloatArray,
) -> tuple[int, int]:
    """Play visitors up to `stop`; return how many decisions were made, and the visitor who comes next."""
    row = 0
    while visitor < stop and row + MOST_STEPS <= actions.shape[0]:
        arrive(arrays, visitor, place)
        user = users[0]
        next_user = users[1]
        available = availables[0]
        next_available = availables[1]
        observe(arrays, place, user)
        offer(arrays, place, available)
        visit = 0
        for step in range(MOST_STEPS):
            draws.decisions[0] += 1
            # The number of the draw is that of `DrawingPolicy._next_draw`: both ways decide the same.
            draw = uniform(draws.key[0], draws.decisions[0], 0)
            action = choose(state, candidates, visitor, user, available, floor, draw)
            decided(state, candidates, visitor, user, available, action)
            expected[row] = np.nan
            best[row] = np.nan
            if judged:
                expected[row], best[row] = worth(arrays, place, available, action)
            reward, follows = serve(arrays, place, action)
            visitors[row] = visitor
            visits[row] = visit
            steps[row] = step
            ended[row] = follows == GONE
            censored[row] = follows != GONE and step + 1 >= followed
            actions[row] = action
            rewards[row] = reward
            row += 1
            if follows == GONE:
                learn(state, candidates, visitor, user, action, reward)
                break
            observe(arrays, place, next_user)
            offer(arrays, place, next_available)
            returned = follows == RETURNED
            follow(state, candidates, visitor, user, action, reward, returned, candidates, next_user, next_available)
            if step + 1 >= followed:
                break
            visit += returned
            user, next_user = next_user, user
            available, next_available = next_available, available
        else:
            return actions.shape[0] + 1, visitor
        visitor += 1
    return row, visitor
