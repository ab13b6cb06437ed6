"""Products' own vectors are the modes of their posteriors, and the spreads of their priors those of the shop."""

import numpy as np
import pytest
from scipy import optimize, special

from tests.retrieval.towers.shop import TASTES, draw_shop
from zoosim.core.types import FloatArray
from zoosim.retrieval.towers import own
from zoosim.retrieval.towers.joint import TrainedTowers
from zoosim.retrieval.towers.own import OwnRows
from zoosim.retrieval.towers.rows import ShownRows
from zoosim.retrieval.towers.tower import Tower


class Linear:
    """Stands for a trained tower: a matrix, and what is added."""

    def __init__(self, matrix: FloatArray, bias: float) -> None:
        self.matrix = matrix
        self.bias = bias

    def vectors(self, features: FloatArray) -> np.ndarray:
        vectors = features @ self.matrix
        vectors[:, TASTES:] += self.bias
        return vectors.astype(np.float32)


def own_rows(rows: ShownRows, positions: FloatArray | None = None) -> OwnRows:
    """Return rows with towers that know the visitors' tastes, and what features show of the products'."""
    visitors = Linear(np.eye(TASTES), 0.0)
    products = Linear(np.eye(TASTES, TASTES + 1), -2.0)
    towers: tuple[Tower, Tower] = (visitors, products)  # type: ignore[assignment]
    return OwnRows(rows, TrainedTowers(*towers, np.zeros(1) if positions is None else positions))


def test_a_vector_is_the_mode_of_its_posterior_and_that_of_its_tower_without_rows() -> None:
    rows = draw_shop(n=3_000).rows
    position = np.random.default_rng(1).integers(0, 3, 3_000)
    effects = np.array([0.0, -0.5, -1.0])
    rows = rows._replace(position=position)
    model = own_rows(rows, effects)
    vectors = model.vectors((0.4, 0.8))
    tower = np.column_stack([rows.products, np.full(rows.n_products, -2.0)]).astype(np.float32).astype(float)
    np.testing.assert_array_equal(vectors[-15:], tower[-15:])
    size = np.sqrt((tower[:, :-1] ** 2).mean())
    spreads = np.array([0.4 * size] * TASTES + [0.8])
    for product in (0, 50, 134):
        is_own = rows.product == product
        visitors = np.column_stack([rows.visitors[is_own], np.ones(is_own.sum())])
        signs = np.where(rows.clicked[is_own] > 0, 1.0, -1.0)

        def loss(
            vector: FloatArray,
            visitors: FloatArray = visitors,
            signs: FloatArray = signs,
            product: int = product,
            is_own: np.ndarray = is_own,
        ) -> float:
            log_odds = visitors @ vector + effects[position[is_own]]
            prior = 0.5 * (((vector - tower[product]) / spreads) ** 2).sum()
            return float(prior - special.log_expit(signs * log_odds).sum())

        plain = optimize.minimize(loss, tower[product], tol=1e-10).x
        np.testing.assert_allclose(vectors[product], plain, atol=2e-4)


@pytest.mark.parametrize("spread", [0.1, 0.8])
def test_the_spreads_that_are_chosen_are_those_of_the_shop(spread: float) -> None:
    rows = draw_shop(n=30_000, own=spread).rows
    of_vector, of_bias = own_rows(rows).choose_spreads(rng=np.random.default_rng(0))
    # The tower's numbers have size 1, and biases lie .5 around -2; the grid goes by factors of 2.
    assert spread / 2 <= of_vector <= spread * 2
    assert 0.2 <= of_bias <= 0.8


def test_shrinking_beats_the_tower_alone_and_rows_alone_on_the_true_vectors() -> None:
    shop = draw_shop(n=6_000)
    model = own_rows(shop.rows)
    errors = {}
    for name, spreads in {
        "chosen": model.choose_spreads(rng=np.random.default_rng(0)),
        "tower": (0.01, 0.01),
        "rows": (3.2, 3.2),
    }.items():
        errors[name] = ((model.vectors(spreads)[:, :TASTES] - shop.effects) ** 2).mean()
    assert errors["chosen"] < 0.9 * min(errors["tower"], errors["rows"])


def test_vectors_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    model = own_rows(draw_shop(n=2_000).rows)
    vectors = model.vectors((0.4, 0.4))
    spreads = model.choose_spreads(rng=np.random.default_rng(0))
    monkeypatch.setattr(own, "n_threads", lambda: 7)
    np.testing.assert_array_equal(model.vectors((0.4, 0.4)), vectors)
    assert model.choose_spreads(rng=np.random.default_rng(0)) == spreads
