"""Both towers are trained by the slopes of the log loss."""

import numpy as np
from scipy import special

from tests.retrieval.towers.shop import draw_shop, some_rows
from zoosim.core.types import FloatArray
from zoosim.retrieval.towers import joint
from zoosim.retrieval.towers.joint import TrainedTowers, train_towers
from zoosim.retrieval.towers.rows import ShownRows
from zoosim.retrieval.towers.tower import new_tower

WIDTH, HIDDEN = 4, 8


def mean_loss(towers: TrainedTowers, rows: ShownRows, own: FloatArray) -> float:
    """Return the mean log loss of rows, computed plainly; `own (K, k + 1)` are numbers of products' own."""
    visitors = np.column_stack([towers.visitors.vectors(rows.visitors), np.ones(len(rows.visitors))])
    products = towers.products.vectors(rows.products) + own
    log_odds = (visitors[rows.visit] * products[rows.product]).sum(axis=1) + towers.positions[rows.position]
    return float(-special.log_expit(np.where(rows.clicked > 0, log_odds, -log_odds)).mean())


def few_rows(n: int) -> ShownRows:
    return some_rows(draw_shop().rows, slice(n))


def test_the_first_step_goes_against_the_slopes_of_the_loss_in_each_weight() -> None:
    # The first step of Adam moves each weight by the step size against the sign of its slope.
    rows = few_rows(joint.BATCH)
    trained = train_towers(rows, WIDTH, HIDDEN, 1, rng=np.random.default_rng(1))
    rng = np.random.default_rng(1)
    start = TrainedTowers(
        new_tower(rows.visitors, HIDDEN, WIDTH, rng=rng),
        new_tower(rows.products, HIDDEN, WIDTH + 1, rng=rng),
        np.zeros(1),
    )
    start.products.weights[-1] = special.logit(rows.clicked.mean())
    own = np.zeros((rows.n_products, WIDTH + 1))
    n_compared = 0
    for name in ("visitors", "products"):
        before = getattr(start, name)
        moved = getattr(trained, name).weights.astype(float) - before.weights
        for place in range(len(before.weights)):
            slopes = []
            for size in (-0.02, 0.02):
                weights = before.weights.copy()
                weights[place] += size
                slopes.append(mean_loss(start._replace(**{name: before._replace(weights=weights)}), rows, own))
            slope = (slopes[1] - slopes[0]) / 0.04
            # Products' own numbers move within the batch, row by row, so that small slopes may have another sign.
            if abs(slope) > 3e-3:
                n_compared += 1
                np.testing.assert_allclose(moved[place], -np.sign(slope) * joint.RATE, rtol=1e-3)
    assert n_compared >= 10


def test_training_predicts_clicks_of_rows_that_were_not_learned_from() -> None:
    shop = draw_shop(own=0.0)
    rows = shop.rows
    earlier = some_rows(rows, slice(16_000))
    later = some_rows(rows, slice(16_000, None))
    towers = train_towers(earlier, WIDTH, 32, 4, rng=np.random.default_rng(0))
    none = np.zeros((rows.n_products, WIDTH + 1))
    truth = (shop.tastes[later.visit] * shop.effects[later.product]).sum(axis=1) + shop.biases[later.product]
    best = float(-special.log_expit(np.where(later.clicked > 0, truth, -truth)).mean())
    blind = float(special.entr(later.clicked.mean()) + special.entr(1 - later.clicked.mean()))
    # The features say nothing of the biases, and all of the tastes.
    assert mean_loss(towers, later, none) < best + 0.3 * (blind - best)


def test_the_effect_of_a_position_is_told_from_products() -> None:
    rng = np.random.default_rng(4)
    rows = draw_shop(own=0.0).rows
    position = rng.integers(0, 2, len(rows.clicked))
    looked = rng.random(len(position)) < np.where(position == 1, 0.3, 1.0)
    towers = train_towers(
        rows._replace(position=position, clicked=rows.clicked * looked), WIDTH, HIDDEN, 3, rng=np.random.default_rng(0)
    )
    assert towers.positions[0] == 0.0
    assert -2.2 < towers.positions[1] < -0.8  # log odds of few clicks fall by about log .3 = -1.2


def test_the_same_draws_give_the_same_bits() -> None:
    rows = few_rows(1_000)
    first, second, other = (train_towers(rows, WIDTH, HIDDEN, 2, rng=np.random.default_rng(s)) for s in (0, 0, 1))
    for name in ("visitors", "products"):
        np.testing.assert_array_equal(getattr(first, name).weights, getattr(second, name).weights)
    assert (first.visitors.weights != other.visitors.weights).any()


def test_rows_without_features_and_levels_that_are_rare_are_taken() -> None:
    rows = few_rows(300)
    rare = np.zeros((rows.n_products, 2))
    rare[0, 0] = 1.0
    towers = train_towers(
        rows._replace(visitors=np.zeros((len(rows.visitors), 0)), products=rare),
        WIDTH,
        HIDDEN,
        1,
        rng=np.random.default_rng(0),
    )
    vectors = towers.visitors.vectors(np.zeros((2, 0)))
    np.testing.assert_array_equal(vectors[0], vectors[1])
    np.testing.assert_array_equal(towers.products.scale, 1.0)  # columns of 0 and 1 are taken as they are
