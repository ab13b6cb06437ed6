"""Categories: products told apart by the distinct patterns in the columns that hold nothing but 0 and 1.

They are numbered as they come up, so that what was learned of a category stays its own when the assortment changes.
Where no column is binary, each distinct product is a category.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.policies.kernel import distinct_rows


class Categories(NamedTuple):
    """The categories found so far, C at most.

    `patterns (C, d_p)` of the columns that count; `binary (d_p,)` whether a column held nothing but 0 and 1; `found
    (1,)` how many there are.
    """

    patterns: FloatArray
    binary: BoolArray
    found: IntArray


def new_categories(room: int, product_dim: int) -> Categories:
    """Return room for categories of products with `product_dim` features, none found."""
    return Categories(np.zeros((room, product_dim)), np.ones(product_dim, np.bool_), np.zeros(1, np.int64))


def number(categories: Categories, products: FloatArray) -> tuple[IntArray, bool]:
    """Return the category `(K,)` of each of `products (K, d_p)`, -1 where there is no room for a new one.

    The flag is True when a column turns out to hold other numbers than 0 and 1: then all are numbered anew.
    """
    anew = _shed(categories, products)
    columns = categories.binary if categories.binary.any() else ~categories.binary
    rows, row_of = distinct_rows(products[:, columns])
    known = {pattern.tobytes(): n for n, pattern in enumerate(categories.patterns[: categories.found[0], columns])}
    numbers = np.full(len(rows), -1)
    for n, row in enumerate(rows + 0.0):  # -0.0 is 0.0
        found = known.get(row.tobytes(), -1)
        if found < 0 and categories.found[0] < len(categories.patterns):
            found = int(categories.found[0])
            categories.patterns[found, columns] = row
            categories.found[0] += 1
        numbers[n] = found
    return numbers[row_of], anew


def _shed(categories: Categories, products: FloatArray) -> bool:
    """Settle which columns are binary when none was seen before; later drop those that are not, and begin anew."""
    binary = ((products == 0) | (products == 1)).all(axis=0)
    first = categories.found[0] == 0
    anew = not first and not binary[categories.binary].all()
    if first:
        categories.binary[:] = binary
    elif anew:
        categories.binary[:] &= binary
        categories.patterns[:] = 0.0
        categories.found[0] = 0
    return bool(anew)
