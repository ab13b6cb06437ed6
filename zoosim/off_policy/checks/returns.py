"""Negative rewards, such as returns, that are booked late, at some times only, or on other rows than their own."""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.off_policy.checks.choices import ChoiceTerms
from zoosim.off_policy.checks.groups import group_growth
from zoosim.off_policy.checks.order import LAST_SHARES
from zoosim.off_policy.checks.probe import Probe
from zoosim.off_policy.checks.rows import rows_in_words
from zoosim.off_policy.verdict import VerdictReasons

FEWEST, MOST_SHARE = 20, 0.3
"""Fewest negative rewards, and their largest share of those that are not 0, to be exceptions."""

FALL_ERRORS, FALL = 4.0, 0.2
"""Standard errors, and share of themselves, by which negative rewards must be rarer at the log's end."""

GROUP_ERRORS, GROUP_VARIANCE = 4.5, 1.5
"""Standard errors and factor by which their sums over groups must vary more than by chance."""

EXPECTED_ERRORS, EXPECTED_ERRORS_OF_MIRRORED = 4.5, 2.5
"""Standard errors by which they would go by the choice if they did as other rewards; those of the same size need less.

A purchase of 1 that came back earns 0 if both are booked on its row: -1 hints at another one.
"""

FEW_ERRORS, LIKELY = 2.5, 0.01
"""Standard errors within which they do not go by it, and how likely they go by it in no other way, either."""

ELSEWHERE, ELSEWHERE_CHANCE = 0.2, 1e-4
"""Share of negative rewards that must be at other positions than positive ones, and how likely chance puts them there.
"""

FEWEST_PER_POSITION = 5
"""Negative rewards that a position would have, by its positive ones, to count by itself."""

DISTINCT, SAME_SIZE = 0.9, 0.3
"""Share of positive rewards that must differ, and share of negative ones of the size of one, to be refunds of others.
"""

MIRRORED = 0.9
"""Share of negative rewards that have the size of most positive ones, in a log of purchases of one size."""


def check_returns(findings: VerdictReasons, probe: Probe, choices: ChoiceTerms) -> None:
    """Compare negative rewards with the positive ones: when they come, and whether they go by what was shown."""
    rewards = probe.log.rewards
    is_negative = rewards < 0.0
    count = int(is_negative.sum())
    if count < FEWEST or count > MOST_SHARE * int((rewards != 0.0).sum()):
        return
    losses = is_negative - is_negative.mean()
    rows = probe.rows_in_words(is_negative)
    fall = _fall(probe, losses)
    if fall is not None:
        observation = f"negative rewards are rarer in the last {100 * fall:.3g}% of the rows than before"
        findings.add(f"{observation}: returns may not be known yet; leave those rows out, or wait{rows}", useless=False)
        return
    for group in probe.groups:
        growth = group_growth(losses, probe.users, group.of_row)
        if growth.factor > GROUP_VARIANCE and growth.errors > GROUP_ERRORS:
            observation = f"negative rewards come together in {group.name}"
            advice = "they may be booked when they were known; book each on the row that it takes back"
            findings.add(f"{observation}: {advice}{rows}", useless=False)
            return
    if _are_of_other_rows(rewards):
        observation = "negative rewards are as large, to the last digit, as those of other rows"
        advice = "refunds may be booked on other rows than their own; take them off the rows that they take back"
        findings.add(f"{observation}: {advice}{rows}", useless=False)
        return
    by_choice = _by_choice(probe.log.rewards, choices)
    least = EXPECTED_ERRORS_OF_MIRRORED if _are_mirrored(rewards) else EXPECTED_ERRORS
    if by_choice.expected > least and abs(by_choice.actual) < FEW_ERRORS and by_choice.likelihood > LIKELY:
        observation = "negative rewards do not go by what was shown, as positive ones do"
        advice = "they may be booked on other rows than those that they take back"
        findings.add(f"{observation}: {advice}{rows}", useless=False)


def check_list_returns(findings: VerdictReasons, log: Log) -> None:
    """Compare the positions of rankings at which rewards are negative with those at which they are positive.

    What was bought at a position comes back from it.
    """
    is_negative = log.rewards < 0.0
    losses = is_negative.sum(axis=0)
    gains = (log.rewards > 0.0).sum(axis=0)
    # Positions that would hardly have a negative reward count as one.
    is_rare = gains * losses.sum() < FEWEST_PER_POSITION * max(1, gains.sum())
    kept = [np.append(each[~is_rare], each[is_rare].sum()) for each in (losses, gains)]
    table = np.stack(kept)[:, kept[0] + kept[1] > 0]
    if losses.sum() < FEWEST or not gains.sum() or table.shape[1] < 2:
        return
    shares = table / table.sum(axis=1, keepdims=True)
    differ = float(np.abs(shares[0] - shares[1]).sum()) / 2.0
    if differ > ELSEWHERE and stats.chi2_contingency(table).pvalue < ELSEWHERE_CHANCE:
        observation = f"{100 * differ:.0f}% of negative rewards are at other positions than positive ones"
        advice = "returns may be booked on other products than those that came back"
        rows = rows_in_words(log.row_numbers[is_negative.any(axis=1)])
        findings.add(f"{observation}: {advice}{rows}", useless=False)


def _fall(probe: Probe, losses: FloatArray) -> float | None:
    """Return the share of the rows at the log's end with clearly fewer negative rewards; None without one."""
    order = probe.order
    if order is None:
        return None
    n = len(order)
    rate = float((probe.log.rewards < 0.0).mean())
    for share in LAST_SHARES:
        late = losses[order[round(n * (1.0 - share)) :]]
        early = losses[order[: round(n * (1.0 - share))]]
        fall = float(early.mean() - late.mean())
        error = math.sqrt(losses.var() / len(late) + losses.var() / len(early))
        if error and fall > max(FALL_ERRORS * error, FALL * rate):
            return share
    return None


def _are_of_other_rows(rewards: FloatArray) -> bool:
    """Return whether negative rewards have the sizes of other rows' rewards, which hardly ever have the same."""
    gains = rewards[rewards > 0.0]
    if len(np.unique(gains)) < DISTINCT * len(gains):
        return False
    return float(np.isin(-rewards[rewards < 0.0], gains).mean()) > SAME_SIZE


def _are_mirrored(rewards: FloatArray) -> bool:
    """Return whether nearly all rewards are of one size, above 0 or below."""
    sizes = np.abs(rewards[rewards != 0.0])
    return float((sizes == np.median(sizes)).mean()) > MIRRORED


class _ByChoice(NamedTuple):
    """By how many standard errors negative rewards should go by the choice, as positive ones do, and do.

    `likelihood` is how likely chance makes them go by it, in any way, as much as they do.
    """

    expected: float
    actual: float
    likelihood: float


def _by_choice(rewards: FloatArray, choices: ChoiceTerms) -> _ByChoice:
    """Look at rows that earn nothing, or less: a row that earns takes another one's return without falling below 0."""
    rewards = rewards / float(np.abs(rewards).max())  # as those of the choices are
    gains = np.maximum(rewards, 0.0)
    earns_nothing = rewards <= 0.0
    losses, terms = choices.of_rows(earns_nothing, (rewards < 0.0).astype(np.float64))
    spread = float(losses.std())
    effects = choices.terms.T @ gains
    # The effects that chance makes are taken out, one for each of the terms.
    real = float((effects**2).sum()) - len(effects) * float((choices.rewards - choices.own).var())
    if real <= 0.0 or not spread:
        return _ByChoice(0.0, 0.0, 1.0)
    relative = float((rewards < 0.0).mean()) / float(gains.mean())
    expected = relative * real / (math.sqrt(float((effects**2).sum())) * spread)
    products = terms.T @ losses
    own = terms.T @ (choices.terms @ effects)[earns_nothing]
    actual = float(own @ products) / max(1e-300, math.sqrt(float((own**2).sum())) * spread)
    likelihood = float(stats.chi2.sf(float((products**2).sum()) / spread**2, len(products)))
    return _ByChoice(expected, actual, likelihood)
