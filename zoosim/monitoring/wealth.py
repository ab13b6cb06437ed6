"""Evidence as the wealth of a bettor: what the tests of a launch keep of each hypothesis.

A bettor starts with 1 and bets against a hypothesis; a bet on an event multiplies what was staked by a factor whose
mean is at most 1 where the hypothesis holds. So the wealth is a test supermartingale (an e-process): however often it
is looked at, it reaches 1 / level with a probability of at most `level` while the hypothesis is true (Ville 1939;
Shafer 2021; Waudby-Smith & Ramdas 2024).

The wealth lies in accounts with different stakes, since the true effect is not known. A part is held back, the reserve,
and paid in little by little: else a long harmless past would use up all wealth, and a drop that comes after a month
would take a month to be found.

Only sums, products, quotients and square roots are used, event by event, which IEEE 754 rounds alike everywhere. So a
log that is replayed, in batches of any size and on another machine, leaves the same bits.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import inlined
from zoosim.core.limits import COUNTS, NOT_NEGATIVE
from zoosim.core.types import FloatArray, IntArray

MULTIPLES = (0.5, 1.0, 2.0)
"""Stakes of the accounts, as multiples of the best one for the effect that a test is set to find."""

PRIOR = (0.25, 0.5, 0.25)
"""Parts of the wealth that go to each account."""

STAKED = 0.75
"""Part of the wealth that is in the accounts from the start; the rest is the reserve."""

PACE = 10.0
"""Information after which the reserve has shrunk to 1 / sqrt(2); at 9 half of the effects are found."""

MOST = 1e30
"""Largest wealth of an account: more is given away, which no bound minds."""


class Wealth(NamedTuple):
    """The wealth of n bettors, each against a hypothesis of its own.

    `accounts (n, 3)`; `reserve (n,)`, what is held back; `information (n,)`, the sum over events of s^2 v, with s the
    best stake and v the variance of an outcome; `peaks (n,)`, the largest wealth so far; `found_at (n,)`, the number of
    events at which it first reached the threshold, 0 while it has not.
    """

    accounts: Annotated[FloatArray, NOT_NEGATIVE]
    reserve: Annotated[FloatArray, NOT_NEGATIVE]
    information: Annotated[FloatArray, NOT_NEGATIVE]
    peaks: Annotated[FloatArray, NOT_NEGATIVE]
    found_at: Annotated[IntArray, COUNTS]


def new_wealth(n: int) -> Wealth:
    """Return the wealth of n bettors before any event."""
    accounts = np.tile(STAKED * np.array(PRIOR), (n, 1))
    return Wealth(accounts, np.full(n, 1.0 - STAKED), np.zeros(n), np.ones(n), np.zeros(n, np.int64))


@inlined
def bet(wealth: Wealth, i: int, outcome: float, stake: float, largest: float, variance: float) -> float:
    """Bet on an event, and return the wealth after it.

    Args:
        wealth: The bettors; changed in place.
        i: Number of the bettor.
        outcome: What the event pays per unit of stake; its mean is at most 0 if the hypothesis is true.
        stake: The best stake, at least 0, for the effect that the test is set to find.
        largest: Largest stake that may be made: `outcome * largest` must be above -1.
        variance: A guess of the variance of the outcome, made before the event.
    """
    best = min(stake, largest)
    wealth.information[i] += best * best * variance
    held_back = (1.0 - STAKED) / math.sqrt(1.0 + wealth.information[i] / PACE)
    released = wealth.reserve[i] - held_back
    wealth.reserve[i] = held_back
    total = held_back
    for account in range(len(MULTIPLES)):
        staked = wealth.accounts[i, account] + released * PRIOR[account]
        growth = 1.0 + min(MULTIPLES[account] * stake, largest) * outcome
        wealth.accounts[i, account] = min(staked * growth, MOST)
        total += wealth.accounts[i, account]
    return total


@inlined
def note(wealth: Wealth, i: int, total: float, events: int, threshold: float) -> None:
    """Note a bettor's wealth.

    Args:
        wealth: The bettors; changed in place.
        i: Number of the bettor.
        total: Its wealth.
        events: Number of events so far.
        threshold: Wealth at which its hypothesis counts as refuted.
    """
    if total > wealth.peaks[i]:
        wealth.peaks[i] = total
        if total >= threshold and wealth.found_at[i] == 0:
            wealth.found_at[i] = events
