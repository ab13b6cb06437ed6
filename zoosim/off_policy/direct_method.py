"""The direct method: what a mixed model predicts for a policy's choices, calibrated on rows that it has not seen.

The model is fitted to earlier rows, such as those that policies learned from, or to one half of the users for the other
half (Chernozhukov et al. 2018). On the rows that it has not seen, rewards are compared with its predictions, and both
its level and how steeply it predicts are corrected (Cox 1958; as prediction-powered inference does with a mean,
Angelopoulos et al. 2023). The interval knows three errors: which visitors came, what calibration leaves open, and what
the model does not know, by draws from its posterior.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.arrays import evenly_spread
from zoosim.core.blocks import RowArray, RowSigns, SparseRows, block_sum, mapped, row_blocks
from zoosim.core.errors import DataError
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.estimators.terms import Terms, TermsByRow
from zoosim.off_policy.intervals.clusters import Clusters
from zoosim.off_policy.models.mixed_model import DRAWS, MixedModel, Pairs, fit_mixed_models

MOST_VISITS, ACTIONS_A_VISIT = 2_000, 2
"""Visits for which a policy's choices are drawn, spread evenly over the log, and how many of each."""

MOST_FITTED, MOST_HELD_OUT = 60_000, 50_000
"""Rows that models are fitted to, and rows that calibrate them, at most."""

FOLDS = 2
MOST_DRAWN_ROWS = 2_000
"""Held-out rows by which each draw of the model is brought to the same level."""

MODEL_ERRORS = 2.0
"""By how much the model's own spread is widened, as no shop is quite of its family: on the retail shops of seeds 0 to 7
true values lay 1.2 to 2.3 posterior standard deviations (root mean square) from those predicted."""

FLOOR = 1e-3
"""Share of the mean prediction below which none falls where rewards are never below 0: sums of parts may."""

NO_ERROR = 1e-12
"""Dispersion of rewards about their predictions, in shares of the mean, that is none: there is no tilt to fit."""

NEWTON_STEPS, CONVERGED = 50, 1e-10
"""Steps of a calibration at most, and the size from which on they change nothing."""

TILT = 0.1
"""Prior standard deviation of how much too steep predictions are, on the scale of logarithms."""

LEVELS = 10
"""Parts of equal weight into which a policy's predictions are cut, to find held-out rows of like predictions."""

FEWEST_ROWS = 20
"""Held-out rows of a part that can speak for it."""


class Calibration(NamedTuple):
    """Correction of predictions: by exp(level + tilt (log q - centre)), or where they may be below 0 by adding level.

    `influence (h, 2)` is what each held-out row adds to level and tilt; `least` is the smallest prediction that counts.
    """

    level: float
    tilt: float
    centre: float
    is_positive: bool
    influence: FloatArray
    least: float = 0.0

    def apply(self, predicted: FloatArray) -> FloatArray:
        """Return corrected predictions `(m,)`."""
        if not self.is_positive:
            return predicted + self.level
        floored = np.maximum(predicted, self.least)
        return np.asarray(floored * np.exp(self.level + self.tilt * (np.log(floored) - self.centre)))

    def slopes(self, predicted: FloatArray) -> FloatArray:
        """Return the derivatives of the mean corrected prediction by level and tilt `(2,)`."""
        if not self.is_positive:
            return np.array([1.0, 0.0])
        corrected = self.apply(predicted)
        logs = np.log(np.maximum(predicted, self.least)) - self.centre
        return np.array([corrected.mean(), (corrected * logs).mean()])


class DirectEstimate(NamedTuple):
    """A policy's value as the model predicts it, and how far held-out rows speak for that.

    `terms (n,)` are the rows' shares in the value: their mean is the value, their spread its error. `support (n,)`
    weighs held-out rows so that they have the predictions that the policy's choices have; `unsupported` is the share of
    its choices whose predictions hardly any held-out row has, `unseen` that of products which no model has seen. `gap`
    is by how many standard errors rewards of the
    rows so weighted are off the corrected predictions. `held_out (h,)` are rows with corrected predictions `(h,)`.
    """

    terms: TermsByRow
    support: RowArray
    unsupported: float
    unseen: float
    gap: float
    held_out: IntArray
    predicted: FloatArray


class DirectMethod:
    """Predicts values of policies on one log.

    Args:
        log: n visits of products; propensities are not needed.
        clusters: Which of them belong together.
        earlier: Other rows of the same products, to fit the models to. Default: halves of the log, crosswise.

    Raises:
        DataError: there are no earlier rows, and the log has too few users for halves.
    """

    def __init__(self, log: Log, clusters: Clusters, earlier: Log | None = None) -> None:
        self.log = log
        self.visits = evenly_spread(len(log), MOST_VISITS)
        self.uniforms = stream(0, "direct method").random(len(self.visits))
        self._signs = RowSigns(len(log), "model error")
        self._rewards = [log.rewards, *(log.rewards_by_name[name] for name in log.other_rewards)]
        self._held_out = evenly_spread(len(log), MOST_HELD_OUT)
        if earlier is None:
            self._fold = mapped(lambda group: group % FOLDS, clusters.group, dtype=np.int64)
            sizes = np.zeros(FOLDS, np.int64)
            for block in row_blocks(len(log)):
                sizes += np.bincount(self._fold[block], minlength=FOLDS)
            if not np.all(sizes):
                raise DataError(f"{log.source}: got rows of one user alone, expected {FOLDS} users or more")
            self._models = []
            for fold in range(FOLDS):
                places = evenly_spread(len(log) - int(sizes[fold]), MOST_FITTED // FOLDS)
                rows = _rows_outside(self._fold, fold, places)
                rewards = [reward[rows] for reward in self._rewards]
                self._models.append(fit_mixed_models(log.rows(rows), rewards, f"half {fold}"))
        else:
            self._fold = np.zeros(len(log), np.int64)
            fitted = earlier.rows(evenly_spread(len(earlier), MOST_FITTED))
            rewards = [fitted.rewards, *(fitted.rewards_by_name[name] for name in log.other_rewards)]
            self._models = [fit_mixed_models(fitted, rewards)]
        self._predicted = [self._predict(r, self._held_out, log.actions[self._held_out]) for r in range(self.n_rewards)]
        self._calibrations = [
            _calibrate(rewards[self._held_out], predicted, is_positive=self._models[0][r].is_positive)
            for r, (rewards, predicted) in enumerate(zip(self._rewards, self._predicted, strict=True))
        ]
        drawn = self._held_out[evenly_spread(len(self._held_out), MOST_DRAWN_ROWS)]
        self._logged_draws = [self._draw(r, drawn, log.actions[drawn]).mean(axis=1) for r in range(self.n_rewards)]

    @property
    def n_rewards(self) -> int:
        """Count the rewards: the objective, and the log's others."""
        return len(self._rewards)

    def estimate(self, actions: IntArray) -> list[DirectEstimate]:
        """Return the estimate of each reward.

        Args:
            actions: What a policy shows to the `visits`, drawn by its probabilities: `(v, ACTIONS_A_VISIT)`.
        """
        rows = np.repeat(self.visits, actions.shape[1])
        return [self._estimate(reward, rows, actions.reshape(-1)) for reward in range(self.n_rewards)]

    def _estimate(self, reward: int, rows: IntArray, actions: IntArray) -> DirectEstimate:
        n = len(self.log)
        n_visits = len(self.visits)
        calibration = self._calibrations[reward]
        raw = self._predict(reward, rows, actions)
        corrected = calibration.apply(raw)
        value = float(corrected.mean())
        # n / n_visits times as large, so that the error of the mean over all rows is that of a mean over these visits.
        of_visits = SparseRows(n, self.visits, n / n_visits * (corrected.reshape(n_visits, -1).mean(axis=1) - value))
        # What calibration leaves open, to first order (delta method).
        of_calibration = SparseRows(n, self._held_out, n * (calibration.influence @ calibration.slopes(raw)))
        of_model = self._model_error(reward, rows, actions, raw, corrected)
        terms = TermsByRow(n, lambda rows: Terms(value + of_visits[rows] + of_calibration[rows] + of_model(rows)))
        weights, unsupported = _weigh_levels(self._predicted[reward], raw)
        support = SparseRows(n, self._held_out, weights)
        predicted = calibration.apply(self._predicted[reward])
        gap = _gap(self._rewards[reward][self._held_out], predicted, weights)
        return DirectEstimate(terms, support, unsupported, self._unseen(rows, actions), gap, self._held_out, predicted)

    def _model_error(
        self, reward: int, rows: IntArray, actions: IntArray, raw: FloatArray, corrected: FloatArray
    ) -> Callable[[Any], FloatArray]:
        """Return terms of mean 0, for rows by a slice or their numbers, that spread as the model's draws of the value.

        Each row stands for one draw, with a sign of its own: so the mean of the terms varies as the value does over the
        draws, and the terms of two policies go together as far as the model's errors about them do.
        """
        draws = self._draw(reward, rows, actions)
        if self._calibrations[reward].is_positive:
            slope = corrected / np.maximum(raw, self._calibrations[reward].least)
            level = self._logged_draws[reward]
            level = np.divide(level, level.mean(), out=np.ones_like(level), where=level > 0.0)
            values = (draws * slope).mean(axis=1) / level
        else:
            values = draws.mean(axis=1) - self._logged_draws[reward]
        n = len(self.log)
        numbers = RowArray((n,), np.int64, np.arange)
        deviations = mapped(lambda row, sign: (values - values.mean())[row % DRAWS] * sign, numbers, self._signs)
        mean = block_sum(deviations) / n
        scale = MODEL_ERRORS * math.sqrt(n)
        return lambda rows: np.asarray(scale * (deviations[rows] - mean))

    def _unseen(self, rows: IntArray, actions: IntArray) -> float:
        """Return the share of visits and products of which the model has seen no row that showed the product."""
        places = np.stack([models[0].places for models in self._models])
        return float((places[self._fold[rows], actions] < 0).mean())

    def _predict(self, reward: int, rows: IntArray, actions: IntArray) -> FloatArray:
        """Return what models that have not seen the rows predict for them `(m,)`."""
        out = np.empty(len(rows))
        for model, pairs, chosen in self._pairs_by_model(reward, rows, actions):
            out[chosen] = model.predict(pairs)
        return out

    def _draw(self, reward: int, rows: IntArray, actions: IntArray) -> FloatArray:
        """Return draws of the same predictions `(DRAWS, m)`, alike for all rows and policies."""
        out = np.empty((DRAWS, len(rows)))
        for model, pairs, chosen in self._pairs_by_model(reward, rows, actions):
            out[:, chosen] = model.draw(pairs)
        return out

    def _pairs_by_model(
        self, reward: int, rows: IntArray, actions: IntArray
    ) -> Iterator[tuple[MixedModel, Pairs, IntArray]]:
        """Yield each model, the visitors and products of the rows that it has not seen, and the places of these."""
        for fold, models in enumerate(self._models):
            chosen = np.flatnonzero(self._fold[rows] == fold)
            if len(chosen):
                model: MixedModel = models[reward]
                yield model, model.pairs(self.log.features[rows[chosen]], actions[chosen]), chosen


def _rows_outside(folds: Any, fold: int, places: IntArray) -> IntArray:
    """Return the rows at some `places`, in order, among those whose fold, of `folds (n,)`, is another."""
    chosen = []
    n_before = 0
    for rows in row_blocks(len(folds)):
        outside = rows.start + np.flatnonzero(folds[rows] != fold)
        first, last = np.searchsorted(places, [n_before, n_before + len(outside)])
        chosen.append(outside[places[first:last] - n_before])
        n_before += len(outside)
    return np.concatenate(chosen)


def _calibrate(rewards: FloatArray, predicted: FloatArray, *, is_positive: bool) -> Calibration:
    """Fit the correction of `predicted (h,)` to `rewards (h,)`: by a factor and a tilt, or by a sum."""
    if is_positive and predicted.sum() > 0.0 and rewards.sum() > 0.0:
        return _calibrate_logs(rewards, predicted)
    return _calibrate_sum(rewards, predicted)


def _calibrate_sum(rewards: FloatArray, predicted: FloatArray) -> Calibration:
    """Fit what is to be added to `predicted (h,)`: the mean residual."""
    residuals = rewards - predicted
    influence = np.column_stack([residuals - residuals.mean(), np.zeros(len(rewards))]) / len(rewards)
    return Calibration(float(residuals.mean()), 0.0, 0.0, False, influence)


def _calibrate_logs(rewards: FloatArray, predicted: FloatArray) -> Calibration:
    """Fit level and tilt of the logarithms of `predicted (h,)` by quasi-Poisson scores (Wedderburn 1974)."""
    h = len(rewards)
    least = FLOOR * float(predicted.sum()) / h
    predicted = np.maximum(predicted, least)
    logs = np.log(predicted)
    # Weighted, so that sum q (log q - centre) = 0: level and tilt then hardly depend on each other.
    centre = float((predicted * logs).sum() / predicted.sum())
    columns = np.column_stack([np.ones(h), logs - centre])
    start = math.log(rewards.sum() / predicted.sum())
    scaled = predicted * math.exp(start)
    dispersion = float(((rewards - scaled) ** 2).sum() / scaled.sum())
    if dispersion <= NO_ERROR * scaled.sum() / h:
        return _calibrate_sum(rewards, predicted)
    # Scores below are not divided by the dispersion, so the prior is multiplied by it.
    prior = np.array([0.0, dispersion / TILT**2])

    def loss(values: FloatArray) -> float:
        logits = columns @ values
        return float((predicted * np.exp(logits)).sum() - rewards @ logits + 0.5 * (prior * values) @ values)

    coefficients = np.array([start, 0.0])
    current = loss(coefficients)
    for _ in range(NEWTON_STEPS):
        fitted = predicted * np.exp(columns @ coefficients)
        information = columns.T @ (columns * fitted[:, None]) + np.diag(prior)
        step = np.clip(np.linalg.solve(information, columns.T @ (rewards - fitted) - prior * coefficients), -1.0, 1.0)
        following = loss(coefficients + step)
        # Halved until it helps: where few rows are rewarded and predictions lie far apart, a whole step overshoots.
        while following > current and np.abs(step).max() > CONVERGED:
            step = 0.5 * step
            following = loss(coefficients + step)
        coefficients = coefficients + step
        current = following
        if np.abs(step).max() <= CONVERGED:
            break
    scores = columns * (rewards - predicted * np.exp(columns @ coefficients))[:, None]
    # H^-1 s_i, as of any M estimator; by the prior scores do not add up to 0, so their mean is taken off.
    influence = (scores - scores.mean(axis=0)) @ np.linalg.inv(information)
    return Calibration(float(coefficients[0]), float(coefficients[1]), centre, True, influence, least)


def _weigh_levels(held_out: FloatArray, chosen: FloatArray) -> tuple[FloatArray, float]:
    """Return weights `(h,)` of rows predicted `held_out (h,)` by which they are spread as predictions `chosen (m,)`.

    That is the ratio of both densities (Taufiq et al. 2023), cut at the parts of equal weight of those chosen. And the
    share of those chosen whose part has next to no rows.
    """
    edges = np.quantile(chosen, np.linspace(0.0, 1.0, LEVELS + 1)[1:-1])
    part_of_row = np.searchsorted(edges, held_out)
    rows = np.bincount(part_of_row, minlength=LEVELS)
    share = np.bincount(np.searchsorted(edges, chosen), minlength=LEVELS) / len(chosen)
    weight = np.divide(share * len(held_out), rows, out=np.zeros(LEVELS), where=rows > 0)
    # Below the lowest and above the highest prediction that the policy's choices have no row counts.
    within = (held_out >= chosen.min()) & (held_out <= chosen.max())
    return np.where(within, weight[part_of_row], 0.0), float(share[rows < FEWEST_ROWS].sum())


def _gap(rewards: FloatArray, predicted: FloatArray, weights: FloatArray) -> float:
    """Return by how many standard errors weighted rewards are off weighted predictions; 0 without any."""
    residuals = weights * (rewards - predicted)
    error = math.sqrt(float((residuals**2).sum()))
    return abs(float(residuals.sum())) / error if error > 0.0 else 0.0
