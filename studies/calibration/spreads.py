"""Compare the errors of ensembles with their spread on the quadratic, before and after recalibration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from studies.quadratic import ACTION_DIM, BATCH, EPOCHS, STATE_DIM, Fitted, Points, fit_both, fit_ours
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray
from zoosim.models.calibration import (
    adaptive_beta,
    conformal_quantile,
    coverage,
    fit_recalibration,
    normal_interval,
    reliability_curve,
    z_scores,
)
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor

PUBLISHED, OURS, MANY, MENDED = "published", "q-ensemble", "20 members", "recalibrated"
PRIORS = "randomised priors"
MeanStd = tuple[FloatArray, FloatArray]
METHODS = (PUBLISHED, OURS, PRIORS, MANY, MENDED)
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
MEMBERS = 20
PRIOR_MEMBERS = 5
PRIOR_WIDTH = 64
SCATTERED = (5, 10)
"""Sizes of the ensembles that the 20 members are split into."""


@dataclass(frozen=True)
class Spread:
    """How the errors of a method compare with its std, on 5,000 points that nothing was fitted to.

    Methods: as `published`, `q-ensemble`, the same with `randomised priors` in place of the bootstrap, with
    `20 members`, and `recalibrated`, which is `q-ensemble` with what 5,000 held-out points taught. `rmse` is the
    root mean square of the errors of the mean. With z = error / std: its mean and standard deviation; the `coverage` of
    central normal intervals at 95%; `conformal`, that of intervals whose width is the conformal quantile of |z| on the
    held-out points; the `beta` that these give, and how many values mean + beta std `bounded`; `observed`, the share
    that central normal intervals cover at each of `LEVELS`.
    """

    seed: int
    method: str
    rmse: float
    mean_z: float
    std_z: float
    coverage: float
    conformal: float
    beta: float
    bounded: float
    observed: tuple[float, ...]


@dataclass(frozen=True)
class Scatter:
    """How much the std of an ensemble itself scatters over ensembles of so many `members`, as a `share` of its mean.

    That is the root of the variance over ensembles of the same points, averaged over 5,000 others, over the root of the
    mean square of their mean. The std of m normal numbers has sqrt(1 - c^2) / c, with c = sqrt(2 / (m - 1))
    Gamma(m / 2) / Gamma((m - 1) / 2): .363 with 5, .239 with 10.
    """

    seed: int
    members: int
    share: float


def spreads_of(seed: int) -> list[Spread | Scatter]:
    """Train the ensembles of a seed, and compare."""
    fitted = fit_both(seed)
    many = fit_ours(fitted.trained, seed, MEMBERS)
    parts = (fitted.held, fitted.tested)
    predicted = _predictions(seed, fitted, many)
    spreads = [_spread(seed, method, parts, pairs) for method, pairs in predicted.items()]
    outputs = many.members(fitted.tested.states, fitted.tested.actions)
    return [*spreads, *(Scatter(seed, members, scatter_of_std(outputs, members)) for members in SCATTERED)]


def scatter_of_std(outputs: FloatArray, members: int) -> float:
    """Return how std scatters over the ensembles that `outputs (M, n)` are split into; see `Scatter`."""
    stds = outputs.reshape(-1, members, outputs.shape[1]).std(axis=1)
    variance = stds.var(axis=0, ddof=1).mean()
    # The square of a mean of few is too large by their variance over their number.
    square = (stds.mean(axis=0) ** 2).mean() - variance / len(stds)
    return float(np.sqrt(variance / square))


def prior_members(trained: Points, seed: int, parts: Sequence[Points]) -> list[FloatArray]:
    """Return what members with randomised priors predict at each of the `parts`, `(5, n)` (Osband et al. 2018).

    A member is a fixed random network plus one that is trained on what the first leaves of the values. The fixed ones
    scatter as the values do; rows count alike, without a bootstrap.
    """
    scale = float(trained.values.std())
    outputs = []
    for member in range(PRIOR_MEMBERS):
        rng = stream(seed, "prior", str(member))
        prior = _random_network(scale, rng)
        config = QEnsembleConfig(n_ensembles=1, bootstrap=False, seed=int(rng.integers(2**31)))
        q = QEnsembleRegressor(STATE_DIM, ACTION_DIM, config)
        rest = trained.values - prior(trained)
        q.update_batch(trained.states, trained.actions, rest, n_epochs=EPOCHS, batch_size=BATCH)
        outputs.append([prior(points) + q.predict(points.states, points.actions)[0] for points in parts])
    return [np.stack(predictions) for predictions in zip(*outputs, strict=True)]


def _random_network(scale: float, rng: np.random.Generator) -> Callable[[Points], FloatArray]:
    """Return a network of 64 and 64 units with random weights, whose outputs scatter by `scale` or so."""
    inputs = STATE_DIM + ACTION_DIM
    first = rng.normal(0, (2 / inputs) ** 0.5, (inputs, PRIOR_WIDTH))
    second = rng.normal(0, (2 / PRIOR_WIDTH) ** 0.5, (PRIOR_WIDTH, PRIOR_WIDTH))
    last = rng.normal(0, (1 / PRIOR_WIDTH) ** 0.5, PRIOR_WIDTH)

    def outputs(points: Points) -> FloatArray:
        # In units of their deviations: states are N(0, 1), actions uniform in [-.5, .5].
        rows = np.hstack([points.states, 12**0.5 * points.actions])
        hidden = np.maximum(rows @ first, 0)
        return scale * np.asarray(np.maximum(hidden @ second, 0) @ last)

    return outputs


def _predictions(seed: int, fitted: Fitted, many: QEnsembleRegressor) -> dict[str, list[MeanStd]]:
    """Return mean and std of the held-out and of the tested points by method."""
    parts = (fitted.held, fitted.tested)
    ours = [fitted.ours.predict(points.states, points.actions) for points in parts]
    far = [fitted.ours.distance(points.states, points.actions) for points in parts]
    mended = fit_recalibration(fitted.held.values, *ours[0], far[0])
    published = [fitted.published.members(np.hstack(points[:2])) for points in parts]
    with_priors = prior_members(fitted.trained, seed, parts)
    return {
        PUBLISHED: [(members.mean(axis=0), members.std(axis=0)) for members in published],
        OURS: ours,
        PRIORS: [(members.mean(axis=0), members.std(axis=0)) for members in with_priors],
        MANY: [many.predict(points.states, points.actions) for points in parts],
        MENDED: [(mean, mended.apply(std, distance)) for (mean, std), distance in zip(ours, far, strict=True)],
    }


def _spread(seed: int, method: str, parts: tuple[Points, Points], predicted: list[MeanStd]) -> Spread:
    held, tested = (z_scores(points.values, *pair) for points, pair in zip(parts, predicted, strict=True))
    beta = adaptive_beta(held, np.zeros(len(held)), np.ones(len(held)))
    return Spread(
        seed=seed,
        method=method,
        rmse=float(np.sqrt(np.mean((predicted[1][0] - parts[1].values) ** 2))),
        mean_z=float(tested.mean()),
        std_z=float(tested.std()),
        coverage=coverage(tested, *normal_interval(np.zeros(1), np.ones(1))),
        conformal=float(np.mean(np.abs(tested) <= conformal_quantile(np.abs(held), 0.95))),
        beta=beta,
        bounded=float(np.mean(tested <= beta)),
        observed=tuple(reliability_curve(tested, LEVELS).tolist()),
    )
