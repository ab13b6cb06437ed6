"""The search shop as a world of templates: one of eight ranking templates per visit.

`template_world` settles beforehand what each template would earn at each visit of a run, by the shop's common random
numbers; `TemplateWorld` answers visit by visit, without end. The truth that regret is counted against is each
template's expected reward in each cell, a pair of segment and query type, estimated from visits that no policy meets.
"""

import operator
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.action_space import ActionSpace
from zoosim.core.array_cache import kept
from zoosim.core.errors import ActionError, ConfigError
from zoosim.core.jit import jit
from zoosim.core.market_shift import in_force
from zoosim.core.normals import fill_normals
from zoosim.core.parameters import shown
from zoosim.core.rng import stream_key
from zoosim.core.search_config import TEMPLATES, SearchConfig
from zoosim.core.types import Context, FloatArray, IntArray, PolicySpec, frozen
from zoosim.ranking.top_k import top
from zoosim.worlds.base import World
from zoosim.worlds.search.behaviour import empty_outcome
from zoosim.worlds.search.boosts import BoostWorld, SearchView
from zoosim.worlds.search.expected_reward import groups_of, visits_of
from zoosim.worlds.search.queries import Queries
from zoosim.worlds.search.reward import left_top, reward
from zoosim.worlds.search.scores import base_scores
from zoosim.worlds.search.shop import SearchShop, Visit
from zoosim.worlds.search.simulate import Stage, serve
from zoosim.worlds.search.tables import digest
from zoosim.worlds.search.world import build_search_world
from zoosim.worlds.table import Period, TableWorld

APART, APART_VISITS, ROOM = 2**40, 40_000, 2**32
"""The first of the visits that the truth is estimated from, where no run gets, how many they are in a market, and
how many lie between those of one cell and the next."""


TEMPLATE_NUMBERS = frozen(np.arange(len(TEMPLATES)))
TEMPLATE_ROWS = frozen(np.eye(len(TEMPLATES)))
ALL_TEMPLATES = frozen(np.ones(len(TEMPLATES), np.bool_))
"""The templates as candidates: their ids, their features, which one it is, and that all may be chosen."""


class Earnings(NamedTuple):
    """What each template came to at each of n visits, each `(n, 8)`: in EUR, products and clicks.

    `exposure` is the share of strategic goods among what was shown.
    """

    gmv: FloatArray
    cm2: FloatArray
    strategic: FloatArray
    clicks: FloatArray
    rank_change: FloatArray
    purchases: FloatArray
    exposure: FloatArray


def template_world(config: SearchConfig, *, seed: int, steps: int) -> TableWorld:
    """Return the world of a seed in which visits 0 to `steps - 1` choose among templates.

    Its `users` are visits, as `config.context` shows them; its segments are cells, its products the templates. What
    takes long is kept on disk.
    """
    return _world(config.model_dump_json(), digest(config), seed, steps)


@lru_cache(maxsize=4)
def _world(text: str, files: str, seed: int, steps: int) -> TableWorld:
    config = SearchConfig.model_validate_json(text)
    neutral = config.model_copy(update={"context": "simple"})  # what is observed changes nothing else
    found = _settled(neutral.model_dump_json(), files, seed, steps)
    truth = cell_truth(config, seed=seed)
    shop = SearchShop(build_search_world(config, seed=seed))
    features, cells = _observed(shop, steps)
    return TableWorld(
        seed=seed,
        users=frozen(features),
        segments=frozen(cells),
        products=TEMPLATE_ROWS,
        groups=TEMPLATE_NUMBERS,
        periods=tuple(
            Period(market.start, rewards, ALL_TEMPLATES)
            for market, rewards in zip(shop.world.markets, truth, strict=True)
        ),
        shocks=tuple((shift.step, shift.name) for shift in in_force(config.shifts)),
        segment_names=tuple(f"{segment}, {kind}" for segment in config.segments for kind in config.query_types),
        group_names=TEMPLATES,
        action_space=ActionSpace.TEMPLATES,
        visit_key=stream_key(seed, "visits"),
        click_key=stream_key(seed, "clicks"),
        schedule=frozen(np.arange(steps)),
        anonymous=True,
        rewards=frozen(reward_of(config, found)),
        parts=found._asdict(),
    )


class TemplateWorld(SearchView):
    """A search shop whose policies choose one of eight ranking templates, by number; visits never run out.

    Its visits and rewards are those of `template_world`.
    """

    action_space = ActionSpace.TEMPLATES

    def spec(self, steps: int) -> PolicySpec:
        """Return what a policy is told: it sees a visit's features, and which template is which."""
        return PolicySpec(user_dim=self.shop.n_features, product_dim=len(TEMPLATES), steps=steps)

    def context(self, visit: Visit) -> Context:
        """Return a visit as its user and the templates as its products."""
        return Context(
            user_id=visit.step,
            user=self.shop.features(visit),
            product_ids=TEMPLATE_NUMBERS,
            products=TEMPLATE_ROWS,
            available=ALL_TEMPLATES,
        )

    def rank(self, visit: Visit, action: Any) -> IntArray:
        """Return the ranking `(k,)` of a template."""
        return self.shop.rank_by_template(visit, check_template(action))


def search_world(config: SearchConfig, *, seed: int, steps: int, action_space: str) -> World:
    """Return the world of a seed in which visits 0 to `steps - 1` choose templates or boosts."""
    if action_space == ActionSpace.TEMPLATES:
        return template_world(config, seed=seed, steps=steps)
    return BoostWorld(SearchShop(build_search_world(config, seed=seed)), cell_oracle(config, seed=seed))


def cell_oracle(config: SearchConfig, *, seed: int) -> Callable[[Visit], float]:
    """Return the function that gives the expected reward of the best template for visits of a cell, in EUR.

    What it takes to know is computed when it is first asked.
    """
    kinds = len(config.query_types)

    @cache
    def best_of_cells() -> FloatArray:
        best: FloatArray = cell_truth(config, seed=seed).max(axis=2)
        return best

    return lambda visit: float(best_of_cells()[visit.market, visit.segment * kinds + visit.kind])


def check_template(action: Any) -> int:
    """Return an action as the number of a template, or raise `ActionError`."""
    try:
        index = -1 if isinstance(action, bool | np.bool_) else operator.index(action)
    except TypeError:
        index = -1
    if not 0 <= index < len(TEMPLATES):
        raise ActionError(f"step: got action {shown(action)}, expected a whole number from 0 to {len(TEMPLATES) - 1}")
    return index


def _observed(shop: SearchShop, steps: int) -> tuple[FloatArray, IntArray]:
    """Return features `(steps, d)` and cell `(steps,)` of each visit, one visit in memory at a time."""
    features, cells = np.empty((steps, shop.n_features)), np.empty(steps, np.int64)
    base, types = np.empty(len(shop.world.catalogue.ids)), len(shop.world.config.query_types)
    for step in range(steps):
        base.flags.writeable = True
        visit = shop.arrive(step, base)
        features[step], cells[step] = shop.features(visit), visit.segment * types + visit.kind
    return features, cells


@lru_cache(maxsize=2)
def _settled(text: str, files: str, seed: int, steps: int) -> Earnings:
    """Return what each template comes to at each visit; from disk where it was computed before."""

    def make() -> dict[str, FloatArray]:
        shop = SearchShop(build_search_world(SearchConfig.model_validate_json(text), seed=seed))
        return earnings(shop, 0, steps)._asdict()

    saved = kept("templates", (text, files, seed, steps), Earnings._fields, make)
    return Earnings(**{name: frozen(array) for name, array in saved.items()})


def cell_truth(config: SearchConfig, *, seed: int) -> FloatArray:
    """Return each template's expected reward in each cell of each market, `(M, segments x query types, 8)`, in EUR.

    It is kept on disk. Raises `ConfigError` where even the best templates lose money.
    """
    neutral = config.model_copy(update={"context": "simple"})  # what is observed changes nothing else
    return _cell_truth(neutral.model_dump_json(), digest(config), seed)


@lru_cache(maxsize=4)
def _cell_truth(text: str, files: str, seed: int) -> FloatArray:
    def make() -> dict[str, FloatArray]:
        shop = SearchShop(build_search_world(SearchConfig.model_validate_json(text), seed=seed))
        return {"truth": expected_rewards(shop)}

    truth: FloatArray = frozen(kept("template-truth", (text, files, seed), ("truth",), make)["truth"])
    if truth.max(axis=2).mean() <= 0.0:
        raise ConfigError("env.reward: with these weights the best templates lose money; nothing can be compared by it")
    return truth


def expected_rewards(shop: SearchShop) -> FloatArray:
    """Return the mean reward of each template in each cell of each market, `(M, segments x query types, 8)`.

    Each over as many visits of its own, so that a rare cell is known as well as a common one; 0 where nobody comes.
    """
    config = shop.world.config
    kinds = len(config.query_types)
    each = -(-APART_VISITS // (len(config.segments) * kinds))
    means = np.zeros((len(shop.world.markets), len(config.segments) * kinds, len(TEMPLATES)))
    for group in groups_of(shop, "cell"):
        cell = (group.segment or 0) * kinds + (group.kind or 0)
        for number in range(len(means)):
            queries = visits_of(shop, number, group, APART + cell * ROOM, each)
            if len(queries.steps):
                means[number, cell] = reward_of(config, _earn(shop, number, queries)).mean(axis=0)
    return means


def reward_of(config: SearchConfig, found: Earnings) -> FloatArray:
    """Return the rewards `(n, 8)` that earnings come to."""
    weighed: FloatArray = reward(config.reward, found[:5])
    return weighed


def earnings(shop: SearchShop, start: int, stop: int) -> Earnings:
    """Let every template serve the visits `start` to `stop - 1`."""
    borders = [market.start for market in shop.world.markets if start < market.start < stop]
    marks = [start, *borders, stop]
    parts = [
        _earn(shop, shop.world.market_at(first), shop.world.queries(first, behind)) for first, behind in pairwise(marks)
    ]
    return Earnings(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _earn(shop: SearchShop, market: int, queries: Queries) -> Earnings:
    """Let every template serve visits of one market."""
    world, weights, relevance = shop.world, shop.world.config.reward, shop.world.config.relevance
    values = world.config.a_max * shop.templates(market)
    noise = (world.keys["relevance"], relevance.cosine, relevance.tokens, relevance.noise_sd)
    out = np.zeros((len(queries.users), len(TEMPLATES), len(Earnings._fields)))
    _serve_all(shop.stage(market), queries, world.table.shared, noise, values, shop.k, weights.rank_change_at, out)
    return Earnings(*(np.ascontiguousarray(out[:, :, n]) for n in range(out.shape[2])))


@jit
def _serve_all(
    stage: Stage,
    queries: Queries,
    words: FloatArray,
    relevance: tuple[np.uint64, float, float, float],
    values: FloatArray,
    k: int,
    rank_change_at: int,
    out: FloatArray,
) -> None:
    """Write what each template of `values (8, K)` comes to at each visit to `out (n, 8, 7)`."""
    count = values.shape[1]
    base, scores = np.empty(count), np.empty(count)
    baseline, shown = np.empty(k, np.int64), np.empty(k, np.int64)
    for i in range(out.shape[0]):
        step, user, kind, query = queries.steps[i], queries.users[i], queries.types[i], queries.embeddings[i]
        fill_normals(relevance[0], step, base)
        shared = words[queries.rows[i]]
        base_scores(stage.shelf, query, shared, relevance[1], relevance[2], relevance[3], base)
        top(base, baseline)
        for template in range(values.shape[0]):
            for p in range(count):
                scores[p] = base[p] + values[template, p]
            top(scores, shown)
            outcome = empty_outcome(k)
            out[i, template, :4] = serve(stage, step, user, kind, query, shown, outcome)
            out[i, template, 4] = left_top(baseline, shown, rank_change_at)
            out[i, template, 5] = np.sum(outcome.purchases)
            out[i, template, 6] = np.mean(stage.catalogue.strategic[shown])
