"""What a policy has learned after so many visits of visitors who come back: the exact worth of its best actions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from studies.cache import kept_rows
from studies.shop_worth import shop_worth
from studies.simulated_worth import simulated_worth
from studies.work import rows_by_task
from zoosim.arena.compiled import runs_compiled
from zoosim.arena.compiled_lives import CompiledLives, LifeRows
from zoosim.core.rng import stream
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.base import Policy
from zoosim.policies.registry import make_entry
from zoosim.policies.sessions.base import LookAheadPolicy
from zoosim.policies.sessions.planner import Planner
from zoosim.policies.sessions.qmdp import QMDP
from zoosim.worlds.base import World
from zoosim.worlds.episodes import feedback_of
from zoosim.worlds.sessions.states import all_observations, policy_table
from zoosim.worlds.sessions.world import Sessions

CHECKPOINTS = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
"""Visits after which what was learned is looked at, up to those of a run."""

STATE, SHOP = "state", "shop"
"""What learners see of a visitor by default, and what a shop does."""

VISITORS_PER_VISIT = 0.4
"""Visitors that are planned for a visit: about so many come for the first time while a policy learns."""


@dataclass(frozen=True)
class Learner:
    """A policy by name with parameters, under the name that pages give it."""

    name: str
    policy: str
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Learned:
    """What a learner had reached after so many visits, in % of the optimum.

    `percent` is the worth of its best actions, without exploring and without learning more: exact where it sees the
    state or what a shop does, else simulated (see `simulated_worth`); `online` what visitors brought since the
    checkpoint before, exploration included. `believed` is what the learner expects of a new visitor, None for one that
    expects nothing or sees no state.
    """

    learner: str
    seed: int
    visits: int
    percent: float
    online: float
    believed: float | None


def measure_curves(
    learners: Sequence[Learner], visits: int, *, seeds: Any, jobs: Any, progress: Progress, observe: str = STATE
) -> list[Learned]:
    """Return what each learner reaches in a run of so many visits, for each seed; kept on disk.

    Args:
        learners: Who learns.
        visits: Visits of a run.
        seeds: Such as "1000:1008".
        jobs: Processes; None for one per core.
        progress: Called with a line for each run that is done.
        observe: What learners see of a visitor: see `SessionConfig`.
    """
    tasks = [(learner, seed) for learner in learners for seed in parse_seeds(seeds)]
    return rows_by_task(partial(_kept_curve, visits, observe), tasks, jobs=jobs, words=_words, progress=progress)


def _words(task: tuple[Learner, int]) -> str:
    return f"{task[0].name}, seed {task[1]}"


def _kept_curve(visits: int, observe: str, task: tuple[Learner, int]) -> list[Learned]:
    learner, seed = task
    entry = make_entry(learner.policy, params=dict(learner.params))
    key = (entry.fingerprint, learner.name, sorted(learner.params.items()), seed, visits, observe, CHECKPOINTS)
    return kept_rows("session-curves", key, Learned, partial(learning_curve, learner, seed, visits, observe))


def learning_curve(learner: Learner, seed: int, visits: int, observe: str = STATE) -> list[Learned]:
    """Return what a learner has reached at each checkpoint of a run of so many visits.

    Schedules of the learner are those of a run of this length.

    Args:
        learner: Who learns.
        seed: Seed of the visitors, and of the policy.
        visits: Visits of the run.
        observe: What it sees of a visitor: see `SessionConfig`.
    """
    world = Sessions(seed, visits, observe=observe)
    run = LearningRun(learner, world, visits)
    truth = world.truth_of(0)
    optimum = truth.value(truth.optimum)
    rows = []
    for checkpoint in (*(mark for mark in CHECKPOINTS if mark < visits), visits):
        online = run.go_on(checkpoint)
        worth = _worth(world, run.policy)
        believed = believed_worth(world, run.policy) if observe == STATE else None
        in_percent = 100.0 / optimum
        rows.append(
            Learned(
                learner.name,
                seed,
                checkpoint,
                percent=in_percent * worth,
                online=in_percent * online,
                believed=None if believed is None else in_percent * believed,
            )
        )
    return rows


def _worth(world: Sessions, policy: Policy) -> float:
    """Return what it is worth to show what a policy takes for best, in clicks of a new visitor."""
    observe = world.config.observe
    # QMDP keeps a record of each visitor, and is no table over what is observed.
    if isinstance(policy, QMDP):
        return simulated_worth(world, policy).clicks
    if observe == STATE:
        return best_worth(world, policy)
    if observe == SHOP:
        return shop_worth(world.truth_of(0), partial(best_actions, world, policy))
    return simulated_worth(world, policy).clicks


class LearningRun:
    """A learner that meets the visitors of a world, one after another."""

    def __init__(self, learner: Learner, world: World, visits: int) -> None:
        """Make the policy.

        Args:
            learner: Who learns.
            world: Whose visitors it meets. Its seed is that of the policy, too.
            visits: Visits of the whole run, for which the learner's schedules are made.
        """
        planned = max(1, int(VISITORS_PER_VISIT * visits))
        entry = make_entry(learner.policy, params=dict(learner.params))
        self.policy = entry.make(world.spec(planned), stream(world.seed, "policy", learner.policy), None)
        self._meet = _meeting(world, self.policy)
        self.visitors = 0
        self.visits = 0

    def go_on(self, visits: int, *, last: int = 2**62) -> float:
        """Serve visitors until they have made so many visits in all; return the clicks per visitor meanwhile.

        Args:
            visits: How many.
            last: All come before this number, even if they make fewer visits.
        """
        first = self.visitors
        clicks = 0.0
        while self.visits < visits and self.visitors < last:
            # A visitor makes three visits or so: a sixth of what is missing in visitors does not overshoot by much.
            some = min(max(1, (visits - self.visits) // 6), 5_000)
            clicks += self.meet(min(self.visitors + some, last))
        return clicks / max(1, self.visitors - first)

    def meet(self, visitor: int) -> float:
        """Serve all visitors before number `visitor`; return the clicks that they brought."""
        if visitor <= self.visitors:
            return 0.0
        met = self._meet(self.visitors, visitor)
        self.visitors = visitor
        self.visits += met.visits
        return met.clicks


class Met(NamedTuple):
    """The visits and the clicks of some visitors."""

    visits: int
    clicks: float


def _meeting(world: World, policy: Policy) -> Callable[[int, int], Met]:
    """Return what lets a policy meet visitors `start` to `stop - 1`, compiled where that can be."""
    compiled = world.as_compiled()
    if compiled is None or not runs_compiled(type(policy)):
        return partial(_meet_one_by_one, world, policy)
    lives = CompiledLives(world, compiled, policy, judged=False)

    def meet(start: int, stop: int) -> Met:
        rows = lives.play(start, stop)
        return Met(count_visits(rows), float(rows.rewards.sum()))

    return meet


def _meet_one_by_one(world: World, policy: Policy, start: int, stop: int) -> Met:
    """Serve visitors decision by decision; the policy is taught at once."""
    visits = 0
    clicks = 0.0
    for visitor in range(start, stop):
        visit: Any = world.arrive(visitor)
        context = world.context(visit)
        while visit is not None:
            action = policy.select_action(context)
            outcome = world.serve(visit, action)
            visit = outcome.next.visit if outcome.next else None
            following = world.context(visit) if outcome.next else None
            feedback: Any = feedback_of(world, outcome)
            policy.update(context, action, outcome.reward, feedback, following)
            clicks += outcome.reward
            visits += feedback["visit_ended"] or feedback["censored"]
            if following is not None:
                context = following
            if outcome.censored:
                break
    return Met(visits, clicks)


def count_visits(rows: LifeRows) -> int:
    """Return how many visits began in decisions of visitors, one after another."""
    is_first = np.r_[True, (np.diff(rows.visitors) != 0) | (np.diff(rows.visits) != 0)]
    return int(is_first.sum())


def best_worth(world: Sessions, policy: Policy, visitor: int = 0) -> float:
    """Return what it is worth to show what a policy takes for best, in clicks of a new visitor; exact.

    Args:
        world: The shop.
        policy: Who is asked. It observes the whole state.
        visitor: Number of the visitor whose laws count.
    """
    truth = world.truth_of(visitor)
    return truth.value(policy_table(truth.laws, partial(best_actions, world, policy)))


def believed_worth(world: Sessions, policy: Policy) -> float | None:
    """Return what a policy expects of a new visitor, in clicks; None where it expects nothing."""
    if not isinstance(policy, LookAheadPolicy | Planner):
        return None
    truth = world.truth_of(0)
    arrivals = all_observations(truth.laws)[:, truth.start]
    values = [policy.action_values(request).max() for request in _requests(world, arrivals)]
    return float(np.average(values, weights=truth.laws.shares))


def best_actions(world: Sessions, policy: Policy, observations: FloatArray, there: BoolArray | None = None) -> IntArray:
    """Return what a policy takes for best at each of the `observations (n, features)`, as products `(n,)`.

    Args:
        world: The shop, whose products are one of each kind where some are sold out.
        policy: Who is asked.
        observations: What it sees.
        there: Which products are there, `(n, K)`; all by default.
    """
    return np.array([policy.recommend(request) for request in _requests(world, observations, there)])


def _requests(world: Sessions, observations: FloatArray, there: BoolArray | None = None) -> Iterator[Context]:
    """Yield a request with each of the `observations (n, features)`, of products that are `there (n, K)` or of all."""
    products = world.all_products()
    offer = {"product_ids": products.ids, "products": products.features}
    if there is None:
        there = np.broadcast_to(np.ones(len(products.ids), bool), (len(observations), len(products.ids)))
    for user, available in zip(observations, there, strict=True):
        yield Context(user_id=0, user=user, **offer, available=available)


def learned_by(rows: Sequence[Learned], learner: str, visits: int) -> list[float]:
    """Return what a learner had reached after so many visits, by seed."""
    here = {row.seed: row.percent for row in rows if (row.learner, row.visits) == (learner, visits)}
    return [here[seed] for seed in sorted(here)]
