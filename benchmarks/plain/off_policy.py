"""Off-policy evaluation in plain numpy: a ridge model an action and fold, guesses of all actions, rows resampled."""

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.evaluation.off_policy.log import Log


def plain_evaluation(
    log: Log, target: FloatArray, samples: int, seed: int = 0
) -> dict[str, tuple[float, float, float]]:
    """Return value and 95% percentile interval of IPS, SNIPS and DR for `target (n, K)`."""
    n, rng = len(log), np.random.default_rng(seed)
    weights = target[np.arange(n), log.actions] / log.propensities
    guesses = _guesses(log, rng.integers(5, size=n))
    residuals = weights * (log.rewards - guesses[np.arange(n), log.actions])
    robust, earned = (target * guesses).sum(axis=1) + residuals, weights * log.rewards
    drawn = np.empty((samples, 3))
    for sample in range(samples):
        counts = np.bincount(rng.integers(n, size=n), minlength=n)
        drawn[sample] = counts @ earned / n, counts @ earned / (counts @ weights), counts @ robust / n
    values = earned.mean(), earned.sum() / weights.sum(), robust.mean()
    ends = np.quantile(drawn, [0.025, 0.975], axis=0).T
    return {name: (float(v), *ends[i]) for i, (name, v) in enumerate(zip(("ips", "snips", "dr"), values, strict=True))}


def _guesses(log: Log, fold: np.ndarray) -> FloatArray:
    x = np.hstack([np.ones((len(log), 1)), log.features])
    out = np.empty((len(log), log.n_actions))
    for f in range(5):
        for action in range(log.n_actions):
            rows = (fold != f) & (log.actions == action)
            gram = x[rows].T @ x[rows] + 10.0 * np.eye(x.shape[1])
            out[fold == f, action] = x[fold == f] @ np.linalg.solve(gram, x[rows].T @ log.rewards[rows])
    return out
