"""The fast path of the loop: a policy's kernel and a table of rewards, compiled into one run through arrays."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from zoosim.arena.block import Block, sections
from zoosim.core.feedback import FeedbackTiming
from zoosim.core.jit import bind, jit
from zoosim.core.rng import uniform
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.policies.base import Policy
from zoosim.policies.kernel import DecisionDraws, Kernel, KernelPolicy, floored_choice, floored_distribution
from zoosim.worlds.table import TableWorld, VisitBatch, earn

# `compiled_play` puts each kernel's own functions in the place of these.
choose: Any = None
distribution: Any = None
decided: Any = None
learn: Any = None


class DecisionHistory(NamedTuple):
    """The decisions so far in a run of n visits, each array `(n,)`, from which late rewards are learned."""

    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray


def runs_compiled(cls: type[Policy]) -> bool:
    """Return whether a class leaves all that a run asks of it to a kernel."""
    methods = ("select_action", "update", "propensities")
    return issubclass(cls, KernelPolicy) and all(getattr(cls, m) is getattr(KernelPolicy, m) for m in methods)


def play_compiled(
    world: TableWorld, policy: Any, steps: int, feedback: FeedbackTiming, logged: bool
) -> Iterator[Block]:
    """Run a kernel over the arrays of a world, section by section."""
    compiled = compiled_play(policy.kernel, logged)
    # Of the whole run, not of a section: a late reward is learned from what was decided many sections ago.
    history = DecisionHistory(np.zeros(steps, np.int64), np.zeros(steps), np.full(steps, np.nan))
    learned = 0
    for start, stop in sections(world, steps, feedback):
        visits = world.visits(start, stop)
        offer = world.offered(start)
        # A section lies before visit `delay` or behind it as a whole, since that is one of the borders.
        interleaved = feedback.batch == 1 and start >= feedback.delay
        block = slice(start, stop)
        earlier = slice(start - feedback.delay, stop - feedback.delay) if interleaved else block
        past = world.visits(earlier.start, earlier.stop)
        before = world.offered(past.start)
        policy.attach_block(before.ids, before.products, stop - start)
        now = policy.attach_block(offer.ids, offer.products, stop - start)
        then = policy.attach_block(before.ids, before.products, stop - start)  # now may have brought new categories
        rows = DecisionHistory(history.actions[block], history.rewards[block], history.propensities[block])
        arguments = (policy.state, now, then, policy.draws, visits, past, policy.floor, interleaved)
        compiled(*arguments, *rows, history.actions[earlier], history.rewards[earlier])
        if feedback.batch > 1 and stop % feedback.batch == 0:
            _learn_late(world, policy, history, learned, stop - feedback.delay)
            learned = max(learned, stop - feedback.delay)
        policy.heed()
        yield _table_block(world, visits, rows)


def _table_block(world: TableWorld, visits: VisitBatch, rows: DecisionHistory) -> Block:
    """Return a block of visits to a table with what it says of them."""
    expected, best = world.chosen_and_best(visits, rows.actions)
    parts = {name: part[visits.visitors, rows.actions] for name, part in world.parts.items()}
    segments = world.segments[visits.visitors] if world.parts else None
    return Block(visits.start, visits.user_ids, *rows, expected, best, parts, segments)


def _learn_late(world: TableWorld, policy: Any, history: DecisionHistory, start: int, stop: int) -> None:
    """Learn from visits `start` to `stop - 1`, whose rewards have come together."""
    # Rewards that come together may be of visits to different offers: each part is learned with the candidates of its
    # time.
    changes = [period.start for period in world.periods if start < period.start < stop]
    borders = [start, *changes, stop]
    for first, behind in pairwise(borders):
        if first < behind:
            offer = world.offered(first)
            candidates = policy.attach_block(offer.ids, offer.products, behind - first)
            visits = world.visits(first, behind)
            block = slice(first, behind)
            users = visits.users[visits.visitors]
            policy.teach(candidates, visits.user_ids, users, history.actions[block], history.rewards[block])


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
    draws: DecisionDraws,
    visits: VisitBatch,
    past: VisitBatch,
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
        user_id = visits.user_ids[i]
        user = visits.users[visits.visitors[i]]
        draws.decisions[0] += 1
        # The number of the draw is that of `DrawingPolicy._next_draw`: both ways decide the same.
        draw = uniform(draws.key[0], draws.decisions[0], 0)
        action = choose(state, now, user_id, user, available, floor, draw)
        # Before `decided`, which may move the state that the choice was made from.
        propensities[i] = chance_of(state, now, user_id, user, available, floor, action)
        decided(state, now, user_id, user, available, action)
        actions[i] = action
        rewards[i] = earn(visits, i, action)
        if learns:
            past_user = past.users[past.visitors[i]]
            learn(state, then, past.user_ids[i], past_user, past_actions[i], past_rewards[i])
