"""Boosts from models of clicks and purchases of single products.

P(click | looked at, product, visitor) and P(purchase | click) are Bayesian logistic regressions; which positions were
looked at is inferred from the clicks by expectation and maximisation. A product is worth what it is expected to earn by
the reward's weights, if it is looked at; boosts are those whose ranking is worth most. It explores by drawing the
weights of both models from their posteriors (Thompson 1933; Chapelle & Li 2011), after a few visits of each segment
with random boosts: a first belief that is wrong may else be all that is ever shown. Floors and a ceiling move what
products are worth, not the models, so what was learned holds under other multipliers.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.types import Context, FloatArray
from zoosim.linear.logistic import draw_weights
from zoosim.optimizers.cem import CEMConfig
from zoosim.policies.boosts.base import BoostSpec, checked_table, is_same_table
from zoosim.policies.boosts.constrained import RANK_CHANGE, ConstrainedBoosts
from zoosim.policies.boosts.item_features import COLUMNS, columns_of, pairs_of, sizes_of, visitor_of
from zoosim.policies.boosts.item_memory import drop_oldest, new_memory, refit
from zoosim.policies.boosts.item_scales import MET, SETTLED, meet, no_products, scaled, scales_of, settle
from zoosim.policies.boosts.item_values import Goods, value_items
from zoosim.policies.boosts.search import BoostRequest, best_boosts
from zoosim.policies.boosts.shown_items import ShownItems, read_shown
from zoosim.ranking.product_table import ProductTable

HELD = 2_048
"""Visits that are held; half of them are dropped when there are as many."""

LONGEST = 100
"""The models are fitted anew after as many visits at the latest."""


class Described(NamedTuple):
    """The products of a request as model inputs (`goods`), with the table that they were made from.

    `parts` are what a purchase of each counts, `(K,)`, by name.
    """

    table: ProductTable
    goods: Goods
    parts: Mapping[str, FloatArray]


class ItemCritic(ConstrainedBoosts):
    """Learn which products are clicked and bought when looked at; boost so that those that earn most come first.

    It keeps nothing about single products but, until it has met enough of them, what their properties are: by them it
    scales the properties. It has no density: beyond its first visits, boosts are the end of a search.
    """

    name = "item-critic"
    learned: ClassVar = {"served": "_served", "counts": "_counts", "key": "_key", "met ": "_met", "": "_memory"}
    joint = " "
    exploration: float = parameter(1.0, low=0, high=10, help="width of the draws, in standard deviations")
    random_visits: int = parameter(5, low=0, high=10_000, help="visits of each segment with random boosts at first")
    samples: int = parameter(32, low=8, high=100_000, help="boosts that a round of the search tries")
    rounds: int = parameter(3, low=1, high=1_000, help="rounds of the search")
    refit_share: float = parameter(0.05, low=0.001, high=1, help="models are fitted after so many more visits")

    def __init__(self, spec: BoostSpec, rng: np.random.Generator, **params: Any) -> None:
        """Begin with the prior.

        Args:
            spec: The dimensions of its task.
            rng: One key of all its draws is taken from it.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(spec, rng, **params)
        self._constrain_boosts()
        width = 0.5 * spec.a_max
        self._search = CEMConfig(n_samples=self.samples, n_iters=self.rounds, a_max=spec.a_max, init_std=width)
        self._memory = new_memory(spec, HELD)
        self._crossed = sizes_of(spec).crossed
        self._met = no_products(len(COLUMNS))
        self._described: Described | None = None  # by the newest request, so that equal ones are read once
        self._served = np.zeros(max(1, spec.n_segments), np.int64)
        self._counts = np.zeros(3, np.int64)  # decisions, visits learned from, visits at which models are due
        self._key = np.array([draw_key(rng)])

    def select_action(self, context: Context) -> FloatArray:
        """Return random boosts at first, then those that are best by a draw from the posterior."""
        self.check(context)
        segment = int(np.argmax(context.features[: self.spec.n_segments])) if self.spec.n_segments else 0
        self._served[segment] += 1
        self._counts[0] += 1
        # By the number of the decision: saved and loaded, the policy goes on with the same draws.
        rng = self._generator(int(self._counts[0]))
        if self._served[segment] <= self.random_visits:
            return rng.uniform(-self.spec.a_max, self.spec.a_max, self.spec.product_dim)
        models = (self._memory.click, self._memory.purchase)
        click, purchase = (draw_weights(m, rng.normal(size=len(m.mean)), self.exploration) for m in models)
        return self._best(context, click, purchase, rng)

    def recommend(self, context: Context) -> FloatArray:
        """Return the boosts that are best by the posterior means."""
        self.check(context)
        # Generator 0 is that of no decision, since these count from 1.
        return self._best(context, self._memory.click.mean, self._memory.purchase.mean, self._generator(0))

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        """Remember the visit, and fit the models when they are due; refuses feedback that does not show products."""
        shown = read_shown(self.name, self.spec, feedback, self._memory.clicks.shape[1])
        self._heed(reward, self._quantities_of(context, feedback))
        self._meet(context)
        # Fitted before they are dropped: they leave the curvature at the mean as it is then.
        if self._memory.held[0] == HELD:
            refit(self._memory, self._crossed, 2)
            drop_oldest(self._memory, self._crossed, HELD // 2)
            settle(self._met)  # what was dropped is known in these scales alone
        self._remember(np.asarray(context.features, np.float64), shown)
        self._counts[1] += 1
        learned = int(self._counts[1])
        if learned >= self._counts[2]:
            refit(self._memory, self._crossed, 2)
            # A fit takes time in proportion to the visits held: at intervals that grow with these, its share per visit
            # does not.
            self._counts[2] = learned + min(LONGEST, max(1, int(self.refit_share * learned)))

    def _meet(self, context: Context) -> None:
        """Scale properties by the products of a request, too; the models are then to be fitted anew."""
        if self._met.counts[SETTLED]:
            return
        table = checked_table(self.name, self.spec, context)
        scales = meet(self._met, np.asarray(context.product_ids, np.int64), columns_of(table._asdict()))
        if scales is not None:
            self._memory.scales.means[:] = scales.means
            self._memory.scales.spreads[:] = scales.spreads
            self._described = None
            self._counts[2] = 0

    def _describe(self, context: Context) -> Described:
        """Return the products of a request as the models see them; free for the read-only arrays of the last one."""
        described = self._described
        if described is not None and is_same_table(described.table, context.product_table):
            return described
        table = checked_table(self.name, self.spec, context)
        weights = self.spec.reward
        columns = columns_of(table._asdict())
        knows_scales = self._met.counts[MET] or self._met.counts[SETTLED]
        scales = self._memory.scales if knows_scales else scales_of(columns)
        worth = weights.gmv * table.price + weights.cm2 * table.cm2 + weights.strategic * table.strategic
        goods = Goods(scaled(scales, columns), table.category, worth)
        parts = {"gmv": table.price, "cm2": table.cm2, "strategic": table.strategic.astype(float)}
        self._described = Described(context.product_table, goods, parts)
        return self._described

    def _generator(self, number: int) -> np.random.Generator:
        return np.random.default_rng([int(self._key[0]), number])

    def _best(self, context: Context, click: FloatArray, purchase: FloatArray, rng: np.random.Generator) -> FloatArray:
        visitor, kind = visitor_of(self.spec, context.features)
        base = context.base_scores
        features = context.boost_features
        weights = self.spec.reward
        values = np.empty(len(base))
        described = self._describe(context)
        prices = self.prices
        per_click = weights.clicks + prices.get("clicks", 0.0)
        per_change = weights.rank_change - prices.get(RANK_CHANGE, 0.0)  # a ceiling's price is below 0
        worth = described.goods.worth
        for part, counts in described.parts.items():
            if part in prices:
                worth = worth + prices[part] * counts
        goods = described.goods._replace(worth=worth)
        value_items(click, purchase, visitor, goods, base, features, per_click, self._crossed, values)
        # A position is looked at if all above it were, and the visitor went on each time.
        reach = np.cumprod(self._memory.look[kind])
        rows = np.array(features.T, order="C")  # copied even for one product: read-only arrays would compile anew
        request = BoostRequest(base, rows, values, reach, per_change, weights.rank_change_at)
        return best_boosts(request, self._search, rng)

    def _remember(self, features: FloatArray, shown: ShownItems) -> None:
        memory = self._memory
        v = int(self._memory.held[0])
        m = len(shown.base)
        memory.visitors[v], memory.kinds[v] = visitor_of(self.spec, features)
        memory.columns[v, :m] = shown.columns
        memory.pairs[v, :m] = pairs_of(shown.base, shown.features, shown.category, memory.pairs.shape[2])
        # Places are used again: beyond position m an earlier visit may have left something.
        memory.clicks[v] = False
        memory.purchases[v] = False
        memory.shown[v] = m
        memory.clicks[v, :m] = shown.clicks
        memory.purchases[v, :m] = shown.purchases
        memory.held[0] += 1

    def _state_loaded(self) -> None:
        self._described = None
