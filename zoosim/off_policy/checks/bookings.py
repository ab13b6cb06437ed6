"""Rewards within users: how many of a user's visits earn, and which of them."""

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.types import BoolArray, IntArray
from zoosim.off_policy.checks.probe import Probe
from zoosim.off_policy.verdict import VerdictReasons

FEWEST_VISITS, MOST_VISITS = 2, 20
"""Users of so many visits are counted: of more, hardly any earn at all or at none of them."""

ERRORS = 4.0
"""Standard errors by which counts of users must differ from what chance makes of any tastes."""

LIKE_TASTES, LIKE_TASTES_OF_PAIRS = 3.0, 10.0
"""Largest multiple of the users expected that may earn at each of their visits, and at both of two.

Tastes that are normal on the logit scale with a standard deviation of 1.5 make it 2.8, and 5 of pairs.
"""

MIXED, FEWEST_MIXED = 0.1, 20.0
"""Share of the users expected to earn at some visits alone below which these are missing, and how many it takes."""

LAST_ERRORS, LAST_GAIN = 5.0, 0.3
"""Standard errors, and share of a visit's mean reward, by which users' last or first visits must earn more."""

OTHERS_ERRORS, OTHERS_LOSS = 5.0, 0.25
"""The same for how much less users earn with other products who earned with one."""


class _Users(NamedTuple):
    """Numbers of `visits (U,)` of each user, and of those that `earned (U,)`; `user (n,)` is that of each row."""

    user: IntArray
    is_rewarded: BoolArray
    visits: IntArray
    earned: IntArray

    def are_of(self, fewest: int, most: int) -> BoolArray:
        """Return which users made so many visits `(U,)`."""
        return np.asarray((self.visits >= fewest) & (self.visits <= most))


class _Finding(NamedTuple):
    """Finding on users' rewards, to be put behind a name for them, and the rows that show it `(n,)`."""

    observation: str
    is_named: BoolArray


class _Ratio(NamedTuple):
    """q_(k-1) q_(k+1) / q_k^2, where q_k is the share of users with k rewards, of each choice of k of their visits."""

    log: float
    error: float

    def above(self, limit: float) -> float:
        """Return by how many standard errors the ratio is above a limit."""
        return (self.log - math.log(limit)) / self.error


def check_bookings(findings: VerdictReasons, probe: Probe) -> None:
    """Compare the rewards of each user's visits with what visits earn by themselves, whatever the users' tastes.

    If a user's visits are rewarded independently with probability p, which any user may have another of, the chance
    that some k of m visits alone are rewarded is q_k = E p^k (1 - p)^(m - k). By the inequality of Cauchy and Schwarz
    q_0 q_2 >= q_1^2. Fewer users without a reward, or with two, mean that users without were left out, or that one
    reward of a user was booked alone. At the other end q_(m-2) q_m / q_(m-1)^2 is large if users are rewarded always or
    never: a reward was booked on each visit, or some are no people.
    """
    user = probe.people
    rewards = probe.log.rewards
    if user is None or not rewards.any():
        return
    is_rewarded = rewards != 0.0
    visits = np.bincount(user)
    users = _Users(user, is_rewarded, visits, np.bincount(user[is_rewarded], minlength=len(visits)))
    if not users.are_of(FEWEST_VISITS, MOST_VISITS).any():
        return
    for find in (_all_or_none, _too_few, _too_many):
        found = find(users)
        if found is not None:
            rows = probe.rows_in_words(found.is_named)
            findings.add(f"{_users_in_words(probe)} {found.observation}{rows}", useless=False)
            return
    _check_places(findings, probe, user)
    if not findings.verdict().reasons:
        _check_other_actions(findings, probe, user)


def _all_or_none(users: _Users) -> _Finding | None:
    """Find far fewer users with some visits that earn and some that do not than independent visits make."""
    is_counted = users.are_of(FEWEST_VISITS, MOST_VISITS)
    m = users.visits[is_counted]
    k = users.earned[is_counted]
    rate = k.sum() / max(1, m.sum())
    expected = float((1.0 - rate**m - (1.0 - rate) ** m).sum())
    if expected <= FEWEST_MIXED or float(((k > 0) & (k < m)).sum()) >= MIXED * expected:
        return None
    observation = "have a reward at all of their visits or at none: one reward was booked on each visit of its user"
    return _Finding(observation, users.is_rewarded & (users.visits > 1)[users.user])


def _too_few(users: _Users) -> _Finding | None:
    """Find more users with one reward than those with none and with two allow."""
    is_counted = users.are_of(FEWEST_VISITS, MOST_VISITS)
    ratio = _ratio(users.visits[is_counted], users.earned[is_counted])
    if ratio is None or ratio.above(1.0) >= -ERRORS:
        return None
    observation = (
        f"with one reward are {math.exp(-ratio.log / 2.0):.2g} times as many as those with none and with two allow, "
        "whatever their tastes: either one reward of several was booked, or users without any are missing"
    )
    return _Finding(observation, users.is_rewarded & ((users.earned == 1) & (users.visits > 1))[users.user])


def _too_many(users: _Users) -> _Finding | None:
    """Find more users with a reward at each visit than those with one fewer and two fewer make likely."""
    for fewest, most, limit in ((2, 2, LIKE_TASTES_OF_PAIRS), (3, MOST_VISITS, LIKE_TASTES)):
        is_counted = users.are_of(fewest, most)
        missed = users.visits[is_counted] - users.earned[is_counted]
        ratio = _ratio(users.visits[is_counted], missed)
        if ratio is not None and ratio.above(limit) > ERRORS:
            observation = (
                f"with a reward at each visit are {math.exp(ratio.log):.2g} times as many as those with one fewer and "
                "two fewer make likely: a reward was booked on each visit of its user, or these are no people"
            )
            return _Finding(observation, ((users.earned == users.visits) & is_counted)[users.user])
    return None


def _ratio(visits: IntArray, count: IntArray) -> _Ratio | None:
    """Return the ratio of shares, and its error by the delta method; a count of nobody is taken for half a user."""
    logs = []
    variances = []
    for k in range(3):
        # q_k is the chance that k particular visits alone earn: of a user with k, one of comb(m, k) choices came true.
        per_choice = 1.0 / special.comb(visits[count == k], k)
        typical = 1.0 / special.comb(np.median(visits), k) if len(visits) else 1.0
        total = max(float(per_choice.sum()), 0.5 * typical)
        logs.append(math.log(total))
        # Users counted are near Poisson: a sum with weights w has the
        # variance sum w^2, its logarithm that over its square.
        variances.append(max(float((per_choice**2).sum()), 0.5 * typical**2) / total**2)
    if len(visits) < 2 * ERRORS**2:
        return None
    return _Ratio(logs[0] + logs[2] - 2.0 * logs[1], math.sqrt(variances[0] + variances[2] + 4.0 * variances[1]))


def _check_places(findings: VerdictReasons, probe: Probe, user: IntArray) -> None:
    """Compare users' last visits, and their first, with the others."""
    order = probe.order
    if order is None:
        return
    by_user = order[np.argsort(user[order], kind="stable")]
    starts = np.flatnonzero(np.diff(user[by_user], prepend=-1))
    sizes = np.diff(starts, append=len(by_user))
    starts = starts[sizes > 1]
    sizes = sizes[sizes > 1]
    if len(starts) < 2:
        return
    residuals = probe.residuals
    sums = np.bincount(user, residuals)[user[by_user[starts]]]
    for name, place in (("last", starts + sizes - 1), ("first", starts)):
        # Against the same users' other visits, so that tastes fall out.
        own = residuals[by_user[place]]
        gain = own - (sums - own) / (sizes - 1)
        error = float(gain.std()) / math.sqrt(len(gain))
        mean = abs(float(probe.log.rewards.mean()))
        if error and float(gain.mean()) > max(LAST_ERRORS * error, LAST_GAIN * mean):
            is_named = np.zeros(len(user), bool)
            is_named[by_user[place]] = True
            observation = f"users' {name} visits earn {float(gain.mean()):.3g} more than their others"
            advice = f"rewards of several visits were booked on the {name} one"
            findings.add(f"{observation}: {advice}{probe.rows_in_words(is_named)}", useless=False)
            return


def _check_other_actions(findings: VerdictReasons, probe: Probe, user: IntArray) -> None:
    """Look for an action whose customers earn less with all others than those who do not like it."""
    k = probe.log.n_actions
    residuals = probe.residuals
    own_user, pair = np.unique(user * k + probe.log.actions, return_inverse=True)
    action = own_user % k
    sums = np.bincount(pair, residuals)
    squares = np.bincount(pair, residuals**2)
    others = np.bincount(user, residuals)[own_user // k] - sums
    other_squares = np.bincount(user, residuals**2)[own_user // k] - squares
    covariance = np.bincount(action, sums * others, k)
    # If what a user earns with an action and with all others is independent, the product of both sums has the
    # product of their sums of squares as variance.
    errors = covariance / np.sqrt(np.maximum(np.bincount(action, squares * other_squares, k), 1e-300))
    worst = int(errors.argmin())
    rows_of_others = np.bincount(user)[own_user // k] - np.bincount(pair)
    scale = float(np.bincount(action, squares * rows_of_others, k)[worst]) * abs(float(probe.log.rewards.mean()))
    if errors[worst] < -OTHERS_ERRORS and -covariance[worst] > OTHERS_LOSS * scale:
        observation = f"users rewarded with {probe.log.action_name(worst)} earn less with all else than other users do"
        is_named = (probe.log.actions == worst) & (probe.log.rewards != 0.0)
        advice = "these rewards may be no customers'"
        findings.add(f"{observation}: {advice}{probe.rows_in_words(is_named)}", useless=False)


def _users_in_words(probe: Probe) -> str:
    return "users" if probe.names_users else "visitors alike in all measured numbers, as those of a user are, "
