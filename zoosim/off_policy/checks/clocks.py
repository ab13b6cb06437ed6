"""Rewards booked on another row than that of their choice: clocks of hosts that differ, or clicks joined late."""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from zoosim.core.durations import MICROSECONDS
from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray, frozen_view
from zoosim.off_policy.checks.choices import ChoiceTerms
from zoosim.off_policy.checks.probe import LEAST_ROWS, Probe, runs_of_rows, sure_errors
from zoosim.off_policy.verdict import VerdictReasons

ROWS_LATE = (1, 2, 3, 4, 5, 6)
"""Rows by which rewards may be late."""

USER_ROWS_LATE = (1, 2, 3)
"""Within how many rows of their user they may be."""

SPACINGS, STEPS = 20.0, 80
"""Longest delay of rewards, in median spacings of rows, and number of delays that are tried up to that."""

CHANCE = 2e-3
"""Probability that a sound log fails by lags: few rows in thousands are enough to fool, and hard to see."""

LIKELY = 0.05
"""P-value up to which rewards are taken to go by the choices that a moved clock would join them to."""

RUNS, RUN = 10, 2_000
"""Runs of neighbouring rows that are looked at."""


class _Lag(NamedTuple):
    """Rows that were `shown`, and those in which their rewards would be booked, so much earlier or later.

    With `is_of_users` these are rows of one user each.
    """

    name: str
    shown: IntArray
    earned: IntArray
    is_of_users: bool = False

    @property
    def mirrored(self) -> "_Lag":
        """The rows that earned as those that were shown."""
        return _Lag(self.name, self.earned, self.shown)

    @property
    def is_telling(self) -> bool:
        """True if there are enough rows."""
        return len(self.shown) >= LEAST_ROWS


def check_clocks(findings: VerdictReasons, probe: Probe, choices: ChoiceTerms) -> None:
    """Look for rewards that go by what was shown in another row: before, at another time, or to the same user.

    What visitors were shown by chance says nothing of what is earned afterwards in other rows. Nor do rewards of a row
    go by how many decisions, some time before it, ended within the pause that follows it: where clocks differ, all
    clicks of these are joined to it.
    """
    order = probe.order
    if order is None or not probe.residuals.any() or len(np.unique(probe.log.actions)) < 2:
        return
    order = order[runs_of_rows(len(order), RUNS, RUNS * RUN)]
    families = [[lag for lag in lags if lag.is_telling] for lags in (_lags(probe, order), _delayed_lags(probe, order))]
    lags = [lag for family in families for lag in family]
    if not lags:
        return
    # Each family, in each direction, has its share of the chance: the few near rows do not pay for many delays.
    tests = np.concatenate([np.full(len(family), 4.0 * len(family)) for family in families])
    for when, likelihoods_of in (("before", _likelihoods), ("after", _likelihoods_after)):
        likelihoods = likelihoods_of(choices, probe, lags)
        worst = int((likelihoods * tests).argmin())
        if likelihoods[worst] * tests[worst] < CHANCE:
            lag = lags[worst]
            _add(findings, probe, lag if when == "before" else lag.mirrored, when)
            return
    for is_next in (False, True):
        delay = _crowded_delay(probe, order, choices, is_next=is_next)
        if delay is not None:
            _add(findings, probe, *delay)
            return


def _add(findings: VerdictReasons, probe: Probe, lag: _Lag, when: str) -> None:
    is_named = np.zeros(len(probe), bool)
    is_named[lag.earned[probe.log.rewards[lag.earned] != 0.0]] = True
    observation = f"rewards go by what was shown {lag.name} {when} their own"
    advice = "some stand in the wrong row, by clocks that differ or a late join"
    findings.add(f"{observation}: {advice}{probe.rows_in_words(is_named)}", useless=False)


def _lags(probe: Probe, order: IntArray) -> list[_Lag]:
    """Return how late rewards may be by rows, and by rows of their user."""
    lags = [_Lag(f"{lag} row{'s' * (lag > 1)}", order[:-lag], order[lag:]) for lag in ROWS_LATE]
    user = probe.people
    if user is None:
        return lags
    by_user = order[np.argsort(user[order], kind="stable")]
    shown = by_user[:0]
    earned = by_user[:0]
    for lag in USER_ROWS_LATE:
        is_same = user[by_user[lag:]] == user[by_user[:-lag]]
        shown = np.append(shown, by_user[:-lag][is_same])
        earned = np.append(earned, by_user[lag:][is_same])
        name = "one row of the user" if lag == 1 else f"up to {lag} rows of the user"
        lags.append(_Lag(name, shown, earned, is_of_users=True))
    return lags


def _delayed_lags(probe: Probe, order: IntArray) -> list[_Lag]:
    """Return how late rewards may be in time: booked on the last row before, or on the next."""
    delays = _delays(probe, order)
    return [_delayed(probe, order, delay, is_next=is_next) for is_next in (False, True) for delay in delays]


def _delays(probe: Probe, order: IntArray) -> FloatArray:
    """Return how late rewards may be in time, in microseconds."""
    if probe.log.times is None:
        return np.zeros(0)
    spacing = float(np.median(np.diff(probe.log.times[order])))
    return np.linspace(SPACINGS / STEPS, SPACINGS, STEPS) * spacing if spacing else np.zeros(0)


def _delayed(probe: Probe, order: IntArray, delay: float, *, is_next: bool = False) -> _Lag:
    """Return rows beside those, other than themselves, that were the last ones some time after them, or the next."""
    assert probe.log.times is not None
    times = probe.log.times[order]
    moments = times + int(delay)
    place = np.searchsorted(times, moments) if is_next else np.searchsorted(times, moments, side="right") - 1
    is_other = (place >= 0) & (place < len(order)) & (place != np.arange(len(order)))
    return _Lag(f"{abs(delay) / MICROSECONDS:.3g} s", order[is_other], order[place[is_other]])


def _crowded_delay(probe: Probe, order: IntArray, choices: ChoiceTerms, *, is_next: bool) -> tuple[_Lag, str] | None:
    """Return the time by which clocks differ, if rows have most rewards to which it would join most decisions.

    And whether those decisions were made "before" or "after" the rows' own.
    """
    delays = _delays(probe, order)
    if not len(delays):
        return None
    assert probe.log.times is not None
    times = probe.log.times[order]
    users = probe.users[order]
    residuals = probe.residuals[order]
    if is_next:  # seen from the end, the next row is the last one before
        times, users, residuals = -times[::-1], users[::-1], residuals[::-1]
    errors = _crowding_errors(frozen_view(times), frozen_view(users), frozen_view(residuals), delays)
    if is_next:
        errors = -errors
    worst = int(np.abs(errors).argmax())
    if abs(errors[worst]) < sure_errors(2 * len(delays)):
        return None
    lag = _delayed(probe, order, math.copysign(delays[worst], errors[worst]), is_next=is_next)
    is_likely = lag.is_telling and float(_likelihoods(choices, probe, [lag])[0]) > LIKELY
    return None if is_likely else (lag, "before" if errors[worst] > 0.0 else "after")


def _likelihoods(choices: ChoiceTerms, probe: Probe, lags: list[_Lag]) -> FloatArray:
    """Return how likely chance makes rewards of rows go by the choices of others as they do, for each lag.

    Either by some of all terms that tell choices apart, or as rewards go by the choices of their own rows.
    """
    n = len(choices.rewards)
    earned = _rewards(choices, probe, lags)
    summed = np.stack([np.bincount(lag.shown, own[lag.earned], n) for lag, own in zip(lags, earned, strict=True)])
    n_shown = [np.count_nonzero(np.bincount(lag.shown)) for lag in lags]
    products = summed @ choices.terms
    along = summed @ choices.own
    # Several rewards of one user, joined to one row, may go together: the variance is that of their sum.
    squares = np.square(summed, out=summed)
    variances = squares.sum(axis=1) / n_shown
    in_any_way = stats.chi2.sf((products**2).sum(axis=1) / np.maximum(variances, 1e-300), products.shape[1])
    errors = along / np.sqrt(np.maximum(squares @ choices.own**2, 1e-300))
    # Of two tests twice the smaller p value (Bonferroni).
    return np.asarray(2.0 * np.minimum(in_any_way, stats.norm.sf(errors)))


def _likelihoods_after(choices: ChoiceTerms, probe: Probe, lags: list[_Lag]) -> FloatArray:
    """Return how likely chance makes rewards go by the choices of later rows, as by their own, for each lag.

    A later choice may go by an earlier reward, where what chooses learns. Its propensity knows of that: how much more
    a choice earns, divided by its propensity, has the same mean whatever came before.
    """
    gains = choices.without_features((choices.own / probe.log.propensities)[:, None])[:, 0]
    errors = np.zeros(len(lags))
    for number, (lag, rewards) in enumerate(zip(lags, _rewards(choices, probe, lags), strict=True)):
        products = gains[lag.earned] * rewards[lag.shown]
        errors[number] = products.sum() / max(1e-300, math.sqrt(float((products**2).sum())))
    return np.asarray(stats.norm.sf(errors))


def _rewards(choices: ChoiceTerms, probe: Probe, lags: list[_Lag]) -> list[FloatArray]:
    """Return what rows earn beyond what their choices do `(n,)`, for each lag.

    Within users it is beyond what their user earns as a rule, which goes by all that they are shown.
    """
    rewards = choices.rewards - choices.own
    if probe.people is None:
        return [rewards for _ in lags]
    within = rewards - (np.bincount(probe.people, rewards) / np.maximum(1, np.bincount(probe.people)))[probe.people]
    return [within if lag.is_of_users else rewards for lag in lags]


@jit
def _crowding_errors(times: IntArray, users: IntArray, residuals: FloatArray, delays: FloatArray) -> FloatArray:
    """Return by how many standard errors rewards are more where a delay joins more decisions of others to a row `(d,)`.

    More than the same delay to the other side does, so that what goes by busy times or long pauses falls out. Mirrored
    in time, the pause after a row begins with the row after it: that one is left out as is the row itself. Rows at the
    ends, which have no decisions on one side, do not count.

    Args:
        times: When decisions were made, in order `(n,)`.
        users: Numbers of their users `(n,)`.
        residuals: Their rewards, less what is expected of them `(n,)`.
        delays: By how much clocks may differ, in microseconds `(d,)`.
    """
    n = times.shape[0]
    errors = np.zeros(delays.shape[0])
    for number in range(delays.shape[0]):
        delay = np.int64(delays[number])
        crowding = np.zeros(n)
        for sign in (1, -1):
            place = -1  # of the last decision up to the moment at which the reward of row i is booked
            for i in range(n):
                while place + 1 < n and times[place + 1] <= times[i] + sign * delay:
                    place += 1
                if place >= 0 and place != i and place != i - 1 and users[place] != users[i]:
                    crowding[place] += sign
        total = 0.0
        squares = 0.0
        for i in range(n):
            if times[0] + delay <= times[i] <= times[n - 1] - delay:
                weighted = crowding[i] * residuals[i]
                total += weighted
                squares += weighted * weighted
        if squares > 0.0:
            errors[number] = total / np.sqrt(squares)
    return errors
