"""Learning curves of policies in search shops: serve visits, and score the recommendations on held-out visits.

A score at a visit number is the expected reward of the boosts, or of the template, that a policy recommends then, on
visits that no policy serves and nothing was fitted to, the same for all policies. The baseline is the best vector of
each segment (`zoosim.worlds.search.optimum`) on the same visits.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.action_space import BOOSTS
from zoosim.core.array_cache import kept
from zoosim.core.errors import ConfigError
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, IntArray
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.boosts.base import BoostSpec
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.policies.registry import PolicyEntry
from zoosim.policies.templates.bandits import TemplateBandit
from zoosim.worlds.search.boosts import BoostWorld, SearchView
from zoosim.worlds.search.expected_reward import groups_of
from zoosim.worlds.search.optimum import SearchBudget, Strata, best_of_group, strata_of
from zoosim.worlds.search.shop import SearchShop, SearchVisit
from zoosim.worlds.search.tables import digest, read_search_config
from zoosim.worlds.search.template_arms import TemplateWorld, with_library
from zoosim.worlds.search.truth import SearchTruth
from zoosim.worlds.search.world import build_search_world

HELD_OUT_START = 2**43
"""The first of the held-out visits: no run, and no search for an optimum, gets there."""

HELD_OUT_VISITS = 200
"""How many visits of each segment recommendations are scored on."""

REPLICATES = 8
"""How often each of them is drawn again to estimate an expected reward."""

CHECKPOINTS = (30, 100, 300, 1_000, 3_000, 10_000)
"""After how many visits recommendations are scored."""

EARLY = (30, 300)
"""What is earned online is counted from visit 31 to visit 300."""

NORMAL_95 = 1.96
"""95% of a normal distribution lie within so many standard deviations."""

WARM_UP = 5
"""The first visits are not timed: they compile."""


class HeldOut(NamedTuple):
    """Held-out visits, the same number n of each of the S segments: `names`, `shares (S,)`, `visits`.

    `baseline (S, n)` is the expected reward of the segments' best vectors at each visit, in EUR.
    """

    names: tuple[str, ...]
    shares: FloatArray
    visits: tuple[tuple[SearchVisit, ...], ...]
    baseline: FloatArray


@dataclass(frozen=True)
class BoostScore:
    """The expected reward of a policy's recommendations after so many `visits`, in EUR per held-out visit.

    Of a `segment`, or of "all"; `optimum` is that of the best vector of each segment at the same visits, and `error`
    the standard error of `reward - optimum`.
    """

    policy: str
    seed: int
    visits: int
    segment: str
    reward: float
    optimum: float
    error: float


@dataclass(frozen=True)
class LearningCurve:
    """The `scores` of a policy by visits in the shop of a seed, and what learning took.

    `earned` is the expected reward of its actions at visits 31 to 300, in units of what the best vectors of the
    segments earn at these; `decision_ms` and `learning_ms` are milliseconds of processor time per visit. `coverage` is
    that of `coverage_of` in the end; `boosts` the mean of the boosts that are recommended then, by segment, where it
    chooses boosts.
    """

    policy: str
    seed: int
    scores: tuple[BoostScore, ...]
    earned: float
    decision_ms: float
    learning_ms: float
    coverage: float | None = None
    boosts: Mapping[str, list[float]] | None = None


def open_shop(config: SearchConfig | dict[str, Any], seed: int) -> SearchShop:
    """Return the shop of a seed; raises `ConfigError` for one whose market shifts, where there is no one optimum."""
    checked = read_search_config(config)
    if checked.shifts:
        raise ConfigError("config.shifts: boost policies are scored against one optimum; leave shifts out")
    return SearchShop(build_search_world(checked, seed=seed))


def spec_of(shop: SearchShop, steps: int) -> BoostSpec:
    """Return the dimensions of a shop that a boost policy is made for."""
    return BoostWorld(shop).spec(steps)


def view_of(shop: SearchShop, cls: type[Policy], params: Mapping[str, Any]) -> SearchView:
    """Return the world of a shop in which policies of a class act; raises `ConfigError` where there is none."""
    if BOOSTS in cls.chooses:
        return BoostWorld(shop)
    if not issubclass(cls, TemplateBandit):
        raise ConfigError(f"policy {policy_name(cls)}: chooses neither boosts nor, as a bandit, templates")
    context = params["context"]
    if context not in ("simple", shop.world.config.context):
        raise ConfigError(
            f"context: got a policy that sees {context}, expected simple or the shop's {shop.world.config.context}"
        )
    config = with_library(shop.world.config.model_copy(update={"context": context}), params["library"])
    return TemplateWorld(SearchShop(build_search_world(config, seed=shop.world.seed)))


def draw_held_out(shop: SearchShop, best: FloatArray, n: int = HELD_OUT_VISITS) -> HeldOut:
    """Draw the held-out visits of a shop, `n` of each segment; `best (S, 10)` are the segments' best boosts.

    They come to the last of its markets.
    """
    strata = _last_strata(shop)
    visits = tuple(_first_of(shop, part.segment, n) for _, part in strata)
    baseline = [
        [boosts_reward(shop, visit, boosts) for visit in part] for part, boosts in zip(visits, best, strict=True)
    ]
    return HeldOut(
        names=tuple(part.name for _, part in strata),
        shares=np.array([share for share, _ in strata]),
        visits=visits,
        baseline=np.array(baseline),
    )


def _first_of(shop: SearchShop, segment: int | None, n: int) -> tuple[SearchVisit, ...]:
    """Return the first `n` held-out visits of a segment."""
    steps: list[int] = []
    start = HELD_OUT_START
    while len(steps) < n:
        users = shop.world.queries(start, start + 1_000).users
        steps += (start + np.flatnonzero(shop.world.users.segment[users] == segment)).tolist()
        start += 1_000
    return tuple(shop.arrive(step) for step in steps[:n])


def boosts_reward(shop: SearchShop, visit: SearchVisit, boosts: FloatArray, replicates: int = REPLICATES) -> float:
    """Return the expected reward of boosts `(10,)` at a visit, in EUR, a mean over replicates."""
    return ranking_reward(shop, visit, shop.rank(visit, boosts), replicates)


def ranking_reward(shop: SearchShop, visit: SearchVisit, shown: IntArray, replicates: int = REPLICATES) -> float:
    """Return the expected reward of a ranking `shown (k,)` at a visit, in EUR, a mean over replicates."""
    return float(SearchTruth(shop).rewards(visit, shown, replicates).mean())


def scores_of(world: SearchView, policy: Policy, held_out: HeldOut, visits: int) -> Iterator[BoostScore]:
    """Score what a policy recommends now, after so many `visits`, for all held-out visits and by segment."""

    def reward(visit: SearchVisit) -> float:
        action = policy.recommend(world.context(visit))
        return ranking_reward(world.shop, visit, world.rank(visit, action))

    rewards = np.array([[reward(visit) for visit in part] for part in held_out.visits])
    means = rewards.mean(axis=1)
    optima = held_out.baseline.mean(axis=1)
    errors = (rewards - held_out.baseline).std(axis=1, ddof=1) / np.sqrt(rewards.shape[1])
    name = policy_name(type(policy))
    shares = held_out.shares
    error = float(np.sqrt(shares**2 @ errors**2))
    yield BoostScore(name, world.seed, visits, "all", float(shares @ means), float(shares @ optima), error)
    for n, segment in enumerate(held_out.names):
        yield BoostScore(name, world.seed, visits, segment, float(means[n]), float(optima[n]), float(errors[n]))


def play(world: SearchView, policy: Policy, checkpoints: Sequence[int], best: FloatArray) -> LearningCurve:
    """Let a policy serve visits 0 to the last of the `checkpoints`; `best (S, 10)` are the segments' best boosts."""
    shop = world.shop
    last = max(checkpoints)
    held_out = draw_held_out(shop, best, HELD_OUT_VISITS)
    scores: list[BoostScore] = []
    seconds = np.zeros(2)
    reward = 0.0
    optimum = 0.0
    for step in range(last):
        if step in checkpoints:
            scores += scores_of(world, policy, held_out, step)
        visit = world.arrive(step)
        shown, visit_seconds = serve(world, policy, visit)
        if EARLY[0] <= step < EARLY[1]:
            reward += ranking_reward(shop, visit, shown)
            optimum += boosts_reward(shop, visit, best[_row(shop, visit.segment)])
        if step >= WARM_UP:
            seconds += visit_seconds
    scores += scores_of(world, policy, held_out, last)
    decision_ms, learning_ms = (1_000.0 * seconds / max(1, last - WARM_UP)).tolist()
    return LearningCurve(
        policy=policy_name(type(policy)),
        seed=world.seed,
        scores=tuple(scores),
        earned=reward / optimum if optimum > 0.0 else float("nan"),
        decision_ms=decision_ms,
        learning_ms=learning_ms,
        coverage=coverage_of(world, policy, held_out) if isinstance(policy, QEnsemble) else None,
        boosts=boosts_by_segment(world, policy, held_out) if BOOSTS in policy.chooses else None,
    )


def boosts_by_segment(world: SearchView, policy: Policy, held_out: HeldOut) -> dict[str, list[float]]:
    """Return the mean of the boosts that a policy recommends, over the held-out visits of each segment."""
    means = [
        np.mean([policy.recommend(world.context(visit)) for visit in part], axis=0).tolist() for part in held_out.visits
    ]
    return dict(zip(held_out.names, means, strict=True))


def coverage_of(world: SearchView, policy: QEnsemble, held_out: HeldOut) -> float:
    """Return how often mean +- 1.96 std hold the expected reward of the recommended boosts, over held-out visits.

    An honest std is that of the mean's error, and then the share is .95. Segments count by their shares of visits.
    """

    def is_covered(visit: SearchVisit) -> bool:
        context = world.context(visit)
        boosts = policy.recommend(context)
        mean, std = policy.predict(context, boosts[np.newaxis])
        error = ranking_reward(world.shop, visit, world.rank(visit, boosts)) - mean[0]
        return bool(abs(error) <= NORMAL_95 * std[0])

    covered = np.array([[is_covered(visit) for visit in part] for part in held_out.visits])
    return float(held_out.shares @ covered.mean(axis=1))


def _row(shop: SearchShop, segment: int) -> int:
    """Return the row of a segment among those that come."""
    return [group.segment for group in groups_of(shop, "segment")].index(segment)


def serve(world: SearchView, policy: Policy, visit: SearchVisit) -> tuple[IntArray, FloatArray]:
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


def learning_curve_of(
    entry: PolicyEntry, config: SearchConfig | dict[str, Any], seed: int, checkpoints: Sequence[int] = CHECKPOINTS
) -> LearningCurve:
    """Return the learning curve of a policy in the shop of a seed; from disk where it was measured before.

    So a run over many of them can be stopped anywhere, and goes on. The first one in a shop searches the segments' best
    vectors (`best_of_group`), which takes minutes.
    """
    shop = open_shop(config, seed)
    shop_key = (shop.world.config.model_dump_json(), digest(shop.world.config), seed)
    key = (entry.name, entry.fingerprint, *shop_key, tuple(checkpoints), HELD_OUT_VISITS, REPLICATES)

    def make() -> dict[str, Any]:
        world = view_of(shop, entry.cls, entry.params)
        policy = entry.make(world.spec(max(checkpoints)), stream(seed, "policy", entry.name))
        curve = play(world, policy, checkpoints, best_vectors(shop))
        return {"curve": np.array(json.dumps(asdict(curve)))}

    fields = json.loads(str(kept("boost-runs", key, ("curve",), make)["curve"]))
    scores = tuple(BoostScore(**{**score, "policy": entry.name}) for score in fields.pop("scores"))
    return LearningCurve(**{**fields, "policy": entry.name, "scores": scores})


def best_vectors(shop: SearchShop, sizes: SearchBudget | None = None) -> FloatArray:
    """Return the best boosts of each segment in the last market, `(S, 10)`; from disk if they were searched before."""
    last = len(shop.world.markets) - 1
    return np.array([best_of_group(shop, last, part, sizes=sizes).boosts for _, part in _last_strata(shop)])


def _last_strata(shop: SearchShop) -> Strata:
    """Return the segments that come to the last market, with their shares."""
    (everybody,) = groups_of(shop, "all")
    return strata_of(shop, len(shop.world.markets) - 1, everybody)
