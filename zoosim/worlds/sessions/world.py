"""The world of sessions: visitors who make several visits, and come back, or not, by what they were shown."""

from bisect import bisect_right
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.rng import uniform
from zoosim.core.types import Context, FloatArray, IntArray, PolicySpec, frozen
from zoosim.worlds.base import Outcome, ProductList, Truth, World, truth_of_candidates
from zoosim.worlds.episodes import Next
from zoosim.worlds.facts import Change, RewardScale, changes_of
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.decisions import DRAWS, draw_keys
from zoosim.worlds.sessions.laws import TEASER
from zoosim.worlds.sessions.states import LARGE_CLICKS, LARGE_SUM, LARGE_VISITS, REMEMBERED, part_starts
from zoosim.worlds.sessions.truth import SessionTruth

CLICKS_OF_A_VISITOR = RewardScale("reward", "clicks", "clicks")


class SessionVisit(NamedTuple):
    """A visitor at a decision.

    `visitor`, `visit` and `step` number the visitor, the visit, and the decision since the visitor came first;
    `persona`, `last` clicked category (their number if none), `level` of satisfaction and `clicks` of this visit make
    the state.
    `history` holds the last clicked kinds, the newest first, and `felt` the sound clicks less those on teasers.
    """

    visitor: int
    persona: int
    last: int
    level: int
    clicks: int = 0
    visit: int = 0
    step: int = 0
    history: tuple[int, ...] = ()
    felt: int = 0


class Sessions(World):
    """A shop whose visitors come back by what they were shown; policies choose a product at each decision.

    Rewards are clicks, and figures are of visitors: what one brings from the first decision to the last. 100% of the
    oracle is the exact optimum of who knows all laws and every visitor's state (see `SessionTruth`).
    """

    name = "sessions"
    parameter_record = SessionConfig
    numbered_in_order = ("personas", "categories")
    default_steps = 5_000
    episodic = True
    reward_scale = CLICKS_OF_A_VISITOR
    oracle_note = "the optimum over visitors' whole lives, which knows how satisfied each visitor is"

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
        kinds = 2 * len(config.categories)
        self._kind_of = np.arange(kinds * config.per_kind) % kinds
        one_hot = np.eye(len(config.categories))[self._kind_of // 2]
        self._features = frozen(np.column_stack([one_hot, self._kind_of % 2 == TEASER]).astype(float))
        self._ids = frozen(np.arange(len(self._kind_of)))
        self._open = frozen(np.ones(len(self._kind_of), bool))
        self._keys = dict(zip(DRAWS, draw_keys(seed), strict=True))
        self._mix = np.cumsum(config.shares)

    @property
    def config(self) -> SessionConfig:
        """The parameters."""
        config: SessionConfig = self._checked
        return config

    @cached_property
    def _periods(self) -> tuple[list[int], list[SessionTruth]]:
        """The first visitors of stretches with the same laws, and what is true in each."""
        tables = self.config.tables()
        return list(tables), [SessionTruth(self.config, table) for table in tables.values()]

    def truth_of(self, visitor: int) -> SessionTruth:
        """Return what is true of a visitor, who keeps for life the laws of the first visit."""
        starts, truths = self._periods
        return truths[bisect_right(starts, visitor) - 1]

    @property
    def reported_shocks(self) -> tuple[Change, ...]:
        """The changes of the click probabilities."""
        return changes_of(self.config.shocks)

    @property
    def optimal_clicks(self) -> float:
        """The clicks of a new visitor of the opening, under the best policy."""
        truth = self.truth_of(0)
        return truth.value(truth.optimum)

    def spec(self, steps: int) -> PolicySpec:
        """Return how many features visitors and products have."""
        return PolicySpec(user_dim=len(self.user_columns), product_dim=self._features.shape[1], steps=steps)

    @cached_property
    def user_columns(self) -> tuple[str, ...]:
        """Name the features of a visitor."""
        config = self.config
        categories = config.categories
        personas = () if config.observe == "anonymous" else tuple(config.personas)
        if config.observe == "state":
            last = (*(f"last: {category}" for category in categories), "last: none")
            levels = tuple(f"satisfaction {level}" for level in range(-config.levels, config.levels + 1))
            return (*personas, *last, *levels, *(f"clicks {count}" for count in range(config.most_clicks + 1)))
        kinds = [f"{category}, {kind}" for category in categories for kind in ("sound", "teaser")]
        history = (f"click {place}: {kind}" for place in range(1, REMEMBERED + 1) for kind in kinds)
        return (*personas, *history, "clicked since arrival", "sound less teasers", "clicks", "visits")

    def arrive(self, step: int) -> SessionVisit:
        """Return the first decision of visitor number `step`."""
        draw = uniform(self._keys["personas"], step, 0)
        persona = min(int(np.searchsorted(self._mix, draw, side="right")), len(self._mix) - 1)
        return SessionVisit(step, persona, len(self.config.categories), self.config.levels)

    def context(self, visit: SessionVisit) -> Context:
        """Return what the shop knows of the visitor, and all products."""
        features = self._state_features(visit) if self.config.observe == "state" else self._shop_features(visit)
        return Context(
            user_id=visit.visitor,
            user=frozen(features),
            product_ids=self._ids,
            products=self._features,
            available=self._open,
        )

    def _state_features(self, visit: SessionVisit) -> FloatArray:
        starts = self._part_starts
        features = np.zeros(starts[-1])
        state = np.array([visit.persona, visit.last, visit.level, visit.clicks])
        features[starts[:-1] + state] = 1.0
        return features

    @cached_property
    def _part_starts(self) -> IntArray:
        return part_starts(self.truth_of(0).laws)

    def _shop_features(self, visit: SessionVisit) -> FloatArray:
        config = self.config
        kinds = 2 * len(config.categories)
        history = np.zeros((REMEMBERED, kinds))
        history[np.arange(len(visit.history)), list(visit.history)] = 1.0
        known = np.eye(len(config.personas))[visit.persona] if config.observe == "shop" else np.zeros(0)
        sums = [
            float(visit.last < len(config.categories)),
            visit.felt / LARGE_SUM,
            visit.clicks / LARGE_CLICKS,
            visit.visit / LARGE_VISITS,
        ]
        return np.concatenate([known, history.ravel(), sums])

    def serve(self, visit: SessionVisit, action: int) -> Outcome:
        """Return 1.0 for a click, else 0.0, and what comes next for the visitor."""
        kind = int(self._kind_of[action])
        laws = self.truth_of(visit.visitor).laws
        # By the kind, so that products of one kind are clicked alike, and policies that show one meet the same visitor.
        draw = uniform(self._keys["clicks"], visit.visitor, visit.step * laws.kinds + kind)
        clicked = draw < laws.clicks[visit.persona, visit.last, kind]
        after = self._clicked(visit, kind) if clicked else visit
        later = after._replace(step=visit.step + 1)
        if uniform(self._keys["goes on"], visit.visitor, visit.step) < laws.goes_on:
            return Outcome(float(clicked), next=Next(later, same_visit=True))
        returns = uniform(self._keys["returns"], visit.visitor, visit.visit) < laws.returns[after.level, after.clicks]
        again = later._replace(visit=visit.visit + 1, last=len(self.config.categories), clicks=0)
        return Outcome(float(clicked), next=Next(again) if returns else None)

    def _clicked(self, visit: SessionVisit, kind: int) -> SessionVisit:
        """Return the visitor after a click on a kind."""
        return visit._replace(
            last=kind // 2,
            level=self.truth_of(visit.visitor).laws.level_after(visit.level, kind),
            clicks=min(visit.clicks + 1, self.config.most_clicks),
            history=(kind, *visit.history)[:REMEMBERED],
            felt=visit.felt + (-1 if kind % 2 == TEASER else 1),
        )

    def truth(self, visit: SessionVisit) -> Truth:
        """Return the clicks that each product brings from here on, if the best follows."""
        truth = self.truth_of(visit.visitor)
        state = np.ravel_multi_index((visit.last, visit.level, visit.clicks), truth.laws.shape)
        return truth_of_candidates(truth.optimal_values[visit.persona, state][self._kind_of])

    def all_products(self) -> ProductList:
        """Return all products, so that runs can write logs."""
        categories = self.config.categories
        groups = tuple(f"{categories[kind // 2]}{', teaser' * (kind % 2)}" for kind in self._kind_of)
        return ProductList(self._ids, self._features, groups)
