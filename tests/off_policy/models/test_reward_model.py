"""The reward model against a plain fit of each fold, and what cross-fitting is for."""

from dataclasses import replace

import numpy as np
import pytest

from zoosim.core.distributions import Distributions
from zoosim.core.types import FloatArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import SHRINKAGES, RewardModel, model_terms
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.off_policy.models.reward_model import fit_reward_model
from zoosim.policies.from_log.traits import find_traits

N, K, D = 400, 4, 3


def drawn(seed: int = 0, n: int = N, noise: float = 0.5) -> tuple[Log, FloatArray]:
    """A log with rewards linear in the features, for each action, and the true means `(n, K)`."""
    rng = np.random.default_rng(seed)
    features = rng.normal(2.0, [1.0, 10.0, 0.1], (n, D))
    truth = 1.0 + (features - 2.0) / [1.0, 10.0, 0.1] @ rng.normal(size=(D, K))
    actions = rng.integers(K, size=n)
    rewards = truth[np.arange(n), actions] + noise * rng.normal(size=n)
    zeros = np.zeros(n, np.int64)
    log = Log(
        actions, np.full(n, 1 / K), rewards, CandidateSets.everything(K), zeros, features, zeros, np.zeros((K, 0))
    )
    return log, truth


def plain_fit(x: FloatArray, actions: np.ndarray, rewards: FloatArray, shrinkage: float) -> FloatArray:
    """Two ridge regressions written out: of all rows, and of each action's residuals: `(K, D)`."""
    shared = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ rewards)
    found = []
    for action in range(K):
        own = x[actions == action]
        rest = rewards[actions == action] - own @ shared
        found.append(shared + np.linalg.solve(own.T @ own + shrinkage * np.eye(x.shape[1]), own.T @ rest))
    return np.array(found)


def test_each_fold_is_guessed_by_a_plain_fit_of_the_others() -> None:
    """Shrinkage chosen by leaving out each other fold in turn, all written out on the rows."""
    log, _ = drawn()
    model = fit_reward_model(log, make_clusters(N))
    scaled = (log.features - log.features.mean(axis=0)) / log.features.std(axis=0)
    x, fold = np.hstack([np.ones((N, 1)), scaled]), np.arange(N) % 5
    for f in range(5):
        errors = np.zeros(len(SHRINKAGES))
        for held in set(range(5)) - {f}:
            train, test = (fold != f) & (fold != held), fold == held
            for number, shrinkage in enumerate(SHRINKAGES):
                fitted = plain_fit(x[train], log.actions[train], log.rewards[train], shrinkage)
                guesses = (x[test] * fitted[log.actions[test]]).sum(axis=1)
                errors[number] += ((log.rewards[test] - guesses) ** 2).sum()
        train = fold != f
        best = plain_fit(x[train], log.actions[train], log.rewards[train], SHRINKAGES[int(errors.argmin())])
        expected = np.clip(x[fold == f] @ best.T, log.rewards.min(), log.rewards.max())
        assert np.allclose(model.predict(0, N)[fold == f], expected, atol=1e-10)


def test_a_row_is_not_guessed_by_a_model_that_has_seen_it() -> None:
    """Changing a row's reward moves no guess of its own fold."""
    log, _ = drawn()
    rewards = log.rewards.copy()
    rewards[10] = log.rewards.max()
    logs = (log, replace(log, rewards=rewards))
    before, after = (fit_reward_model(entry, make_clusters(N)).predict(0, N) for entry in logs)
    same = (before == after).all(axis=1)
    assert same[np.arange(N) % 5 == 10 % 5].all()
    assert not same.all()


def test_it_finds_what_rewards_are_made_of() -> None:
    """20,000 rows with a noise of .5: guesses within .05 of the truth, where the truth is not beyond what was seen."""
    log, truth = drawn(n=20_000)
    guesses = fit_reward_model(log, make_clusters(20_000)).predict(0, 1_000)
    assert np.abs(guesses - np.clip(truth[:1_000], log.rewards.min(), log.rewards.max())).mean() < 0.05


def test_positions_are_features_and_an_empty_log_of_features_will_do() -> None:
    log, _ = drawn()
    positions = np.arange(N) % 3
    by_place = replace(log, features=np.zeros((N, 0)), positions=positions, rewards=positions.astype(np.float64))
    guesses = fit_reward_model(by_place, make_clusters(N)).predict(0, N)
    assert np.abs(guesses - positions[:, None]).max() < 0.1
    constant = replace(by_place, positions=np.zeros(N, np.int64), rewards=(log.actions == 2).astype(np.float64))
    means = fit_reward_model(constant, make_clusters(N)).predict(0, N).mean(axis=0)
    assert means == pytest.approx([0.0, 0.0, 1.0, 0.0], abs=0.05)


def test_any_number_of_threads_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = drawn()
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("zoosim.core.threads.n_threads", lambda threads=threads: threads)
        found.append(fit_reward_model(log, make_clusters(N)).predict(0, N))
    assert np.array_equal(found[0], found[1])


def test_with_too_many_products_and_features_visitors_are_described_by_what_they_differ_in_most() -> None:
    """400 features that are 2 numbers and some noise: the model is that of the principal components, to rounding."""
    log, _ = drawn()
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=(N, 2))
    wide = replace(log, features=numbers @ rng.normal(size=(2, 400)) + 0.01 * rng.normal(size=(N, 400)))
    scores = find_traits(wide.features).scores
    expected = fit_reward_model(replace(log, features=scores), make_clusters(N)).predict(0, N)
    assert np.allclose(fit_reward_model(wide, make_clusters(N)).predict(0, N), expected, atol=1e-8)


def test_a_model_of_6_000_products_is_small_and_tells_good_visitors_from_bad() -> None:
    rng = np.random.default_rng(0)
    n, k = 2_000, 6_000
    number = rng.normal(size=n)
    features = number[:, None] + rng.normal(size=(n, 30))
    actions, rewards, zeros = rng.integers(k, size=n), (number > 0.0).astype(np.float64), np.zeros(n, np.int64)
    everything = CandidateSets.everything(k)
    log = Log(actions, np.full(n, 1 / k), rewards, everything, zeros, features, zeros, np.zeros((k, 0)))
    model = fit_reward_model(log, make_clusters(n))
    assert model.coefficients.nbytes < 1e7
    guesses = model.predict(0, 200)[:, 0]
    assert np.corrcoef(guesses, rewards[:200])[0, 1] > 0.5


def test_means_are_of_all_guesses_however_few_are_possible() -> None:
    """Of 150 actions, each row's policy takes all, a few that lie apart, or none."""
    rng = np.random.default_rng(0)
    rows, actions = 30, 150
    features, fold = rng.normal(size=(rows, 2)), np.arange(rows) % 2
    model = RewardModel(rng.normal(size=(2, 3, actions)), fold, features, np.zeros(2), np.ones(2), -2.0, 2.0)
    probabilities = rng.random((rows, actions)) * (rng.random((rows, actions)) < np.array([[1.0], [0.02], [0.0]] * 10))
    logged = rng.integers(actions, size=rows)
    predicted, expected = np.empty(rows), np.empty(rows)
    model_terms(model, 0, logged, Distributions.dense(probabilities), predicted, expected)
    guesses = model.predict(0, rows)
    np.testing.assert_array_equal(predicted, guesses[np.arange(rows), logged])
    np.testing.assert_allclose(expected, (probabilities * guesses).sum(axis=1), rtol=1e-12, atol=1e-15)
