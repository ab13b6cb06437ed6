"""Let policies serve visits to search shops, and score what they would recommend on held-out visits.

The score at a visit number is what the boosts, or the template, that a policy recommends would earn in expectation, on
visits that no policy plays and nothing was fitted to, the same for all policies. Its measure is the best vector for
each segment (`zoosim.worlds.search.optimum`) on the same visits.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.action_space import ActionSpace
from zoosim.core.array_cache import kept
from zoosim.core.errors import ConfigError
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, IntArray
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.boosts.base import BoostSpec
from zoosim.policies.registry import PolicyEntry
from zoosim.policies.templates.bandits import TemplateBandit
from zoosim.worlds.search.boosts import BoostWorld, SearchView
from zoosim.worlds.search.expected_reward import groups_of
from zoosim.worlds.search.optimum import best_of_group, strata_of
from zoosim.worlds.search.shop import SearchShop, Visit
from zoosim.worlds.search.tables import digest, read_search_config
from zoosim.worlds.search.template_arms import TemplateWorld
from zoosim.worlds.search.truth import SearchTruth
from zoosim.worlds.search.world import build_search_world

EXAM = 2**43
"""The first of the visits that recommendations are scored on: no run, and no search for an optimum, gets to them."""

CHECKPOINTS = (30, 100, 300, 1_000, 3_000, 10_000)
"""After how many visits recommendations are scored."""

EARLY = (30, 300)
"""What is earned online is counted from visit 31 to visit 300."""

WARM = 5
"""The first visits are not timed: what runs for the first time is compiled."""

EXAM_VISITS, MOODS = 200, 8
"""How many visits of each segment recommendations are scored on, and in how many moods each."""


class Exam(NamedTuple):
    """Visits apart, by segment: `names`, `shares (S,)`, and `visits`, the same number of each of the S segments.

    `bars (S, n)` is what the segments' best vectors come to at each.
    """

    names: tuple[str, ...]
    shares: FloatArray
    visits: tuple[tuple[Visit, ...], ...]
    bars: FloatArray


@dataclass(frozen=True)
class BoostScore:
    """What a policy's recommendations earn after a number of `visits`, in EUR a visit of a `segment`, or of "all".

    `optimum` is what the best vector of each segment earns at the same visits, and `error` the standard error of
    `reward - optimum`.
    """

    policy: str
    seed: int
    visits: int
    segment: str
    reward: float
    optimum: float
    error: float


@dataclass(frozen=True)
class BoostCourse:
    """How a policy went through the visits of a seed.

    `earned` is the expected reward of what it chose at visits 31 to 300, in units of what the best vectors of the
    segments earn at these; `decision_ms` and `learning_ms` are milliseconds of processor time a visit.
    """

    policy: str
    seed: int
    scores: tuple[BoostScore, ...]
    earned: float
    decision_ms: float
    learning_ms: float


def open_shop(config: SearchConfig | dict[str, Any], seed: int) -> SearchShop:
    """Return the shop of a seed; raises `ConfigError` for one whose market shifts, where there is no one optimum."""
    read = read_search_config(config)
    if read.shifts:
        raise ConfigError("config.shifts: boost policies are scored against one optimum; leave shifts out")
    return SearchShop(build_search_world(read, seed=seed))


def spec_of(shop: SearchShop, steps: int) -> BoostSpec:
    """Return what a boost policy is told about a shop."""
    return BoostWorld(shop).spec(steps)


def view_of(shop: SearchShop, cls: type[Policy], params: Mapping[str, Any]) -> SearchView:
    """Return a shop as policies of a class see it, and choose in it; raises `ConfigError` where they cannot."""
    if ActionSpace.BOOSTS in cls.chooses:
        return BoostWorld(shop)
    if not issubclass(cls, TemplateBandit):
        raise ConfigError(f"policy {policy_name(cls)}: chooses neither boosts nor, as a bandit, templates")
    seen = params["context"]
    if seen not in ("simple", shop.world.config.context):
        raise ConfigError(
            f"context: got a policy that sees {seen}, expected simple or the shop's {shop.world.config.context}"
        )
    config = shop.world.config.model_copy(update={"context": seen})
    return TemplateWorld(SearchShop(build_search_world(config, seed=shop.world.seed)))


def exam_of(shop: SearchShop, best: FloatArray, n: int = EXAM_VISITS) -> Exam:
    """Draw the visits apart of a shop: `n` of each segment that comes; `best (S, 10)` are the segments' best boosts."""
    (everybody,) = groups_of(shop, "all")
    strata = strata_of(shop, 0, everybody)
    visits = tuple(_first_of(shop, part.segment, n) for _, part in strata)
    bars = [[expected(shop, visit, boosts) for visit in part] for part, boosts in zip(visits, best, strict=True)]
    return Exam(
        tuple(part.name for _, part in strata), np.array([share for share, _ in strata]), visits, np.array(bars)
    )


def _first_of(shop: SearchShop, segment: int | None, n: int) -> tuple[Visit, ...]:
    found: list[int] = []
    start, step = EXAM, 1_000
    while len(found) < n:
        users = shop.world.queries(start, start + step).users
        found += (start + np.flatnonzero(shop.world.users.segment[users] == segment)).tolist()
        start += step
    return tuple(shop.arrive(visit) for visit in found[:n])


def expected(shop: SearchShop, visit: Visit, boosts: FloatArray, moods: int = MOODS) -> float:
    """Return what boosts `(10,)` come to at a visit, the mean over some moods."""
    return worth_of(shop, visit, shop.rank(visit, boosts), moods)


def worth_of(shop: SearchShop, visit: Visit, shown: IntArray, moods: int = MOODS) -> float:
    """Return what a ranking `shown (k,)` comes to at a visit, the mean over some moods."""
    return float(SearchTruth(shop).rewards(visit, shown, moods).mean())


def scores_of(world: SearchView, policy: Policy, exam: Exam, visits: int) -> Iterator[BoostScore]:
    """Score what a policy recommends now, for all visits and by segment."""

    def earned(visit: Visit) -> float:
        action = policy.recommend(world.context(visit))
        return worth_of(world.shop, visit, world.rank(visit, action))

    rewards = np.array([[earned(visit) for visit in part] for part in exam.visits])
    means, bars = rewards.mean(axis=1), exam.bars.mean(axis=1)
    errors = (rewards - exam.bars).std(axis=1, ddof=1) / np.sqrt(rewards.shape[1])
    who = policy_name(type(policy)), world.seed, visits
    shares = exam.shares
    yield BoostScore(*who, "all", float(shares @ means), float(shares @ bars), float(np.sqrt(shares**2 @ errors**2)))
    for n, name in enumerate(exam.names):
        yield BoostScore(*who, name, float(means[n]), float(bars[n]), float(errors[n]))


def play(world: SearchView, policy: Policy, checkpoints: Sequence[int], best: FloatArray) -> BoostCourse:
    """Let a policy serve visits 0 to the last of the `checkpoints`; `best (S, 10)` are the segments' best boosts."""
    shop = world.shop
    exam, scores = exam_of(shop, best, EXAM_VISITS), list[BoostScore]()
    spent, online = np.zeros(2), np.zeros(2)
    for step in range(max(checkpoints)):
        if step in checkpoints:
            scores += scores_of(world, policy, exam, step)
        visit = world.arrive(step)
        shown, spent_now = _serve(world, policy, visit)
        if EARLY[0] <= step < EARLY[1]:
            online += worth_of(shop, visit, shown), expected(shop, visit, best[_row(shop, visit.segment)])
        if step >= WARM:
            spent += spent_now
    scores += scores_of(world, policy, exam, max(checkpoints))
    served = max(1, max(checkpoints) - WARM)
    ms = (1_000.0 * spent / served).tolist()
    earned = float(online[0] / online[1]) if online[1] > 0.0 else float("nan")
    return BoostCourse(policy_name(type(policy)), world.seed, tuple(scores), earned, *ms)


def _row(shop: SearchShop, segment: int) -> int:
    """Return the row of a segment among those that come."""
    return [group.segment for group in groups_of(shop, "segment")].index(segment)


def _serve(world: SearchView, policy: Policy, visit: Visit) -> tuple[IntArray, FloatArray]:
    """Let a policy serve a visit and learn from it; returns its ranking, and seconds of deciding and of learning."""
    context = world.context(visit)
    start = process_time()
    action = policy.select_action(context)
    decided = process_time()
    shown = world.rank(visit, action)
    outcome = world.outcome(visit, world.shop.serve(visit, shown))
    served = process_time()
    policy.update(context, action, outcome.reward, outcome.feedback)
    return shown, np.array([decided - start, process_time() - served])


def run_course(
    entry: PolicyEntry, config: SearchConfig | dict[str, Any], seed: int, checkpoints: Sequence[int] = CHECKPOINTS
) -> BoostCourse:
    """Return the course of a policy in the shop of a seed; from disk where it has been played before.

    So many of them can be stopped anywhere, and go on. The first one in a shop searches the segments' best vectors
    (`best_of_group`), which takes minutes.
    """
    shop = open_shop(config, seed)
    key = (entry.name, entry.fingerprint, shop.world.config.model_dump_json(), digest(shop.world.config), seed)

    def make() -> dict[str, Any]:
        world = view_of(shop, entry.cls, entry.params)
        policy = entry.make(world.spec(max(checkpoints)), stream(seed, "policy", entry.name))
        (everybody,) = groups_of(shop, "all")
        best = np.array([best_of_group(shop, 0, part).boosts for _, part in strata_of(shop, 0, everybody)])
        return {"course": np.array(json.dumps(asdict(play(world, policy, checkpoints, best))))}

    places = (*key, tuple(checkpoints), EXAM_VISITS, MOODS)
    found = json.loads(str(kept("boost-runs", places, ("course",), make)["course"]))
    scores = tuple(BoostScore(**{**score, "policy": entry.name}) for score in found.pop("scores"))
    return BoostCourse(**{**found, "policy": entry.name, "scores": scores})


def frame_of(courses: Iterable[BoostCourse]) -> pl.DataFrame:
    """Return a row a course, checkpoint and segment: the fields of both records, and `share` of the optimum."""
    rows = [
        {**asdict(score), "share": score.reward / score.optimum}
        | {"earned": course.earned, "decision_ms": course.decision_ms, "learning_ms": course.learning_ms}
        for course in courses
        for score in course.scores
    ]
    return pl.DataFrame(rows)
