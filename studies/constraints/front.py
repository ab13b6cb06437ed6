"""The front of a search shop: the highest expected reward at each floor of another quantity, by the true model.

Its points maximise the true Lagrangian, reward + price x quantity, with one vector of boosts per segment, searched by
cross-entropy on visits apart. Between two points lies what a shop gets that shows each to a part of its visits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from studies.held_out import HeldOut
from zoosim.core.rng import stream
from zoosim.core.search_names import FEATURES
from zoosim.core.types import FloatArray, IntArray
from zoosim.optimizers.cem import CEMConfig, cem_optimize
from zoosim.worlds.search.expected_reward import VisitGroup, boost_rewards, groups_of, visits_of
from zoosim.worlds.search.optimum import FIT_START
from zoosim.worlds.search.reward import left_top, weight_array
from zoosim.worlds.search.shop import SearchShop, SearchVisit
from zoosim.worlds.search.truth import SearchTruth

CM2, STRATEGIC = "cm2", "strategic"
PLACES = {CM2: 1, STRATEGIC: 2}
"""Places of the quantities among the weights of a reward."""

PRICES: dict[str, tuple[float, ...]] = {CM2: (2.0, 8.0, 60.0), STRATEGIC: (4.0, 12.0, 40.0)}
"""Multipliers at which the Lagrangian is maximised, EUR per unit."""

FIT_VISITS = 100
"""Visits of each segment on which boosts are searched."""

REPLICATES = 16
"""How often held-out visits are drawn again."""


@dataclass(frozen=True)
class Means:
    """Expected values per visit: `reward` and `cm2` in EUR, `strategic` purchases, products that left the top."""

    reward: float
    cm2: float
    strategic: float
    rank_change: float


@dataclass(frozen=True)
class FrontPoint(Means):
    """The best for a `price` of a `quantity`, in the shop of a `seed`; the free optimum has no quantity, and 0."""

    seed: int
    quantity: str
    price: float


def front_of(shop: SearchShop, held_out: HeldOut) -> list[FrontPoint]:
    """Return the points of the front of a shop, the free optimum first."""
    groups = groups_of(shop, "segment")
    free = [_best(shop, group, weight_array(shop.world.config.reward), None) for group in groups]
    points = [_point(shop, held_out, free, "", 0.0)]
    for quantity, prices in PRICES.items():
        boosts = free
        for price in prices:
            weights = weight_array(shop.world.config.reward)
            weights[PLACES[quantity]] += price
            # From the best at the price before, which is near.
            boosts = [_best(shop, group, weights, start) for group, start in zip(groups, boosts, strict=True)]
            points.append(_point(shop, held_out, boosts, quantity, price))
    return points


def reward_at(points: Sequence[FrontPoint], quantity: str, floor: float) -> float:
    """Return the highest expected reward of points and mixtures with a mean of a quantity of at least `floor`."""
    rewards = np.array([point.reward for point in points])
    values = np.array([getattr(point, quantity) for point in points])
    best = float(np.max(rewards[values >= floor], initial=-np.inf))
    for above in np.flatnonzero(values >= floor):
        for below in np.flatnonzero(values < floor):
            share = (floor - values[below]) / (values[above] - values[below])
            best = max(best, float(share * rewards[above] + (1.0 - share) * rewards[below]))
    return best


def floor_of(points: Sequence[FrontPoint], quantity: str) -> float:
    """Return the floor of a quantity: half of the way from what the free optimum brings to the most on the front."""
    most = max(getattr(point, quantity) for point in points)
    return float(0.5 * (getattr(points[0], quantity) + most))


def means_of(shop: SearchShop, held_out: HeldOut, rankings: Sequence[Sequence[IntArray]]) -> Means:
    """Return the expected values of rankings of the held-out visits, segments by their shares."""
    values = [
        np.mean([_values(shop, visit, shown) for visit, shown in zip(visits, ranked, strict=True)], axis=0)
        for visits, ranked in zip(held_out.visits, rankings, strict=True)
    ]
    return Means(*(held_out.shares @ np.array(values)).tolist())


def _values(shop: SearchShop, visit: SearchVisit, shown: IntArray) -> list[float]:
    truth = SearchTruth(shop)
    config = shop.world.config.reward
    weights = (weight_array(config), *(np.eye(4)[place] for place in PLACES.values()))
    expected = [float(truth.rewards(visit, shown, REPLICATES, counted).mean()) for counted in weights]
    return [*expected, float(left_top(visit.baseline, shown, config.rank_change_at))]


def _point(
    shop: SearchShop, held_out: HeldOut, boosts: Sequence[FloatArray], quantity: str, price: float
) -> FrontPoint:
    rankings = [
        [shop.rank(visit, vector) for visit in visits] for visits, vector in zip(held_out.visits, boosts, strict=True)
    ]
    means = means_of(shop, held_out, rankings)
    return FrontPoint(**vars(means), seed=shop.world.seed, quantity=quantity, price=price)


def _best(shop: SearchShop, group: VisitGroup, weights: FloatArray, start: FloatArray | None) -> FloatArray:
    """Search the boosts `(10,)` of a segment that are best by `weights (4,)`."""
    a_max = shop.world.config.a_max
    visits = visits_of(shop, 0, group, FIT_START, FIT_VISITS)
    wide = CEMConfig(n_samples=48, n_iters=25, a_max=a_max)
    near = CEMConfig(n_samples=32, n_iters=12, a_max=a_max, init_std=0.5 * a_max)
    rng = stream(shop.world.seed, "constraints", group.name)
    config = wide if start is None else near
    return cem_optimize(
        lambda actions: boost_rewards(shop, 0, visits, actions, weights=weights).mean(axis=1),
        len(FEATURES),
        config,
        rng=rng,
        init_mean=start,
    ).action
