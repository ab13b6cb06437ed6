"""A sequential test of the difference of two concurrent arms' mean rewards, valid however often it is looked at.

Each event is a decision of the new policy (*treated*) or of the *holdback*, drawn with a known share s, the chance of
being treated. With a = 1 where it was treated, x its reward and q any guess of x made before the arm was drawn,

    z = (a - s) (x - q),   E[z | what came before] = s (1 - s) (mean of the new policy - mean of the holdback),

whatever the two means are at that hour. So the sign of the mean of z tells which arm is better while rewards swing in
both arms alike, and while shares change at a ramp's step; a test against a mean of last week would alarm each night. A
margin shifts z (absolute), or takes a part off the holdback's rewards (relative). Bets on z against a hypothesis are
kept as wealth (`zoosim.monitoring.wealth`; Waudby-Smith & Ramdas 2024; Turner, Ly & Grünwald 2024 for two samples).

The best stake per unit of z is d / v, with d the difference to be found and v the variance of x - q: the shares drop
out of it. Both are estimated from what came before. The better the guess q, the smaller v, and the fewer events are
needed in proportion (a control variate): q is the mean of the event's stratum so far, plus the regression of the
reward on the caller's prediction.

Three things make the test wrong, and nothing here can notice them:

- *A prediction that knows the arm*, such as that of the product that was shown. Average it over the arms.
- *Events that are no draws of their own.* Where visitors keep their arm, the visitor is drawn, not the visit: give one
  event per visitor, with the sum of what came in a span that is the same for all.
- *Events in the order of their rewards*, as clicks come sooner than their absence. Give them in the order in which they
  were decided, each once its wait is over.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.jit import inlined, jit
from zoosim.core.limits import COUNTS
from zoosim.core.state import Stateful
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.monitoring.sample_size import information, information_needed
from zoosim.monitoring.wealth import Wealth, bet, new_wealth, note

HARM, NOT_WORSE, BETTER = range(3)
"""What can be shown: worse than the holdback by more than the margin, not worse than that, better than the holdback."""

LARGEST_STAKE = 0.6
"""Largest stake per unit of z; |z| is at most 1.25, so that a bet loses at most three quarters."""

SHRINKAGE = 20.0
"""Events that the mean of all weighs in the mean of a stratum."""

RATES = 2.0 ** -np.arange(1, 25)
"""Rates over which the interval's boundary is mixed."""


@dataclass(frozen=True)
class Reward:
    """A reward that two arms are compared by, and which differences matter.

    Attributes:
        name: What it is called.
        low, high: Its bounds per event, with low <= 0 < high; rewards beyond are refused.
        margin: By how much the new policy may be worse.
        drop: The drop that the test is set to find, above the margin.
        lift: The improvement that the test is set to find.
        relative: Whether these three are parts of the holdback's mean, or in units of the reward. Parts need a mean
            above 0: while it is not, nothing is staked, and nothing shown.
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    margin: float = 0.0
    drop: float = 0.2
    lift: float = 0.1
    relative: bool = True

    def __post_init__(self) -> None:
        """Check the numbers; raises `ConfigError`."""
        numbers = (self.low, self.high, self.margin, self.drop, self.lift)
        if not all(math.isfinite(number) for number in numbers) or not self.low <= 0.0 < self.high:
            raise ConfigError(f"reward {self.name}: low {self.low:g}, high {self.high:g}; expected low <= 0 < high")
        most = 1.0 if self.relative else self.high - self.low
        if not 0.0 <= self.margin < self.drop <= most:
            raise ConfigError(
                f"reward {self.name}: margin {self.margin:g}, drop {self.drop:g}; "
                f"expected 0 <= margin < drop <= {most:g}: only a drop above the margin can be found"
            )
        if self.lift <= 0.0:
            raise ConfigError(f"reward {self.name}: lift {self.lift:g}, expected above 0")

    @property
    def distances(self) -> FloatArray:
        """Distances of what is to be shown from its hypothesis: harm, not worse, better."""
        return np.array([self.drop - self.margin, self.margin or self.lift, self.lift])


class Estimate(NamedTuple):
    """A difference, new policy less holdback, with an interval that holds at all times at once."""

    difference: float
    low: float
    high: float
    holdback: float


class DifferenceState(NamedTuple):
    """Sums over the events; rewards are divided by high - low.

    `cells (1 + strata, 3)`: of all, then of each stratum, the count and the sums of rewards and of predictions. `fit
    (4,)`: sum of squares of x - q; sums of prediction times reward and of prediction squared, each less its mean; the
    largest square of x - q.
    `difference (3,)`: sums of z, of z squared and of s (1 - s). `holdback (2,)`: of the holdback's events, the sums of
    s x and of s. `treated ()`: number of events of the new policy.
    """

    cells: FloatArray
    fit: FloatArray
    difference: FloatArray
    holdback: FloatArray
    treated: Annotated[IntArray, COUNTS]


class _Terms(NamedTuple):
    """A reward's terms for the kernel, divided by high - low."""

    low: float
    high: float
    unit: float  # of margin and distances, or 0 where that is the mean reward
    margin: float
    distances: FloatArray
    thresholds: FloatArray


class _Events(NamedTuple):
    """Checked events in their order; rewards divided by high - low."""

    treated: FloatArray
    share: FloatArray
    reward: FloatArray
    prediction: FloatArray
    stratum: IntArray


class DifferenceTest(Stateful):
    """Compare the rewards of a new policy with those of a holdback that decides at the same time."""

    learned = ("_state", "_wealth")

    def __init__(self, reward: Reward, *, levels: Sequence[float] = (0.01, 0.01, 0.01), strata: int = 1) -> None:
        """Begin without events.

        Args:
            reward: The reward, its bounds, margin, and the differences that matter.
            levels: Probability of ever wrongly showing harm, not worse, better.
            strata: Number of strata; events name theirs from 0 on.

        Raises:
            ConfigError: a level is not inside (0, 1), or there is no stratum.
        """
        if len(levels) != 3 or not all(0.0 < level < 1.0 for level in levels):
            raise ConfigError(f"reward {reward.name}: levels {tuple(levels)}, expected three inside (0, 1)")
        if strata < 1:
            raise ConfigError(f"reward {reward.name}: {strata} strata, expected at least 1")
        self.reward = reward
        self.levels = tuple(levels)
        self.strata = strata
        self._range = reward.high - reward.low
        self._state = DifferenceState(
            np.zeros((1 + strata, 3)), np.zeros(4), np.zeros(3), np.zeros(2), np.zeros((), np.int64)
        )
        self._terms = _Terms(
            reward.low / self._range,
            reward.high / self._range,
            0.0 if reward.relative else 1.0 / self._range,
            reward.margin,
            reward.distances,
            1.0 / np.array(self.levels),
        )
        self._wealth = new_wealth(3)

    def update(
        self,
        treated: ArrayLike,
        share: ArrayLike,
        reward: ArrayLike,
        prediction: ArrayLike | None = None,
        stratum: ArrayLike | None = None,
    ) -> None:
        """Take events, in the order in which they were decided; the same bits follow from batches of any size.

        Args:
            treated: Whether each event was the new policy's, `(n,)`.
            share: Chance that it would be, given that it was one of the two arms, inside (0, 1), `(n,)` or one number.
            reward: What it brought, from `low` to `high`, `(n,)`.
            prediction: What was expected of it, made without knowing the arm, finite, `(n,)`.
            stratum: Its stratum, known before the arm was drawn, from 0 to `strata` - 1, `(n,)`.

        Raises:
            DataError: something is out of range; nothing has changed then.
        """
        events = self._checked(treated, share, reward, prediction, stratum)
        _observe_all(self._state, self._wealth, self._terms, events)

    def _checked(self, treated: Any, share: Any, reward: Any, prediction: Any, stratum: Any) -> _Events:
        """Return the events; raises `DataError`."""
        rewards = self._numbers("reward", reward, None)
        n = len(rewards)
        events = _Events(
            self._numbers("treated", treated, n),
            self._numbers("share", share, n),
            rewards / self._range,
            self._numbers("prediction", 0.0 if prediction is None else prediction, n) / self._range,
            self._numbers("stratum", 0 if stratum is None else stratum, n).astype(np.int64),
        )
        rules = {
            "treated": ((events.treated == 0.0) | (events.treated == 1.0), "0 or 1"),
            "share": ((events.share > 0.0) & (events.share < 1.0), "a chance inside (0, 1)"),
            "reward": (
                (rewards >= self.reward.low) & (rewards <= self.reward.high),
                f"{self.reward.low:g} to {self.reward.high:g}",
            ),
            "stratum": (
                (events.stratum >= 0) & (events.stratum < self.strata),
                f"0 to {self.strata - 1}",
            ),
        }
        given = {"treated": treated, "share": share, "reward": reward, "stratum": stratum}
        for name, (is_right, expected) in rules.items():
            if not is_right.all():
                value = np.broadcast_to(np.asarray(given[name]), (n,))[int(np.argmin(is_right))]
                raise DataError(f"reward {self.reward.name}: {name}: got {value}, expected {expected}")
        return events

    def _numbers(self, name: str, values: Any, n: int | None) -> FloatArray:
        """Return finite numbers `(n,)`, where one stands for all; raises `DataError`."""
        try:
            array = np.asarray(values, np.float64)
            if array.ndim == 0 and n is not None:
                array = np.full(n, array)
        except (TypeError, ValueError):
            raise DataError(f"reward {self.reward.name}: {name}: expected numbers, got {values!r:.60}") from None
        if array.ndim != 1 or n not in (None, len(array)):
            wanted = "one per event" if n is None else f"({n},), one per event"
            raise DataError(f"reward {self.reward.name}: {name}: got the shape {array.shape}, expected {wanted}")
        if not np.isfinite(array).all():
            raise DataError(f"reward {self.reward.name}: {name}: got a number that is not finite")
        return array

    @property
    def events(self) -> int:
        """Number of events so far."""
        return int(self._state.cells[0, 0])

    @property
    def evidence(self) -> FloatArray:
        """Evidence for harm, not worse, better: the wealth of one who bets against their opposite, cut at 1e30."""
        return np.asarray(self._wealth.accounts.sum(axis=1) + self._wealth.reserve)

    @property
    def peaks(self) -> FloatArray:
        """The largest evidence so far, of each; at 1 / level or more, it is shown."""
        return self._wealth.peaks.copy()

    @property
    def shown(self) -> BoolArray:
        """True for what is shown of harm, not worse, better."""
        return np.asarray(self._wealth.found_at > 0)

    @property
    def shown_at(self) -> IntArray:
        """Number of events at which harm, not worse, better was first shown; 0 for not yet."""
        return self._wealth.found_at.copy()

    def remaining(self, claim: int, share: float, *, power: float = 0.5) -> float:
        """Return how many more events it takes to show what is claimed, if the difference is the one to be found.

        Args:
            claim: HARM, NOT_WORSE or BETTER.
            share: Chance that an event is the new policy's, from 0 to 1.
            power: Probability that it is shown by then.

        Returns:
            The number, 0 once it is shown, infinity while nothing was earned, or where one policy has all events.
        """
        if self._wealth.found_at[claim]:
            return 0.0
        unit = self._terms.unit or max(float(self._state.cells[0, 1]), 0.0) / (self.events + 1.0)
        if unit == 0.0:
            return math.inf
        variance = float(_variance(self._state))
        threshold = 1.0 / self.levels[claim]
        held_back = float(self._wealth.reserve[claim])
        needed = information_needed(threshold, self._wealth.accounts[claim], held_back, power=power)
        told = information(float(self.reward.distances[claim]) * unit, variance, share)
        return needed / told if told else math.inf

    def estimate(self, level: float = 0.01) -> Estimate:
        """Return the difference, in units of the reward; NaN before the first event.

        The average of the differences at each event, weighted by s (1 - s). Each end of the interval is on the wrong
        side of it, ever, with a probability of at most `level` (empirical Bernstein bound, mixed over rates: Howard,
        Ramdas, McAuliffe & Sekhon 2021, theorem 4).
        """
        total, squares, weight = self._state.difference
        if weight == 0.0:
            return Estimate(math.nan, math.nan, math.nan, math.nan)
        scale = self._range / float(weight)
        half = _boundary(float(squares), level) * scale
        difference = float(total) * scale
        low, high = max(difference - half, -self._range), min(difference + half, self._range)
        held, held_weight = self._state.holdback.tolist()
        return Estimate(difference, low, high, held / held_weight * self._range if held_weight else math.nan)


@jit
def _observe_all(state: DifferenceState, wealth: Wealth, terms: _Terms, events: _Events) -> None:
    """Take events one after the other."""
    for i in range(len(events.reward)):
        reward = events.reward[i]
        treated = events.treated[i]
        share = events.share[i]
        before = int(state.cells[0, 0])
        mean = state.cells[0, 1] / (before + 1.0)
        variance = _variance(state)
        guess = _guess(state, terms, reward, events.prediction[i], events.stratum[i])
        residual = reward - guess
        side = treated - share
        weight = share * (1.0 - share)
        z = side * residual
        unit = terms.unit
        if unit > 0.0:
            z_margin = z + weight * terms.margin * unit
        else:
            unit = max(mean, 0.0)
            kept = 1.0 - terms.margin * (1.0 - treated)
            z_margin = side * (reward * kept - guess)
        for claim in range(3):
            outcome = z if claim == BETTER else z_margin
            if claim == HARM:
                outcome = -outcome
            stake = terms.distances[claim] * unit / variance
            total = bet(wealth, claim, outcome, stake, LARGEST_STAKE, weight * variance)
            note(wealth, claim, total, before + 1, terms.thresholds[claim])
        state.fit[0] += residual * residual
        state.fit[3] = max(state.fit[3], residual * residual)
        state.difference[0] += z
        state.difference[1] += z * z
        state.difference[2] += weight
        state.holdback[0] += (1.0 - treated) * share * reward
        state.holdback[1] += (1.0 - treated) * share
        state.treated[()] += int(treated)


@inlined
def _variance(state: DifferenceState) -> float:
    """Return the variance of x - q so far."""
    # One event more, at the largest square so far or the largest variance that there is: the first stakes are small.
    prior = min(state.fit[3], 0.25) if state.fit[3] > 0.0 else 0.25
    return float((state.fit[0] + prior) / (state.cells[0, 0] + 1.0))


@inlined
def _guess(state: DifferenceState, terms: _Terms, reward: float, prediction: float, stratum: int) -> float:
    """Return a guess of an event's reward by what came before it, and add the event to the sums that guesses use."""
    overall = state.cells[0]
    own = state.cells[1 + stratum]
    n = overall[0] + 1.0
    level = (own[1] + SHRINKAGE * overall[1] / n) / (own[0] + SHRINKAGE)
    deviation = prediction - (own[2] + SHRINKAGE * overall[2] / n) / (own[0] + SHRINKAGE)
    slope = state.fit[1] / (state.fit[2] + 1.0)
    state.fit[1] += deviation * (reward - level)
    state.fit[2] += deviation * deviation
    for cell in (overall, own):
        cell[0] += 1.0
        cell[1] += reward
        cell[2] += prediction
    return float(min(max(level + slope * deviation, terms.low), terms.high))


def _boundary(squares: float, level: float) -> float:
    """Return what a sum of z less its mean exceeds, ever, with a probability of at most `level`.

    exp(r sum - psi(r) squares) is a supermartingale for each rate r, psi(r) = -ln(1 - r) - r, since z >= -1; so is
    their mixture over `RATES`. The boundary is where that is 1 / level; found by bisection.
    """
    offsets = (-np.log1p(-RATES) - RATES) * squares
    log_threshold = -math.log(level)
    low, high = 0.0, 1.0 + 4.0 * math.sqrt((squares + 1.0) * math.log(len(RATES) / level)) + squares
    for _ in range(40):
        middle = (low + high) / 2.0
        exponents = RATES * middle - offsets
        # By the functions that `max` and `mean` call: for so few rates, calling these takes most of the time.
        largest = np.maximum.reduce(exponents)
        log_mean = largest + math.log(np.add.reduce(np.exp(exponents - largest)) / len(RATES))
        if log_mean < log_threshold:
            low = middle
        else:
            high = middle
    return high
