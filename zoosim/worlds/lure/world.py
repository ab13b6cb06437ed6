"""The world of lures: boosts re-rank products whose discounts lure, and visitors come back by how pleased they were."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from zoosim.action_spaces.base import Part
from zoosim.core.action_space import BOOSTS
from zoosim.core.rng import stream_key, uniform
from zoosim.core.search_config import RewardWeights
from zoosim.core.types import Context, FloatArray, IntArray, frozen, frozen_parts
from zoosim.policies.boosts.base import BoostSpec
from zoosim.ranking.product_table import ProductTable
from zoosim.worlds.base import Outcome, Truth, World
from zoosim.worlds.boost_box import check_boosts
from zoosim.worlds.episodes import Next
from zoosim.worlds.facts import RewardScale
from zoosim.worlds.lure.config import LureConfig
from zoosim.worlds.lure.laws import CLICK_WORTH, FEATURES, pages_of
from zoosim.worlds.lure.truth import LureTruth

EUROS_OF_A_VISITOR = RewardScale("reward", "reward", "reward", unit="EUR")

DRAWS = ("segments", "looks", "clicks", "purchases", "pleased", "returns")


class LureVisit(NamedTuple):
    """A visit: the numbers of the visitor, of the visit, of the segment, and of the level of satisfaction, from 0."""

    visitor: int
    number: int
    segment: int
    level: int


class Lure(World):
    """A shop that shows a page at each visit; policies choose boosts, and visitors come back by how pleased they were.

    Rewards are EUR of what is bought, and .01 EUR for a click. Policies see the segment and the level of satisfaction,
    which a shop knows from what visitors say of their purchases. 100% of the oracle is the exact optimum over all that
    boosts can do (see `LureTruth`).
    """

    name = "lure"
    action_space = BOOSTS
    parameter_record = LureConfig
    numbered_in_order = ("products", "segments")
    default_steps = 2_000
    episodic = True
    reward_scale = EUROS_OF_A_VISITOR
    oracle_note = "the optimum over visitors' whole lives and over all rankings that boosts can make"
    description = Part("zoosim.descriptions.lure:describe")

    def __init__(self, seed: int, steps: int, **params: Any) -> None:
        """Lay out the products.

        Args:
            seed: The world's seed.
            steps: Visitors of a run.
            **params: The fields of `LureConfig`.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(seed, steps, **params)
        products = list(self.config.products.values())
        price = np.array([product.price for product in products])
        nothing = np.zeros(len(products))
        self.reward_range = (0.0, float(price.max() + CLICK_WORTH) * self._n_shown)
        self._table: ProductTable = frozen_parts(
            ProductTable(
                category=np.zeros(len(products), np.int64),
                price=price,
                cm2=nothing,
                discount=np.array([product.discount for product in products]),
                label=np.array([product.label for product in products], float),
                # The one property of tables that says how good a product is; scores begin at 0.
                bestseller=self.truth_of_all.features[:, FEATURES.index("quality")],
                strategic=nothing > 0.0,
            )
        )
        self._ids = frozen(np.arange(len(products)))
        self._keys = {name: stream_key(seed, "lure", name) for name in DRAWS}

    @property
    def config(self) -> LureConfig:
        """The parameters."""
        config: LureConfig = self._checked
        return config

    @property
    def _n_shown(self) -> int:
        return min(self.config.shown, len(self.config.products))

    @cached_property
    def truth_of_all(self) -> LureTruth:
        """What is true of the shop."""
        return LureTruth(self.config)

    def spec(self, steps: int) -> BoostSpec:
        """Return the dimensions: features are the segment, then the level of satisfaction, both one-hot."""
        segments = len(self.config.segments)
        return BoostSpec(
            user_dim=segments + 2 * self.config.levels + 1,
            product_dim=len(FEATURES),
            steps=steps,
            a_max=self.config.a_max,
            reward=RewardWeights(gmv=1.0, cm2=0.0, strategic=0.0, clicks=CLICK_WORTH),
            k=self._n_shown,
            n_segments=segments,
        )

    def schema(self) -> None:
        """Return no schema: logs of searches say themselves what their features are."""
        return None

    def arrive(self, step: int) -> LureVisit:
        """Return the first visit of visitor number `step`."""
        draw = uniform(self._keys["segments"], step, 0)
        bounds = np.cumsum(self.truth_of_all.laws.shares)
        segment = min(int(np.searchsorted(bounds, draw, side="right")), len(bounds) - 1)
        return LureVisit(step, 0, segment, self.config.levels)

    def context(self, visit: LureVisit) -> Context:
        """Return the visitor's segment and level of satisfaction, and all products."""
        truth = self.truth_of_all
        return Context(
            user_id=visit.visitor,
            features=self._observed[visit.segment, visit.level],
            product_ids=self._ids,
            base_scores=truth.base,
            boost_features=truth.features,
            product_table=self._table,
        )

    @cached_property
    def _observed(self) -> FloatArray:
        """The features of a visit by segment and level, `(P, S, P + S)`."""
        segments, levels = self.truth_of_all.optimal_values.shape
        one_hot = np.zeros((segments, levels, segments + levels))
        one_hot[np.arange(segments), :, np.arange(segments)] = 1.0
        one_hot[:, np.arange(levels), segments + np.arange(levels)] = 1.0
        return frozen(one_hot)

    def rank(self, action: Any) -> IntArray:
        """Return the products that boosts show, `(k,)`; raises `ActionError` for boosts outside the box."""
        boosts = check_boosts(action, len(FEATURES), self.config.a_max)
        ranking: IntArray = self.truth_of_all.rankings_of(boosts[np.newaxis])[0]
        return ranking

    def serve(self, visit: LureVisit, action: Any) -> Outcome:
        """Return what the page of some boosts earns, and whether the visitor comes back.

        What a visitor does to a product follows from the seed, the visitor, the visit and the product alone.
        """
        laws = self.truth_of_all.laws
        shown = self.rank(action)
        clicks = np.zeros(len(shown), bool)
        purchases = np.zeros(len(shown), bool)
        move = 0
        for position, product in enumerate(shown.tolist()):
            if position and self._draw("looks", visit, position) >= laws.looks_on:
                break
            clicks[position] = self._draw("clicks", visit, product) < laws.clicks[visit.segment, product]
            buys = self._draw("purchases", visit, product) < laws.purchases[visit.segment, product]
            if clicks[position] and buys:
                purchases[position] = True
                pleased = self._draw("pleased", visit, product) < laws.pleased[visit.segment, product]
                move += 1 if pleased else -1
        level = min(max(visit.level + move, 0), len(laws.returns) - 1)
        returns = self._draw("returns", visit, 0) < laws.returns[level]
        return Outcome(
            float(laws.prices[shown[purchases]].sum() + CLICK_WORTH * clicks.sum()),
            feedback=self._feedback(shown, clicks, purchases),
            parts={"clicks": float(clicks.sum()), "purchases": float(purchases.sum()), "pleased": float(move)},
            next=Next(visit._replace(number=visit.number + 1, level=level)) if returns else None,
        )

    def _draw(self, name: str, visit: LureVisit, place: int) -> float:
        # Products and positions, fewer than 16 of each, have numbers of their own at each visit.
        return uniform(self._keys[name], visit.visitor, 16 * visit.number + place)

    def _feedback(self, shown: IntArray, clicks: Any, purchases: Any) -> dict[str, Any]:
        return {
            "shown": self._ids[shown],
            "products": self._table.rows(shown)._asdict(),
            "boost_features": self.truth_of_all.features[shown],
            "base_scores": self.truth_of_all.base[shown],
            "clicks": clicks,
            "purchases": purchases,
        }

    def truth(self, visit: LureVisit) -> Truth:
        """Return the EUR that boosts bring from here on, if the best follows."""
        truth = self.truth_of_all

        def expected_reward(action: Any) -> float:
            pages = pages_of(truth.laws, self.rank(action)[np.newaxis])
            return float(truth.action_values(truth.optimal_values, pages)[visit.segment, 0, visit.level])

        best = truth.boosts[truth.optimum[visit.segment, visit.level]]
        return Truth(expected_reward, float(truth.optimal_values[visit.segment, visit.level]), best)
