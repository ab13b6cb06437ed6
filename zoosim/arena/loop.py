"""The loop that all worlds and policies share: a visitor comes, a policy chooses, the reward is learned from."""

import inspect
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.arena.block import Block, BlockRows, sections
from zoosim.arena.compiled import play_compiled, runs_compiled
from zoosim.arena.compiled_lives import play_lives
from zoosim.core.blame import source_file, user_place
from zoosim.core.errors import ActionError, PolicyFailure, WorldError
from zoosim.core.feedback import AT_ONCE, FeedbackTiming
from zoosim.core.types import Context, PolicySpec
from zoosim.policies.base import Policy, policy_name
from zoosim.worlds.base import Truth, World
from zoosim.worlds.contexts import context_fault
from zoosim.worlds.episodes import MOST_STEPS, checked_next, feedback_of


def play(
    world: World,
    policy: Policy,
    steps: int,
    *,
    feedback: FeedbackTiming = AT_ONCE,
    logged: bool = False,
    judged: bool = True,
) -> Iterator[Block]:
    """Run a policy at visitors 0 to `steps - 1`; it learns from each decision when its reward arrives.

    In a world that is a table, or compiled functions, a policy that decides and learns by its kernel is run compiled;
    otherwise the policy is asked one context at a time. Both give the same rows.

    Args:
        world: Who comes, and what each choice earns.
        policy: Decides and learns.
        steps: Number of visitors, each of whom makes one visit unless the world is episodic.
        feedback: When rewards arrive; those of the last visitors never do.
        logged: Whether propensities are computed; of policies that sample they cost more than the decisions.
        judged: Whether expected rewards are computed, which some worlds take long for; NaN where they are not.

    Raises:
        PolicyFailure: the policy raised an error, or returned what cannot be.
        WorldError: the world raised an error.
    """
    table = world.as_table()
    if table is not None and runs_compiled(type(policy)):
        yield from play_compiled(table, policy, steps, feedback, logged)
        return
    compiled = world.as_compiled()
    # A log keeps the context of each decision, which is asked for one at a time.
    if compiled is not None and runs_compiled(type(policy)) and feedback == AT_ONCE and not logged:
        yield from play_lives(world, compiled, policy, steps, judged=judged)
    else:
        yield from _play_visits(world, policy, steps, feedback, logged, judged)


def _arity(policy: Policy) -> int:
    """Return how many arguments `update` takes, of the five that it is given; the shortest policies take three."""
    # Asked once per run, and not tried out: a `TypeError` may come from within a user's `update`, too.
    parameters = inspect.signature(policy.update).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 5
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


UNKNOWN = Truth(lambda action: np.nan, np.nan)
"""Placeholder for the truth where it is not asked for."""


class _RewardDelivery:
    """Hands rewards to a policy when they arrive."""

    def __init__(self, policy: Policy, feedback: FeedbackTiming) -> None:
        self._update = policy.update
        self._arity = _arity(policy)
        self._feedback = feedback
        self._waiting = deque[tuple[int, tuple[Any, ...]]]()

    def take(self, visitor: int, *served: Any, gone: bool) -> None:
        """Take a decision of a visitor, as the arguments of `update`, and hand over what has arrived by now."""
        self._waiting.append((visitor, served[: self._arity]))
        delay = self._feedback.delay
        batch = self._feedback.batch
        # Rewards are late by so many visitors: those that are not, are learned before the visitor's next step.
        if (visitor + 1) % batch == 0 and (gone or (delay, batch) == (0, 1)):
            while self._waiting and self._waiting[0][0] <= visitor - delay:
                self._update(*self._waiting.popleft()[1])


def _play_visits(
    world: World, policy: Policy, steps: int, feedback: FeedbackTiming, logged: bool, judged: bool
) -> Iterator[Block]:
    """Ask the world and the policy decision by decision."""
    space = find_action_space(world.action_space)
    spec = world.spec(steps)
    learner = _RewardDelivery(policy, feedback)
    for start, stop in sections(world, steps, AT_ONCE):
        rows = BlockRows(world, spec, start, judged=judged)
        for visitor in range(start, stop):
            with _blaming_the_world(world, visitor):
                visit = world.arrive(visitor)
                context = _context(world, visit, spec, is_checked=visitor == 0)
            visits = 0
            for step in range(MOST_STEPS):
                try:
                    kept = None
                    if logged:
                        action, propensity, kept = space.choose_logged(policy, context, spec)
                    else:
                        action = space.checked(policy.select_action(context), context, spec)
                        propensity = np.nan
                    with _blaming_the_world(world, visitor):
                        outcome = world.serve(visit, action)
                        following = checked_next(world, outcome)
                        truth = world.truth(visit) if judged else UNKNOWN
                        rows.add(context, action, propensity, outcome, truth, (visitor, visits, step), kept)
                        next_context = None
                        if following is not None:
                            next_context = _context(world, following.visit, spec, is_checked=visitor == 0)
                    served = (context, action, float(outcome.reward), feedback_of(world, outcome), next_context)
                    learner.take(visitor, *served, gone=outcome.ended or outcome.censored)
                except WorldError:
                    raise
                except (Exception, SystemExit) as error:
                    raise failure(world.seed, visitor, error, type(policy)) from error
                if following is None or following.cut_off:
                    break
                assert next_context is not None
                visit = following.visit
                context = next_context
                visits += not following.same_visit
            else:
                with _blaming_the_world(world, visitor):
                    raise ValueError(f"visitor {visitor} is still there after {MOST_STEPS:,} decisions")
        yield rows.block()


def _context(world: World, visit: Any, spec: PolicySpec, *, is_checked: bool) -> Context:
    """Return the context of a visit; raises `ValueError` for one that is checked and breaks the contract."""
    context = world.context(visit)
    fault = context_fault(context, world.action_space, spec) if is_checked else ""
    if fault:
        raise ValueError(fault)
    return context


@contextmanager
def _blaming_the_world(world: World, step: int) -> Iterator[None]:
    """Blame a world for what it raises, with the place in the file that its class was written in."""
    try:
        yield
    except (ActionError, WorldError):  # of an action that cannot be taken it is the policy that is to blame
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        place = user_place(error, source_file(type(world)))
        where = f" at {place}" if place else ""
        name = policy_name(type(world))
        raise WorldError(f"world {name} failed, seed {world.seed}, step {step}{where}: {reason}") from error


def failure(seed: int, step: int, error: BaseException, cls: type) -> PolicyFailure:
    """Return what went wrong in a policy of class `cls`, with the place in the file that the class was written in.

    Where its code raised nothing, but returned what cannot be, the place is where that method begins.
    """
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    method = "propensities" if str(error).startswith("propensities ") else "select_action"
    code = getattr(getattr(cls, method, None), "__code__", None)
    began = f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else Path(source_file(cls)).name
    place = user_place(error, source_file(cls)) or began
    return PolicyFailure("", seed, step, reason, place, traceback.format_exc())
