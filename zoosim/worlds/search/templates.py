"""What templates add to the scores of products by rules, such as "high prices first", each a value in [0, 1]."""

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.worlds.search.catalogue import SearchCatalogue

MARGIN = 0.4
"""EUR of CM2 above which the rule cm2 boosts a product."""

FULL_DISCOUNT = 0.3
"""The discount from which the rule discount boosts in full."""


def rule_values(catalogue: SearchCatalogue) -> FloatArray:
    """Return the value of each built-in rule for each product, `(8, K)`, in the order of `TEMPLATES`."""
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


def added_by_rules(catalogue: SearchCatalogue, weights: FloatArray, a_max: float) -> FloatArray:
    """Return what the rules of each template add to the score of each product, `(T, K)`.

    Args:
        catalogue: The products.
        weights: Weight of each rule in each template, `(T, 8)`.
        a_max: What a rule of weight 1 adds where its value is 1.
    """
    values = rule_values(catalogue)
    added = np.zeros((len(weights), values.shape[1]))
    for row, rules in zip(added, weights, strict=True):
        # Rule by rule rather than by a matrix product, whose bits differ from one processor to the next.
        for rule in np.flatnonzero(rules):
            row += rules[rule] * (a_max * values[rule])
    return added
