"""How an estimate moves over a log's time: by hand, and on logs whose clicks change or stay."""

import math
from dataclasses import replace

import numpy as np
import pytest

from studies.known_logs import log_of
from tests.off_policy.worlds import TableWorld
from zoosim.core.types import FloatArray
from zoosim.off_policy import Evaluation, evaluate
from zoosim.off_policy.diagnostics import Drift, drift_between_halves, later_half
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.intervals.clusters import halved_sums, make_clusters

N = 4_000
LATER = np.array([False, False, True, True])


def drift_of(terms: Terms) -> Drift:
    """Return the drift of an estimate on four rows, each of a user of its own."""
    sums, later = halved_sums(make_clusters(4), terms, LATER)
    assert later is not None
    return drift_between_halves(sums, later)


def test_halves_by_hand() -> None:
    """Means 1 and 3 of {0, 2} and {2, 4}: a gap of 2; its four shares are 0, 4, 0 and 4, of error sqrt(16/3 / 4)."""
    found = drift_of(Terms(np.array([0.0, 2.0, 2.0, 4.0])))
    assert found == pytest.approx((1.0, 3.0, 2.0 / math.sqrt(16.0 / 3.0 / 4.0)))


def test_halves_of_a_ratio() -> None:
    """Where all weights are alike a ratio is a mean."""
    top, same = np.array([0.0, 2.0, 2.0, 4.0]), np.full(4, 0.5)
    assert drift_of(Terms(np.zeros(4), 0.5 * top, same)) == pytest.approx(drift_of(Terms(top)))


def test_what_stays_has_not_moved_and_what_jumps_has() -> None:
    assert drift_of(Terms(np.full(4, 0.1))) == pytest.approx((0.1, 0.1, 0.0))
    assert drift_of(Terms(LATER.astype(float))).errors > 1e6


def judged(seed: int, factor: float, *, timed: bool = True) -> Evaluation:
    """Judge a log in which clicks become rarer by a factor half-way; rows are not in order of time."""
    world, rng = TableWorld(0, 0.3), np.random.default_rng(seed)
    drawn = world.draw(rng, N)
    rewards: FloatArray = drawn.rewards * ((np.arange(N) < N // 2) | (rng.random(N) < factor))
    propensities = world.logging[drawn.contexts, drawn.actions]
    log = log_of(drawn.actions, propensities, rewards, np.eye(4)[drawn.contexts], 10)
    shuffled = rng.permutation(N)
    log = replace(log, times=np.arange(N) if timed else None).rows(shuffled)
    return evaluate(log, {"target": world.target[drawn.contexts][shuffled]})


def test_drift_is_said() -> None:
    for row in judged(0, 0.5).results:
        assert row.verdict == "weak"
        assert row.reasons[0].startswith("drift: ")
        assert row.reasons[0].endswith("standard errors apart)")
    assert {row.verdict for row in judged(0, 0.5, timed=False).results} == {"trust"}


def test_no_drift_is_said_where_there_is_none() -> None:
    """Chance alone passes three standard errors once in 370; 6 logs, 3 estimators."""
    assert {row.verdict for seed in range(6) for row in judged(seed, 1.0).results} == {"trust"}


def test_times_have_two_halves_unless_all_are_one() -> None:
    assert later_half(None) is None
    assert later_half(np.full(4, 7)) is None
    for times, marked in (([4, 1, 3, 2], "1010"), ([1, 1, 1, 2], "0001"), ([1, 2, 2, 2], "0111")):
        later = later_half(np.array(times))
        assert later is not None
        assert "".join(map(str, later.astype(int))) == marked
