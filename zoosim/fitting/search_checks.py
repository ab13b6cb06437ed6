"""Later searches of a log against what a fitted search shop expects: by position, segment, query type and price."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.arrays import codes_of
from zoosim.core.number_format import with_interval
from zoosim.core.rng import stream
from zoosim.core.search_config import Behaviour
from zoosim.core.statistics import Interval, mean_interval
from zoosim.core.types import FloatArray, IntArray
from zoosim.fitting.equivalence import Equivalence, compare_values
from zoosim.fitting.search_behaviour import FittedBehaviour
from zoosim.fitting.search_design import SearchDesign
from zoosim.fitting.search_parameters import ParameterEffects, parameter_effects

REPEATS = 40
"""Times that later searches are simulated."""

PRICE_GROUPS = 5
FALSE_ALARM = 0.05
"""The chance that any part deviates where the fit is right."""

LEAST_CLICKS = 10.0
"""Clicks expected of a part below which it is not tested."""


class PositionCheck(NamedTuple):
    """Clicks and purchases per search at a `position`, from 1: in the log's later searches, and simulated by the fit.

    `click_error` and `purchase_error` are standard errors of the log's figures.
    """

    position: int
    shown: int
    clicks: float
    fitted_clicks: float
    click_error: float
    purchases: float
    fitted_purchases: float
    purchase_error: float


class EarningsCheck(NamedTuple):
    """The mean earnings of a search by clicks and purchases: in the log's later searches, and simulated by the fit.

    `equivalence` says whether both are the same within a margin.
    """

    logged: Interval
    fitted: float
    equivalence: Equivalence

    @property
    def sentence(self) -> str:
        """A sentence on what later searches earn both ways, and whether that is the same."""
        value, interval = with_interval(*self.logged)
        return (
            f"Later searches earn {self.fitted:.4g} each in the fitted world, {value} ({interval}) by the log: "
            f"{self.equivalence.words}."
        )


class PartCheck(NamedTuple):
    """Clicks on a part of what later searches showed, of a `kind` (position, segment, ...): observed and expected.

    `low` to `high` is where 95% of the observed clicks lie if the fit is right. `p` is that of a test of this part,
    corrected for the number of parts (Holm 1979).
    """

    kind: str
    name: str
    shown: int
    clicks: int
    expected: float
    low: float
    high: float
    p: float

    @property
    def deviates(self) -> bool:
        """True where the fit is wrong about this part beyond chance."""
        return self.p < FALSE_ALARM


class LaterSearches(NamedTuple):
    """Searches that a fit to `n_earlier` others has not seen.

    Their `design`, what a purchase is `worth (n, L)`, and who searched, `users (n,)`.
    """

    n_earlier: int
    design: SearchDesign
    worth: FloatArray
    worth_of_click: float
    users: IntArray
    segments: tuple[str, ...]
    query_types: tuple[str, ...]


class SearchChecks(NamedTuple):
    """Checks of a fit by later searches: by position, what they earn, and clicks by part."""

    positions: tuple[PositionCheck, ...]
    earned: EarningsCheck
    parts: tuple[PartCheck, ...]


def check_searches(fitted: FittedBehaviour, later: LaterSearches) -> SearchChecks:
    """Simulate later searches by a fit to the earlier ones, and compare."""
    rng = stream(0, "fit-search-world", "check")
    effects = parameter_effects(later.design, fitted.layout)
    values = fitted.layout.pack(fitted.estimates)
    runs = [simulate(effects, values, later.design, rng=rng) for _ in range(REPEATS)]
    clicks = np.mean([run[0] for run in runs], axis=0)
    purchases = np.mean([run[1] for run in runs], axis=0)
    earned = _earned(later.design.clicks, later.design.purchases, later)
    simulated = np.array([_earned(*run, later).mean() for run in runs])
    return SearchChecks(
        _by_position(later.design, clicks, purchases),
        _compare_earnings(mean_interval(earned), simulated, len(earned)),
        _by_part(later, clicks),
    )


def simulate(
    effects: ParameterEffects, values: FloatArray, design: SearchDesign, *, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw clicks and purchases `(n, L)` of the rankings in a design, as a search world of parameters `(P,)` would."""
    usual = Behaviour()
    predictors = effects.predictors(values)
    n, length = design.shown.shape
    taste = predictors.price_sd * rng.normal(size=n)
    # A taste per search rather than per user, as the likelihood sums tastes out search by search.
    utility = predictors.utility + taste[:, None] * design.log_price + usual.utility_sd * rng.normal(size=(n, length))
    odds = predictors.purchase_slope[:, None] * utility + predictors.purchase
    # All at once: a run takes as many draws whatever visitors do.
    draws = rng.random((3, n, length))
    clicks, purchases = np.zeros((2, n, length))
    satisfaction = np.zeros(n)
    present = np.ones(n, bool)
    for place in range(length):
        chance = special.expit(predictors.look[:, place] + predictors.examine_satisfaction * satisfaction)
        present &= (design.shown[:, place] > 0) & (draws[0, :, place] < chance)
        clicked = present & (draws[1, :, place] < special.expit(utility[:, place]))
        bought = clicked & (draws[2, :, place] < special.expit(odds[:, place]))
        clicks[:, place] = clicked
        purchases[:, place] = bought
        gain = np.where(clicked, usual.click_satisfaction * utility[:, place], usual.skip_satisfaction)
        satisfaction += np.where(present, gain + usual.purchase_satisfaction * bought, 0.0)
        # Who is just at the limit stays, also where the sum was rounded down.
        present &= (purchases.sum(axis=1) < usual.max_purchases) & (satisfaction >= usual.leave_below - 1e-9)
    return clicks, purchases


def _compare_earnings(logged: Interval, simulated: FloatArray, searches: int) -> EarningsCheck:
    """Compare what a search earns in the log with its mean in each of several simulated runs `(REPEATS,)`."""
    fitted = float(simulated.mean())
    error = float(simulated.std(ddof=1)) / math.sqrt(len(simulated))
    return EarningsCheck(logged, fitted, compare_values(fitted, error, logged, logged.mean, searches))


def _earned(clicks: FloatArray, purchases: FloatArray, later: LaterSearches) -> FloatArray:
    """Return what each search earns `(n,)`."""
    earned: FloatArray = (later.worth_of_click * clicks + later.worth * purchases).sum(axis=1)
    return earned


def _by_position(design: SearchDesign, clicks: FloatArray, purchases: FloatArray) -> tuple[PositionCheck, ...]:
    n = len(design.segment)
    columns = []
    for seen, fitted in ((design.clicks, clicks), (design.purchases, purchases)):
        columns += [seen.mean(axis=0), fitted.mean(axis=0), np.sqrt(seen.var(axis=0) / n)]
    shown = design.shown.sum(axis=0).astype(int)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(PositionCheck(place + 1, int(shown[place]), *row) for place, row in enumerate(rows))


def _by_part(later: LaterSearches, expected: FloatArray) -> tuple[PartCheck, ...]:
    """Compare clicks by part with those `expected (n, L)`.

    The error of a part's clicks is that of the sum of what its users click beyond expectation, users being
    independent. The fit's own error is at most that of a fit which knows of nothing but this part: as many searches as
    were fitted to are to the later ones.
    """
    design = later.design
    surplus = design.clicks - expected
    # Of the searches themselves, of the fit to the earlier ones, and of the mean of so many simulated runs.
    inflation = 1.0 + len(design.segment) * (1.0 / later.n_earlier + 1.0 / (REPEATS * len(design.segment)))
    users = codes_of(later.users)
    raw = []
    for kind, name, mask in _parts(later):
        total = float((expected * mask).sum())
        if total < LEAST_CLICKS:
            continue
        by_user = np.bincount(users, (surplus * mask).sum(axis=1))
        error = float(np.sqrt(inflation * (by_user**2).sum()))
        clicks = int((design.clicks * mask).sum())
        # A sum over many users is nearly normal; `LEAST_CLICKS` keeps out those that are not.
        p = 2.0 * float(special.ndtr(-abs(clicks - total) / error))
        # Uncorrected for the number of parts, unlike `p` in the end.
        low, high = (max(0.0, total + sign * 1.96 * error) for sign in (-1.0, 1.0))
        raw.append(PartCheck(kind, name, int((design.shown * mask).sum()), clicks, total, low, high, p))
    return _corrected(raw)


def _corrected(parts: list[PartCheck]) -> tuple[PartCheck, ...]:
    """Return parts with p-values corrected for their number (Holm 1979)."""
    corrected = [part.p for part in parts]
    largest = 0.0
    # The smallest p counts as many times as there are parts, the next once less, ...; none ends below a smaller one.
    for rank, place in enumerate(np.argsort([part.p for part in parts], kind="stable")):
        largest = max(largest, min(1.0, (len(parts) - rank) * parts[place].p))
        corrected[place] = largest
    return tuple(part._replace(p=p) for part, p in zip(parts, corrected, strict=True))


def _parts(later: LaterSearches) -> Iterator[tuple[str, str, FloatArray]]:
    """Yield the kind and the name of each part, and what belongs to it `(n, L)` of what was shown, 0 or 1."""
    design = later.design
    shown = design.shown
    segments = [(name, (design.segment == number)[:, None]) for number, name in enumerate(later.segments)]
    types = [(name, (design.query_type == number)[:, None]) for number, name in enumerate(later.query_types)]
    prices = np.exp(design.log_price) - 1.0
    edges = np.quantile(prices[shown > 0], np.linspace(0.0, 1.0, PRICE_GROUPS + 1))
    of_price = np.searchsorted(edges[1:-1], prices)
    # Where prices repeat, edges coincide, and nothing lies between them.
    groups = [
        (f"{edges[number]:.3g} to {edges[number + 1]:.3g}", of_price == number)
        for number in range(PRICE_GROUPS)
        if edges[number] < edges[number + 1]
    ]
    for position in range(shown.shape[1]):
        yield "position", str(position + 1), shown * (np.arange(shown.shape[1]) == position)
    for kind, named in (("segment", segments), ("query type", types), ("price", groups)):
        for name, mask in named:
            yield kind, name, shown * mask
    for one_kind, one, other_kind, other in (
        ("segment", segments, "price", groups),
        ("segment", segments, "query type", types),
    ):
        for first, mask in one:
            for second, also in other:
                yield f"{one_kind}, {other_kind}", f"{first}, {second}", shown * mask * also
