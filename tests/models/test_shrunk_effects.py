"""Shrunk effects against what can be computed otherwise."""

import numpy as np
import pytest

from zoosim.core.types import FloatArray
from zoosim.models.shrunk_effects import (
    CandidateColumns,
    CandidateInputs,
    FeatureRow,
    ShrunkEffects,
    draw,
    forget_product,
    grown_effects,
    learn_amount,
    learn_chance,
    learn_priors,
    look,
    new_effects,
)

NONE = np.zeros(0, np.int64)


def priors(**changed: float) -> FloatArray:
    values = {
        "base": 2.0,
        "user": 0.5,
        "number": 0.3,
        "cross": 0.0,
        "column": 0.4,
        "taste": 0.2,
        "own": 0.0,
        "tau": 0.0,
    }
    return np.array([list({**values, **changed}.values())])


def row(user: list[float], numbers: list[float] = [], columns: list[int] = [], product: int = 0) -> FeatureRow:  # noqa: B006
    return FeatureRow(np.array([1.0, *user]), np.array(numbers, float), np.array(columns, np.int64), product)


def offer_of(*rows: FeatureRow) -> CandidateInputs:
    columns = np.unique(np.concatenate([one.columns for one in rows]))
    starts = np.cumsum([0, *(len(one.columns) for one in rows)])
    active = np.searchsorted(columns, np.concatenate([one.columns for one in rows]))
    numbers = np.ascontiguousarray(np.array([one.numbers for one in rows]).reshape(len(rows), -1).T)
    ones = CandidateColumns(columns, starts, active)
    return CandidateInputs(numbers, ones, np.array([one.product for one in rows]))


def test_one_block_is_bayesian_linear_regression() -> None:
    rng = np.random.default_rng(0)
    prior, noise = priors(), 0.7
    effects = new_effects(prior, 3, 2, 0, 1, 2)
    x, y = rng.normal(size=(40, 4)), rng.normal(size=40)
    for t in range(40):
        learn_amount(effects, 0, float(t), row(x[t, :2].tolist(), x[t, 2:].tolist()), y[t], noise)
    design = np.column_stack([np.ones(40), x])
    precision = np.diag(1 / np.array([2.0, 0.5, 0.5, 0.3, 0.3])) + design.T @ design / noise
    assert np.allclose(effects.shared[0], np.linalg.solve(precision, design.T @ y / noise))
    assert np.allclose(effects.shared_cov[0], np.linalg.inv(precision))


def test_a_product_is_shrunk_towards_its_column() -> None:
    prior = priors(own=0.5, user=0.0, taste=0.0)
    effects = new_effects(prior, 1, 0, 0, 3, 10)
    rng = np.random.default_rng(1)
    for t in range(2_000):
        product = int(rng.integers(1, 9))
        learn_chance(
            effects,
            0,
            float(t),
            row([], [], [1 + product % 2], product),
            bool(rng.random() < [0.1, 0.6][product % 2]),
        )
    offer = offer_of(row([], [], [1], 2), row([], [], [2], 3), row([], [], [1], 0), row([], [], [2], 9))
    view = look(effects, 0, 2_000.0, np.ones(1), offer)
    chances = 1 / (1 + np.exp(-view.mean))
    assert np.allclose(chances, [0.1, 0.6, 0.1, 0.6], atol=0.08), "unknown products are judged by their column"
    assert (view.own[2:] > 2 * view.own[:2]).all()
    out = np.empty(4)
    draw(view, offer.ones, 0.5, np.zeros(6), out)
    assert np.array_equal(out, view.mean)
    draw(view, offer.ones, 0.5, np.r_[0.0, 1.0, np.zeros(4)], out)
    assert np.allclose(out - view.mean, [0.0, 0.5 * view.of_columns[1]] * 2)


def full_of(effects: ShrunkEffects, clock: float, rows: list[FeatureRow]) -> FloatArray:
    return look(effects, 0, clock, rows[0].user, offer_of(*rows)).mean


@pytest.mark.parametrize("clock", [101.0, 300.0])
def test_looking_sees_what_learning_would_reckon(clock: float) -> None:
    """After learning at visit 100, a prediction made later must be the same by `look` and by what `learn` expects."""
    prior = priors(cross=0.3, own=0.5, tau=150.0)
    rng = np.random.default_rng(2)
    effects = new_effects(prior, 3, 2, 2, 3, 5)
    for t in range(100):
        some = row(
            rng.normal(size=2).tolist(), rng.normal(size=2).tolist(), [int(rng.integers(1, 3))], int(rng.integers(1, 5))
        )
        learn_amount(effects, 0, float(t + 1), some, float(rng.normal()), 1.0)
    asked = row([0.3, -1.0], [1.0, 0.5], [1], 2)
    seen = look(effects, 0, clock, asked.user, offer_of(asked))
    error, variance = learn_amount(effects, 0, clock, asked, 0.0, 1.0)
    assert np.isclose(-error, seen.mean[0])
    assert variance - 1.0 > seen.own[0] ** 2 + seen.of_columns[0] ** 2 - 0.5


def test_what_is_long_past_is_forgotten() -> None:
    prior = priors(own=0.5, tau=10.0)
    effects = new_effects(prior, 1, 0, 0, 2, 2)
    for t in range(50):
        learn_amount(effects, 0, float(t), row([], [], [1], 1), 3.0, 0.1)
    offer = offer_of(row([], [], [1], 1))
    later = look(effects, 0, 1_000.0, np.ones(1), offer)
    assert np.isclose(later.mean[0], effects.shared[0, 0]), "the constant stays"
    assert np.allclose([later.own[0] ** 2, later.of_columns[0] ** 2], [0.5, 0.4])


def test_more_room_changes_nothing_and_a_product_can_be_forgotten() -> None:
    prior = priors(own=0.5, cross=0.2)
    effects = new_effects(prior, 2, 1, 1, 2, 2)
    asked = row([0.5], [1.0], [1], 1)
    learn_amount(effects, 0, 1.0, asked, 2.0, 0.3)
    larger = grown_effects(effects, 4, 8)
    assert full_of(effects, 1.0, [asked]) == full_of(larger, 1.0, [asked])
    assert larger.own[0, 1] > 0.0
    forget_product(larger, 1)
    assert (larger.own[0, 1], larger.own_var[0, 1]) == (0.0, 0.5)


@pytest.mark.parametrize("variances", [{"own": 0.3, "taste": 0.0, "column": 0.0}, {"own": 0.0}])
def test_learned_variances_are_as_if_they_had_held_from_the_start(variances: dict[str, float]) -> None:
    first = priors(base=0.0, user=0.0, **variances)
    visitors = np.random.default_rng(3).normal(size=64)
    rows = [row([visitors[t]], [], [1 + t % 3], 1 + t % 7) for t in range(64)]

    def learned(prior: FloatArray) -> ShrunkEffects:
        effects = new_effects(prior, 2, 0, 0, 4, 9)
        for t, one in enumerate(rows):
            learn_amount(effects, 0, 0.0, one, 0.5 * (t % 7 - 3) + visitors[t] * (t % 3), 1.0)
        return effects

    effects = learned(first)
    learn_priors(effects, first, 63)
    assert np.array_equal(effects.priors, first), "it is not time yet"
    learn_priors(effects, first, 64)
    assert not np.array_equal(effects.priors, first)
    for found, expected in zip(effects, learned(effects.priors), strict=True):
        assert np.allclose(found, expected)


def test_variances_are_learned_from_many_products() -> None:
    """Of 500 products, seen 8 times each, and 200 of which nothing was seen."""
    rng, truth = np.random.default_rng(4), 0.9
    first = priors(base=0.0, user=0.0, own=0.2)
    effects, own = new_effects(first, 1, 0, 0, 1, 701), rng.normal(0.0, np.sqrt(truth), 500)
    for seen in range(4_096):
        product = seen % 500
        learn_amount(effects, 0, 0.0, row([], [], [], 1 + product), own[product] + float(rng.normal()), 1.0)
        learn_priors(effects, first, seen + 1)
    assert effects.priors[0, 6] == pytest.approx(truth, rel=0.2)
    assert effects.own_var[0, 700] == pytest.approx(effects.priors[0, 6])


def test_variances_of_what_forgets_and_of_what_is_not_there_stay() -> None:
    first = np.vstack([priors(own=0.3, tau=100.0), priors(own=0.0)])
    effects = new_effects(first, 1, 0, 0, 1, 3)
    for seen in range(64):
        for model in (0, 1):
            learn_amount(effects, model, float(seen), row([], [], [], 1), 5.0, 1.0)
        learn_priors(effects, first, seen + 1)
    assert np.array_equal(effects.priors, first)


@pytest.mark.parametrize("seed", range(8))
def test_room_for_more_products_changes_nothing_that_is_learned(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = priors(own=0.1 + rng.random())
    small = new_effects(first, 2, 0, 0, 4, 9)
    large = grown_effects(small, 4, 900)
    for seen in range(1, 400):
        one, amount = row([float(rng.normal())], [], [seen % 4], 1 + seen % 7), float(rng.normal(seen % 7, 1.0))
        for effects in (small, large):
            learn_amount(effects, 0, float(seen), one, amount, 1.0)
            learn_priors(effects, first, seen)
    assert small.priors[0, 6] > first[0, 6]
    assert np.array_equal(small.priors, large.priors)
    assert np.array_equal(small.own, large.own[:, :9])
