"""The parameters of a fitted search shop: what each adds to which log odds, and how strongly it is pooled.

All parameters stand in one vector. Utilities, log odds of examination and of purchase are linear in it, so that a
sparse matrix says what each parameter does to each product shown. Parameters of a kind (segments, categories, products
...) are drawn from one normal distribution, whose standard deviation is estimated with them.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from zoosim.core.search_config import Behaviour
from zoosim.core.types import FloatArray, IntArray
from zoosim.fitting.search_design import DesignSizes, SearchDesign

PRIOR_SD = 3.0
"""Prior standard deviation of parameters, and of the means of kinds, around the defaults of a search world."""

STEP_SD = 0.5
"""Prior standard deviation of the examination of a position around the one above, in log odds."""

USUAL_SD = 0.1
"""Standard deviation among visitors of the effect of price, before anything is known: 0 would have no slope."""

MOST_POSITIONS = 10
"""Positions with an examination of their own, for each type of query; those beyond share the last."""


class EstimatedParameters(NamedTuple):
    """The estimated parameters of S segments, T types of queries, C categories, K products.

    Log odds of examination: `bias (T, P)` by position, `examination (S,)`, and `examine_satisfaction` by satisfaction.
    Utility: `intercept (S,)`, `segment_category (S, C)`, `query_type (T,)`, `product (K,)`; effects of `price (S,)`, of
    log(1 + price), and of private `label (S,)`; of the base `score` and of the taste for a `category`. Effects of price
    differ by `price_sd` between visitors. Log odds of a purchase: `purchase_slope` by utility, `purchase_bias (S,)`
    and `purchase_price (S,)` by log(1 + price).
    """

    bias: Any
    examination: Any
    intercept: Any
    segment_category: Any
    query_type: Any
    product: Any
    price: Any
    label: Any
    score: Any
    category: Any
    price_sd: Any
    examine_satisfaction: Any
    purchase_slope: Any
    purchase_bias: Any
    purchase_price: Any


SUM_SD = 1e-3
"""Prior standard deviation of the sum of effects without a mean of their own: numerically a constraint."""

OVERSHOOT = 1.5
"""Moves of standard deviations, in steps of expectation-maximisation, which creep where effects hardly differ: below
2 this ends where single steps do (Salakhutdinov & Roweis 2003)."""


class ParameterPooling(NamedTuple):
    """The pooling of the parameters of a kind: around a mean of their own (`has_mean`), or as deviations that sum to 0.

    Deviations of segments by category sum to 0 within each segment. What all of a kind share belongs to the parameter
    that has their mean (an intercept, a position's examination): without that, a log could not tell the two apart, and
    the errors of both would say so. Before anything is known their variance is `usual_sd` squared, which counts as
    `weight` of them.
    """

    usual_sd: float
    weight: float
    has_mean: bool


KINDS = {
    "examination": ParameterPooling(0.3, 1.0, False),
    "intercept": ParameterPooling(0.7, 1.0, True),
    "segment_category": ParameterPooling(0.2, 2.0, False),
    "query_type": ParameterPooling(0.5, 1.0, False),
    "product": ParameterPooling(0.3, 1.0, False),
    "price": ParameterPooling(0.5, 1.0, True),
    "label": ParameterPooling(0.5, 1.0, True),
    "purchase_bias": ParameterPooling(0.5, 1.0, True),
    "purchase_price": ParameterPooling(0.2, 1.0, True),
}

SHARED = ("score", "category", "price_sd", "examine_satisfaction", "purchase_slope")


class Layout(NamedTuple):
    """The places of parameters in the vector of all: their shapes, by name, in order."""

    shapes: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, sizes: DesignSizes, n_positions: int) -> "Layout":
        """Return the layout of a shop's parameters, `n_positions` with an examination of their own."""
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(EstimatedParameters._fields, (sizes.segments,))
        shapes |= dict.fromkeys(SHARED, ())
        shapes |= {"bias": (sizes.types, n_positions), "query_type": (sizes.types,), "product": (sizes.products,)}
        shapes["segment_category"] = (sizes.segments, sizes.categories)
        return cls(shapes)

    @property
    def size(self) -> int:
        """Count the parameters."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def places(self, name: str) -> IntArray:
        """Return where the parameters of a name stand, in their shape."""
        names = list(self.shapes)
        first = sum(int(np.prod(self.shapes[other])) for other in names[: names.index(name)])
        return first + np.arange(int(np.prod(self.shapes[name]))).reshape(self.shapes[name])

    def pack(self, parameters: EstimatedParameters) -> FloatArray:
        """Return parameters as one vector."""
        return np.concatenate([np.ravel(np.asarray(part, np.float64)) for part in parameters])

    def unpack(self, values: FloatArray) -> EstimatedParameters:
        """Return the parameters of a vector."""
        return EstimatedParameters(**{name: values[self.places(name)] for name in self.shapes})

    def prior_mean(self) -> FloatArray:
        """Return where estimates are drawn to where the log says little: the built-in behaviour, without tastes."""
        usual = Behaviour()
        centres = dict.fromkeys(EstimatedParameters._fields, 0.0)
        # `price` is here the product of a weight and a taste, not the weight that `Behaviour` calls so.
        centres |= {name: getattr(usual, name) for name in centres if hasattr(usual, name) and name != "price"}
        centres |= {"bias": 0.5, "price_sd": USUAL_SD}
        filled = {name: np.full(shape, centres[name]) for name, shape in self.shapes.items()}
        return self.pack(EstimatedParameters(**filled))

    def prior_precision(self, sds: dict[str, float]) -> FloatArray:
        """Return the inverse covariance of the prior `(P, P)`, the kinds having the standard deviations `sds`."""
        precision = np.zeros((self.size, self.size))
        for name in self.shapes:
            places = np.ravel(self.places(name))
            n = len(places)
            block = np.eye(n) / PRIOR_SD**2
            if name in KINDS:
                variance = sds[name] ** 2
                block = np.eye(n) / variance
                if KINDS[name].has_mean:  # inverse of variance * I + PRIOR_SD^2 * 11' (Sherman & Morrison 1950)
                    block -= np.full((n, n), 1.0 / (variance * (n + variance / PRIOR_SD**2)))
                else:
                    # Its quadratic form is (sum of the effects)^2, heavily weighed.
                    block += self._same_sum(name) / SUM_SD**2
            precision[np.ix_(places, places)] = block
        for row in self.places("bias"):  # biases step from one position to the next
            steps = np.diff(np.eye(len(row)), axis=0)
            precision[np.ix_(row, row)] += steps.T @ steps / STEP_SD**2
        return precision

    def updated_sds(self, values: FloatArray, covariance: FloatArray, sds: dict[str, float]) -> dict[str, float]:
        """Return the kinds' standard deviations after a step of expectation-maximisation, taken `OVERSHOOT` times.

        The mean of the squares of effects, expected over what is not known of them (Dempster, Laird & Rubin 1977), with
        the prior's share.
        """
        updated = {}
        for name in sds:
            kind = KINDS[name]
            places = np.ravel(self.places(name))
            same_sum = self._same_sum(name)
            centring = np.eye(len(places)) - same_sum / same_sum.sum(axis=1)
            effects = centring @ values[places]
            spread = np.trace(centring @ covariance[np.ix_(places, places)] @ centring)
            total = float(effects @ effects + spread) + kind.weight * kind.usual_sd**2
            # Each sum or mean that is taken off takes one degree of freedom; the trace of the centring counts the rest.
            step = float(np.sqrt(total / (np.trace(centring) + kind.weight))) / sds[name]
            updated[name] = float(sds[name] * step**OVERSHOOT)
        return updated

    def _same_sum(self, name: str) -> FloatArray:
        """Return which parameters of a name belong to the same sum `(n, n)`, 0 or 1: those of a row, or all."""
        shape = self.shapes[name]
        row = np.arange(int(np.prod(shape))) // (shape[-1] if shape else 1)
        return np.asarray(row[:, None] == row, np.float64)


class Predictors(NamedTuple):
    """The predictors of the likelihood of n searches of L products, linear in the parameters.

    `utility`, `look` (log odds of examination without satisfaction) and `purchase` (log odds without utility), each
    `(n, L)`; `price_sd`, `examine_satisfaction` and `purchase_slope`, each `(n,)`.
    """

    utility: Any
    look: Any
    purchase: Any
    price_sd: Any
    examine_satisfaction: Any
    purchase_slope: Any


class ParameterEffects(NamedTuple):
    """Effects of parameters: a sparse `matrix` (rows: `Predictors` one after the other), and the search of each row."""

    matrix: sparse.csr_array
    search: IntArray
    n: int
    length: int

    def predictors(self, values: FloatArray) -> Predictors:
        """Return the predictors under parameters `(P,)`."""
        n = self.n
        length = self.length
        flat = self.matrix @ values
        pieces = np.split(flat, [n * length, 2 * n * length, 3 * n * length, *(3 * n * length + n * k for k in (1, 2))])
        return Predictors(*(piece.reshape(n, length) for piece in pieces[:3]), *pieces[3:])

    def scores(self, gradients: Predictors) -> sparse.csr_array:
        """Return each search's gradient by the parameters `(n, P)`, from that by its predictors."""
        flat = np.concatenate([np.ravel(part) for part in gradients])
        rows = len(flat)
        weights = sparse.csr_array((flat, (self.search, np.arange(rows))), shape=(self.n, rows))
        return sparse.csr_array(weights @ self.matrix)


def parameter_effects(design: SearchDesign, layout: Layout) -> ParameterEffects:
    """Return what the parameters of a layout do to the searches of a design."""
    n, length = design.shown.shape
    size = n * length
    cell = np.arange(size)
    segment = np.repeat(design.segment, length)
    kind = np.repeat(design.query_type, length)
    # Positions beyond the last bias share it, as visitors of a search world see them.
    position = np.tile(np.arange(length), n).clip(max=layout.shapes["bias"][1] - 1)
    log_price, label, score, taste, category, product = (
        np.ravel(part)
        for part in (design.log_price, design.label, design.score, design.taste, design.category, design.product)
    )
    ones = np.ones(size)
    at = layout.places
    entries: list[tuple[Any, Any, Any]] = [
        (cell, at("intercept")[segment], ones),
        (cell, at("segment_category")[segment, category], ones),
        (cell, at("query_type")[kind], ones),
        (cell, at("product")[product], ones),
        (cell, at("price")[segment], log_price),
        (cell, at("label")[segment], label),
        (cell, np.broadcast_to(at("score"), size), score),
        (cell, np.broadcast_to(at("category"), size), taste),
        (size + cell, at("bias")[kind, position], ones),
        (size + cell, at("examination")[segment], ones),
        (2 * size + cell, at("purchase_bias")[segment], ones),
        (2 * size + cell, at("purchase_price")[segment], log_price),
    ]
    # Numbers of a search come behind the three blocks of its positions, in the order of `Predictors`.
    for place, name in enumerate(("price_sd", "examine_satisfaction", "purchase_slope")):
        entries.append((3 * size + place * n + np.arange(n), np.broadcast_to(at(name), n), np.ones(n)))
    rows, columns, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    matrix = sparse.csr_array((values, (rows, columns)), shape=(3 * size + 3 * n, layout.size))
    of_cells = np.repeat(np.arange(n), length)
    search = np.concatenate([of_cells, of_cells, of_cells, *[np.arange(n)] * 3])
    return ParameterEffects(matrix, search, n, length)
