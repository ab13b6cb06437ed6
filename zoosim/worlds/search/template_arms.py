"""The search shop as a world whose actions are templates: one of some rankings per visit.

`template_world` computes the reward of each template at each visit of a run beforehand, by the shop's common random
numbers; `TemplateWorld` serves visit by visit, without end. The truth that regret is counted against is each template's
expected reward in each cell, a pair of segment and query type, estimated from visits that no policy meets.
"""

import operator
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.action_space import TEMPLATES as TEMPLATE_SPACE
from zoosim.core.array_cache import kept
from zoosim.core.digests import value_digest
from zoosim.core.errors import ActionError, ConfigError
from zoosim.core.jit import jit
from zoosim.core.market_shift import in_force
from zoosim.core.memory import check_memory
from zoosim.core.parameters import shown
from zoosim.core.rng import stream_key
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import SHOP
from zoosim.core.templates import LIBRARIES, Library, check_library
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec, frozen, frozen_parts
from zoosim.ranking.top_k import top
from zoosim.worlds.base import World
from zoosim.worlds.facts import changes_of
from zoosim.worlds.search.behaviour import empty_outcome
from zoosim.worlds.search.boosts import AMOUNTS, BoostWorld, SearchView, cell_names, cell_of
from zoosim.worlds.search.expected_reward import groups_of, visits_of
from zoosim.worlds.search.queries import Queries, QueryTable
from zoosim.worlds.search.reward import left_top, reward
from zoosim.worlds.search.scores import BaseRanker, score_request, signs_of, template_scores
from zoosim.worlds.search.shop import SearchShop, SearchVisit
from zoosim.worlds.search.shop_arrays import ShopArrays, serve
from zoosim.worlds.search.tables import digest
from zoosim.worlds.search.world import build_search_world
from zoosim.worlds.table import Period, TableWorld

TRUTH_START = 2**40
"""The first of the visits that the truth is estimated from: no run gets there."""

TRUTH_VISITS = 40_000
"""Visits that the truth of a market is estimated from, in equal parts for its cells."""

CELL_SPACING = 2**32
"""From the first of these visits of one cell to the first of the next."""


NO_PARAMETERS: Mapping[str, Any] = MappingProxyType({})


class TemplateCandidates(NamedTuple):
    """The T templates as candidates: `ids (T,)`, one-hot features `products (T, T)`, the mask `available (T,)`."""

    ids: IntArray
    products: FloatArray
    available: BoolArray


@cache
def _candidates(count: int) -> TemplateCandidates:
    return frozen_parts(TemplateCandidates(np.arange(count), np.eye(count), np.ones(count, np.bool_)))


class Earnings(NamedTuple):
    """The parts of the reward of each of T templates at n visits, each `(n, T)`: in EUR, products and clicks.

    `exposure` is the share of strategic goods among the products shown.
    """

    gmv: FloatArray
    cm2: FloatArray
    strategic: FloatArray
    clicks: FloatArray
    rank_change: FloatArray
    purchases: FloatArray
    exposure: FloatArray


def template_world(config: SearchConfig, *, seed: int, steps: int, library: str = SHOP) -> TableWorld:
    """Return the world of a seed in which policies choose among templates.

    Its `users` are visits, as `config.context` shows them; its segments are cells, its products the templates. Rewards
    and truth are kept on disk.

    Args:
        config: The shop; the best of its templates are the oracle, whatever policies choose among.
        seed: Seed of all draws.
        steps: Number of visits.
        library: The templates that policies choose among: "shop" for the shop's, or the name of a library.

    Raises:
        ConfigError: even the best templates lose money, or those of the library lie outside of the shop's box.
    """
    return _world(config.model_dump_json(), digest(config), seed, steps, library)


@lru_cache(maxsize=4)
def _world(config_json: str, files: str, seed: int, steps: int, library: str) -> TableWorld:
    shop_config = SearchConfig.model_validate_json(config_json)
    config = with_library(shop_config, library)
    # By the shop's own templates, so that policies with other libraries are told as shares of the same.
    best = None if library == SHOP else frozen(cell_truth(shop_config, seed=seed).max(axis=2))
    # Worlds that differ only in what policies observe share what is kept of them.
    earned = _all_earnings(_without_context(config).model_dump_json(), files, seed, steps)
    truth = cell_truth(config, seed=seed)
    shop = SearchShop(build_search_world(config, seed=seed))
    features, cells = _features_and_cells(shop, steps)
    candidates = _candidates(len(config.templates))
    periods = tuple(
        Period(market.start, rewards, candidates.available, best=None if best is None else best[number])
        for number, (market, rewards) in enumerate(zip(shop.world.markets, truth, strict=True))
    )
    return TableWorld(
        seed=seed,
        users=frozen(features),
        segments=frozen(cells),
        products=candidates.products,
        groups=candidates.ids,
        periods=periods,
        shocks=changes_of(in_force(config.shifts)),
        segment_names=cell_names(config),
        group_names=tuple(config.templates),
        templates=tuple(config.templates),
        catalogue_version=_library_version(config.templates),
        action_space=TEMPLATE_SPACE,
        reward_range=AMOUNTS,
        visit_key=stream_key(seed, "visits"),
        click_key=stream_key(seed, "clicks"),
        schedule=frozen(np.arange(steps)),
        anonymous=True,
        rewards=frozen(reward_of(config, earned)),
        parts=earned._asdict(),
    )


def _library_version(library: Library) -> str:
    """Return a digest of templates, whose one-hot features say nothing of them; "" for the default ones, as ever."""
    if list(library.items()) == list(LIBRARIES["rules"].items()):
        return ""
    return value_digest([(name, template.model_dump()) for name, template in library.items()])


class TemplateWorld(SearchView):
    """A search shop whose policies choose one of its ranking templates, by number; visits never run out.

    Its visits and rewards are those of `template_world`.
    """

    action_space = TEMPLATE_SPACE

    def spec(self, steps: int) -> PolicySpec:
        """Return the dimensions of a policy's context: a visit's features, and templates as one-hot products."""
        templates = tuple(self.shop.world.config.templates)
        return PolicySpec(user_dim=self.shop.n_features, product_dim=len(templates), steps=steps, templates=templates)

    def context(self, visit: SearchVisit) -> Context:
        """Return a visit as its user and the templates as its products."""
        candidates = _candidates(len(self.shop.world.config.templates))
        return Context(
            user_id=visit.step,
            user=self.shop.features(visit),
            product_ids=candidates.ids,
            products=candidates.products,
            available=candidates.available,
        )

    def rank(self, visit: SearchVisit, action: Any) -> IntArray:
        """Return the ranking `(k,)` of a template."""
        return self.shop.rank_by_template(visit, check_template(action, len(self.shop.world.config.templates)))


def with_library(config: SearchConfig, library: str) -> SearchConfig:
    """Return a shop whose templates are those of a library, or raise `ConfigError` where its box has no room for them.

    Args:
        config: The shop.
        library: Name of the library, or "shop" for the shop's own templates.
    """
    if library == SHOP:
        return config
    try:
        check_library(LIBRARIES[library], config.a_max)
    except ValueError as error:
        raise ConfigError(f"library {library}: {error}") from None
    return config.model_copy(update={"templates": LIBRARIES[library]})


def search_world(
    config: SearchConfig, *, seed: int, steps: int, action_space: str, params: Mapping[str, Any] = NO_PARAMETERS
) -> World:
    """Return the world of a seed in which policies choose templates or boosts.

    Args:
        config: The shop.
        seed: Seed of all draws.
        steps: Number of visits; visits of boosts never run out.
        action_space: "templates", or else boosts.
        params: Parameters of the policy, whose `library` names the templates that it chooses among.
    """
    if action_space == TEMPLATE_SPACE:
        return template_world(config, seed=seed, steps=steps, library=params.get("library", SHOP))
    return BoostWorld(SearchShop(build_search_world(config, seed=seed)), cell_oracle(config, seed=seed))


def cell_oracle(config: SearchConfig, *, seed: int) -> Callable[[SearchVisit], float]:
    """Return the function that gives the expected reward of the best template for visits of a cell, in EUR.

    Its table is computed at the first call.

    Args:
        config: The shop.
        seed: Seed of all draws.
    """
    n_types = len(config.query_types)

    @cache
    def best_rewards() -> FloatArray:
        best: FloatArray = cell_truth(config, seed=seed).max(axis=2)
        return best

    return lambda visit: float(best_rewards()[visit.market, visit.segment * n_types + visit.query_type])


def check_template(action: Any, count: int) -> int:
    """Return an action as the number of one of `count` templates, or raise `ActionError`."""
    try:
        # True and False would pass for 1 and 0.
        index = -1 if isinstance(action, bool | np.bool_) else operator.index(action)
    except TypeError:
        index = -1
    if not 0 <= index < count:
        raise ActionError(f"step: got action {shown(action)}, expected a whole number from 0 to {count - 1}")
    return index


def _without_context(config: SearchConfig) -> SearchConfig:
    """Return a config for the cache: its `context` is what policies observe, which moves no reward."""
    return config.model_copy(update={"context": "simple"})


def _features_and_cells(shop: SearchShop, steps: int) -> tuple[FloatArray, IntArray]:
    """Return features `(steps, d)` and cell `(steps,)` of each visit."""
    features = np.empty((steps, shop.n_features))
    cells = np.empty(steps, np.int64)
    base = np.empty(len(shop.world.catalogue.ids))  # one array of scores for all visits, which saves memory
    for step in range(steps):
        base.flags.writeable = True
        visit = shop.arrive(step, base)
        features[step] = shop.features(visit)
        cells[step] = cell_of(shop, visit)
    return features, cells


@lru_cache(maxsize=2)
def _all_earnings(config_json: str, files: str, seed: int, steps: int) -> Earnings:
    """Return the parts of the reward of each template at each visit; from disk where they were computed before."""

    def make() -> dict[str, FloatArray]:
        config = SearchConfig.model_validate_json(config_json)
        count = len(config.templates)
        # Twice, as the parts of all markets are put together.
        n_bytes = 2 * np.dtype(float).itemsize * len(Earnings._fields) * steps * count
        check_memory(n_bytes, f"rewards of {count} templates at {steps:,} visits", "take fewer of either")
        return earnings(SearchShop(build_search_world(config, seed=seed)), 0, steps)._asdict()

    saved = kept("templates", (config_json, files, seed, steps), Earnings._fields, make)
    return Earnings(**{name: frozen(array) for name, array in saved.items()})


def cell_truth(config: SearchConfig, *, seed: int) -> FloatArray:
    """Return each template's expected reward in each cell of each market, `(M, segments x query types, T)`, in EUR.

    It is kept on disk.

    Args:
        config: The shop.
        seed: Seed of all draws.

    Raises:
        ConfigError: even the best templates lose money.
    """
    return _cell_truth(_without_context(config).model_dump_json(), digest(config), seed)


@lru_cache(maxsize=4)
def _cell_truth(config_json: str, files: str, seed: int) -> FloatArray:
    def make() -> dict[str, FloatArray]:
        shop = SearchShop(build_search_world(SearchConfig.model_validate_json(config_json), seed=seed))
        return {"truth": expected_rewards(shop)}

    truth: FloatArray = frozen(kept("template-truth", (config_json, files, seed), ("truth",), make)["truth"])
    # Rewards are told as shares of what the best templates earn, which needs to be above 0.
    if truth.max(axis=2).mean() <= 0.0:
        raise ConfigError("env.reward: with these weights the best templates lose money; nothing can be compared by it")
    return truth


def expected_rewards(shop: SearchShop) -> FloatArray:
    """Return the mean reward of each template in each cell of each market, `(M, segments x query types, T)`.

    Every cell has the same number of visits, so that a rare one is known as well as a common one; 0 where nobody comes.
    """
    config = shop.world.config
    n_types = len(config.query_types)
    n_cells = len(config.segments) * n_types
    visits_per_cell = -(-TRUTH_VISITS // n_cells)
    means = np.zeros((len(shop.world.markets), n_cells, len(config.templates)))
    for group in groups_of(shop, "cell"):
        assert group.segment is not None
        assert group.query_type is not None
        cell = group.segment * n_types + group.query_type
        for market in range(len(means)):
            # By the same numbers in every market, so that what a shift changes is not mixed with who happened to come.
            queries = visits_of(shop, market, group, TRUTH_START + cell * CELL_SPACING, visits_per_cell)
            if len(queries.steps):
                means[market, cell] = reward_of(config, serve_templates(shop, market, queries)).mean(axis=0)
    return means


def reward_of(config: SearchConfig, earned: Earnings) -> FloatArray:
    """Return rewards in EUR, `(n, T)`.

    Args:
        config: The shop, which weighs their parts.
        earned: The parts, each `(n, T)`.
    """
    rewards: FloatArray = reward(config.reward, earned[:5])
    return rewards


def earnings(shop: SearchShop, start: int, stop: int) -> Earnings:
    """Return what every template earns at some visits, each in the market of its time.

    Args:
        shop: The shop.
        start, stop: The visits are `start` to `stop - 1`.
    """
    world = shop.world
    # Cut where markets change, as compiled code takes the arrays of one market.
    borders = [market.start for market in world.markets if start < market.start < stop]
    parts = [
        serve_templates(shop, world.market_at(first), world.queries(first, end))
        for first, end in pairwise([start, *borders, stop])
    ]
    return Earnings(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def serve_templates(shop: SearchShop, market: int, queries: Queries) -> Earnings:
    """Return what every template earns at n visits of one market.

    Args:
        shop: The shop.
        market: Number of the market.
        queries: The visits.
    """
    out = np.zeros((len(queries.users), len(shop.templates.boosts), len(Earnings._fields)))
    _serve_all(
        shop.arrays(market),
        queries,
        shop.world.table,
        shop.relevance,
        shop.specificity,
        shop.added_by_rules(market),
        shop.templates.boosts,
        shop.k,
        shop.world.config.reward.rank_change_at,
        out,
    )
    return Earnings(*(np.ascontiguousarray(out[:, :, part]) for part in range(out.shape[2])))


@jit
def _serve_all(
    arrays: ShopArrays,
    queries: Queries,
    table: QueryTable,
    relevance: BaseRanker,
    specificity: FloatArray,
    by_rules: FloatArray,
    boosts: FloatArray,
    k: int,
    rank_change_at: int,
    out: FloatArray,
) -> None:
    """Write the `Earnings` of templates to `out (n, T, 7)`; their rules add `by_rules (T, K)`, `boosts (T, 10)`."""
    users = arrays.users
    count = by_rules.shape[1]
    signs = np.empty(3)
    base = np.empty(count)
    scores = np.empty(count)
    longest_baseline = np.empty(k, np.int64)
    longest_shown = np.empty(k, np.int64)
    for i in range(out.shape[0]):
        step = queries.steps[i]
        user = queries.users[i]
        query_type = queries.types[i]
        query = queries.embeddings[i]
        candidates = score_request(relevance, step, arrays.catalogue_index, query, table, queries.rows[i], base)
        baseline = longest_baseline[:candidates]
        shown = longest_shown[:candidates]
        top(base, baseline)
        signs_of(users.price_taste[user], users.label_taste[user], specificity[query_type], signs)
        for template in range(boosts.shape[0]):
            template_scores(
                arrays.catalogue_index,
                base,
                users.embeddings[user],
                signs,
                by_rules[template],
                boosts[template],
                scores,
            )
            top(scores, shown)
            outcome = empty_outcome(shown.shape[0])
            out[i, template, :4] = serve(arrays, step, user, query_type, query, base, shown, outcome)
            out[i, template, 4] = left_top(baseline, shown, rank_change_at)
            out[i, template, 5] = np.sum(outcome.purchases)
            out[i, template, 6] = np.mean(arrays.catalogue.strategic[shown])
