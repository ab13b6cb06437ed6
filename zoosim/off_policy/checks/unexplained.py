"""Agreement of a policy's preferences with rewards, beyond what models explain of both."""

import math
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from zoosim.core.arrays import codes_of
from zoosim.core.durations import DAY, HOUR
from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.checks.choices import orthonormal
from zoosim.off_policy.checks.probe import LEAST_ROWS, Probe, of_unit_size, sure_errors

MOST_FEATURES, ROWS_PER_EFFECT = 100, 5
"""Features that models use, the first ones, and rows of an action per feature."""

LEAST_CORRELATION, LEAST_WITHOUT_ALL = 0.07, 0.25
"""Correlation of rewards with all that a policy prefers up to which models may be wrong.

The latter where they leave features out.
"""

ROUNDING = 1e-4
"""Share of a policy's preferences, as standard deviations, that is none."""

BINS = 8
MOST_COLUMNS, LEAST_EXPLAINED = 6, 0.1
"""Most columns that tell which rows are near, and least that each explains of preferences, as a share of the most."""

SOMETHING, APART = 1e-12, 1e-6
"""Least that a column explains to count, and noise that parts rows in one place, in standard deviations."""

NEAREST, NEXT_ROWS = (5, 20), 5
"""Rows of the same action, at two scales, and rows of the same user that each row is compared with."""

TELLING_ERRORS = 3.0
"""Standard errors from which on near rows have something in common."""

UNLIKE = 1.3
"""Near rows are not quite alike: how much larger effects may be than what such rows share, as standard deviations."""


def unexplained_agreement(probe: Probe, known: FloatArray) -> float:
    """Return the correlation of a policy's preferences with what is left of rewards; 0 within what may be honest.

    What a model leaves of a reward is chance, with which a policy made beforehand cannot go, or an effect that the
    model lacks, which a policy may know. Such effects are alike in rows near each other, and chance is not: products
    of the rewards of near rows tell their variance, and by the inequality of Cauchy and Schwarz no policy goes with
    rewards closer than by its root.

    Args:
        probe: The log.
        known: What is known of the policy `(n, m)`, such as its probabilities of the logged actions.
    """
    features = probe.log.features
    least = LEAST_CORRELATION if features.shape[1] <= MOST_FEATURES else LEAST_WITHOUT_ALL
    models = _LinearModels(features[:, :MOST_FEATURES], probe.log.actions)
    rewards = models.left_of(of_unit_size(probe.log.rewards))
    spread = math.sqrt(float((rewards**2).sum()))
    if spread <= ROUNDING:
        return 0.0
    chance = sure_errors(known.shape[1])
    most = _Agreement(0.0, 0.0, known[:, 0])
    for values in known.T:
        preferences = models.left_of(values)
        size = math.sqrt(float((preferences**2).sum()))
        whole = math.sqrt(float(((values - values.mean())[models.is_told] ** 2).sum()))
        if size <= ROUNDING * max(whole, float(np.abs(values).max())):
            continue
        products = np.bincount(probe.clusters.group, preferences * rewards)
        total = float(products.sum())
        # Residuals are smaller than the noise, so the standard error is `noise_factor` times as large as they say.
        errors = total / math.sqrt(max(1e-300, float((products**2).sum()))) / models.noise_factor
        of_all = total / (whole * spread)
        if abs(errors) > chance and abs(of_all) > max(least, abs(most.of_all)):
            most = _Agreement(of_all, total / (size * spread), values)
    if not most.of_all:
        return 0.0
    possible = _possible_correlation(probe, models, rewards, most.preferences)
    is_honest = abs(most.of_unexplained) - possible <= chance / math.sqrt(float(models.is_told.sum()))
    return 0.0 if is_honest else most.of_all


class _Agreement(NamedTuple):
    """Correlations with what is left of rewards: of a policy's `preferences (n,)`, and of what is left of those."""

    of_all: float
    of_unexplained: float
    preferences: FloatArray


class _LinearModels:
    """A linear model per action, of the features `(n, d)` of its rows; actions of few rows have none.

    Attributes:
        is_told: Which rows have a model `(n,)`.
        noise_factor: What residuals are to be multiplied by to be as large as noise.
    """

    def __init__(self, features: FloatArray, actions: IntArray) -> None:
        inputs = np.column_stack([np.ones(len(features)), features - features.mean(axis=0)])
        inputs /= np.maximum(np.sqrt((inputs**2).mean(axis=0)), 1e-300)
        self._bases = np.zeros_like(inputs)
        self._rows: list[IntArray] = []
        order = np.argsort(actions, kind="stable")
        degrees = 0
        for rows in np.split(order, np.flatnonzero(np.diff(actions[order])) + 1):
            if len(rows) >= max(LEAST_ROWS, ROWS_PER_EFFECT * inputs.shape[1]):
                basis = orthonormal(inputs[rows])
                self._bases[rows, : basis.shape[1]] = basis
                self._rows.append(rows)
                degrees += basis.shape[1]
        self.is_told = np.zeros(len(actions), bool)
        for rows in self._rows:
            self.is_told[rows] = True
        told = int(self.is_told.sum())
        # A fit takes up `degrees` of the noise, by which residuals are smaller.
        self.noise_factor = math.sqrt(told / max(1, told - degrees))

    def left_of(self, values: FloatArray) -> FloatArray:
        """Return what the models leave of `values (n,)`; 0 where there is none."""
        left = np.zeros(len(values))
        for rows in self._rows:
            basis = self._bases[rows]
            left[rows] = values[rows] - basis @ (basis.T @ values[rows])
        return left

    def shared(self, left: FloatArray, pairs: IntArray) -> "_Share":
        """Return what rows of `pairs (m, 2)` of an action share in what the models have `left (n,)` of values."""
        pairs = pairs[self.is_told[pairs].all(axis=1)]
        if not len(pairs):
            return _Share(0.0, 0.0)
        first, second = pairs.T
        noise = float((left[self.is_told] ** 2).mean()) * self.noise_factor**2
        products = left[first] * left[second] / noise
        # Residuals of two rows lean against each other by how much the model leans to both.
        leverage = (self._bases[first] * self._bases[second]).sum(axis=1)
        return _Share(float((products + leverage).mean()), math.sqrt(float((products**2).sum())) / len(pairs))


class _Share(NamedTuple):
    """The share of the variance of rewards that the rows of pairs have in common, and its standard error."""

    value: float
    error: float


def _possible_correlation(probe: Probe, models: _LinearModels, rewards: FloatArray, preferences: FloatArray) -> float:
    """Return the correlation with rewards of a policy that knows all effects that near rows, or a user's, share."""
    nearest = _near_rows(probe, preferences)
    shares = [models.shared(rewards, _pairs_of_different_users(probe, nearest[:, :k])) for k in NEAREST]
    if probe.names_users:
        same = models.shared(rewards, _pairs_of_users(probe, is_same_action=True))
        other = models.shared(rewards, _pairs_of_users(probe, is_same_action=False))
        # Less what a user's rows share whatever they show: that tells no action from another.
        shares.append(_Share(same.value - other.value, math.hypot(same.error, other.error)))
    telling = [share.value for share in shares if share.value > TELLING_ERRORS * share.error]
    return UNLIKE * math.sqrt(max(telling, default=0.0))


def _near_rows(probe: Probe, preferences: FloatArray) -> IntArray:
    """Return the rows of the same action that are nearest in what a policy's `preferences (n,)` go by `(n, k)`.

    A row stands in its own place where there are no more.
    """
    actions = codes_of(probe.log.actions)
    places = _places(probe, actions, preferences)
    nearest = np.repeat(np.arange(len(probe))[:, None], NEAREST[-1], axis=1)
    for action in range(int(actions.max()) + 1):
        rows = np.flatnonzero(actions == action)
        if len(rows) > 1:
            found = cKDTree(places[rows]).query(places[rows], min(NEAREST[-1] + 1, len(rows)))[1]
            # The first one found is the row itself.
            nearest[rows, : found.shape[1] - 1] = rows[found[:, 1:]]
    return nearest


def _places(probe: Probe, actions: IntArray, preferences: FloatArray) -> FloatArray:
    """Return the columns that explain most of a policy's preferences per action, each by itself `(n, d)`.

    Where none does, it is one by which rows are near each other at random.
    """
    columns = [probe.inputs]
    times = probe.log.times
    if times is not None:
        since = (times - times.min()).astype(np.float64)
        columns.append(np.column_stack([since, times % DAY, times // HOUR % (7 * 24)]))
    candidates = np.column_stack(columns)
    spread = candidates.std(axis=0)
    candidates = candidates[:, spread > 0.0] / spread[spread > 0.0]
    preferences = preferences - (np.bincount(actions, preferences) / np.bincount(actions))[actions]
    explained = []
    for column in candidates.T:
        limits = np.unique(np.quantile(column, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))
        group = actions * BINS + np.searchsorted(limits, column)
        rows = np.bincount(group)
        # A mean explains by chance as much as one row's variance, and there is one per group.
        by_chance = int((rows > 0).sum()) * float((preferences**2).mean())
        explained.append(float((np.bincount(group, preferences) ** 2 / np.maximum(rows, 1)).sum()) - by_chance)
    order = np.argsort(-np.array(explained), kind="stable")[:MOST_COLUMNS]
    most = max(explained, default=0.0)
    chosen = [column for column in order if explained[column] >= max(LEAST_EXPLAINED * most, SOMETHING)]
    # Rows in the same place are told apart, or a search among them takes long.
    apart = APART * np.random.default_rng(0).standard_normal((len(actions), max(1, len(chosen))))
    return np.ascontiguousarray(candidates[:, chosen] + apart if chosen else apart)


def _pairs_of_different_users(probe: Probe, others: IntArray) -> IntArray:
    """Return pairs of each row with `others (n, k)` that are of different users, each pair once `(m, 2)`."""
    first = np.repeat(np.arange(len(probe)), others.shape[1])
    second = others.ravel()
    group = probe.clusters.group
    is_kept = group[first] != group[second]
    first = first[is_kept]
    second = second[is_kept]
    numbers = np.unique(np.minimum(first, second) * len(probe) + np.maximum(first, second))
    return np.column_stack([numbers // len(probe), numbers % len(probe)])


def _pairs_of_users(probe: Probe, *, is_same_action: bool) -> IntArray:
    """Return pairs of rows of the same user, with the same action or with another one `(m, 2)`."""
    actions = probe.log.actions
    order = np.lexsort((actions, probe.users)) if is_same_action else np.argsort(probe.users, kind="stable")
    pairs = np.concatenate([np.column_stack([order[:-lag], order[lag:]]) for lag in range(1, NEXT_ROWS + 1)])
    first, second = pairs.T
    is_kept = (probe.users[first] == probe.users[second]) & ((actions[first] == actions[second]) == is_same_action)
    return np.asarray(pairs[is_kept])
