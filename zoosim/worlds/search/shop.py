"""A search shop at work: who comes, what the base ranker says, how a ranking is made, and what comes of it."""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.normals import fill_normals
from zoosim.core.types import FloatArray, IntArray
from zoosim.ranking.top_k import top
from zoosim.worlds.search.behaviour import Keys, Outcome, empty_outcome, laws_of
from zoosim.worlds.search.catalogue import Catalogue
from zoosim.worlds.search.catalogue_index import stock
from zoosim.worlds.search.queries import Queries
from zoosim.worlds.search.reward import RewardParts, left_top, reward
from zoosim.worlds.search.scores import base_scores, boost_features, boosted_scores
from zoosim.worlds.search.simulate import Stage, serve
from zoosim.worlds.search.templates import template_values
from zoosim.worlds.search.world import SearchWorld

CHUNK, KEPT = 1_000, 2
"""Visits that are drawn together, and markets that are held ready."""

SHRINKAGE, STEP, CUT = 0.7, 0.5, 3.0
"""How a shop estimates tastes: shrunk, rounded to a step, cut."""


class Visit(NamedTuple):
    """One visit: its number `step`, the `market` that it falls in, `user`, `segment`, `intent` and query type `kind`.

    `query (d,)` embedding and random `tokens (R,)`; `base (K,)` scores and the `baseline (k,)` that they make; `signs
    (3,)` of price taste, label taste and specificity.
    """

    step: int
    market: int
    user: int
    segment: int
    intent: int
    kind: int
    query: FloatArray
    tokens: IntArray
    base: FloatArray
    baseline: IntArray
    signs: FloatArray


class Result(NamedTuple):
    """What a visit came to: the products `shown (k,)`, what their visitor did, and what that is worth."""

    shown: IntArray
    outcome: Outcome
    parts: RewardParts
    reward: float


class SearchShop:
    """The visits of a search world, in any order; holds no state but what it has computed before."""

    def __init__(self, world: SearchWorld) -> None:
        config = world.config
        self.world, self.k = world, min(config.k, len(world.catalogue.ids))
        self._stages: dict[int, Stage] = {}
        self._templates: tuple[Catalogue, FloatArray] | None = None
        self.specificity = np.array([kind.specificity for kind in config.query_types.values()])
        self._queries: Queries = world.queries(0, 0)

    def stage(self, market: int) -> Stage:
        """Return all that visits of a market need."""
        if market not in self._stages:
            stage = self._build(market)
            self._stages = {**dict(list(self._stages.items())[1 - KEPT :]), market: stage}
        return self._stages[market]

    def _build(self, market: int) -> Stage:
        world, config = self.world, self.world.config
        _, catalogue, users, _ = world.markets[market]
        laws = laws_of(config.behaviour, [kind.bias for kind in config.query_types.values()])
        keys = Keys(*(world.keys[name] for name in Keys._fields))
        alike = next((stage for stage in self._stages.values() if stage.catalogue is catalogue), None)
        if alike is not None:
            return alike._replace(users=users)
        return Stage(stock(catalogue), catalogue, np.log1p(catalogue.price), users, laws, keys)

    def templates(self, market: int) -> FloatArray:
        """Return each template's value of each product in a market, `(8, K)`."""
        catalogue = self.world.markets[market].catalogue
        if self._templates is None or self._templates[0] is not catalogue:
            self._templates = (catalogue, template_values(catalogue))
        return self._templates[1]

    @property
    def n_features(self) -> int:
        """Return how many features a policy observes: 7 or 17 with the default segments and query types."""
        config = self.world.config
        return len(config.segments) + len(config.query_types) + (0 if config.context == "simple" else 10)

    def arrive(self, step: int, base: FloatArray | None = None) -> Visit:
        """Return visit number `step`; its base scores are written to `base (K,)` when that is given."""
        i, market = self._place(step), self.world.market_at(step)
        queries, stage = self._queries, self.stage(market)
        user, intent, kind = int(queries.users[i]), int(queries.intents[i]), int(queries.types[i])
        users, relevance = stage.users, self.world.config.relevance
        tastes = (users.price_taste[user], users.label_taste[user], self.specificity[kind])
        base = np.empty(len(self.world.catalogue.ids)) if base is None else base
        baseline, query = np.empty(self.k, np.int64), queries.embeddings[i]
        weights = (relevance.cosine, relevance.tokens, relevance.noise_sd)
        noise, shared = self.world.keys["relevance"], self.world.table.shared[queries.rows[i]]
        _arrive(noise, step, stage.shelf, query, shared, *weights, base, baseline)
        base.flags.writeable = baseline.flags.writeable = False
        who = (user, int(users.segment[user]), intent, kind)
        return Visit(step, market, *who, query, queries.tokens[i], base, baseline, np.sign(tastes))

    def _place(self, step: int) -> int:
        """Return where visit `step` stands in a chunk of visits drawn together."""
        start = step - step % CHUNK
        if not len(self._queries.steps) or self._queries.steps[0] != start:
            self._queries = self.world.queries(start, start + CHUNK)
        return step - start

    def features(self, visit: Visit) -> FloatArray:
        """Return what a policy observes `(7,)` or `(17,)`; see `SearchConfig.context`."""
        config, (_, catalogue, users, _) = self.world.config, self.world.markets[visit.market]
        segments = len(config.segments)
        simple, out = segments + len(config.query_types), np.zeros(self.n_features)
        out[visit.segment] = out[segments + visit.kind] = 1.0
        if config.context != "simple":
            tastes = np.array([users.price_taste[visit.user], users.label_taste[visit.user]])
            out[simple : simple + 2] = tastes if config.context == "rich-oracle" else estimated(tastes)
            _summarise(catalogue, visit.baseline, visit.base, out[simple + 2 :])
        out.flags.writeable = False
        return out

    def boost_features(self, visit: Visit, products: IntArray | None = None) -> FloatArray:
        """Return the boost features `(n, 10)` of `products (n,)`, of all by default."""
        wanted = np.arange(len(visit.base)) if products is None else products
        out = np.empty((len(wanted), 10))
        boost_features(self.stage(visit.market).shelf, self._embedding(visit), visit.signs, wanted, out)
        out.flags.writeable = False
        return out

    def rank(self, visit: Visit, action: FloatArray) -> IntArray:
        """Return the top k `(k,)` under boosts `action (10,)`."""
        scores, shown = np.empty(len(visit.base)), np.empty(self.k, np.int64)
        shelf = self.stage(visit.market).shelf
        boosted_scores(shelf, visit.base, self._embedding(visit), visit.signs, action, scores)
        top(scores, shown)
        return shown

    def rank_by_template(self, visit: Visit, template: int) -> IntArray:
        """Return the top k `(k,)` under a template, by its number."""
        shown = np.empty(self.k, np.int64)
        top(visit.base + self.world.config.a_max * self.templates(visit.market)[template], shown)
        return shown

    def serve(self, visit: Visit, shown: IntArray) -> Result:
        """Let the visitor go through the products `shown (k,)`."""
        weights, outcome = self.world.config.reward, empty_outcome(len(shown))
        gmv, cm2, strategic, clicks = serve(
            self.stage(visit.market), visit.step, visit.user, visit.kind, visit.query, shown, outcome
        ).tolist()
        left = left_top(visit.baseline, shown, weights.rank_change_at)
        parts = RewardParts(gmv, cm2, int(strategic), int(clicks), int(left))
        return Result(shown, outcome, parts, float(reward(weights, parts)))

    def _embedding(self, visit: Visit) -> FloatArray:
        embedding: FloatArray = self.world.users.embeddings[visit.user]
        return embedding


def estimated(tastes: FloatArray) -> FloatArray:
    """Return tastes as a shop knows them: shrunk by .7, rounded to .5, cut at 3."""
    estimates: FloatArray = np.clip(STEP * np.round(SHRINKAGE * tastes / STEP), -CUT, CUT)
    return estimates


@jit
def _arrive(
    key: np.uint64,
    step: int,
    shelf: Any,
    query: FloatArray,
    shared: FloatArray,
    cosine: float,
    tokens: float,
    noise_sd: float,
    base: FloatArray,
    baseline: IntArray,
) -> None:
    fill_normals(key, step, base)
    base_scores(shelf, query, shared, cosine, tokens, noise_sd, base)
    top(base, baseline)


@jit
def _summarise(catalogue: Catalogue, products: IntArray, base: FloatArray, out: FloatArray) -> None:
    """Write to `out (8,)` what `products (k,)` are like.

    Mean and deviation of price; means of CM2, discount, bestseller and relevance; shares of private label and strategic
    goods.
    """
    out[:] = 0.0
    for p in products:
        out[0] += catalogue.price[p]
        out[2] += catalogue.cm2[p]
        out[3] += catalogue.discount[p]
        out[4] += catalogue.bestseller[p]
        out[5] += base[p]
        out[6] += catalogue.label[p]
        out[7] += catalogue.strategic[p]
    out /= products.shape[0]
    for p in products:
        out[1] += (catalogue.price[p] - out[0]) ** 2
    out[1] = np.sqrt(out[1] / products.shape[0])
