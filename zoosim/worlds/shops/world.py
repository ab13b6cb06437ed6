"""A drawn shop as a world: its visits, each with its candidates, what they earn, and what they could."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from zoosim.core.feedback import FeedbackTiming
from zoosim.core.rng import stream_key
from zoosim.core.types import frozen
from zoosim.worlds.built import BuiltWorld
from zoosim.worlds.facts import EUROS, Change, Trait
from zoosim.worlds.shops.behaviour import ResponseEffects, draw_behaviour
from zoosim.worlds.shops.config import ShopsConfig
from zoosim.worlds.shops.draw import Arrivals, ShopCatalogue, ShopParameters, draw_arrivals, draw_catalogue, draw_kind
from zoosim.worlds.shops.payment import Payment, draw_earnings, draw_payment, expected_earnings
from zoosim.worlds.shops.traits import traits_of
from zoosim.worlds.table import Period, TableWorld, VisitBatch


@dataclass(frozen=True, kw_only=True)
class ShopWorld(TableWorld):
    """A shop of a `kind`. A block of visits is a table of its own, with a row per visit and a column per candidate."""

    kind: ShopParameters
    catalogue: ShopCatalogue
    behaviour: ResponseEffects
    payment: Payment
    arrivals: Arrivals
    size_key: np.uint64
    feedback: FeedbackTiming

    @property
    def n_users(self) -> int:
        """Count the visitors who may come."""
        return self.kind.n_visitors

    def visits(self, start: int, stop: int) -> VisitBatch:
        """Return visits `start` to `stop - 1`, which must lie in one period."""
        rows = self.visitors(start, stop)
        offered = self.offered(start).rows
        chances = special.expit(self.behaviour.logits(self.kind, self.catalogue, self.arrivals, rows, offered))
        table = expected_earnings(chances, offered, self.payment)
        rewards = draw_earnings(start, chances, offered, self.payment, self.click_key, self.size_key)
        return self.visits_apart(start, rows, self.arrivals.visitors[rows], table, rewards)

    def before(self) -> "ShopWorld":
        """Return the shop as it stood before visit 0, with visits and responses of their own."""
        arrivals = draw_arrivals(self.kind, len(self.arrivals.steps), self.seed, "past visits")
        return replace(
            self,
            periods=self.periods[:1],
            shocks=(),
            users=arrivals.features(self.kind),
            arrivals=arrivals,
            # Tastes as they are at visit 0: the past must not know how they move.
            behaviour=self.behaviour._replace(tastes=self.behaviour.tastes.standing()),
            click_key=stream_key(self.seed, "past clicks"),
            size_key=stream_key(self.seed, "past sizes"),
        )


class Shops(BuiltWorld):
    """Shops of all kinds, one for each seed; the parameters say what they are drawn from."""

    parameter_record = ShopsConfig
    reward_scale = EUROS
    reward_range = (-np.inf, np.inf)
    has_past = True

    def __init__(self, seed: int, steps: int, **params: Any) -> None:
        """Prepare the shop of a seed.

        Args:
            seed: Seed of all its draws.
            steps: Length of the run, in visits.
            **params: Parameters by name; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown or invalid.
        """
        super().__init__(seed, steps, **params)
        # Of any shop that may be drawn, as this one is not yet.
        self.reward_range = reward_range(way for way, share in self.config.pays.items() if share)

    def for_policy(self, action_space: str, params: Mapping[str, Any]) -> ShopWorld:
        """Return the shop as every policy sees it."""
        return build_shop_world(self.config, seed=self.seed, steps=self.steps)

    def reported_traits(self, delay: int) -> Sequence[Trait]:
        """Return what kind of shop this is; a run's `delay` takes the place of its own."""
        kind = draw_kind(self.config, self.seed)
        return traits_of(replace(kind, delay=delay or kind.delay))


def build_shop_world(config: ShopsConfig, *, seed: int, steps: int) -> ShopWorld:
    """Return the shop of a seed.

    Args:
        config: What shops are drawn from.
        seed: Seed of all draws.
        steps: Length of the run, in visits.
    """
    kind = draw_kind(config, seed)
    catalogue = draw_catalogue(kind, steps, seed)
    arrivals = draw_arrivals(kind, steps, seed, "visits")
    behaviour = draw_behaviour(kind, catalogue, arrivals, seed)
    everything = frozen(np.ones(kind.n_offered, bool))
    none = frozen(np.zeros((0, 0)))
    # Sudden changes alone; gradual and seasonal drift have no visit to mark.
    changes = behaviour.tastes.starts[1:].astype(int)
    return ShopWorld(
        seed=seed,
        users=arrivals.features(kind),
        segments=frozen(np.zeros(0, np.int64)),
        products=catalogue.features(kind),
        groups=frozen(catalogue.categories),
        periods=tuple(Period(start, none, everything, offered) for start, offered in catalogue.offers.items()),
        segment_names=(),
        group_names=tuple(f"category {number}" for number in range(1, kind.n_categories + 1)),
        visit_key=stream_key(seed, "visits"),
        click_key=stream_key(seed, "clicks"),
        size_key=stream_key(seed, "sizes"),
        shocks=tuple(Change(int(step), f"change {number}") for number, step in enumerate(changes, start=1)),
        reward_range=reward_range([kind.pays]),
        # Row i of `users` is visit i, not a visitor, since some of a visitor's numbers change from visit to visit.
        schedule=frozen(np.arange(steps)),
        kind=kind,
        catalogue=catalogue,
        behaviour=behaviour,
        payment=draw_payment(kind, catalogue, seed),
        arrivals=arrivals,
        feedback=FeedbackTiming(kind.delay),
    )


def reward_range(pays: Iterable[str]) -> tuple[float, float]:
    """Return the least and the largest reward of a visit in shops that pay in these ways."""
    ways = set(pays)
    low = -np.inf if ways & {"margin", "mixture"} else 0.0
    return (low, 1.0 if ways <= {"click", "purchase"} else np.inf)
