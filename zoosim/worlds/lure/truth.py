"""What policies are worth, exactly, in a shop whose discounts lure: few states, and as many pages as boosts can make.

A visitor's state is the segment and the level of satisfaction. Boosts count by the ranking that they make, and these
are found completely (`rankings`). So the optimum over the continuous boosts is that of a small decision process, by
policy iteration (Howard 1960), and the worth of any policy a linear system.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray, frozen
from zoosim.worlds.lure.config import LureConfig
from zoosim.worlds.lure.laws import FEATURES, Pages, features_of, laws_of, pages_of
from zoosim.worlds.lure.rankings import rankings_by, reachable_boosts

WEIGHTS = np.geomspace(0.05, 20.0, 25)
"""Weights of a level of satisfaction that shaped policies try, in units of the most that a page earns."""

BETTER = 1e-9
"""EUR by which a page must be better to take the place of another."""

MOST_ROUNDS = 1_000

RANDOM = 100_000
"""Boosts that are drawn to say what random ones are worth."""


class Rung(NamedTuple):
    """A policy of the ladder: the EUR that a new visitor brings, and its share of the optimum."""

    name: str
    worth: float
    share: float


class LureTruth:
    """The exact values of a shop whose discounts lure."""

    def __init__(self, config: LureConfig) -> None:
        """Find all rankings that boosts can make, and what their pages bring."""
        self.config = config
        self.laws = laws_of(config)
        self.base = frozen(np.array([product.score for product in config.products.values()]))
        self.features = frozen(features_of(config))
        self._k = min(config.shown, len(config.products))
        self.boosts = reachable_boosts(self.base, self.features, self._k, config.a_max)
        self.pages = pages_of(self.laws, self.rankings_of(self.boosts))
        levels = np.arange(len(self.laws.returns))
        # The level after a move of -k to k from each level, (2 k + 1, S).
        self._moves = np.arange(-self._k, self._k + 1)
        self._after = np.clip(levels + self._moves[:, np.newaxis], 0, levels[-1])

    def rankings_of(self, boosts: FloatArray) -> IntArray:
        """Return the products that boosts `(n, 3)` show, best first, `(n, k)`."""
        return rankings_by(self.base, self.features, boosts, self._k)

    def action_values(self, values: FloatArray, pages: Pages | None = None) -> FloatArray:
        """Return the EUR from here on by page, `(P, R, S)`, where `values (P, S)` follow.

        Args:
            values: EUR that a visitor brings from a visit on, by segment and level.
            pages: The pages; those of all rankings that boosts reach by default.
        """
        pages = self.pages if pages is None else pages
        onward = (self.laws.returns * values)[:, self._after]
        return np.asarray(pages.rewards[..., np.newaxis] + pages.moves @ onward, dtype=np.float64)

    def values(self, pages: Pages) -> FloatArray:
        """Return the EUR from each state on, `(P, S)`, under a policy.

        Args:
            pages: The page that the policy shows in each state, with a page for each level, `R = S`.
        """
        levels = len(self.laws.returns)
        start = np.arange(levels)
        chances = np.zeros((len(self.laws.shares), levels, levels))
        for move, after in enumerate(self._after):
            chances[:, start, after] += pages.moves[:, :, move]
        system = np.eye(levels) - chances * self.laws.returns
        solved = np.linalg.solve(system, pages.rewards[..., np.newaxis])[..., 0]
        return np.asarray(solved, dtype=np.float64)

    def value_of(self, chosen: IntArray) -> float:
        """Return the EUR of a new visitor where pages are `chosen (P, S)`, by their numbers among all."""
        return float(self.laws.shares @ self.by_segment(chosen))

    def by_segment(self, chosen: IntArray) -> FloatArray:
        """Return the EUR of a new visitor of each segment, `(P,)`, where pages are `chosen (P, S)`."""
        return self.values(self._picked(chosen))[:, self.config.levels]

    def value(self, policy: Callable[[int, int], FloatArray]) -> float:
        """Return the EUR that a new visitor brings.

        Args:
            policy: Takes the numbers of a segment and of a level, from 0 for the lowest, and returns boosts `(3,)`.
        """
        segments = len(self.laws.shares)
        levels = len(self.laws.returns)
        rewards = np.empty((segments, levels))
        moves = np.empty((segments, levels, 2 * self._k + 1))
        for segment in range(segments):
            boosts = np.array([policy(segment, level) for level in range(levels)])
            pages = pages_of(self.laws, self.rankings_of(boosts))
            rewards[segment] = pages.rewards[segment]
            moves[segment] = pages.moves[segment]
        return self._of_new(self.values(Pages(rewards, moves)))

    def _picked(self, chosen: IntArray) -> Pages:
        segments = np.arange(len(chosen))[:, np.newaxis]
        return Pages(self.pages.rewards[segments, chosen], self.pages.moves[segments, chosen])

    def _of_new(self, values: FloatArray) -> float:
        return float(self.laws.shares @ values[:, self.config.levels])

    @cached_property
    def optimum(self) -> IntArray:
        """The best page in each state, by its number, `(P, S)`."""
        chosen = self.myopic
        for _ in range(MOST_ROUNDS):
            worth = self.action_values(self.values(self._picked(chosen)))
            now = np.take_along_axis(worth, chosen[:, np.newaxis], axis=1)[:, 0]
            better = worth.max(axis=1) > now + BETTER
            if not better.any():
                break
            chosen = np.where(better, worth.argmax(axis=1), chosen)
        return chosen

    @cached_property
    def optimal_values(self) -> FloatArray:
        """The EUR from each state on, if the best is done, `(P, S)`."""
        return self.values(self._picked(self.optimum))

    @property
    def myopic(self) -> IntArray:
        """The page in each state that earns most at this visit, by its number, `(P, S)`."""
        return self._at_all_levels(self.pages.rewards.argmax(axis=1))

    def _at_all_levels(self, chosen: IntArray) -> IntArray:
        """Return the policy that shows what is `chosen (P,)` at all levels."""
        return np.repeat(chosen[:, np.newaxis], len(self.laws.returns), axis=1)

    def ladder(self) -> list[Rung]:
        """Return what simpler policies are worth, all laws known, the optimum last.

        A shaped policy shows the page that earns the most EUR + w x expected change of satisfaction, the best w;
        `felt`: a change counts where the levels leave room for it.
        """
        fixed = self._worth_of_constants()
        worth = {
            "random": self._of_new(self.values(self._random_pages())),
            "no boosts": float(self.laws.shares @ fixed[:, 0]),
            "best boosts, the same for all": float((self.laws.shares @ fixed).max()),
            "myopic": self.value_of(self.myopic),
            "best boosts of each segment": float(self.laws.shares @ fixed.max(axis=1)),
            "no discounts": self.value_of(self._without_discounts()),
            "shaped": self._best_shaped(is_felt=False),
            "shaped, felt": self._best_shaped(is_felt=True),
            "optimum": self._of_new(self.optimal_values),
        }
        return [Rung(name, euros, euros / worth["optimum"]) for name, euros in worth.items()]

    def _worth_of_constants(self) -> FloatArray:
        """Return what each page is worth that is always shown, `(P, R)`."""
        segments = len(self.laws.shares)
        pages = range(len(self.boosts))
        worth = [self.by_segment(self._at_all_levels(np.full(segments, page))) for page in pages]
        return np.stack(worth, axis=1)

    def _random_pages(self) -> Pages:
        """Return the mean page of boosts that are drawn anywhere in the box, for each level."""
        boosts = np.random.default_rng(0).uniform(-self.config.a_max, self.config.a_max, (RANDOM, len(FEATURES)))
        rankings, counts = np.unique(self.rankings_of(boosts), axis=0, return_counts=True)
        pages = pages_of(self.laws, rankings)
        shares = counts / RANDOM
        levels = len(self.laws.returns)
        rewards = np.repeat((pages.rewards @ shares)[:, np.newaxis], levels, axis=1)
        moves = np.repeat(np.einsum("prm,r->pm", pages.moves, shares)[:, np.newaxis], levels, axis=1)
        return Pages(rewards, moves)

    def _without_discounts(self) -> IntArray:
        """Return the policy of the page that earns most of those with the least discounts."""
        discounts = self.features[self.rankings_of(self.boosts), 0].sum(axis=1)
        allowed = discounts <= discounts.min() + BETTER
        return self._at_all_levels(np.where(allowed, self.pages.rewards, -np.inf).argmax(axis=1))

    def _best_shaped(self, *, is_felt: bool) -> float:
        """Return the most that a policy is worth that shows what earns most EUR + w x change of satisfaction."""
        levels = np.arange(len(self.laws.returns))
        changes = self._after - levels if is_felt else np.repeat(self._moves[:, np.newaxis], len(levels), axis=1)
        pleased = self.pages.moves @ changes
        unit = self.pages.rewards.max()
        return max(
            self.value_of((self.pages.rewards[..., np.newaxis] + unit * weight * pleased).argmax(axis=1))
            for weight in WEIGHTS
        )
