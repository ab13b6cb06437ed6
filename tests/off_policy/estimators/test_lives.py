"""Estimators of whole lives: numbers worked out by hand, known answers, and influences that tell the error."""

from collections.abc import Callable

import numpy as np
import pytest

from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.lives import Lives
from zoosim.off_policy.estimators import single
from zoosim.off_policy.estimators.lives import (
    LifeRows,
    doubly_robust,
    final_weights,
    life_rows,
    life_weights,
    per_decision,
    sums_by_step,
    trajectory_is,
    weighted_doubly_robust,
    weighted_per_decision,
)
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.life_verdict import life_figures
from zoosim.off_policy.models.life_values import Choices, LinearValues, marginalised
from zoosim.off_policy.models.mixed_horizons import least_risk_shares, magic


def lives_of_lengths(lengths: list[int], censored: tuple[int, ...] = ()) -> LifeRows:
    """Return lives of so many decisions each, of which some were cut off."""
    visitor = np.repeat(np.arange(len(lengths)), lengths)
    step = np.concatenate([np.arange(length) for length in lengths])
    is_last = step == np.repeat(lengths, lengths) - 1
    cut_off = is_last & np.isin(visitor, censored)
    return life_rows(Lives(visitor, np.zeros_like(visitor), step, is_last & ~cut_off, cut_off))


# Three visitors of 2, 1 and 3 decisions, who have all gone.
ROWS = lives_of_lengths([2, 1, 3])
RATIOS = np.array([2.0, 0.5, 0.5, 1.0, 1.0, 1.0])
REWARDS = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0])


def test_weights_and_sums_by_hand() -> None:
    weights = life_weights(ROWS, RATIOS)
    assert weights.tolist() == [2.0, 1.0, 0.5, 1.0, 1.0, 1.0]
    # At decision 1 the second visitor has gone and keeps .5, at decision 2 the first one keeps 1, too.
    assert sums_by_step(ROWS, weights).tolist() == [3.5, 2.5, 2.5]
    # Whole lives: 1 x 1 + .5 x 1 + 1 x 2. Per decision: 2 x 1 + .5 x 1 + 1 + 1.
    assert trajectory_is(ROWS, weights, REWARDS).value == pytest.approx(3.5 / 3.0)
    assert per_decision(ROWS, weights, REWARDS).value == pytest.approx(4.5 / 3.0)
    # 2.5 of the weight 3.5 earn 1 at decision 0; 1 of 2.5 at decisions 1 and 2, as those who have gone earn nothing.
    assert weighted_per_decision(ROWS, weights, REWARDS).value == pytest.approx(2.5 / 3.5 + 1.0 / 2.5 + 1.0 / 2.5)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_weights_of_very_long_lives_stay_numbers(ratio: float) -> None:
    rows = lives_of_lengths([1_050, 2])
    weights = life_weights(rows, np.full(1_052, ratio))
    terms = weighted_per_decision(rows, weights, np.ones(1_052))
    assert np.isfinite(terms.base).all()
    assert np.isfinite(life_figures(rows, weights)[:4]).all()


def test_rewards_that_come_later_count_less() -> None:
    rows = ROWS._replace(gamma=0.5)
    ones = np.ones(6)
    # 1 + 0, 1, 0 + .5 + .25.
    assert per_decision(rows, ones, REWARDS).value == pytest.approx(2.75 / 3.0)
    assert trajectory_is(rows, ones, REWARDS).value == pytest.approx(2.75 / 3.0)


def test_decisions_are_put_in_the_order_of_lives() -> None:
    lives = Lives(
        visitor=np.array([1, 0, 1, 0]),
        visit=np.array([1, 0, 0, 0]),
        step=np.array([1, 1, 0, 0]),
        ended=np.array([True, True, False, False]),
        censored=np.zeros(4, bool),
    )
    rows = life_rows(lives)
    assert rows.order.tolist() == [3, 1, 2, 0]
    assert rows.step.tolist() == [0, 1, 0, 1]


def test_visitors_who_were_followed_stand_for_those_who_were_cut_off() -> None:
    rows = lives_of_lengths([1, 2, 1], censored=(2,))
    # After decision 0 one has gone, and of the two others one was followed.
    assert rows.followed.tolist() == [1.0, 0.5, 0.5]
    ones = np.ones(4)
    rewards = np.array([1.0, 1.0, 1.0, 0.0])
    # Decision 0: 2 clicks of 3 visitors. Decision 1: one click that counts twice. As if they had ended: 3 / 3.
    for estimator in (per_decision, weighted_per_decision):
        assert estimator(rows, ones, rewards).value == pytest.approx(2.0 / 3.0 + 2.0 / 3.0)
    assert final_weights(rows, ones).tolist() == [1.0, 2.0, 0.0]
    assert rows.onward(np.array([5.0, 5.0, 7.0, 5.0])).tolist() == [0.0, 14.0, 0.0, 0.0]


def test_the_first_decision_alone_is_judged_as_single_decisions_are() -> None:
    rng = np.random.default_rng(0)
    rows = lives_of_lengths(rng.integers(1, 5, 200).tolist())
    weights = life_weights(rows, rng.uniform(0.2, 2.0, len(rows.order)))
    rewards = np.where(rows.step == 0, rng.random(len(rows.order)), 0.0)
    first = rows.starts[:-1]
    for of_lives, of_rows in ((per_decision, single.ips), (weighted_per_decision, single.self_normalised_ips)):
        life, one_step = of_lives(rows, weights, rewards), of_rows(weights[first], rewards[first])
        assert life.value == pytest.approx(one_step.value)
        np.testing.assert_allclose(life.influence(), one_step.influence(), atol=1e-12)


def test_figures_are_of_the_worst_decision() -> None:
    figures = life_figures(ROWS, life_weights(ROWS, RATIOS))
    assert figures.final_mean == pytest.approx(2.5 / 3.0)
    # Decision 0: 3.5^2 / (4 + .25 + 1); the later ones 2.5^2 / 2.25.
    assert figures.least_ess == pytest.approx(3.5**2 / 5.25)
    assert figures.least_step == 0
    assert figures.largest_share == pytest.approx(2.0 / 3.5)
    assert figures.horizon == 0


class Chain:
    """Two states, two actions: action 1 earns 1 more often, and leads to state 1, where visitors leave sooner."""

    earns = np.array([[0.2, 0.6], [0.1, 0.4]])
    leaves = np.array([[0.2, 0.2], [0.5, 0.5]])
    logging = np.array([0.5, 0.5])
    target = np.array([0.3, 0.7])

    def values(self) -> FloatArray:
        """Return the target's exact values `(2,)`: v(s) = r(s) + sum over a of pi(a) (1 - leaves) v(a)."""
        moves = self.target * (1.0 - self.leaves)
        values: FloatArray = np.linalg.solve(np.eye(2) - moves, self.earns @ self.target)
        return values

    def draw(self, visitors: int, seed: int, follow: int = 10_000) -> tuple[LifeRows, IntArray, IntArray, FloatArray]:
        """Return lives that begin in state 0, cut off after so many decisions: rows, states, actions, rewards."""
        rng = np.random.default_rng(seed)
        places = []
        for visitor in range(visitors):
            state = 0
            for step in range(follow):
                action = int(rng.random() < self.logging[1])
                reward = float(rng.random() < self.earns[state, action])
                has_ended = bool(rng.random() < self.leaves[state, action])
                places.append((visitor, step, has_ended, step == follow - 1 and not has_ended, state, action, reward))
                if has_ended:
                    break
                state = action
        owner, number, ended, censored, states, actions, rewards = map(np.array, zip(*places, strict=True))
        lives = Lives(owner, np.zeros_like(owner), number, ended, censored)
        return life_rows(lives), states, actions, rewards

    def estimators(
        self, rows: LifeRows, states: IntArray, actions: IntArray, rewards: FloatArray, halves: IntArray
    ) -> dict[str, Callable[[], Terms]]:
        """Return all estimators, bound to a log."""
        ratios = (self.target / self.logging)[actions]
        weights = life_weights(rows, ratios)
        model = LinearValues(rows, self.choices(states, actions), halves)
        predictions = model.held_out(rewards)
        return {
            "trajectory-is": lambda: trajectory_is(rows, weights, rewards),
            "per-decision": lambda: per_decision(rows, weights, rewards),
            "weighted-per-decision": lambda: weighted_per_decision(rows, weights, rewards),
            "mis": lambda: marginalised(rows, states, ratios, rewards),
            "dr": lambda: doubly_robust(rows, weights, rewards, *predictions),
            "wdr": lambda: weighted_doubly_robust(rows, weights, rewards, *predictions),
            "magic": lambda: magic(rows, weights, rewards, model),
            "fqe": lambda: model.terms(rewards),
        }

    def choices(self, states: IntArray, actions: IntArray) -> Choices:
        """Return one-hot features of states and actions."""
        return Choices(np.eye(2)[states], np.eye(2)[actions], np.broadcast_to(self.target, (len(states), 2)))


CHAIN = Chain()


def standard_error(terms: Terms) -> float:
    return float(terms.influence().std(ddof=1) / np.sqrt(len(terms.base)))


@pytest.mark.parametrize("follow", [10_000, 3])
def test_estimators_find_the_value_of_a_chain(follow: int) -> None:
    """2,000 visitors, seed 1, followed to the end or for 3 decisions: within 3.5 standard errors of what can be known.

    By hand, v(0) = .48 + .8 (.3 v(0) + .7 v(1)) and v(1) = .31 + .5 (.3 v(0) + .7 v(1)).
    """
    exact = float(CHAIN.values()[0])
    assert exact == pytest.approx((0.48 + 0.56 * 0.31 / 0.65) / (1.0 - 0.24 - 0.56 * 0.15 / 0.65))
    log = CHAIN.draw(2_000, 1, follow)
    for name, estimator in CHAIN.estimators(*log, halves_of(log[0])).items():
        terms = estimator()
        # Weights alone know nothing of what comes after the last decision that is followed, models do.
        of_first = _first_decisions(3) if follow == 3 else exact
        expected = exact if name in ("mis", "fqe") else of_first
        if follow == 3 and name in ("dr", "wdr", "magic", "trajectory-is"):
            continue  # a model beyond the end beside weights before it, and lives without those that were cut off
        assert abs(terms.value - expected) < 3.5 * standard_error(terms) + 0.002, name


def test_a_mixture_goes_by_variance_and_by_bias() -> None:
    # Independent estimates count by 1 over their variances; one of a bias of 9 in place of the variance, likewise less.
    np.testing.assert_allclose(least_risk_shares(np.diag([1.0, 3.0])), [0.75, 0.25])
    np.testing.assert_allclose(least_risk_shares(np.diag([1.0, 0.0]) + np.outer([0.0, 3.0], [0.0, 3.0])), [0.9, 0.1])
    # What moves along with a better one, and more, takes no part.
    np.testing.assert_allclose(least_risk_shares(np.array([[1.0, 2.0], [2.0, 9.0]])), [1.0, 0.0])
    log = CHAIN.draw(400, 3)
    estimators = CHAIN.estimators(*log, halves_of(log[0]))
    mixed = estimators["magic"]()
    assert standard_error(mixed) < 1.02 * standard_error(estimators["wdr"]())
    assert abs(mixed.value - CHAIN.values()[0]) < 3.5 * standard_error(mixed)


def _first_decisions(count: int) -> float:
    chances, value = np.array([1.0, 0.0]), 0.0
    for _ in range(count):
        value += float(chances @ (CHAIN.earns @ CHAIN.target))
        staying = float(chances @ (1.0 - CHAIN.leaves[:, 0]))
        chances = staying * CHAIN.target
    return value


def halves_of(rows: LifeRows) -> IntArray:
    return np.repeat(np.arange(rows.n_visitors) % 2, np.diff(rows.starts))


def test_influences_tell_the_error() -> None:
    """The error of 100 visitors by the influence of each, and by leaving out one after another (jackknife): alike."""
    visitors = 100
    rows, states, actions, rewards = CHAIN.draw(visitors, 2)
    halves = halves_of(rows)
    estimators = CHAIN.estimators(rows, states, actions, rewards, halves)
    by_influence = {name: standard_error(estimator()) for name, estimator in estimators.items()}
    visitor = np.repeat(np.arange(visitors), np.diff(rows.starts))
    is_last = np.append(visitor[1:] != visitor[:-1], True)
    left_out: dict[str, list[float]] = {name: [] for name in by_influence}
    for gone in range(visitors):
        kept = visitor != gone
        none = np.zeros(int(kept.sum()), bool)
        lives = Lives(visitor[kept], np.zeros(len(none), int), rows.step[kept], is_last[kept], none)
        log = (states[kept], actions[kept], rewards[kept], halves[kept])
        for name, estimator in CHAIN.estimators(life_rows(lives), *log).items():
            left_out[name].append(estimator().value)
    for name, error in by_influence.items():
        # The variance of a jackknife: (V - 1) / V times the sum of squares.
        jackknife = float(np.sqrt((visitors - 1) * np.var(left_out[name])))
        assert error == pytest.approx(jackknife, rel=0.15), name


def test_doubly_robust_with_the_exact_values_has_no_bias() -> None:
    """150 logs of 40 visitors: the mean within 3.5 standard errors, and with values that are wrong, too."""
    values = CHAIN.values()
    exact = CHAIN.earns + (1.0 - CHAIN.leaves) * values
    spread = {}
    for scale in (1.0, 0.0):
        estimates = []
        for seed in range(150):
            rows, states, actions, rewards = CHAIN.draw(40, 1_000 + seed)
            weights = life_weights(rows, (CHAIN.target / CHAIN.logging)[actions])
            expected = scale * (exact @ CHAIN.target)[states]
            terms = doubly_robust(rows, weights, rewards, scale * exact[states, actions], expected)
            estimates.append(terms.value)
        spread[scale] = float(np.std(estimates, ddof=1))
        assert abs(np.mean(estimates) - values[0]) < 3.5 * spread[scale] / np.sqrt(150)
    assert spread[1.0] < 0.97 * spread[0.0]  # of the same logs
