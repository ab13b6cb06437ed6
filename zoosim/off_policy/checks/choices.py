"""Terms that tell one choice from another, beyond what goes by the visitor."""

import numpy as np

from zoosim.core.types import BoolArray, FloatArray
from zoosim.off_policy.checks.probe import LEAST_ROWS, Probe, of_unit_size

LEAST_SIZE = 1e-6
"""Share of the variance of the largest direction below which one is 0."""


class ChoiceTerms:
    """Indicators of products, and their products with features, less what goes by the features alone.

    `terms (n, m)` are made independent of one another and of unit length; `rewards (n,)` are those of the rows, the
    largest being 1, less what goes by the features; `own (n,)` is how much more a row's choice earns than others would,
    fitted to the rows.

    Args:
        probe: The log.
        most_terms: How many terms there are at most: the commonest products first, then their products with the first
            features.
    """

    def __init__(self, probe: Probe, most_terms: int) -> None:
        log = probe.log
        rows = np.bincount(log.actions, minlength=log.n_actions)
        common = np.argsort(-rows, kind="stable")[:most_terms]
        common = common[rows[common] >= LEAST_ROWS]
        features = np.column_stack([np.ones(len(log)), probe.inputs])
        self._features = orthonormal(features)
        n_features = max(1, min(features.shape[1], most_terms // max(1, len(common))))
        is_shown = (log.actions[:, None] == common).astype(np.float64)
        terms = np.concatenate([is_shown * features[:, [column]] for column in range(n_features)], axis=1)
        self.terms = orthonormal(self.without_features(terms))
        self.rewards = self.without_features(of_unit_size(log.rewards)[:, None])[:, 0]
        self.own: FloatArray = self.terms @ (self.terms.T @ self.rewards)

    def without_features(self, values: FloatArray) -> FloatArray:
        """Return `values (n, m)` less a linear model of the features."""
        return np.asarray(values - self._features @ (self._features.T @ values))

    def of_rows(self, rows: BoolArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `values (n,)` of some rows less what goes by features among them `(r,)`, and those rows' terms."""
        # What is orthonormal over all rows is not over some of them.
        features = orthonormal(self._features[rows])
        values = values[rows] - features @ (features.T @ values[rows])
        terms = self.terms[rows] - features @ (features.T @ self.terms[rows])
        return values, orthonormal(terms)


def orthonormal(values: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the columns of `values (n, m)`."""
    # With X'X = V S V' the columns of X V S^-1/2 are orthonormal; only an m x m matrix is decomposed.
    sizes, directions = np.linalg.eigh(values.T @ values)
    is_kept = sizes > LEAST_SIZE * max(1e-9, float(sizes.max(initial=0.0)))
    return np.asarray(values @ (directions[:, is_kept] / np.sqrt(sizes[is_kept])))
