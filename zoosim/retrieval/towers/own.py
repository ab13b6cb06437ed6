"""Vectors of products by their own rows, shrunk towards what the products' tower makes of their features.

Given the visitors' vectors, a product's vector and bias are the weights of a logistic regression on its own rows. Their
prior is normal around the tower's, so that a product without rows keeps the tower's, and one with many has its own. How
far products lie from their tower, one spread of vectors and one of biases, is what makes the rows likeliest (empirical
Bayes, by Laplace's approximation of the evidence: MacKay 1992, "The evidence framework applied to classification
networks").
"""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.threads import in_threads, n_threads
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.linear.logistic import Logistic, log_posterior, newton_step
from zoosim.retrieval.towers.joint import TrainedTowers
from zoosim.retrieval.towers.rows import ShownRows

NEWTON_STEPS = 4

MOST_ROWS = 20_000
"""Rows of a product that count, the last ones: with so many, the prior says nothing any more."""

SAMPLE = 2_000
"""Products by which the spreads are chosen."""

SPREADS = (0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Spreads that are tried: of vectors, as shares of the root mean square of the tower's numbers, and of biases."""

FIXED = 1e8
"""Precision of the weight of the position's effect, which is 1 and stays so."""

Spreads = tuple[float, float]


class OwnRows:
    """Each product's rows, with the vectors of their visitors, and the tower's vectors of the products."""

    def __init__(self, rows: ShownRows, towers: TrainedTowers) -> None:
        """Compute all vectors once."""
        order, self._starts = rows.of_product()
        self._visitors = towers.visitors.vectors(rows.visitors)
        self._visit = rows.visit[order]
        self._offsets = towers.positions[np.minimum(rows.position[order], len(towers.positions) - 1)]
        self._clicked = rows.clicked[order]
        self._tower = towers.products.vectors(rows.products).astype(float)
        self._size = float(np.sqrt(np.mean(self._tower[:, :-1] ** 2)))

    def vectors(self, spreads: Spreads) -> Float32Array:
        """Return the vector and bias of each product `(K, k + 1)`."""
        out = self._tower.copy()
        shown = np.flatnonzero(np.diff(self._starts))
        self._fit(shown, spreads, out)
        return out.astype(np.float32)

    def choose_spreads(self, *, rng: np.random.Generator) -> Spreads:
        """Return the spreads of vectors and biases that make the rows of a sample of products likeliest."""
        shown = np.flatnonzero(np.diff(self._starts))
        sample = np.sort(rng.choice(shown, min(SAMPLE, len(shown)), replace=False))
        known: dict[tuple[int, int], float] = {}

        def evidence(place: tuple[int, int]) -> float:
            if place not in known:
                known[place] = self._fit(sample, (SPREADS[place[0]], SPREADS[place[1]]), self._tower.copy())
            return known[place]

        # By steps on the grid, as the evidence has one top nearly always; from the middle.
        best = (4, 4)
        while True:
            steps = [(best[0] + i, best[1] + j) for i, j in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))]
            inside = [step for step in steps if min(step) >= 0 and max(step) < len(SPREADS)]
            better = max(inside, key=evidence)
            if better == best:
                return SPREADS[best[0]], SPREADS[best[1]]
            best = better

    def _fit(self, products: IntArray, spreads: Spreads, out: FloatArray) -> float:
        """Write the mode of each of some products `(m,)` to its row of `out (K, k + 1)`; return the log evidence."""
        of_vector, of_bias = spreads
        width = self._tower.shape[1] - 1
        precisions = np.concatenate([np.full(width, (of_vector * self._size) ** -2.0), [of_bias**-2.0, FIXED]])
        evidence = np.zeros(len(products))
        # A product's numbers depend on its rows alone, so any division among threads gives the same.
        bounds = np.linspace(0, len(products), 8 * n_threads() + 1).astype(int)

        def fit_part(part: int) -> None:
            some = slice(bounds[part], bounds[part + 1])
            _fit_products(
                products[some],
                self._starts,
                self._visitors,
                self._visit,
                self._offsets,
                self._clicked,
                precisions,
                out,
                evidence[some],
            )

        in_threads(fit_part, len(bounds) - 1)
        return float(evidence.sum())


@jit
def _fit_products(
    products: IntArray,
    starts: IntArray,
    visitors: Float32Array,
    visit: IntArray,
    offsets: FloatArray,
    clicked: FloatArray,
    precisions: FloatArray,
    out: FloatArray,
    evidence: FloatArray,
) -> None:
    """Replace the rows of `out (K, k + 1)` of some products, the means of their priors, by the modes.

    Args:
        products: Which products `(m,)`.
        starts: Where the rows of each product begin `(K + 1,)`.
        visitors: Vectors of visits `(n, k)`.
        visit, offsets, clicked: Of each row: its visit, the effect of its position, and whether it was clicked.
        precisions: Of the prior: k of the vector, that of the bias, and that of the weight of the position's effect.
        out: Means of the priors, then modes.
        evidence: Where the logarithm of the evidence of each goes, but for a constant `(m,)`.
    """
    width = out.shape[1] - 1
    for number in range(products.shape[0]):
        product = products[number]
        stop = starts[product + 1]
        start = max(starts[product], stop - MOST_ROWS)
        features = np.empty((stop - start, width + 2))
        for row in range(start, stop):
            for j in range(width):
                features[row - start, j] = visitors[visit[row], j]
            features[row - start, width] = 1.0
            features[row - start, width + 1] = offsets[row]
        mean = np.ones(width + 2)
        mean[: width + 1] = out[product]
        model = Logistic(mean, np.diag(np.sqrt(precisions)), mean.copy(), np.diag(precisions))
        weights = np.ones(stop - start)
        for _ in range(NEWTON_STEPS):
            newton_step(model, features, clicked[start:stop], weights)
        total = log_posterior(model.mean, model, features, clicked[start:stop], weights)
        for j in range(width + 2):
            total += 0.5 * np.log(precisions[j]) - np.log(model.root[j, j])
        evidence[number] = total
        out[product] = model.mean[: width + 1]
