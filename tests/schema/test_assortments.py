"""Which products could be shown to whom: read off the propensities, by columns that do not depend on the product."""

import numpy as np

from zoosim.core.types import IntArray
from zoosim.schema.assortments import Assortments, assortments_by_columns, assortments_by_time

N, K = 6_000, 12


def find(segment: IntArray, columns: list[str]) -> tuple[Assortments | None, IntArray]:
    """Return the assortments found where segment 0 sees products 0 to 7 and segment 1 products 4 to 11, each as often;
    and the products shown."""
    rng = np.random.default_rng(0)
    item = rng.integers(0, 8, N) + 4 * segment
    possible = {"segment": segment, "noise": rng.integers(0, 5, N), "leak": (item + rng.integers(0, 2, N)) // 4}
    levels = [possible[name] for name in columns]
    halves = rng.random(N) < 0.5
    found = assortments_by_columns(assortments_by_time(item), item, np.full(N, 1.0 / 8.0), halves, levels)
    return found, item


def test_the_column_that_settles_what_could_be_shown_is_chosen() -> None:
    segment = np.random.default_rng(1).integers(0, 2, N)
    found, _ = find(segment, ["noise", "leak", "segment"])
    assert found is not None
    assert (found.total(np.ones(K)) == 8.0).all()
    assert (found.total(np.where(np.arange(K) < 4, 1.0, 0.0)) == np.where(segment == 0, 4.0, 0.0)).all()


def test_neither_noise_nor_what_depends_on_the_product_settles_it() -> None:
    found, _ = find(np.random.default_rng(1).integers(0, 2, N), ["noise", "leak"])
    assert found is None


def test_products_that_all_visitors_could_be_shown_need_no_column() -> None:
    found, item = find(np.zeros(N, np.int64), ["leak"])
    assert found is not None
    assert len(found.offers) == len(assortments_by_time(item).offers)
