"""Categories: products told apart by the distinct patterns in the columns that hold nothing but 0 and 1.

They are numbered once, so that what was learned of a category stays its own when other products come: by `number` as
they come up, and category 0 takes what there is no room for; or, by those who keep hashes of `distinct_patterns`, when
they are shown. Where no column is binary, each distinct product is a category.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.id_table import (
    IN_USE,
    UNKNOWN,
    IdTable,
    claim_slot,
    find_slot,
    forget_ids,
    grown,
    new_id_table,
    use_slot,
)
from zoosim.core.jit import jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.policies.choice import distinct_rows, hash_row

FIRST_CATEGORIES = 64
"""Room for categories at first; it doubles as they come up."""


class Categories(NamedTuple):
    """The categories found so far: `table` from hashed patterns to numbers, 1 and up.

    `binary (d_p,)` tells whether a column held nothing but 0 and 1; `seen (1,)` whether any product was seen.
    """

    table: IdTable
    binary: BoolArray
    seen: BoolArray


def new_categories(room: int, product_dim: int) -> Categories:
    """Return room for categories 0 to `room` - 1 of products with `product_dim` features, none found."""
    return Categories(new_id_table(room), np.ones(product_dim, np.bool_), np.zeros(1, np.bool_))


def count(categories: Categories) -> int:
    """Return how many categories there are, number 0 included."""
    return int(categories.table.counts[IN_USE])


def number(categories: Categories, products: FloatArray, most: int) -> tuple[Categories, IntArray, IntArray, bool]:
    """Number the categories of `products (K, d_p)`, of which there may be `most`, number 0 included.

    When all numbers are taken, the category that was shown longest ago (`use_slot`) loses its own.

    Returns:
        The categories, with more room where it was needed; the category `(K,)` of each product; the numbers that are
        new, and whose memory is to be cleared; and whether a column turned out to hold other numbers than 0 and 1, so
        that all were numbered anew.
    """
    anew = _shed(categories, products)
    columns = categories.binary if categories.binary.any() else ~categories.binary
    rows, row_of = distinct_rows(np.ascontiguousarray(products[:, columns]))
    room = len(categories.table.ids)
    needed = count(categories) + len(rows)
    if needed > room and room < most:
        categories = categories._replace(table=grown(categories.table, min(max(needed, 2 * room), most)))
    numbers = np.zeros(len(rows), np.int64)
    is_new = np.zeros(len(rows), np.bool_)
    _claim(categories.table, rows, numbers, is_new)
    return categories, numbers[row_of], numbers[is_new], anew


def all_numbered(categories: Categories, products: FloatArray) -> bool:
    """Return whether each of the products `(K, d_p)` has a number already, so that `number` would move nothing."""
    if not categories.seen[0] or not still_binary(categories.binary, products)[categories.binary].all():
        return False
    columns = categories.binary if categories.binary.any() else ~categories.binary
    rows, _ = distinct_rows(np.ascontiguousarray(products[:, columns]))
    return _are_known(categories.table, rows)


@jit
def _are_known(table: IdTable, rows: FloatArray) -> bool:
    """Return whether each of the patterns `(R, d)` has a slot."""
    r = 0
    while r < rows.shape[0] and find_slot(table, hash_row(rows[r])) != UNKNOWN:
        r += 1
    return bool(r == rows.shape[0])


@jit
def _claim(table: IdTable, rows: FloatArray, numbers: IntArray, is_new: BoolArray) -> None:
    """Write the number of each distinct pattern to `numbers (R,)`: 0 for those there is no room for at once."""
    count = min(rows.shape[0], table.ids.shape[0] - 1)
    unknown = 0
    for r in range(count):
        numbers[r] = find_slot(table, hash_row(rows[r]))
        unknown += numbers[r] == UNKNOWN
    if unknown > table.ids.shape[0] - table.counts[IN_USE]:
        # Some categories must make room: not those that are candidates now.
        for r in range(count):
            if numbers[r] != UNKNOWN:
                use_slot(table, numbers[r])
    for r in range(count):
        if numbers[r] == UNKNOWN:
            numbers[r], is_new[r] = claim_slot(table, hash_row(rows[r]))


def _shed(categories: Categories, products: FloatArray) -> bool:
    """Settle which columns are binary when none was seen before; later drop those that are not, and begin anew."""
    binary = still_binary(np.ones_like(categories.binary), products)
    if not categories.seen[0]:
        categories.binary[:] = binary
        categories.seen[0] = True
        return False
    anew = not binary[categories.binary].all()
    if anew:
        categories.binary[:] &= binary
        forget_ids(categories.table)
    return bool(anew)


@jit
def still_binary(binary: BoolArray, products: FloatArray) -> BoolArray:
    """Return which of the columns that were `binary (d_p,)` hold nothing but 0 and 1 in `products (K, d_p)`, too."""
    still = binary.copy()
    left = 0
    for i in range(still.shape[0]):
        left += still[i]
    for k in range(products.shape[0]):
        if left == 0:
            break
        for i in range(still.shape[0]):
            if still[i] and products[k, i] != 0.0 and products[k, i] != 1.0:
                still[i] = False
                left -= 1
    return still


@jit
def distinct_patterns(products: FloatArray, binary: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the hash `(R,)` of each category among `products (K, d_p)`, as they come up, and that of each `(K,)`.

    A category is a pattern in the columns that are `binary (d_p,)`, or where there are none in all columns.
    """
    count, dim = products.shape
    any_binary = np.any(binary)
    room = 1
    while room < 2 * count:
        room *= 2
    places = np.full(room, -1)
    keys = np.empty(count, np.int64)
    group_of = np.empty(count, np.int64)
    # In the place of numbers stands 2, which no binary column holds: a pattern is never taken for one of other columns.
    pattern = np.full(dim, 2.0)
    found = 0
    for k in range(count):
        for i in range(dim):
            if not any_binary or binary[i]:
                pattern[i] = products[k, i]
        key = hash_row(pattern)
        place = key & (room - 1)
        while places[place] >= 0 and keys[places[place]] != key:
            place = (place + 1) & (room - 1)
        if places[place] < 0:
            places[place] = found
            keys[found] = key
            found += 1
        group_of[k] = places[place]
    return keys[:found].copy(), group_of
