"""The products of a request as neural policies meet them, and what they remember of each visitor between decisions."""

from functools import cached_property

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.neural.learner import CandidateRows
from zoosim.policies.choice import distinct_rows, hash_row

MAX_CACHED = 5_000_000
"""Numbers that are kept of the visitors of one set of products; those of one visitor always fit."""


@jit
def _hashes(rows: FloatArray) -> IntArray:
    """Return a whole number of at least 0 for each of `rows (R, d)`, which follows from its features alone."""
    out = np.empty(rows.shape[0], np.int64)
    for r in range(rows.shape[0]):
        out[r] = hash_row(rows[r]) & 0xFFFFFFFFFFFF
    return out


class DistinctProducts:
    """The distinct products `rows (R, d_p)` of a request, the row `row_of (K,)` of each, and its visitors so far."""

    def __init__(self, products: FloatArray) -> None:
        """`products (K, d_p)`."""
        self.rows, self.row_of = distinct_rows(products)
        self.ones = np.ones(len(self.rows))
        self.visitors = dict[bytes, CandidateRows]()

    @cached_property
    def hashes(self) -> IntArray:
        """A whole number for each row `(R,)`."""
        return _hashes(self.rows)

    def seen_by(self, user: FloatArray) -> CandidateRows:
        """Return the rows as a visitor of features `user (d_u,)` meets them."""
        key = user.tobytes()
        if key not in self.visitors:
            candidates = CandidateRows(user, self.rows)
            if (len(self.visitors) + 1) * candidates.size > MAX_CACHED:
                self.visitors.clear()
            self.visitors[key] = candidates
        return self.visitors[key]
