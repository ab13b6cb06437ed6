"""Let a policy meet the visitors of a world: blocks of plain arrays, one after another."""

import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.blame import source_file, user_place
from zoosim.core.errors import PolicyFailure
from zoosim.core.jit import bind
from zoosim.core.types import FloatArray, IntArray
from zoosim.policies.base import Policy
from zoosim.policies.kernel import Kernel, KernelPolicy
from zoosim.policies.random import Random
from zoosim.world.truth import chosen_and_best
from zoosim.world.world import Visits, World, earn

BLOCK = 1_000

# `compiled_play` puts each kernel's own in the place of these.
choose, learn, probability = Random.kernel.choose, Random.kernel.learn, Random.kernel.probability


class Block(NamedTuple):
    """What happened in visits `start` to `start + n - 1`, each array `(n,)`; propensities are NaN unless asked for."""

    start: int
    user_ids: IntArray
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    true_probabilities: FloatArray
    best_probabilities: FloatArray


def play(world: World, policy: Policy, steps: int, *, logged: bool = False) -> Iterator[Block]:
    """Let `policy` decide visits 0 to `steps - 1`, learning after each; raises `PolicyFailure`.

    Propensities are computed when the visits are to be `logged`: Thompson sampling's cost far more than its decisions.

    A policy that decides and learns by its kernel is run compiled; any other is asked one context at a time. Both give
    the same rows.
    """
    run = _run_kernel if _runs_compiled(type(policy)) else _run_contexts
    for visits in world.blocks(steps, BLOCK):
        actions, rewards, propensities = run(world, policy, visits, logged)
        truths = chosen_and_best(visits, actions)
        yield Block(visits.start, visits.user_ids, actions, rewards, propensities, *truths)


def _runs_compiled(cls: type[Policy]) -> bool:
    """Tell whether a class leaves all three of its methods to a kernel."""
    methods = ("select_action", "update", "propensity")
    return issubclass(cls, KernelPolicy) and all(getattr(cls, m) is getattr(KernelPolicy, m) for m in methods)


def _run_kernel(world: World, policy: Any, visits: Visits, logged: bool) -> tuple[IntArray, FloatArray, FloatArray]:
    policy.attach(world.products)
    out = _empty(len(visits.visitors))
    compiled_play(policy.kernel)(policy.state, visits, logged, *out)
    policy.heed()
    return out


@cache
def compiled_play(kernel: Kernel) -> Callable[..., None]:
    """Compile the loop over visits around a policy's kernel."""
    functions = {"choose": kernel.choose, "learn": kernel.learn, "probability": kernel.probability}
    return bind(_play, f"play_{kernel.name}", **functions)


def _play(
    state: Any, visits: Visits, logged: bool, actions: IntArray, rewards: FloatArray, propensities: FloatArray
) -> None:
    for i in range(actions.shape[0]):
        user_id, user = visits.user_ids[i], visits.users[visits.visitors[i]]
        actions[i] = choose(state, user_id, user, visits.available)
        if logged:
            propensities[i] = probability(state, user_id, user, visits.available, actions[i])
        rewards[i] = earn(visits, i, actions[i])
        learn(state, user_id, user, actions[i], rewards[i])


def _run_contexts(
    world: World, policy: Policy, visits: Visits, logged: bool
) -> tuple[IntArray, FloatArray, FloatArray]:
    actions, rewards, propensities = _empty(len(visits.visitors))
    own_propensity = type(policy).propensity is not Policy.propensity
    for i, (visitor, user_id) in enumerate(zip(visits.visitors, visits.user_ids, strict=True)):
        context = world.context(int(visitor), visits.available, int(user_id))
        try:
            action = check_action(policy.select_action(context), visits.available)
            if logged:
                propensities[i] = _probability(policy.propensity(context, action)) if own_propensity else 1.0
            actions[i], rewards[i] = action, earn(visits, i, action)
            policy.update(context, action, float(rewards[i]))
        except (Exception, SystemExit) as error:
            raise failure(world.seed, visits.start + i, error, type(policy)) from error
    return actions, rewards, propensities


def check_action(action: Any, available: np.ndarray) -> int:
    """Return a policy's action as an index of an available product, or raise `ValueError`."""
    if isinstance(action, bool) or not isinstance(action, int | np.integer):
        raise ValueError(f"select_action returned {action!r}, expected an integer from 0 to {len(available) - 1}")
    if not 0 <= action < len(available):
        raise ValueError(f"select_action returned {int(action)}, expected 0 to {len(available) - 1}")
    if not available[action]:
        raise ValueError(f"select_action returned {int(action)}, which is not available (see context.available)")
    return int(action)


def _probability(value: Any) -> float:
    if not isinstance(value, float | int | np.floating) or not 0 < value <= 1:
        raise ValueError(f"propensity returned {value!r} for the chosen action, expected a number in (0, 1]")
    return float(value)


def failure(seed: int, step: int, error: BaseException, cls: type) -> PolicyFailure:
    """Tell what went wrong in a policy of class `cls`, with the place in the file that the class was written in.

    Where its code raised nothing, but returned what cannot be, the place is where that method begins.
    """
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    method = "propensity" if str(error).startswith("propensity returned") else "select_action"
    code = getattr(getattr(cls, method, None), "__code__", None)
    began = f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else Path(source_file(cls)).name
    place = user_place(error, source_file(cls)) or began
    return PolicyFailure("", seed, step, reason, place, traceback.format_exc())


def _empty(n: int) -> tuple[IntArray, FloatArray, FloatArray]:
    return np.zeros(n, np.int64), np.zeros(n), np.full(n, np.nan)
