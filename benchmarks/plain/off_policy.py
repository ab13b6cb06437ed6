"""Off-policy evaluation as an analyst writes it in pandas and numpy: merge, group by, sample users with replacement."""

import numpy as np
import pandas as pd

from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log

FOLDS, RIDGE = 5, 10.0
LEVELS = (0.025, 0.975)


def plain_frame(log: Log, segments: IntArray) -> pd.DataFrame:
    """Return a log as a data frame, with the segment of each row."""
    features = {f"x{number}": column for number, column in enumerate(log.features.T)}
    told = {"segment": segments, "action": log.actions, "propensity": log.propensities, "reward": log.rewards}
    return pd.DataFrame({**told, "user": log.user_ids, **features})


def plain_evaluation(
    rows: pd.DataFrame, target: FloatArray, samples: int, seed: int = 0
) -> dict[str, tuple[float, float, float]]:
    """Return value and 95% percentile interval by user of IPS, SNIPS and DR for a policy by segment `(S, K)`."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(target).stack().rename("wanted").rename_axis(["segment", "action"]).reset_index()
    rows = rows.merge(table, on=["segment", "action"], how="left")
    rows["weight"] = rows["wanted"] / rows["propensity"]
    rows["earned"] = rows["weight"] * rows["reward"]
    guesses = _guesses(rows, target.shape[1], rng)
    own = guesses[np.arange(len(rows)), rows["action"]]
    rows["robust"] = (target[rows["segment"]] * guesses).sum(axis=1) + rows["weight"] * (rows["reward"] - own)
    rows["rows"] = 1.0
    users = rows.groupby("user")[["earned", "weight", "robust", "rows"]].sum()
    values = _values(users.sum())
    drawn = pd.DataFrame(
        [_values(users.sample(frac=1.0, replace=True, random_state=rng).sum()) for _ in range(samples)]
    )
    low, high = (drawn.quantile(level) for level in LEVELS)
    return {name: (float(value), float(low[name]), float(high[name])) for name, value in values.items()}


def _values(sums: pd.Series) -> dict[str, float]:
    ips, robust = sums["earned"] / sums["rows"], sums["robust"] / sums["rows"]
    return {"ips": ips, "snips": sums["earned"] / sums["weight"], "dr": robust}


def _guesses(rows: pd.DataFrame, n_actions: int, rng: np.random.Generator) -> FloatArray:
    """Fit a ridge model an action on the rows of all folds but one, and guess that one's rewards `(n, K)`."""
    names = [name for name in rows.columns if name.startswith("x")]
    fold, x = rng.integers(FOLDS, size=len(rows)), np.column_stack([np.ones(len(rows)), rows[names]])
    out = np.empty((len(rows), n_actions))
    for f in range(FOLDS):
        coefficients = np.zeros((n_actions, x.shape[1]))
        for action, part in rows[fold != f].groupby("action"):
            inputs = np.column_stack([np.ones(len(part)), part[names]])
            gram = inputs.T @ inputs + RIDGE * np.eye(x.shape[1])
            coefficients[int(action)] = np.linalg.solve(gram, inputs.T @ part["reward"].to_numpy())
        out[fold == f] = x[fold == f] @ coefficients.T
    return out
