"""Ranking templates: eight plain rules, such as "high prices first", each a value in [0, 1] for every product."""

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.worlds.search.catalogue import SearchCatalogue

MARGIN = 0.4
"""EUR of CM2 above which the template cm2 boosts a product."""

FULL_DISCOUNT = 0.3
"""The discount from which the template discount boosts in full."""


def template_values(catalogue: SearchCatalogue) -> FloatArray:
    """Return each template's value of each product, `(8, K)`, in the order of `TEMPLATES`."""
    c = catalogue
    popularity = np.log1p(c.bestseller)
    low, high = np.percentile(c.price, [25, 75])
    highest = popularity.max()
    values = [
        np.zeros(len(c.price)),
        c.cm2 > MARGIN,
        c.label > 0,
        popularity / highest if highest > 0 else popularity,
        c.price > high,
        c.price < low,
        np.minimum(c.discount / FULL_DISCOUNT, 1.0),
        c.strategic,
    ]
    return np.array(values, float)
