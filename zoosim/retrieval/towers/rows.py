"""Products that were shown to visitors, and what was clicked: the rows that a retriever learns from."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray


class ShownRows(NamedTuple):
    """Products that were shown, m rows of n visits.

    Attributes:
        visitors: Features of the visitor of each visit `(n, d_u)`.
        products: Features of each product `(K, d_p)`.
        visit: The visit of each row `(m,)`.
        product: The product of each row `(m,)`, its place among the K.
        position: Where it stood, from 0, `(m,)`.
        clicked: 1.0 if it was clicked, else 0.0, `(m,)`.
    """

    visitors: FloatArray
    products: FloatArray
    visit: IntArray
    product: IntArray
    position: IntArray
    clicked: FloatArray

    @property
    def n_products(self) -> int:
        """Count the products, K."""
        return len(self.products)

    def of_product(self) -> tuple[IntArray, IntArray]:
        """Return the rows by product `(m,)`, and where those of each begin and the last ones end `(K + 1,)`."""
        counts = np.bincount(self.product, minlength=self.n_products)
        return np.argsort(self.product, kind="stable"), np.concatenate([[0], np.cumsum(counts)])
