"""What a log showed to whom, and what was clicked, as rows that a retriever learns from."""

import numpy as np

from zoosim.core.action_space import PRODUCTS, RANKINGS
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import unknown
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.retrieval.towers.rows import ShownRows

MOST_POSITIONS = 200
"""Positions that have an effect of their own; lower ones count as the last of these."""


def shown_rows(log: Log, reward: str | None = None) -> ShownRows:
    """Return what a log showed, one row per product and visit; what was shown and not clicked counts.

    Products that the catalogue describes and no row shows or lists come last, as in the log.

    Args:
        log: A log of products or of rankings.
        reward: Which of its rewards is the click; None for the objective.

    Raises:
        ConfigError: the log has no such reward.
        DataError: the log is of another action space, or the reward is something else than 0 and 1, or always the same.
    """
    if log.action_space not in (PRODUCTS, RANKINGS):
        raise DataError(f"{log.source}: its actions are {log.action_space}, expected a log of products or rankings")
    if reward is not None:
        if reward not in log.rewards_by_name:
            raise ConfigError(unknown("reward: the log has no", reward, list(log.rewards_by_name)))
        log = log.for_reward(reward)
    actions = np.asarray(log.actions)
    n_positions = log.n_positions
    clicked = np.asarray(log.rewards, np.float64).ravel()
    _check_clicks(clicked, log, reward)
    shown = actions.reshape(len(log), -1)
    position = np.arange(n_positions)[None].repeat(len(log), 0) if n_positions > 1 else log.positions[:, None]
    return ShownRows(
        np.asarray(log.features, np.float64),
        described_products(log),
        np.repeat(np.arange(len(log)), n_positions),
        shown.ravel().astype(np.int64),
        np.clip(position.ravel(), 0, MOST_POSITIONS - 1).astype(np.int64),
        clicked,
    )


def described_products(log: Log) -> FloatArray:
    """Return the features of all products that a log knows `(K, d_p)`, those last that no row shows or lists."""
    if not log.other_names:
        return np.asarray(log.products, np.float64)
    return np.concatenate([log.products, log.other_products])


def _check_clicks(clicked: FloatArray, log: Log, reward: str | None) -> None:
    name = reward or log.objective
    is_other = (clicked != 0.0) & (clicked != 1.0)
    if is_other.any():
        names = ", ".join(log.rewards_by_name) or "none by name"
        raise DataError(
            f"{log.source}: got {clicked[is_other][0]:g} as {name}, expected clicks, 0 or 1; name a reward of these "
            f"(reward; the log has {names})"
        )
    if not len(clicked) or clicked.min() == clicked.max():
        came = "no rows" if not len(clicked) else f"{name} {clicked[0]:g} in every row"
        raise DataError(f"{log.source}: got {came}, expected some of what was shown to be clicked")
