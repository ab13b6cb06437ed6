"""calibration: are the uncertainties honest, about a mean on the quadratic, about single rewards in the search shop?"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, Progress
from zoosim.evaluation.calibration import (
    conformal_quantile,
    coverage,
    fit_recalibration,
    normal_interval,
    reliability_curve,
    z_scores,
)
from zoosim.evaluation.predictive import UpperLimits, calibrate_limits, fit_quantiles
from zoosim.experiments.quadratic import Fitted, fit_both
from zoosim.experiments.search_visits import Visits, open_shop, random_visits
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor

QUESTION = "Are the uncertainties honest?"
PRINTED = {"mean_z": -0.12, "std_z": 1.35, "coverage": 0.88}
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
TRAINED, FITTED, HELD, TESTED = 4_000, 4_000, 6_000, 10_000
"""Visits to train on, to fit quantiles on, to calibrate limits on, and to judge them."""

EPOCHS, BINS = 10, 5


class Spread(NamedTuple):
    """How errors compare with std: `scores` with a row a seed and method, `curve` with a row a seed, method and level.

    Methods are `published`, `q-ensemble`, and `recalibrated`, which is the latter with what 5,000 held-out points
    taught. Figures of 5,000 other points: `mean_z`, `std_z`, the `coverage` of central normal intervals at 95%, and
    `conformal`, that of intervals whose width is the conformal quantile of |z| on the held-out points. `curve` has
    `level` and `observed`, the share that central intervals cover.
    """

    scores: pl.DataFrame
    curve: pl.DataFrame


def measure_spread(seeds: Iterable[int]) -> Spread:
    """Compare errors with std on the quadratic."""
    scores: list[dict[str, Any]] = []
    curve: list[dict[str, Any]] = []
    for seed in seeds:
        for method, (held, tested) in _standardised(fit_both(seed)).items():
            scores.append({"seed": seed, "method": method, **_figures(held, tested)})
            observed = reliability_curve(tested, LEVELS).tolist()
            pairs = zip(LEVELS, observed, strict=True)
            curve += [{"seed": seed, "method": method, "level": at, "observed": share} for at, share in pairs]
    return Spread(pl.DataFrame(scores), pl.DataFrame(curve))


def _standardised(fitted: Fitted) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return z of the held-out and of the tested points by method."""
    parts = (fitted.held, fitted.tested)
    published = [fitted.published.members(np.hstack(points[:2])) for points in parts]
    ours = [fitted.ours.predict(points.states, points.actions) for points in parts]
    far = [fitted.ours.distance(points.states, points.actions) for points in parts]
    mended = fit_recalibration(fitted.held.values, *ours[0], far[0])
    z: dict[str, list[FloatArray]] = {"published": [], "q-ensemble": [], "recalibrated": []}
    for points, members, (mean, std), distance in zip(parts, published, ours, far, strict=True):
        z["published"].append(z_scores(points.values, members.mean(axis=0), members.std(axis=0)))
        z["q-ensemble"].append(z_scores(points.values, mean, std))
        z["recalibrated"].append(z_scores(points.values, mean, mended.apply(std, distance)))
    return {method: (held, tested) for method, (held, tested) in z.items()}


def _figures(held: FloatArray, tested: FloatArray) -> dict[str, float]:
    low, high = normal_interval(np.zeros(1), np.ones(1))
    return {
        "mean_z": float(tested.mean()),
        "std_z": float(tested.std()),
        "coverage": coverage(tested, low, high),
        "conformal": float(np.mean(np.abs(tested) <= conformal_quantile(np.abs(held), 0.95))),
    }


def measure_limits(seeds: Iterable[int], progress: Progress = lambda line: None) -> pl.DataFrame:
    """Return how often limits at 95% hold in the search shop: a row a seed and segment, and one for `all`.

    Columns: `seed`, `segment`, `visits`, `zeros`, the share of rewards of 0, `normal`, the share of rewards within 1.96
    std of the ensemble's mean, `plain`, that below the conformal limit, `exact`, the same with ties broken by chance,
    and `limit`, the mean upper limit in EUR.
    """
    rows = []
    for seed in seeds:
        progress(f"seed {seed}: {TRAINED + FITTED + HELD + TESTED:,} visits")
        shop = open_shop(seed)
        visits = random_visits(shop, TRAINED + FITTED + HELD + TESTED, seed)
        rows += _limit_rows(seed, list(shop.world.config.segments), visits)
    return pl.DataFrame(rows)


def _limit_rows(seed: int, names: list[str], visits: Visits) -> list[dict[str, Any]]:
    ends = np.cumsum([0, TRAINED, FITTED, HELD, TESTED]).tolist()
    trained, fitted, held, tested = (visits.part(a, b) for a, b in pairwise(ends))
    q = QEnsembleRegressor(trained.states.shape[1], trained.actions.shape[1], QEnsembleConfig(seed=seed))
    q.update_batch(trained.states, trained.actions, trained.rewards, n_epochs=EPOCHS)
    limits = _limits(q, fitted, held)
    members = q.members(tested.states, tested.actions)
    mean, std = q.predict(tested.states, tested.actions)
    covered = {
        "zeros": tested.rewards == 0,
        "normal": np.abs(tested.rewards - mean) <= 1.96 * std,
        "plain": limits.covered(tested.rewards, members, tested.segments),
        "exact": limits.covered(tested.rewards, members, tested.segments, rng=stream(seed, "ties")),
        "limit": limits.of(members, tested.segments),
    }
    groups = {"all": np.ones(TESTED, bool)} | {name: tested.segments == g for g, name in enumerate(names)}
    return [
        {
            "seed": seed,
            "segment": name,
            "visits": int(chosen.sum()),
            **{figure: float(values[chosen].mean()) for figure, values in covered.items()},
        }
        for name, chosen in groups.items()
    ]


def _limits(q: QEnsembleRegressor, fitted: Visits, held: Visits) -> UpperLimits:
    mean, _ = q.predict(fitted.states, fitted.actions)
    quantiles = fit_quantiles(mean, fitted.rewards, fitted.segments, BINS)
    return calibrate_limits(quantiles, held.rewards, q.members(held.states, held.actions), held.segments)
