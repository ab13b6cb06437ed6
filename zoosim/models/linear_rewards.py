"""Rewards linear in the visitor's features for each action, shrunk towards one model for all actions; cross-fitted.

All that fitting needs are sums over rows, so models without each fold, and the choice of how much to shrink, cost one
pass over the rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.arrays import with_ones
from zoosim.core.blocks import BLOCK_ROWS, RowArray, block_sums, extremes, row_blocks
from zoosim.core.distributions import Distributions
from zoosim.core.errors import ConfigError
from zoosim.core.jit import jit
from zoosim.core.threads import in_threads
from zoosim.core.types import FloatArray, IntArray, frozen_parts, frozen_view

FOLDS = 5
SHRINKAGES = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
"""Rows that the model of all actions counts for beside those of one action; tried in turn."""
MAX_BYTES = 800_000_000
PIECES = 4
FEW_TERMS = 1_000_000
"""Fewer are summed in less time than threads take to start."""
ACTIONS_AT_ONCE = 64


class RewardModel(NamedTuple):
    """Cross-fitted linear reward models: `coefficients (F, 1 + d, C)` without each fold f; `fold (n,)` of each row.

    Features are `inputs (n, d)` less `centre`, times `scale`; guesses are cut to the rewards seen, `low` to `high`.
    Action a has the coefficients `columns[a]`, `columns (K,)`; without `columns` those in its own place, and C is K.
    """

    coefficients: FloatArray
    fold: IntArray
    inputs: FloatArray
    centre: FloatArray
    scale: FloatArray
    low: float
    high: float
    columns: IntArray = np.zeros(0, np.int64)

    def of_rows(self, rows: slice) -> "RewardModel":
        """Return the model of some of the rows alone."""
        inputs = np.ascontiguousarray(self.inputs[rows], np.float64)
        return self._replace(inputs=inputs, fold=np.ascontiguousarray(self.fold[rows]))

    def predict(self, start: int, stop: int) -> FloatArray:
        """Return the guesses for rows `start` to `stop - 1` and all actions: `(stop - start, K)`."""
        out = np.empty((stop - start, self.coefficients.shape[2]))
        _predict_rows(frozen_parts(self), start, out)
        return out if not len(self.columns) else np.asarray(out[:, self.columns])


class FoldMoments(NamedTuple):
    """Sums over rows by fold and action: `gram (F, K, D, D)`, `cross (F, K, D)` with rewards, `square (F, K)`."""

    gram: FloatArray
    cross: FloatArray
    square: FloatArray


class Fitting(NamedTuple):
    """Options for fitting ridge deviations of each action from what actions share.

    `shared` makes of sums over rows, `gram (K, D, D)` and `cross (K, D)`, what the coefficients of each action are
    shrunk towards `(K, D)`. The penalty is one of `strengths`; a `free_level` has none. `without` is what needs no
    model.
    """

    shared: Callable[[FloatArray, FloatArray], FloatArray]
    without: str
    strengths: tuple[float, ...] = SHRINKAGES
    free_level: bool = False


def fit_linear_model(
    inputs: Any,
    actions: Any,
    rewards_by_fold: Sequence[Any],
    n_actions: int,
    fold: Any,
    folds: int,
    fitting: Fitting,
) -> RewardModel:
    """Fit rewards linear in `inputs (n, d)` for each of `actions (n,)`, without each `fold (n,)` in turn.

    `rewards_by_fold` holds rewards `(n,)`, one array for all folds or one per fold. Raises `ConfigError` for more
    actions and inputs than memory takes.
    """
    _check_size(inputs, n_actions, folds, fitting)
    rows = _scaled(inputs, fold, actions)
    moments = [sum_moments(rows, rewards, folds, n_actions) for rewards in rewards_by_fold]
    coefficients = np.stack([_fit_without(moments[f % len(moments)], f, fitting) for f in range(folds)])
    ranges = [extremes(rewards) for rewards in rewards_by_fold]
    bounds = (min(float(low) for low, _ in ranges), max(float(high) for _, high in ranges))
    return RewardModel(np.ascontiguousarray(coefficients), fold, rows.inputs, rows.centre, rows.scale, *bounds)


class PooledModel(NamedTuple):
    """Coefficients of [1, (x - centre) scale], the means over folds.

    An action with traits z `(p,)` has those of [1, z] `shared (1 + p, 1 + d)`, plus its `own (K, 1 + d)`.
    """

    shared: FloatArray
    own: FloatArray
    centre: FloatArray
    scale: FloatArray


def fit_pooled_model(
    inputs: FloatArray,
    actions: IntArray,
    rewards: FloatArray,
    n_actions: int,
    fold: IntArray,
    folds: int,
    traits: FloatArray | None,
) -> PooledModel:
    """Fit as `fit_linear_model` does, and split coefficients into those that actions share and deviations from them.

    So actions that were never seen have coefficients, too. Raises `ConfigError` as `fit_linear_model` does.
    """
    fitting = shared_first(traits)._replace(without="some of them")
    _check_size(inputs, n_actions, folds, fitting)
    rows = _scaled(inputs, fold, actions)
    moments = sum_moments(rows, rewards, folds, n_actions)
    coefficients = np.mean([_fit_without(moments, f, fitting) for f in range(folds)], axis=0)
    without = [[other for other in range(folds) if other != f] for f in range(folds)]
    shared = np.mean([_shared_weights(*_summed(moments, others), traits) for others in without], axis=0)
    deviations = coefficients.T - _described(traits, n_actions) @ shared
    return PooledModel(shared, deviations, rows.centre, rows.scale)


def _check_size(inputs: Any, n_actions: int, folds: int, fitting: Fitting) -> None:
    size = 8 * folds * n_actions * (inputs.shape[1] + 1) ** 2
    if size * PIECES > MAX_BYTES:
        size_text = f"{n_actions:,} actions and {inputs.shape[1]:,} features"
        raise ConfigError(
            f"reward model: got {size_text}, too many for a model of each action; leave out {fitting.without}"
        )


class ScaledRows(NamedTuple):
    """Rows without their rewards: `inputs (n, d)`, brought to `centre` and `scale`; `fold`, `actions`."""

    inputs: Any
    centre: FloatArray
    scale: FloatArray
    fold: Any
    actions: Any


def _scaled(inputs: Any, fold: Any, actions: Any) -> ScaledRows:
    """Return rows with the mean and the inverse of the standard deviation of each input, 1 where it does not vary."""
    # Of all rows, held-out ones too: scales read no reward, so a fold's guesses still have not seen its own.
    n = len(inputs)
    centre = block_sums(inputs) / n
    spread = np.sqrt(block_sums(inputs, lambda block: (block - centre) ** 2) / n)
    spread[spread == 0.0] = 1.0
    if not isinstance(inputs, RowArray):
        inputs = np.ascontiguousarray(inputs)
    return ScaledRows(inputs, centre, 1.0 / spread, fold, actions)


def sum_moments(rows: ScaledRows, rewards: Any, folds: int, k: int) -> FoldMoments:
    """Return sums over rows, added in a fixed number of pieces so that threads do not change the bits.

    Each block of rows is cut into these pieces, so rows that are read in blocks have the same sums.
    """
    d = rows.inputs.shape[1] + 1
    shapes = ((folds, k, d, d), (folds, k, d), (folds, k))
    parts = [FoldMoments(*map(np.zeros, shapes)) for _ in range(PIECES)]
    length = BLOCK_ROWS // PIECES
    for block in row_blocks(len(rewards)):
        _add_block(parts, _block_of(rows, block), rewards[block], length)
    gram, cross, square = (sum(arrays[1:], start=arrays[0]) for arrays in zip(*parts, strict=True))
    # Sums were made of the upper half alone.
    upper = np.triu(np.ones((d, d), bool))
    return FoldMoments(np.where(upper, gram, gram.swapaxes(-1, -2)), cross, square)


def _block_of(rows: ScaledRows, block: slice) -> ScaledRows:
    inputs = np.ascontiguousarray(rows.inputs[block], np.float64)
    return rows._replace(inputs=inputs, fold=rows.fold[block], actions=rows.actions[block])


def _add_block(parts: Sequence[FoldMoments], rows: ScaledRows, rewards: FloatArray, length: int) -> None:
    """Add the rows of a block to the sums of each part, so many rows to each."""
    inputs, centre, scale, fold, actions = frozen_parts(rows)
    rewards = frozen_view(rewards)

    def add(number: int) -> None:
        piece = slice(number * length, (number + 1) * length)
        _add_moments(parts[number], inputs[piece], centre, scale, fold[piece], actions[piece], rewards[piece])

    if len(rewards) * (inputs.shape[1] + 1) ** 2 < FEW_TERMS:
        for number in range(len(parts)):
            add(number)
    else:
        in_threads(add, len(parts))


@jit
def _add_moments(
    moments: FoldMoments,
    inputs: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    fold: IntArray,
    actions: IntArray,
    rewards: FloatArray,
) -> None:
    d = inputs.shape[1] + 1
    x = np.ones(d)
    for i in range(inputs.shape[0]):
        for j in range(1, d):
            x[j] = (inputs[i, j - 1] - centre[j - 1]) * scale[j - 1]
        f = fold[i]
        a = actions[i]
        r = rewards[i]
        moments.square[f, a] += r * r
        for j in range(d):
            moments.cross[f, a, j] += x[j] * r
            for k in range(j, d):
                moments.gram[f, a, j, k] += x[j] * x[k]


def _fit_without(moments: FoldMoments, fold: int, fitting: Fitting) -> FloatArray:
    """Return coefficients `(D, K)` from all folds but one, with the strength that guesses the others best."""
    # Nested: the strength is chosen on the other folds alone, else the guesses for this one would rest on its rewards.
    others = [f for f in range(len(moments.square)) if f != fold]
    if len(fitting.strengths) > 1:
        fitting = fitting._replace(strengths=(_best_strength(moments, others, fitting),))
    return next(_ridge(moments, others, fitting)).T


def _best_strength(moments: FoldMoments, others: list[int], fitting: Fitting) -> float:
    """Return the strength by which each of some folds is guessed best from the rest of them."""
    errors = np.zeros(len(fitting.strengths))
    for held_out in others:
        train = [f for f in others if f != held_out]
        for number, coefficients in enumerate(_ridge(moments, train, fitting)):
            errors[number] += _squared_error(moments, held_out, coefficients)
    return fitting.strengths[int(errors.argmin())]


def _ridge(moments: FoldMoments, folds: list[int], fitting: Fitting) -> Iterator[FloatArray]:
    """Yield coefficients `(K, D)` for each strength: what actions share, and ridge deviations of each from it."""
    gram, cross = _summed(moments, folds)
    shared = fitting.shared(gram, cross)
    # With b = shared + d, the normal equations gram b = cross become gram d = cross - gram shared.
    rest = cross - (gram @ shared[..., None])[..., 0]
    for strength in fitting.strengths:
        penalty = np.full(gram.shape[-1], strength)
        if fitting.free_level:
            # Next to none, yet not 0, so that there is a solution without rows, too.
            penalty[0] = 1e-9
        yield np.asarray(shared + np.linalg.solve(gram + np.diag(penalty), rest[..., None])[..., 0])


def _summed(moments: FoldMoments, folds: list[int]) -> tuple[FloatArray, FloatArray]:
    """Return `gram (K, D, D)` and `cross (K, D)` of some folds."""
    return moments.gram[folds].sum(axis=0), moments.cross[folds].sum(axis=0)


def shared_first(traits: FloatArray | None) -> Fitting:
    """Return how to fit a model of all actions, by their `traits (K, p)` if given, and each one's deviation from it."""

    def shared(gram: FloatArray, cross: FloatArray) -> FloatArray:
        return np.asarray(_described(traits, len(gram)) @ _shared_weights(gram, cross, traits))

    return Fitting(shared, "dm and dr")


def _described(traits: FloatArray | None, k: int) -> FloatArray:
    """Return [1, traits] of each action `(K, 1 + p)`."""
    return with_ones(np.zeros((k, 0)) if traits is None else traits)


def _shared_weights(gram: FloatArray, cross: FloatArray, traits: FloatArray | None) -> FloatArray:
    """Return the coefficients `(1 + p, D)` of a ridge model of all actions.

    With z = [1, traits] of an action the model is x^T M z; vec M solves sum_a kron(zz^T, gram_a) + 1.
    """
    z = _described(traits, len(gram))
    p = z.shape[1]
    d = gram.shape[-1]
    # x'Mz of an action with traits z is (z (x) x)' vec M, so sums over its rows are kron(zz', gram).
    system = np.einsum("kp,kq,kij->piqj", z, z, gram, optimize=True).reshape(p * d, p * d)
    return np.asarray(np.linalg.solve(system + np.eye(p * d), (z.T @ cross).reshape(-1)).reshape(p, d))


def _squared_error(moments: FoldMoments, fold: int, coefficients: FloatArray) -> float:
    """Return the sum of squared errors on a fold, from its sums alone."""
    # (r - x'b)^2 = r^2 - 2 r x'b + b' xx' b, summed over the rows.
    fitted = np.einsum("kij,kj->ki", moments.gram[fold], coefficients)
    return float(moments.square[fold].sum() + ((fitted - 2.0 * moments.cross[fold]) * coefficients).sum())


@jit
def _predict_row(model: RewardModel, row: int, first: int, out: FloatArray) -> None:
    """Fill in the guesses for actions from `first` on `(m,)`."""
    coefficients = model.coefficients[model.fold[row]]
    for a in range(out.shape[0]):
        out[a] = coefficients[0, first + a]
    for j in range(model.inputs.shape[1]):
        x = (model.inputs[row, j] - model.centre[j]) * model.scale[j]
        for a in range(out.shape[0]):
            out[a] += x * coefficients[j + 1, first + a]
    for a in range(out.shape[0]):
        out[a] = min(max(out[a], model.low), model.high)


@jit
def _predict_rows(model: RewardModel, start: int, out: FloatArray) -> None:
    """Fill in the guesses for all actions and the rows from `start` on `(m, C)`."""
    for i in range(out.shape[0]):
        _predict_row(model, start + i, 0, out[i])


@jit
def _predict_columns(model: RewardModel, row: int, columns: IntArray, out: FloatArray) -> None:
    """Fill in the guesses for actions by their columns of coefficients `(m,)`, as `_predict_row` does."""
    coefficients = model.coefficients[model.fold[row]]
    for a in range(columns.shape[0]):
        out[a] = coefficients[0, columns[a]]
    for j in range(model.inputs.shape[1]):
        x = (model.inputs[row, j] - model.centre[j]) * model.scale[j]
        for a in range(columns.shape[0]):
            out[a] += x * coefficients[j + 1, columns[a]]
    for a in range(columns.shape[0]):
        out[a] = min(max(out[a], model.low), model.high)


@jit
def model_terms(
    model: RewardModel,
    start: int,
    actions: IntArray,
    asked: Distributions,
    predicted: FloatArray,
    expected: FloatArray,
) -> None:
    """Fill in guesses for the logged `actions (m,)` of rows from `start` on, and means under distributions of each."""
    # A few actions at a time, so that one array serves however many there are.
    guesses = np.empty(ACTIONS_AT_ONCE)
    columns = np.empty(ACTIONS_AT_ONCE, np.int64)
    is_listed = asked.products.shape[0] > 0
    has_columns = model.columns.shape[0] > 0
    for i in range(actions.shape[0]):
        own = model.columns[actions[i]] if has_columns else actions[i]
        _predict_row(model, start + i, own, predicted[i : i + 1])
        expected[i] = 0.0
        row = asked.probabilities[asked.starts[i] : asked.starts[i] + asked.lengths[i]]
        for first in range(0, row.shape[0], ACTIONS_AT_ONCE):
            chances = row[first : first + ACTIONS_AT_ONCE]
            possible = 0
            for a in range(chances.shape[0]):
                possible += chances[a] != 0.0
            if possible == 0:  # a policy chooses among few of many products: the others' guesses would count for 0
                continue
            if is_listed or has_columns:
                for a in range(chances.shape[0]):
                    action = asked.products[asked.first[i] + first + a] if is_listed else first + a
                    columns[a] = model.columns[action] if has_columns else action
                _predict_columns(model, start + i, columns[: chances.shape[0]], guesses)
            else:
                _predict_row(model, start + i, first, guesses[: chances.shape[0]])
            for a in range(chances.shape[0]):
                expected[i] += chances[a] * guesses[a]
