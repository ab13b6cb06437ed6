"""Memory of a log that `Adaptive` was trained on: a mixed model of it, and how that has predicted since.

A policy that learns row by row cannot look at a log twice. A mixed model can, and so knows better which kinds of
effects matter; but it stands still. So both predict, and are averaged on the scale of logits: two models with errors
of their own are together better than the better of them (Bates & Granger 1969, "The Combination of Forecasts",
https://doi.org/10.1057/jors.1969.103). The mixed model begins with most of the weight; whichever predicts better from
then on gains.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.jit import jit
from zoosim.core.limits import COUNTS, IDS, NOT_NEGATIVE
from zoosim.core.types import FloatArray, IntArray, PastLog, PolicySpec, Progress
from zoosim.linear.dense import add_matrix, add_product
from zoosim.policies.from_log.mixed_effects import MixedEffects

OWN, MODEL = 0, 1
"""Places in `LogModel.losses`: of what is learned row by row, and of the mixed model."""

TEMPERATURE = 4.0
"""By how many nats one of both must have predicted better lately to weigh 2.7 times as much."""

LEAST_LIKELIHOOD = 1e-3
"""No answer counts as more surprising than this."""

LARGEST_LOG = 700.0
"""The logarithm of a size that is as good as infinite."""

CANDIDATES_AT_ONCE = 512
"""Candidates whose weights are read once for several visitors: so many stay in the processor's cache."""


class LogModel(NamedTuple):
    """A mixed model of a log of P products, with the fields of `MixedEffects`; without one P is 0 and `own` empty.

    `own (P + 1, 1 + d_u)` are weights of visitors' features by product, the last row for unknown products, `shared (p,
    1 + d_u)` by what products have in common; both give the logit of a reward, and `size_own` and `size_shared` the
    logarithm of its size. `rows (1,)` counts the rewards that were learned from logs, `losses (2,)` how badly what is
    learned row by row and this model have predicted since, lately.
    """

    product_ids: Annotated[IntArray, IDS]
    own: FloatArray
    shared: FloatArray
    size_own: FloatArray
    size_shared: FloatArray
    trait_mean: FloatArray
    trait_weights: FloatArray
    centre: FloatArray
    scale: FloatArray
    rows: Annotated[IntArray, COUNTS]
    losses: Annotated[FloatArray, NOT_NEGATIVE]

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if (self.product_ids[1:] <= self.product_ids[:-1]).any():
            yield "product_ids are not sorted, or one comes twice"
        if len(self.own) not in (0, len(self.product_ids) + 1):
            yield f"own holds {len(self.own):,} rows, expected one per product and one for unknown ones"


def new_log_model(spec: PolicySpec, products: int = -1, traits: int = 0) -> LogModel:
    """Return a model of so many products and traits that says nothing; by default none."""
    dim = 1 + spec.user_dim
    return LogModel(
        product_ids=np.arange(max(products, 0)),
        own=np.zeros((products + 1, dim)),
        shared=np.zeros((traits, dim)),
        size_own=np.zeros((products + 1, dim)),
        size_shared=np.zeros((traits, dim)),
        trait_mean=np.zeros(spec.product_dim),
        trait_weights=np.zeros((spec.product_dim, traits)),
        centre=np.zeros(spec.user_dim),
        scale=np.zeros(spec.user_dim),
        rows=np.zeros(1, np.int64),
        losses=np.zeros(2),
    )


def fit_log_model(log: PastLog, spec: PolicySpec, progress: Progress) -> LogModel:
    """Fit a mixed model to a log; none where rewards are not 0 or sizes above it, or products are too many for one."""
    mixed = MixedEffects(spec, np.random.default_rng(0))  # which draws nothing
    try:
        mixed.fit(log, progress)
    except ConfigError:
        return new_log_model(spec)
    weights = mixed.state_dict()["model"]
    if not weights["has_two_parts"]:
        return new_log_model(spec)
    fields = {name: np.ascontiguousarray(weights[name]) for name in LogModel._fields if name in weights}
    return new_log_model(spec)._replace(**fields)


def weights_in_common(model: LogModel, products: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what weights of products follow from their features, for the logit and the log of the size.

    Each `(K, 1 + d_u)`, or without rows where there is no model of a log.
    """
    if not len(model.own):
        return model.own, model.size_own
    traits = (products - model.trait_mean) @ model.trait_weights
    return traits @ model.shared, traits @ model.size_shared


@jit
def candidate_weights(product_ids: IntArray, own: FloatArray, ids: IntArray, in_common: FloatArray) -> FloatArray:
    """Return the weights of candidates `(1 + d_u, K)`, of none where `own` has none.

    Args:
        product_ids, own: The fields of a `LogModel`.
        ids: The candidates `(K,)`.
        in_common: What of their weights follows from their features `(K, 1 + d_u)`.
    """
    count = ids.shape[0] if own.shape[0] > 0 else 0
    weights = np.empty((own.shape[1], count))
    for k in range(count):
        place = np.searchsorted(product_ids, ids[k])
        is_known = place < product_ids.shape[0] and product_ids[place] == ids[k]
        row = place if is_known else product_ids.shape[0]
        # A column at a time: a product's own weights stand side by side.
        for j in range(weights.shape[0]):
            weights[j, k] = own[row, j] + in_common[k, j]
    return weights


@jit
def predict_rewards(
    model: LogModel, weights: FloatArray, size_weights: FloatArray, user: FloatArray, with_sizes: bool
) -> FloatArray:
    """Return the model's logit of a reward for each candidate `(K,)`; `with_sizes` the reward that it expects."""
    x = np.empty(user.shape[0] + 1)
    _fill_scaled(model, user, x)
    out = np.zeros(weights.shape[1])
    add_product(x, weights, out)
    if with_sizes:
        sizes = np.zeros(out.shape[0])
        add_product(x, size_weights, sizes)
        _multiply_sizes(sizes, out)
    return out


@jit
def predict_for_many(
    model: LogModel,
    weights: FloatArray,
    size_weights: FloatArray,
    users: FloatArray,
    with_sizes: bool,
    out: FloatArray,
) -> None:
    """Write what `predict_rewards` says of visitors `(n, d_u)`, to the bit, to `out (n, K)`: weights are read once."""
    n = users.shape[0]
    x = np.empty((n, users.shape[1] + 1))
    for i in range(n):
        _fill_scaled(model, users[i], x[i])
    for first in range(0, weights.shape[1], CANDIDATES_AT_ONCE):
        logits = _times_some(x, weights, first)
        if with_sizes:
            sizes = _times_some(x, size_weights, first)
            for i in range(n):
                _multiply_sizes(sizes[i], logits[i])
        for i in range(n):
            for k in range(logits.shape[1]):
                out[i, first + k] = logits[i, k]


@jit
def _times_some(x: FloatArray, weights: FloatArray, first: int) -> FloatArray:
    """Return x times the weights of candidates from `first` on, `(n, K')`."""
    width = min(CANDIDATES_AT_ONCE, weights.shape[1] - first)
    some = np.empty((weights.shape[0], width))
    for j in range(some.shape[0]):
        for k in range(width):
            some[j, k] = weights[j, first + k]
    out = np.zeros((x.shape[0], width))
    add_matrix(x, some, out)
    return out


@jit
def _fill_scaled(model: LogModel, user: FloatArray, out: FloatArray) -> None:
    """Write the scaled features of a visitor, after a leading 1, to `out (1 + d_u,)`."""
    out[0] = 1.0
    for i in range(user.shape[0]):
        out[1 + i] = (user[i] - model.centre[i]) * model.scale[i]


@jit
def _multiply_sizes(sizes: FloatArray, logits: FloatArray) -> None:
    """Make rewards of `logits (K,)`: chances times sizes, whose logarithms are `sizes (K,)`."""
    for k in range(logits.shape[0]):
        logits[k] = np.exp(min(sizes[k], LARGEST_LOG)) / (1.0 + np.exp(-logits[k]))


@jit
def learn_weight(
    model: LogModel, weights: FloatArray, user: FloatArray, action: int, paid: bool, likelihood: float, kept: float
) -> None:
    """Note how well both predicted whether a visit pays: `likelihood` is what its row by row models gave to the answer.

    Earlier losses keep a share `kept`. Nothing happens without a model.
    """
    if model.own.shape[0] == 0:
        return
    shown = np.empty((weights.shape[0], 1))
    for i in range(weights.shape[0]):
        shown[i, 0] = weights[i, action]
    # Without sizes the second weights are not read.
    logit = predict_rewards(model, shown, shown, user, False)[0]
    chance = 1.0 / (1.0 + np.exp(-logit))
    losses = model.losses
    losses[OWN] = kept * losses[OWN] - np.log(max(likelihood, LEAST_LIKELIHOOD))
    losses[MODEL] = kept * losses[MODEL] - np.log(max(chance if paid else 1.0 - chance, LEAST_LIKELIHOOD))


@jit
def model_weight(model: LogModel) -> float:
    """Return the weight of the mixed model beside what is learned row by row, 0 where there is none."""
    if model.own.shape[0] == 0:
        return 0.0
    return float(1.0 / (1.0 + np.exp((model.losses[MODEL] - model.losses[OWN]) / TEMPERATURE)))
