"""What one visitor sees of a linear model, and many bounds at once, against plain numpy."""

import numpy as np
import pytest

from zoosim.linear.dense import quadratic_forms
from zoosim.linear.lens import new_lens, see_mean, see_spread


@pytest.mark.parametrize("interacts", [True, False])
def test_a_lens_is_the_matrix_that_makes_features_of_numbers(interacts: bool) -> None:
    """Three features of a user, one of them 0, and of five of a product the second and the fourth."""
    rng = np.random.default_rng(0)
    user = np.array([0.3, 0.0, -2.0])
    columns = np.array([0, 2, 4])
    dim = 4 * 6 if interacts else 1 + 3 + 5
    theta = rng.normal(size=dim)
    root = rng.normal(size=(dim, dim))
    lens = new_lens(user, columns, dim, interacts)
    mean, spread = see_mean(lens, theta), see_spread(lens, root @ root.T)
    for _ in range(5):
        numbers = np.append(1.0, rng.normal(size=2))
        product = np.zeros(6)
        product[columns] = numbers
        left = np.append(1.0, user)
        x = np.kron(left, product) if interacts else np.concatenate((left, product[1:]))
        assert mean @ numbers == pytest.approx(theta @ x)
        assert numbers @ spread @ numbers == pytest.approx(x @ root @ root.T @ x)


@pytest.mark.parametrize("count", [1, 256, 700])
@pytest.mark.parametrize("dim", [1, 2, 11])
def test_quadratic_forms_are_those_of_each_row(count: int, dim: int) -> None:
    rng = np.random.default_rng(dim)
    rows, root = rng.normal(size=(count, dim)), rng.normal(size=(dim, dim))
    out = np.full(count, np.nan)
    quadratic_forms(rows, root @ root.T, out)
    assert out == pytest.approx(np.einsum("ni,ij,nj->n", rows, root @ root.T, rows))
