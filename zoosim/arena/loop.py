"""Let a policy meet the visitors of a world: blocks of plain arrays, one after another."""

import traceback
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.blame import source_file, user_place
from zoosim.core.errors import PolicyFailure
from zoosim.core.feedback import AT_ONCE, Feedback
from zoosim.core.jit import bind, jit
from zoosim.core.rng import uniform
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray
from zoosim.policies.base import Policy
from zoosim.policies.kernel import Draws, Kernel, KernelPolicy, floored_choice, floored_distribution
from zoosim.worlds.truth import chosen_and_best
from zoosim.worlds.world import Visits, World, earn

BLOCK = 1_000

# `compiled_play` and `compiled_learn` put each kernel's own functions in the place of these.
choose: Any = None
distribution: Any = None
decided: Any = None
learn: Any = None


class Block(NamedTuple):
    """What happened in visits `start` to `start + n - 1`, each array `(n,)`; propensities are NaN unless asked for."""

    start: int
    user_ids: IntArray
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    true_probabilities: FloatArray
    best_probabilities: FloatArray


class Course(NamedTuple):
    """What was done so far in a run of n visits, each array `(n,)`: what late rewards are learned from."""

    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray


def play(
    world: World, policy: Policy, steps: int, *, feedback: Feedback = AT_ONCE, logged: bool = False
) -> Iterator[Block]:
    """Let a policy decide visits 0 to `steps - 1`, and learn from each when its reward arrives.

    A policy that decides and learns by its kernel is run compiled; any other is asked one context at a time. Both give
    the same rows.

    Args:
        world: Who comes, and what each choice earns.
        policy: Decides and learns.
        steps: Number of visits.
        feedback: When rewards arrive; those of the last visits never do.
        logged: Whether propensities are computed; of policies that sample they cost more than the decisions.

    Raises:
        PolicyFailure: the policy raised an error, or returned what cannot be.
    """
    course = Course(np.zeros(steps, np.int64), np.zeros(steps), np.full(steps, np.nan))
    run = _run_kernel if _runs_compiled(type(policy)) else _run_contexts
    for visits in run(world, policy, course, feedback, logged):
        part = slice(visits.start, visits.start + len(visits.visitors))
        truths = chosen_and_best(visits, course.actions[part])
        actions, rewards, propensities = course.actions[part], course.rewards[part], course.propensities[part]
        yield Block(visits.start, visits.user_ids, actions, rewards, propensities, *truths)


def _runs_compiled(cls: type[Policy]) -> bool:
    """Whether a class leaves all that a run asks of it to a kernel."""
    methods = ("select_action", "update", "propensities")
    return issubclass(cls, KernelPolicy) and all(getattr(cls, m) is getattr(KernelPolicy, m) for m in methods)


def _run_kernel(world: World, policy: Any, course: Course, feedback: Feedback, logged: bool) -> Iterator[Visits]:
    compiled = compiled_play(policy.kernel, logged)
    learned = 0
    for start, stop in _sections(world, len(course.actions), feedback):
        visits = world.visits(start, stop)
        offer = world.offered(start)
        interleaved = feedback.batch == 1 and start >= feedback.delay
        earlier = slice(start - feedback.delay, stop - feedback.delay) if interleaved else slice(start, stop)
        past = world.visits(earlier.start, earlier.stop)
        before = world.offered(past.start)
        policy.attach_block(before.ids, before.products, stop - start)
        now = policy.attach_block(offer.ids, offer.products, stop - start)
        then = policy.attach_block(before.ids, before.products, stop - start)  # now may have brought new categories
        columns = (column[start:stop] for column in course)
        arguments = (policy.state, now, then, policy.draws, visits, past, policy.floor, interleaved)
        compiled(*arguments, *columns, course.actions[earlier], course.rewards[earlier])
        if feedback.batch > 1 and stop % feedback.batch == 0:
            _learn_late(world, policy, course, learned, stop - feedback.delay)
            learned = max(learned, stop - feedback.delay)
        policy.heed()
        yield visits


def _sections(world: World, steps: int, feedback: Feedback) -> Iterator[tuple[int, int]]:
    """Cut a run into sections (start, stop) of at most `BLOCK` visits.

    In each of them what may be shown stays the same, and so it did when the visits came that are learned from.
    """
    changes = [stretch.start for stretch in world.stretches]
    marks = {0, steps, *changes, *(change + feedback.delay for change in changes)}
    if feedback.batch > 1:
        marks |= set(range(0, steps, feedback.batch))
    marks |= set(range(0, steps, BLOCK))
    ordered = sorted(mark for mark in marks if mark <= steps)
    yield from pairwise(ordered)


def _learn_late(world: World, policy: Any, course: Course, start: int, stop: int) -> None:
    """Learn from visits `start` to `stop - 1`, whose rewards have come together."""
    changes = [stretch.start for stretch in world.stretches if start < stretch.start < stop]
    borders = [start, *changes, stop]
    for first, behind in pairwise(borders):
        if first < behind:
            offer = world.offered(first)
            candidates = policy.attach_block(offer.ids, offer.products, behind - first)
            visits = world.visits(first, behind)
            actions, rewards = course.actions[first:behind], course.rewards[first:behind]
            compiled_learn(policy.kernel)(policy.state, candidates, visits, actions, rewards)


@cache
def compiled_play(kernel: Kernel, logged: bool) -> Callable[..., None]:
    """Compile the loop over visits around a policy's kernel; the distribution takes part only where it is `logged`."""
    functions: dict[str, Callable[..., Any]] = {
        "choose": floored_choice(kernel),
        "decided": kernel.decided,
        "learn": kernel.learn,
    }
    if logged:
        functions["chance_of"] = bind(_chance_of, f"chance_{kernel.name}", distribution=floored_distribution(kernel))
    return bind(_play, f"play_{kernel.name}{'_logged' if logged else ''}", **functions)


def _chance_of(
    state: Any,
    candidates: Any,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    floor: float,
    action: int,
) -> float:
    """Return the probability of an action."""
    chances = np.zeros(available.shape[0])
    distribution(state, candidates, user_id, user, available, floor, chances)
    chance: float = chances[action]
    return chance


@jit
def chance_of(
    state: Any,
    candidates: Any,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    floor: float,
    action: int,
) -> float:
    """Return NaN: what stands for the probability of an action where nobody asked for it."""
    return np.nan


def _play(
    state: Any,
    now: Any,
    then: Any,
    draws: Draws,
    visits: Visits,
    past: Visits,
    floor: float,
    learns: bool,
    actions: IntArray,
    rewards: FloatArray,
    propensities: FloatArray,
    past_actions: IntArray,
    past_rewards: FloatArray,
) -> None:
    """Decide `visits`, and learn after each one from the same place of the `past` ones.

    The candidates are `now` those of the decision, and `then` those of the past visit. Without delay both are the same
    visits, whose actions and rewards are written here just before they are read.
    """
    available = visits.available
    for i in range(actions.shape[0]):
        user_id, user = visits.user_ids[i], visits.users[visits.visitors[i]]
        draws.decisions[0] += 1
        draw = uniform(draws.key[0], draws.decisions[0], 0)
        action = choose(state, now, user_id, user, available, floor, draw)
        propensities[i] = chance_of(state, now, user_id, user, available, floor, action)
        decided(state, now, user_id, user, action)
        actions[i] = action
        rewards[i] = earn(visits, i, action)
        if learns:
            past_user = past.users[past.visitors[i]]
            learn(state, then, past.user_ids[i], past_user, past_actions[i], past_rewards[i])


@cache
def compiled_learn(kernel: Kernel) -> Callable[..., None]:
    """Compile the loop that learns from a batch of visits."""
    return bind(_learn_batch, f"learn_{kernel.name}", learn=kernel.learn)


def _learn_batch(state: Any, candidates: Any, visits: Visits, actions: IntArray, rewards: FloatArray) -> None:
    for i in range(actions.shape[0]):
        learn(state, candidates, visits.user_ids[i], visits.users[visits.visitors[i]], actions[i], rewards[i])


def _run_contexts(world: World, policy: Policy, course: Course, feedback: Feedback, logged: bool) -> Iterator[Visits]:
    steps = len(course.actions)
    draws = type(policy).propensities is not Policy.propensities
    waiting = deque[tuple[int, Context, int]]()
    for visits in world.blocks(steps, BLOCK):
        for i, (visitor, user_id) in enumerate(zip(visits.visitors, visits.user_ids, strict=True)):
            step = visits.start + i
            context = world.context(int(visitor), step, int(user_id))
            try:
                if logged and draws:
                    chances = check_propensities(policy.propensities(context), visits.available)
                action = check_action(policy.select_action(context), visits.available)
                if logged:
                    course.propensities[step] = check_chosen(chances, action) if draws else 1.0
                course.actions[step] = action
                course.rewards[step] = earn(visits, i, action)
                waiting.append((step, context, action))
                if (step + 1) % feedback.batch == 0:
                    while waiting and waiting[0][0] <= step - feedback.delay:
                        earlier, before, chosen = waiting.popleft()
                        policy.update(before, chosen, float(course.rewards[earlier]))
            except (Exception, SystemExit) as error:
                raise failure(world.seed, step, error, type(policy)) from error
        yield visits


def check_action(action: Any, available: np.ndarray) -> int:
    """Return a policy's action as an index of an available product, or raise `ValueError`."""
    if isinstance(action, bool) or not isinstance(action, int | np.integer):
        raise ValueError(f"select_action returned {action!r}, expected an integer from 0 to {len(available) - 1}")
    if not 0 <= action < len(available):
        raise ValueError(f"select_action returned {int(action)}, expected 0 to {len(available) - 1}")
    if not available[action]:
        raise ValueError(f"select_action returned {int(action)}, which is not available (see context.available)")
    return int(action)


def check_propensities(value: Any, available: np.ndarray) -> FloatArray:
    """Return a policy's propensities `(K,)`, or raise `ValueError`: they are probabilities of what is available."""
    chances = np.asarray(value, np.float64)
    if chances.shape != available.shape:
        raise ValueError(f"propensities returned shape {chances.shape}, expected {available.shape}")
    if not ((chances >= 0) & (chances <= 1 + 1e-9)).all():
        raise ValueError("propensities returned a number outside [0, 1]")
    if abs(chances.sum() - 1) > 1e-9:
        raise ValueError(f"propensities add up to {chances.sum():.10g}, expected 1")
    if chances[~available].any():
        raise ValueError("propensities give a product a chance that is not available (see context.available)")
    return chances


def check_chosen(chances: FloatArray, action: int) -> float:
    """Return the propensity of the chosen action, or raise `ValueError` where it is 0."""
    if not chances[action] > 0:
        raise ValueError(f"propensities give 0 to {action}, which select_action then chose")
    return float(chances[action])


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
