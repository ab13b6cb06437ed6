"""The multinomial model against second computations, and what it is fitted to counted by hand."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.linear_model import LogisticRegression

from zoosim.core.types import FloatArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.off_policy.propensities import multinomial
from zoosim.off_policy.propensities.multinomial import (
    Contexts,
    Multinomial,
    ObservedChoices,
    Shrinkage,
    count_choices,
    fit_multinomial,
    loss_of,
    scores_along,
    solve_information,
    weighted_slope,
)

K, D = 4, 2
SHRINKAGE = Shrinkage(own=3.0, shared=2.0, share=0.5, crossed=9.0)


def drawn(n: int = 300, with_traits: bool = True) -> ObservedChoices:
    """Choices by numbers, half of which come twice, among candidates that lack product 1 in every third visit."""
    rng = np.random.default_rng(0)
    inputs = np.hstack([np.ones((n, 1)), rng.integers(-2, 3, size=(n, D)).astype(float)])
    candidates = np.ones((2, K), bool)
    candidates[1, 1] = False
    candidate_set = (np.arange(n) % 3 == 0).astype(np.int64)
    traits = np.array([[1.0], [1.0], [-1.0], [-1.0]]) if with_traits else np.zeros((K, 0))
    contexts = Contexts(inputs, CandidateSets.from_masks(candidates), candidate_set, traits, 1 + D)
    scores = inputs @ rng.normal(0.0, 0.5, (1 + D, K)) + rng.gumbel(size=(n, K))
    scores[~candidates[candidate_set]] = -np.inf
    return ObservedChoices(contexts, scores.argmax(axis=1))


def at(weights: FloatArray) -> Multinomial:
    """A model of these weights in one row."""
    own = weights[: K * (1 + D)].reshape(K, 1 + D)
    return Multinomial(own, weights[K * (1 + D) :].reshape(1, 1 + D), SHRINKAGE)


def test_choices_are_counted_by_context() -> None:
    inputs = np.array([[1.0, 5.0], [1.0, 2.0], [1.0, 5.0], [1.0, 5.0]])
    contexts = Contexts(
        inputs, CandidateSets.from_masks(np.ones((2, 3), bool)), np.array([0, 0, 0, 1]), np.zeros((3, 0)), 2
    )
    counts = count_choices(ObservedChoices(contexts, np.array([2, 1, 2, 0])))
    listed = {
        (float(counts.contexts.inputs[c, 1]), int(counts.contexts.candidate_set[c]), int(a)): float(times)
        for c, a, times in zip(counts.context, counts.action, counts.times, strict=True)
    }
    assert listed == {(5.0, 0, 2): 2.0, (2.0, 0, 1): 1.0, (5.0, 1, 0): 1.0}
    alone = counts.narrowed(1)
    assert (len(alone.contexts.inputs), alone.times.sum()) == (2, 4.0)


def test_the_slope_is_that_of_the_loss() -> None:
    """By finite differences; the rows' slopes add up to it, with a minus."""
    choices = drawn()
    weights = np.random.default_rng(1).normal(0.0, 0.3, (K + 1) * (1 + D))
    counts = count_choices(choices)
    by_differences = approx_fprime(weights, lambda each: loss_of(at(each), counts), 1e-6)
    slope = -weighted_slope(at(weights), choices, np.ones(300))
    assert slope.ravel() == pytest.approx(by_differences[: K * (1 + D)], abs=1e-3)
    assert choices.contexts.traits.T @ slope == pytest.approx(by_differences[None, K * (1 + D) :], abs=1e-3)


def test_without_traits_it_is_sklearns_ridge() -> None:
    choices = drawn(with_traits=False)
    everything = choices.contexts._replace(candidates=CandidateSets.from_masks(np.ones((2, K), bool)))
    shrinkage = Shrinkage(own=3.0, shared=3.0, share=1e-6, crossed=1.0)
    model = fit_multinomial(count_choices(choices._replace(contexts=everything)), shrinkage)
    theirs = LogisticRegression(C=1.0 / 3.0, tol=1e-8, max_iter=500).fit(everything.inputs[:, 1:], choices.actions)
    expected = theirs.predict_proba(everything.inputs[:, 1:])
    assert model.probabilities(everything) == pytest.approx(expected, abs=5e-3)


def test_what_products_share_costs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the optimum both penalties pull as the slope does: of_shared x shared = Z' (of_own x own)."""
    monkeypatch.setattr(multinomial, "TOLERANCE", 1e-12)
    choices = drawn()
    model = fit_multinomial(count_choices(choices), SHRINKAGE)
    of_own, of_shared = SHRINKAGE.penalties(1 + D, 1 + D)
    pull = choices.contexts.traits.T @ (of_own * model.own)
    assert of_shared * model.shared == pytest.approx(pull, abs=0.01)
    chances = model.probabilities(choices.contexts)
    assert chances.sum(axis=1) == pytest.approx(np.ones(300))
    assert (chances[::3, 1] == 0.0).all()
    assert (chances[1::3, 1] > 0.0).all()


def test_the_information_is_solved_as_a_dense_system() -> None:
    """H = sum of (diag p - p p') x x x' of the rows, and the penalties; in products' own weights and shared ones."""
    choices = drawn(60)
    model = at(np.random.default_rng(2).normal(0.0, 0.3, (K + 1) * (1 + D)))
    size = K * (1 + D)
    information = np.zeros((size, size))
    for p, x in zip(model.probabilities(choices.contexts), choices.contexts.inputs, strict=True):
        information += np.kron(np.diag(p) - np.outer(p, p), np.outer(x, x))
    lift = np.vstack([np.eye(size), np.kron(choices.contexts.traits.T, np.eye(1 + D))])
    of_own, of_shared = SHRINKAGE.penalties(1 + D, 1 + D)
    whole = lift @ information @ lift.T + np.diag([*np.tile(of_own, K), *of_shared])
    slope = weighted_slope(model, choices, np.linspace(0.0, 1.0, 60))
    expected = lift.T @ np.linalg.solve(whole, lift @ slope.ravel())
    solved = solve_information(model, choices.contexts, slope)
    assert solved.ravel() == pytest.approx(expected, abs=0.01 * np.abs(expected).max())
    along = scores_along(model, choices, solved)
    rows = [weighted_slope(model, choices, row) for row in np.eye(60)]
    assert along == pytest.approx([float((row * solved).sum()) for row in rows])


def test_crossed_features_are_shrunk_apart() -> None:
    of_own, of_shared = SHRINKAGE.penalties(4, 3)
    assert (of_own.tolist(), of_shared.tolist()) == ([0.5, 3.0, 3.0, 9.0], [0.5, 2.0, 2.0, 9.0])


def test_features_count_more_or_less_when_scaled() -> None:
    model = at(np.arange(float((K + 1) * (1 + D))))
    scaled = model.scaled(2.0)
    assert (scaled.own[:, 0] == model.own[:, 0]).all()
    assert (scaled.own[:, 1:] == 2.0 * model.own[:, 1:]).all()
    assert (model.widened(5).own[:, 3:] == 0.0).all()


def test_the_information_of_a_few_visits_is_solved_beyond_what_numbers_can_hold() -> None:
    """Two products and no features: all is solved in a step, and in the others what is left goes to 0."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(5, 60))
        everything = CandidateSets.everything(2)
        contexts = Contexts(np.ones((n, 1)), everything, np.zeros(n, np.int64), np.zeros((2, 0)), 1)
        model = Multinomial(np.zeros((2, 1)), np.zeros((0, 1)), Shrinkage(*[3_000.0] * 4))
        choices = ObservedChoices(contexts, rng.integers(2, size=n))
        slope = weighted_slope(model, choices, rng.exponential(size=n))
        direction = solve_information(model, contexts, slope, 4.0)
        # The chances are 1/2 each, so the information is n of (1/4, -1/4; -1/4, 1/4), four times, and the shrinkage.
        expected = np.linalg.solve(n * np.array([[1.0, -1.0], [-1.0, 1.0]]) + 3_000.0 * np.eye(2), slope)
        np.testing.assert_allclose(direction, expected, rtol=1e-10)
