"""Shops of known truth whose logs launches are rehearsed by: who comes, what they click, and what is shown today."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from studies.small_shops import Effects, EffectsShop, draw_effects
from zoosim.core.durations import DAY
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.rehearsal.launches.traffic import Traffic, traffic_of

LOG_DAYS = 7.0
ROWS_A_VISITOR = 2
VISITOR_SPREAD = 0.5
"""Visitors click more or less by a normal effect of this standard deviation on the logit; no feature tells of it."""

TRUE_VISITS = 20_000
"""Visits of the true shop that launches are replayed among, drawn anew for each."""


class Kind(NamedTuple):
    """A kind of shop, and what is launched in it.

    Attributes:
        effects: What its products are clicked for.
        rows: Rows of its log, which come in seven days.
        floor: The share of today's choices that is spread evenly.
        ignorance: The standard deviation by which today's choices err about logits.
        policy: What is trained on the log and launched.
    """

    effects: Effects
    rows: int
    floor: float
    ignorance: float
    policy: str

    @property
    def words(self) -> str:
        """Say what is special about it."""
        return f"{self.effects.products} products, {self.rows:,} rows, ignorance {self.ignorance:g}"


def draw_kind(seed: int) -> Kind:
    """Draw the kind of the shop of a seed."""
    rng = stream(seed, "kind of a launch")
    effects = Effects(
        products=int(rng.choice((12, 20))),
        categories=3,
        segments=4,
        base=float(rng.choice((-2.5, -1.5))),
        taste=float(rng.choice((0.4, 0.8))),
        own=float(rng.choice((0.4, 0.8))),
    )
    return Kind(
        effects=effects,
        rows=int(rng.choice((4_000, 10_000))),
        floor=float(rng.choice((0.1, 0.3))),
        ignorance=float(rng.choice((0.1, 0.3, 0.8))),
        policy=str(rng.choice(("linear", "linucb", "mixed-effects"))),
    )


class Visits(NamedTuple):
    """Visits of a shop: segment, visitor, and the visitor's own effect on the logit, `(n,)` each."""

    segment: IntArray
    visitor: IntArray
    effect: FloatArray


@dataclass(frozen=True)
class TrueShop:
    """A shop of known truth, `kind` and `seed`; `truth` is what its products are clicked for."""

    kind: Kind
    seed: int
    truth: EffectsShop

    @property
    def today(self) -> FloatArray:
        """How likely today's choices show each product to each segment `(S, P)`."""
        rng = stream(self.seed, "today's choices")
        believed = special.logit(self.truth.rates)
        believed = believed + rng.normal(0.0, self.kind.ignorance, believed.shape)
        best = np.eye(believed.shape[1])[believed.argmax(axis=1)]
        return np.asarray((1.0 - self.kind.floor) * best + self.kind.floor / believed.shape[1])

    def visits(self, n: int, rng: np.random.Generator) -> Visits:
        """Draw visits of new visitors."""
        n_visitors = -(-n // ROWS_A_VISITOR)
        segments = rng.integers(0, self.kind.effects.segments, n_visitors)
        effects = rng.normal(0.0, VISITOR_SPREAD, n_visitors)
        visitor = rng.permutation(np.arange(n) // ROWS_A_VISITOR)
        return Visits(segments[visitor], visitor, effects[visitor])

    def rates(self, visits: Visits) -> FloatArray:
        """Return how likely visits click each product `(n, P)`."""
        return np.asarray(special.expit(special.logit(self.truth.rates)[visits.segment] + visits.effect[:, None]))

    def log(self) -> Log:
        """Draw the log."""
        rng = stream(self.seed, "log of a launch")
        n = self.kind.rows
        visits = self.visits(n, rng)
        chances = self.today[visits.segment]
        actions = (chances.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(max=chances.shape[1] - 1)
        rates = self.rates(visits)[np.arange(n), actions]
        zeros = np.zeros(n, np.int64)
        features = self.truth.features
        return Log(
            actions=actions,
            propensities=chances[np.arange(n), actions],
            rewards=(rng.random(n) < rates).astype(float),
            candidates=CandidateSets.everything(chances.shape[1]),
            candidate_set=zeros,
            features=np.eye(self.kind.effects.segments)[visits.segment],
            positions=zeros,
            products=features,
            categories=tuple(f"category {category}" for category in self.truth.categories),
            user_ids=visits.visitor,
            times=(np.arange(n) * (LOG_DAYS * DAY / n)).astype(np.int64),
        )


@dataclass(frozen=True)
class TrueEarnings:
    """What visits truly earn, by today's choices and by the new model; see `zoosim.rehearsal.launches.outcome`."""

    today: FloatArray
    new: FloatArray

    def draw(self, rows: IntArray, is_new: bool, rng: np.random.Generator) -> FloatArray:
        """Draw what visits earn."""
        rates = self.new if is_new else self.today
        return (rng.random(len(rows)) < rates[rows]).astype(float)


def true_launch(shop: TrueShop, chances: FloatArray, rng: np.random.Generator) -> tuple[TrueEarnings, Traffic]:
    """Return what visitors of the true shop earn, and who comes.

    Args:
        shop: The shop.
        chances: How likely the new model shows each product to each segment `(S, P)`.
        rng: Source of the visitors.
    """
    visits = shop.visits(TRUE_VISITS, rng)
    rates = shop.rates(visits)
    earnings = TrueEarnings(
        (rates * shop.today[visits.segment]).sum(axis=1), (rates * chances[visits.segment]).sum(axis=1)
    )
    period = 24.0 * LOG_DAYS
    hours = np.arange(TRUE_VISITS) * period / TRUE_VISITS
    return earnings, traffic_of(visits.visitor, hours, period, shop.kind.rows / TRUE_VISITS)


def true_shop(seed: int) -> TrueShop:
    """Return the shop of a seed."""
    kind = draw_kind(seed)
    return TrueShop(kind, seed, draw_effects(kind.effects, seed))
