"""A reward model for off-policy evaluation, cross-fitted: no row is guessed by a model that has seen it.

Rewards are linear in the visitor's features for each action, shrunk towards one model for all actions. All that fitting
needs are sums over rows, so models without each fold, and the choice of how much to shrink, cost one pass over the log.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.evaluation.off_policy.clusters import Clusters
from zoosim.evaluation.off_policy.log import Log
from zoosim.evaluation.off_policy.threads import in_threads

FOLDS = 5
SHRINKAGES = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
"""How many rows the model of all actions counts for beside those of one action; tried in turn."""
MAX_POSITIONS = 20
MAX_BYTES = 800_000_000
PIECES = 4


class RewardModel(NamedTuple):
    """`coefficients (F, 1 + d, K)` of the model that has not seen fold f; `fold (n,)` of each row.

    Features are `inputs (n, d)` less `centre`, times `scale`; guesses are cut to the rewards seen, `low` to `high`.
    """

    coefficients: FloatArray
    fold: IntArray
    inputs: FloatArray
    centre: FloatArray
    scale: FloatArray
    low: float
    high: float

    def predict(self, start: int, stop: int) -> FloatArray:
        """Return the guesses for rows `start` to `stop - 1` and all actions: `(stop - start, K)`."""
        out = np.empty((stop - start, self.coefficients.shape[2]))
        for row in range(start, stop):
            _predict_row(self, row, out[row - start])
        return out


class Moments(NamedTuple):
    """Sums over rows by fold and action: `gram (F, K, D, D)`, `cross (F, K, D)` with rewards, `square (F, K)`."""

    gram: FloatArray
    cross: FloatArray
    square: FloatArray


def fit_reward_model(
    log: Log,
    clusters: Clusters,
    folds: int = FOLDS,
    *,
    labels: FloatArray | None = None,
    traits: FloatArray | None = None,
) -> RewardModel:
    """Fit to a log with folds of whole clusters; raises `ConfigError` for more actions and features than memory takes.

    The amount of shrinkage is chosen without the fold, too, by the squared error on the others in turn. `labels (F, n)`
    stand for the rewards where the model without each fold is to learn its own. Where `traits (K, p)` describe the
    actions, each action's model is shrunk towards one that is linear in its traits.
    """
    told = [log.rewards] if labels is None else list(labels)
    return fit_linear_model(_inputs(log), log.actions, told, log.n_actions, clusters, folds, shared_first(traits))


Solve = Callable[[float], FloatArray]
"""Coefficients `(K, D)` for a strength."""


class Fitting(NamedTuple):
    """How to solve by moments and folds for any of the `strengths`; `without`, what does not need it."""

    solver: Callable[["Moments", list[int]], Solve]
    strengths: tuple[float, ...]
    without: str


def fit_linear_model(
    inputs: FloatArray,
    actions: IntArray,
    told: Sequence[FloatArray],
    n_actions: int,
    clusters: Clusters,
    folds: int,
    fitting: Fitting,
) -> RewardModel:
    """Fit rewards linear in `inputs (n, d)` for each of `actions (n,)`; what is `told` is `(n,)`, once or by fold."""
    size = 8 * folds * n_actions * (inputs.shape[1] + 1) ** 2
    if size * PIECES > MAX_BYTES:
        what = f"{n_actions:,} actions and {inputs.shape[1]:,} features"
        raise ConfigError(f"reward model: got {what}, too many for a model of each action; leave out {fitting.without}")
    centre, scale = inputs.mean(axis=0), inputs.std(axis=0)
    scale[scale == 0.0] = 1.0
    scale = 1.0 / scale
    fold = clusters.group % folds
    rows = Rows(np.ascontiguousarray(inputs), centre, scale, fold, actions)
    moments = [_sum_moments(rows, rewards, folds, n_actions) for rewards in told]
    coefficients = np.stack([_fit_without(moments[f % len(moments)], f, fitting) for f in range(folds)])
    bounds = (min(float(rewards.min()) for rewards in told), max(float(rewards.max()) for rewards in told))
    return RewardModel(np.ascontiguousarray(coefficients), fold, rows.inputs, centre, scale, *bounds)


class Rows(NamedTuple):
    """What is known of rows but their rewards: `inputs (n, d)`, brought to `centre` and `scale`; `fold`, `actions`."""

    inputs: FloatArray
    centre: FloatArray
    scale: FloatArray
    fold: IntArray
    actions: IntArray


def _inputs(log: Log) -> FloatArray:
    """Return the features and, where rows stand at several positions, a column a position `(n, d)`."""
    positions = np.unique(log.positions)
    if len(positions) == 1 or len(positions) > MAX_POSITIONS:
        return log.features
    return np.hstack([log.features, log.positions[:, None] == positions[None, 1:]])


def _sum_moments(told: Rows, rewards: FloatArray, folds: int, k: int) -> Moments:
    """Add up in a fixed number of pieces, so that sums do not depend on the number of threads."""
    d = told.inputs.shape[1] + 1
    shapes = ((folds, k, d, d), (folds, k, d), (folds, k))
    parts = [Moments(*(np.zeros(shape) for shape in shapes)) for _ in range(PIECES)]
    bounds = np.linspace(0, len(rewards), PIECES + 1).astype(int).tolist()

    def add(piece: int) -> None:
        rows = slice(bounds[piece], bounds[piece + 1])
        inputs, centre, scale, fold, actions = told
        _add_moments(parts[piece], inputs[rows], centre, scale, fold[rows], actions[rows], rewards[rows])

    in_threads(add, PIECES)
    gram, cross, square = (sum(arrays[1:], start=arrays[0]) for arrays in zip(*parts, strict=True))
    upper = np.triu(np.ones((d, d), bool))
    return Moments(np.where(upper, gram, gram.swapaxes(-1, -2)), cross, square)


@jit
def _add_moments(
    moments: Moments,
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
        f, a, r = fold[i], actions[i], rewards[i]
        moments.square[f, a] += r * r
        for j in range(d):
            moments.cross[f, a, j] += x[j] * r
            for k in range(j, d):
                moments.gram[f, a, j, k] += x[j] * x[k]


def _fit_without(moments: Moments, fold: int, fitting: Fitting) -> FloatArray:
    """Return coefficients `(D, K)` from all folds but one, with the strength that guesses the others best."""
    others = [f for f in range(len(moments.square)) if f != fold]
    errors = np.zeros(len(fitting.strengths))
    for held in others:
        train = [f for f in others if f != held]
        solve = fitting.solver(moments, train)
        for number, strength in enumerate(fitting.strengths):
            errors[number] += _squared_error(moments, held, solve(strength))
    return fitting.solver(moments, others)(fitting.strengths[int(errors.argmin())]).T


def shared_first(traits: FloatArray | None) -> Fitting:
    """Return how to fit a model of all actions, by their `traits (K, p)` if given, and each one's deviation from it."""

    def solver(moments: Moments, folds: list[int]) -> Solve:
        return partial(_solve, moments, folds, _shared(moments, folds, traits))

    return Fitting(solver, SHRINKAGES, "dm and dr")


def _shared(moments: Moments, folds: list[int], traits: FloatArray | None) -> FloatArray:
    """Return the coefficients `(D,)` of a ridge model of all actions; with traits, `(K, D)`, linear in those of each.

    With traits z of an action the model is x^T M [1, z]; vec M solves sum_a kron(zz^T, gram_a) + 1.
    """
    gram, cross = moments.gram[folds].sum(axis=0), moments.cross[folds].sum(axis=0)
    d = gram.shape[-1]
    if traits is None:
        return np.asarray(np.linalg.solve(gram.sum(axis=0) + np.eye(d), cross.sum(axis=0)))
    z = np.hstack([np.ones((len(traits), 1)), traits])
    p = z.shape[1]
    system = np.einsum("kp,kq,kij->piqj", z, z, gram, optimize=True).reshape(p * d, p * d)
    found = np.linalg.solve(system + np.eye(p * d), (z.T @ cross).reshape(-1)).reshape(p, d)
    return np.asarray(z @ found)


def _solve(moments: Moments, folds: list[int], shared: FloatArray, shrinkage: float) -> FloatArray:
    """Return coefficients `(K, D)`: ridge deviations of each action from the `shared` ones."""
    gram, cross = moments.gram[folds].sum(axis=0), moments.cross[folds].sum(axis=0)
    fitted = gram @ shared if shared.ndim == 1 else (gram @ shared[..., None])[..., 0]
    own = np.linalg.solve(gram + shrinkage * np.eye(gram.shape[-1]), (cross - fitted)[..., None])[..., 0]
    found: FloatArray = shared + own
    return found


def _squared_error(moments: Moments, fold: int, coefficients: FloatArray) -> float:
    """Return the sum of squared errors on a fold, from its sums alone."""
    fitted = np.einsum("kij,kj->ki", moments.gram[fold], coefficients)
    return float(moments.square[fold].sum() + ((fitted - 2.0 * moments.cross[fold]) * coefficients).sum())


@jit
def _predict_row(model: RewardModel, row: int, out: FloatArray) -> None:
    """Fill in the guesses for all actions `(K,)`."""
    own = model.coefficients[model.fold[row]]
    for a in range(out.shape[0]):
        out[a] = own[0, a]
    for j in range(model.inputs.shape[1]):
        x = (model.inputs[row, j] - model.centre[j]) * model.scale[j]
        for a in range(out.shape[0]):
            out[a] += x * own[j + 1, a]
    for a in range(out.shape[0]):
        out[a] = min(max(out[a], model.low), model.high)


@jit
def model_terms(
    model: RewardModel,
    start: int,
    actions: IntArray,
    probabilities: FloatArray,
    predicted: FloatArray,
    expected: FloatArray,
) -> None:
    """Fill in guesses for the logged `actions (m,)` of rows from `start` on, and means under `probabilities (m, K)`."""
    guesses = np.empty(probabilities.shape[1])
    for i in range(actions.shape[0]):
        _predict_row(model, start + i, guesses)
        predicted[i], expected[i] = guesses[actions[i]], 0.0
        for a in range(guesses.shape[0]):
            expected[i] += probabilities[i, a] * guesses[a]
