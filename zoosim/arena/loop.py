"""The loop that all worlds and policies share: a visitor comes, a policy chooses, the reward is learned from."""

import inspect
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoosim.arena.actions import ACTION_SPACES, ActionRules
from zoosim.core.blame import source_file, user_place
from zoosim.core.errors import ActionError, PolicyFailure, WorldError
from zoosim.core.feedback import AT_ONCE, Feedback
from zoosim.core.jit import bind, jit
from zoosim.core.rng import uniform
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.kernel import Draws, Kernel, KernelPolicy, floored_choice, floored_distribution
from zoosim.worlds.base import Outcome, Truth, World
from zoosim.worlds.table import TableWorld, Visits, chosen_and_best, earn

BLOCK = 1_000
"""Visits that are reported together, at most."""

# `compiled_play` and `compiled_learn` put each kernel's own functions in the place of these.
choose: Any = None
distribution: Any = None
decided: Any = None
learn: Any = None


class Block(NamedTuple):
    """What happened in visits `start` to `start + n - 1`, each array `(n,)`, boosts `(n, d)`.

    Propensities are NaN unless asked for; `parts` is what rewards are made of, by name; `segments` are the numbers of
    the visitors' segments, where the world tells; `contexts` are there where they were asked for and arrays do not say.
    """

    start: int
    user_ids: IntArray
    actions: Any
    rewards: FloatArray
    propensities: FloatArray
    expected_rewards: FloatArray
    best_rewards: FloatArray
    parts: Mapping[str, FloatArray] = {}
    segments: IntArray | None = None
    contexts: tuple[Context, ...] = ()


class History(NamedTuple):
    """What was done so far in a run of n visits, each array `(n,)`: what late rewards are learned from."""

    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray


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
    if table is not None and _runs_compiled(type(policy)):
        yield from _play_compiled(table, policy, steps, feedback, logged)
    else:
        yield from _play_visits(world, policy, steps, feedback, logged, judged)


def _runs_compiled(cls: type[Policy]) -> bool:
    """Whether a class leaves all that a run asks of it to a kernel."""
    methods = ("select_action", "update", "propensities")
    return issubclass(cls, KernelPolicy) and all(getattr(cls, m) is getattr(KernelPolicy, m) for m in methods)


def _play_compiled(world: TableWorld, policy: Any, steps: int, feedback: Feedback, logged: bool) -> Iterator[Block]:
    """Run a kernel over the arrays of a world, section by section."""
    compiled = compiled_play(policy.kernel, logged)
    history = History(np.zeros(steps, np.int64), np.zeros(steps), np.full(steps, np.nan))
    learned = 0
    for start, stop in _sections(world, steps, feedback):
        visits = world.visits(start, stop)
        offer = world.offered(start)
        interleaved = feedback.batch == 1 and start >= feedback.delay
        earlier = slice(start - feedback.delay, stop - feedback.delay) if interleaved else slice(start, stop)
        past = world.visits(earlier.start, earlier.stop)
        before = world.offered(past.start)
        policy.attach_block(before.ids, before.products, stop - start)
        now = policy.attach_block(offer.ids, offer.products, stop - start)
        then = policy.attach_block(before.ids, before.products, stop - start)  # now may have brought new categories
        columns = (column[start:stop] for column in history)
        arguments = (policy.state, now, then, policy.draws, visits, past, policy.floor, interleaved)
        compiled(*arguments, *columns, history.actions[earlier], history.rewards[earlier])
        if feedback.batch > 1 and stop % feedback.batch == 0:
            _learn_late(world, policy, history, learned, stop - feedback.delay)
            learned = max(learned, stop - feedback.delay)
        policy.heed()
        rows = (history.actions[start:stop], history.rewards[start:stop], history.propensities[start:stop])
        yield _table_block(world, visits, *rows)


def _table_block(
    world: TableWorld, visits: Visits, actions: IntArray, rewards: FloatArray, propensities: FloatArray
) -> Block:
    """Return a block of visits to a table with what it says of them."""
    expected, best = chosen_and_best(visits, actions)
    parts = {name: part[visits.visitors, actions] for name, part in world.parts.items()}
    segments = world.segments[visits.visitors] if world.parts else None
    return Block(visits.start, visits.user_ids, actions, rewards, propensities, expected, best, parts, segments)


def _sections(world: World, steps: int, feedback: Feedback) -> Iterator[tuple[int, int]]:
    """Cut a run into sections (start, stop) of at most `BLOCK` visits.

    In each of them what a table says stays the same, and so it did when the visits came that are learned from.
    """
    table = world.as_table()
    changes = [] if table is None else [period.start for period in table.periods]
    marks = {0, steps, *changes, *(change + feedback.delay for change in changes)}
    if feedback.batch > 1:
        marks |= set(range(0, steps, feedback.batch))
    marks |= set(range(0, steps, BLOCK))
    ordered = sorted(mark for mark in marks if mark <= steps)
    yield from pairwise(ordered)


def _learn_late(world: TableWorld, policy: Any, history: History, start: int, stop: int) -> None:
    """Learn from visits `start` to `stop - 1`, whose rewards have come together."""
    changes = [period.start for period in world.periods if start < period.start < stop]
    borders = [start, *changes, stop]
    for first, behind in pairwise(borders):
        if first < behind:
            offer = world.offered(first)
            candidates = policy.attach_block(offer.ids, offer.products, behind - first)
            visits = world.visits(first, behind)
            actions, rewards = history.actions[first:behind], history.rewards[first:behind]
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


class _BlockRows:
    """The rows of a block of visits, as they come."""

    def __init__(self, space: ActionRules, spec: PolicySpec, start: int, n: int) -> None:
        self.start = start
        self.count = 0
        self.contexts: list[Context] = []
        self.actions = space.empty(n, spec)
        self.user_ids = np.zeros(n, np.int64)
        self.rewards = np.zeros(n)
        self.propensities = np.full(n, np.nan)
        self.expected = np.zeros(n)
        self.best = np.zeros(n)
        self.parts: dict[str, FloatArray] = {}
        self.segments: IntArray | None = None

    def add(self, context: Context, action: Any, propensity: float, outcome: Outcome, truth: Truth) -> None:
        """Take in what came of a visit."""
        row = self.count
        self.contexts.append(context)
        self.actions[row] = action
        self.user_ids[row] = context["user_id"]
        self.rewards[row] = outcome.reward
        self.propensities[row] = propensity
        self.expected[row] = truth.expected_reward(action)
        self.best[row] = truth.best_reward
        for name, value in outcome.parts.items():
            if name not in self.parts:
                self.parts[name] = np.zeros(len(self.rewards))
            self.parts[name][row] = value
        if outcome.segment is not None:
            if self.segments is None:
                self.segments = np.zeros(len(self.rewards), np.int64)
            self.segments[row] = outcome.segment
        self.count += 1

    def block(self, logged: bool) -> Block:
        """Return the rows; with their contexts, if they are `logged`."""
        truths = (self.expected, self.best)
        contexts = tuple(self.contexts) if logged else ()
        rows = (self.start, self.user_ids, self.actions, self.rewards, self.propensities, *truths)
        return Block(*rows, self.parts, self.segments, contexts)


def _takes_feedback(policy: Policy) -> bool:
    """Whether `update` takes more than a context, an action and a reward; the shortest policies leave the rest out."""
    parameters = inspect.signature(policy.update).parameters.values()
    return len(parameters) > 3 or any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)


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
    waiting = deque[_Served]()
    space = ACTION_SPACES[world.action_space]
    spec = world.spec(steps)
    takes_feedback = _takes_feedback(policy)
    for start, stop in _sections(world, steps, AT_ONCE):
        rows = _BlockRows(space, spec, start, stop - start)
        for step in range(start, stop):
            with _blaming_the_world(world, step):
                visit = world.arrive(step)
                context = world.context(visit)
            try:
                if logged:
                    action, propensity = space.choose(policy, context, spec)
                else:
                    action, propensity = space.checked(policy.select_action(context), context, spec), np.nan
                with _blaming_the_world(world, step):
                    outcome = world.serve(visit, action)
                    truth = world.truth(visit) if judged else UNKNOWN
                    rows.add(context, action, propensity, outcome, truth)
                waiting.append(_Served(step, context, action, float(outcome.reward), outcome.feedback))
                if (step + 1) % feedback.batch == 0:
                    while waiting and waiting[0].step <= step - feedback.delay:
                        served = waiting.popleft()
                        told = (served.feedback,) if takes_feedback else ()
                        policy.update(served.context, served.action, served.reward, *told)
            except WorldError:
                raise
            except (Exception, SystemExit) as error:
                raise failure(world.seed, step, error, type(policy)) from error
        yield rows.block(logged)


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
