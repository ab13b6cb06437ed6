"""Compare the errors of ensembles with their spread on the quadratic, before and after recalibration."""

from dataclasses import dataclass

import numpy as np

from studies.calibration.recalibration import (
    adaptive_beta,
    conformal_quantile,
    coverage,
    fit_recalibration,
    normal_interval,
    reliability_curve,
    z_scores,
)
from studies.quadratic import Points, fit_both, fit_ours
from zoosim.core.types import FloatArray

PUBLISHED, OURS, MANY, MENDED = "published", "q-ensemble", "20 members", "recalibrated"
METHODS = (PUBLISHED, OURS, MANY, MENDED)
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
MEMBERS = 20


@dataclass(frozen=True)
class Spread:
    """How the errors of a method compare with its std, on 5,000 points that nothing was fitted to.

    Methods: as `published`, `q-ensemble`, the same with `20 members`, and `recalibrated`, which is `q-ensemble` with
    what 5,000 held-out points taught. With z = error / std: its mean and standard deviation; the `coverage` of central
    normal intervals at 95%; `conformal`, that of intervals whose width is the conformal quantile of |z| on the held-out
    points; the `beta` that these give, and how many values mean + beta std `bounded`; `observed`, the share that
    central normal intervals cover at each of `LEVELS`.
    """

    seed: int
    method: str
    mean_z: float
    std_z: float
    coverage: float
    conformal: float
    beta: float
    bounded: float
    observed: tuple[float, ...]


def spreads_of(seed: int) -> list[Spread]:
    """Train the ensembles of a seed, and compare."""
    return [_spread(seed, method, held, tested) for method, (held, tested) in _standardised(seed).items()]


def _standardised(seed: int) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return z of the held-out and of the tested points by method."""
    fitted = fit_both(seed)
    parts = (fitted.held, fitted.tested)
    many = fit_ours(fitted.trained, seed, MEMBERS)
    ours = [fitted.ours.predict(points.states, points.actions) for points in parts]
    far = [fitted.ours.distance(points.states, points.actions) for points in parts]
    mended = fit_recalibration(fitted.held.values, *ours[0], far[0])
    published = [fitted.published.members(np.hstack(points[:2])) for points in parts]
    found = {
        PUBLISHED: [(members.mean(axis=0), members.std(axis=0)) for members in published],
        OURS: ours,
        MANY: [many.predict(points.states, points.actions) for points in parts],
        MENDED: [(mean, mended.apply(std, distance)) for (mean, std), distance in zip(ours, far, strict=True)],
    }
    return {method: _both(parts, predicted) for method, predicted in found.items()}


def _both(
    parts: tuple[Points, Points], predicted: list[tuple[FloatArray, FloatArray]]
) -> tuple[FloatArray, FloatArray]:
    held, tested = (z_scores(points.values, *pair) for points, pair in zip(parts, predicted, strict=True))
    return held, tested


def _spread(seed: int, method: str, held: FloatArray, tested: FloatArray) -> Spread:
    beta = adaptive_beta(held, np.zeros(len(held)), np.ones(len(held)))
    return Spread(
        seed=seed,
        method=method,
        mean_z=float(tested.mean()),
        std_z=float(tested.std()),
        coverage=coverage(tested, *normal_interval(np.zeros(1), np.ones(1))),
        conformal=float(np.mean(np.abs(tested) <= conformal_quantile(np.abs(held), 0.95))),
        beta=beta,
        bounded=float(np.mean(tested <= beta)),
        observed=tuple(reliability_curve(tested, LEVELS).tolist()),
    )
