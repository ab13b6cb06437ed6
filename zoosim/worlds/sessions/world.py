"""The world of sessions: visitors who make several visits, and come back, or not, by what they were shown."""

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from zoosim.action_spaces.base import Part
from zoosim.core.errors import ConfigError
from zoosim.core.types import BoolArray, Context, IntArray, PolicySpec, frozen
from zoosim.worlds.base import Outcome, ProductList, Truth, World, truth_of_candidates
from zoosim.worlds.compiled import GONE, STAYED, TO_THE_END, CompiledWorld
from zoosim.worlds.episodes import Next
from zoosim.worlds.facts import Change, Reference, RewardScale, changes_of
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.laws import TEASER
from zoosim.worlds.sessions.truth import RULES, SessionTruth
from zoosim.worlds.sessions.visitors import (
    KERNEL,
    LARGEST_SUM,
    PERSONA,
    PLACE_SIZE,
    REMEMBERED,
    STEP,
    VISITOR,
    VisitorArrays,
    arrive,
    observe,
    offer,
    one_period,
    serve,
    state_of,
)

OBSERVATIONS = ("state", "shop", "anonymous", "behaviour")
"""What the shop may see of a visitor, in the order of the numbers in `visitors`."""

CLICKS_OF_A_VISITOR = RewardScale("reward", "clicks", "clicks")


class Sessions(World):
    """A shop whose visitors come back by what they were shown; policies choose a product at each decision.

    Rewards are clicks, by what they are worth, and figures are of visitors: what one brings from the first decision to
    the last. 100% of the oracle is the exact optimum of who knows all laws and every visitor's state (see
    `SessionTruth`).
    """

    name = "sessions"
    parameter_record = SessionConfig
    numbered_in_order = ("personas", "categories")
    default_steps = 5_000
    episodic = True
    reward_scale = CLICKS_OF_A_VISITOR
    oracle_note = "the optimum over visitors' whole lives, which knows how satisfied each visitor is"
    description = Part("zoosim.descriptions.sessions:describe")

    def __init__(self, seed: int, steps: int, **params: Any) -> None:
        """Lay out the products.

        Args:
            seed: The world's seed.
            steps: Visitors of a run.
            **params: The fields of `SessionConfig`.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(seed, steps, **params)
        config = self.config
        late = [shock for shock in config.shocks if shock.step >= steps]
        if late:
            raise ConfigError(
                f"env.shocks: {late[0].name!r} is at step {late[0].step}, beyond the run of {steps} visitors"
            )
        self.reward_range = (0.0, 1.0 / config.paid)
        kinds = 2 * len(config.categories)
        self._kind_of = np.arange(kinds * config.per_kind) % kinds
        one_hot = np.eye(len(config.categories))[self._kind_of // 2]
        self._features = frozen(np.column_stack([one_hot, self._kind_of % 2 == TEASER]).astype(float))
        self._ids = frozen(np.arange(len(self._kind_of)))
        self._open = frozen(np.ones(len(self._kind_of), bool))
        self._followed = config.followed or TO_THE_END

    @property
    def config(self) -> SessionConfig:
        """The parameters."""
        config: SessionConfig = self._checked
        return config

    @cached_property
    def periods(self) -> Mapping[int, SessionTruth]:
        """What is true of the visitors who keep to the same laws, by the first of them."""
        return {start: SessionTruth(self.config, table) for start, table in self.config.tables().items()}

    @cached_property
    def _starts(self) -> list[int]:
        return list(self.periods)

    def truth_of(self, visitor: int) -> SessionTruth:
        """Return what is true of a visitor, who keeps for life the laws of the first visit."""
        starts = self._starts
        return self.periods[starts[bisect_right(starts, visitor) - 1]]

    @property
    def reported_shocks(self) -> tuple[Change, ...]:
        """The changes of the click probabilities."""
        return changes_of(self.config.shocks)

    @property
    def optimal_clicks(self) -> float:
        """The clicks of a new visitor of the opening, under the best policy."""
        truth = self.truth_of(0)
        return truth.value(truth.optimum)

    def reference_values(self) -> tuple[Reference, ...]:
        """Return rungs of the ladder, which know all laws: from random to the optimum, the best rule among them.

        None where shocks move them on the way.
        """
        if len(self.periods) > 1:
            return ()
        rungs = {step.name: step.share for step in self.truth_of(0).ladder()}
        rule = max(RULES, key=lambda name: rungs[name])
        names = {name: name for name in ("random", "myopic", *self.truth_of(0).guessed, "optimum")}
        lines = [Reference(name, rungs[rung]) for name, rung in {**names, f"best rule: {rule}": rule}.items()]
        return tuple(sorted(lines, key=lambda line: line.value))

    def spec(self, steps: int) -> PolicySpec:
        """Return how many features visitors and products have."""
        return PolicySpec(user_dim=len(self.user_columns), product_dim=self._features.shape[1], steps=steps)

    @cached_property
    def user_columns(self) -> tuple[str, ...]:
        """Name the features of a visitor."""
        config = self.config
        categories = config.categories
        personas = tuple(config.personas) if config.observe in ("state", "shop") else ()
        clicks = tuple(f"clicks {count}" for count in range(config.most_clicks + 1))
        if config.observe in ("state", "behaviour"):
            last = (*(f"last: {category}" for category in categories), "last: none")
            levels = tuple(f"satisfaction {level}" for level in range(-config.levels, config.levels + 1))
            if config.felt_after:
                levels = (*levels, *(f"{level}, visit before" for level in levels))
            return (*personas, *last, *levels, *clicks)
        kinds = [f"{category}, {kind}" for category in categories for kind in ("sound", "teaser")]
        last = tuple(f"last: {kind}" for kind in (*kinds, "none"))
        sums = tuple(f"sound less teasers {count}" for count in range(-LARGEST_SUM, LARGEST_SUM + 1))
        history: tuple[str, ...] = ()
        if config.observe == "anonymous":
            history = tuple(f"click {place}: {kind}" for place in range(1, REMEMBERED + 1) for kind in (*kinds, "none"))
        return (*personas, *last, *sums, *clicks, *history)

    @cached_property
    def arrays(self) -> VisitorArrays:
        """The laws as compiled code reads them, without what is true."""
        return one_period(self.truth_of(0).laws, self.seed)._replace(
            starts=np.array(self._starts),
            clicks=np.array([truth.laws.clicks for truth in self.periods.values()]),
            kind_of=self._kind_of,
            sold_out=self.config.sold_out,
            observed=OBSERVATIONS.index(self.config.observe),
        )

    def as_compiled(self) -> CompiledWorld:
        """Return the world as compiled functions."""
        values = np.array([truth.optimal_values for truth in self.periods.values()])
        arrays = self.arrays._replace(values=values)
        return CompiledWorld(KERNEL, arrays, PLACE_SIZE, self._ids, self._features, self._followed)

    def arrive(self, step: int) -> IntArray:
        """Return the first decision of visitor number `step`: its numbers, see `visitors`."""
        place = np.zeros(PLACE_SIZE, np.int64)
        arrive(self.arrays, step, place)
        return place

    def context(self, visit: IntArray) -> Context:
        """Return what the shop knows of the visitor, and all products."""
        user = np.zeros(len(self.user_columns))
        observe(self.arrays, visit, user)
        return Context(
            user_id=int(visit[VISITOR]),
            user=frozen(user),
            product_ids=self._ids,
            products=self._features,
            available=self.available(visit),
        )

    def available(self, visit: IntArray) -> BoolArray:
        """Return which products are there at a decision, `(K,)`."""
        if not self.config.sold_out:
            return self._open
        available = self._open.copy()
        offer(self.arrays, visit, available)
        return frozen(available)

    def serve(self, visit: IntArray, action: int) -> Outcome:
        """Return what a click is worth, 0.0 if there is none, and what comes next for the visitor."""
        place = visit.copy()
        reward, follows = serve(self.arrays, place, action)
        if follows == GONE:
            return Outcome(reward)
        is_cut = int(place[STEP]) >= self._followed
        return Outcome(reward, next=Next(place, same_visit=follows == STAYED, cut_off=is_cut))

    def truth(self, visit: IntArray) -> Truth:
        """Return the clicks that each product brings from here on, if the best follows."""
        truth = self.truth_of(int(visit[VISITOR]))
        values = truth.optimal_values[visit[PERSONA], state_of(self.arrays, visit)]
        return truth_of_candidates(values[self._kind_of], self.available(visit))

    def all_products(self) -> ProductList:
        """Return all products, so that runs can write logs."""
        categories = self.config.categories
        groups = tuple(f"{categories[kind // 2]}{', teaser' * (kind % 2)}" for kind in self._kind_of)
        return ProductList(self._ids, self._features, groups)
