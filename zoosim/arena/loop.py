"""The loop that all worlds and policies share: a visitor comes, a policy chooses, the reward is learned from."""

import inspect
import traceback
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.arena.block import Block, BlockRows, sections
from zoosim.arena.compiled import play_compiled, runs_compiled
from zoosim.core.blame import source_file, user_place
from zoosim.core.errors import ActionError, PolicyFailure, WorldError
from zoosim.core.feedback import AT_ONCE, Feedback
from zoosim.core.types import Context
from zoosim.policies.base import Policy, policy_name
from zoosim.worlds.base import Truth, World
from zoosim.worlds.contexts import context_fault


def play(
    world: World,
    policy: Policy,
    steps: int,
    *,
    feedback: Feedback = AT_ONCE,
    logged: bool = False,
    judged: bool = True,
) -> Iterator[Block]:
    """Let a policy decide visits 0 to `steps - 1`, and learn from each when its reward arrives.

    In a world that is a table a policy that decides and learns by its kernel is run compiled; otherwise the policy is
    asked one context at a time. Both give the same rows.

    Args:
        world: Who comes, and what each choice earns.
        policy: Decides and learns.
        steps: Number of visits.
        feedback: When rewards arrive; those of the last visits never do.
        logged: Whether propensities are computed; of policies that sample they cost more than the decisions.
        judged: Whether expected rewards are computed, which some worlds take long for; NaN where they are not.

    Raises:
        PolicyFailure: the policy raised an error, or returned what cannot be.
        WorldError: the world raised an error.
    """
    table = world.as_table()
    if table is not None and runs_compiled(type(policy)):
        yield from play_compiled(table, policy, steps, feedback, logged)
    else:
        yield from _play_visits(world, policy, steps, feedback, logged, judged)


def _takes_feedback(policy: Policy) -> bool:
    """Whether `update` takes more than a context, an action and a reward; the shortest policies leave the rest out."""
    parameters = inspect.signature(policy.update).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 3 or any(p.kind is p.VAR_POSITIONAL for p in parameters)


UNKNOWN = Truth(lambda action: np.nan, np.nan)
"""What stands for the truth where it is not asked for."""


class _Served(NamedTuple):
    """A decision whose reward has not arrived yet."""

    step: int
    context: Context
    action: Any
    reward: float
    feedback: Mapping[str, Any] | None


def _play_visits(
    world: World, policy: Policy, steps: int, feedback: Feedback, logged: bool, judged: bool
) -> Iterator[Block]:
    """Ask the world and the policy visit by visit."""
    unrewarded = deque[_Served]()
    space = find_action_space(world.action_space)
    spec = world.spec(steps)
    takes_feedback = _takes_feedback(policy)
    for start, stop in sections(world, steps, AT_ONCE):
        rows = BlockRows(world, spec, start, stop - start, logged=logged, judged=judged)
        for step in range(start, stop):
            with _blaming_the_world(world, step):
                visit = world.arrive(step)
                context = world.context(visit)
                fault = context_fault(context, world.action_space, spec) if step == 0 else ""
                if fault:
                    raise ValueError(fault)
            try:
                if logged:
                    action, propensity = space.choose(policy, context, spec)
                else:
                    action = space.checked(policy.select_action(context), context, spec)
                    propensity = np.nan
                with _blaming_the_world(world, step):
                    outcome = world.serve(visit, action)
                    truth = world.truth(visit) if judged else UNKNOWN
                    rows.add(context, action, propensity, outcome, truth)
                unrewarded.append(_Served(step, context, action, float(outcome.reward), outcome.feedback))
                if (step + 1) % feedback.batch == 0:
                    while unrewarded and unrewarded[0].step <= step - feedback.delay:
                        _learn(policy, unrewarded.popleft(), takes_feedback)
            except WorldError:
                raise
            except (Exception, SystemExit) as error:
                raise failure(world.seed, step, error, type(policy)) from error
        yield rows.block()


def _learn(policy: Policy, served: _Served, takes_feedback: bool) -> None:
    """Let a policy learn from a reward that has come."""
    if takes_feedback:
        policy.update(served.context, served.action, served.reward, served.feedback)
    else:
        policy.update(served.context, served.action, served.reward)


@contextmanager
def _blaming_the_world(world: World, step: int) -> Iterator[None]:
    """Tell what went wrong in a world, with the place in the file that its class was written in."""
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
    """Tell what went wrong in a policy of class `cls`, with the place in the file that the class was written in.

    Where its code raised nothing, but returned what cannot be, the place is where that method begins.
    """
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    method = "propensities" if str(error).startswith("propensities ") else "select_action"
    code = getattr(getattr(cls, method, None), "__code__", None)
    began = f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else Path(source_file(cls)).name
    place = user_place(error, source_file(cls)) or began
    return PolicyFailure("", seed, step, reason, place, traceback.format_exc())
