"""Logs of lives as data sets of Minari (Younis et al. 2024), which libraries of offline reinforcement learning read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from zoosim.core.errors import DataError
from zoosim.core.files import temporary_folder
from zoosim.core.types import IntArray
from zoosim.logs.lives import Lives
from zoosim.logs.log import Log

SUFFIX = ".minari"
"""How the names of these folders end."""


def write_episodes(log: Log, folder: Path) -> None:
    """Write a log of lives as a folder that `minari.MinariDataset` opens: an episode per visitor.

    Observations are the visitor's features at each decision (float32), the last ones once more at the end, since nobody
    sees what follows; actions are rows of the log's catalogue. Who has gone for good is terminated, who was cut off
    truncated. `infos` has the propensity and the number of the visit of each decision, and as `action_mask` what could
    be shown.

    Args:
        log: The log, of products.
        folder: Where to write; nothing is there yet.

    Raises:
        DataError: the log tells no lives, or chooses no products one by one.
    """
    from gymnasium.spaces import Box, Discrete
    from minari import MinariDataset, __version__
    from minari.dataset.minari_storage import MinariStorage

    if log.lives is None or np.ndim(log.actions) != 1:
        raise DataError(
            f"{log.source}: tells no visitors' lives of single products, expected the columns visitor, visit, step, "
            "ended and censored, and some who come for more than one decision"
        )
    # Written beside its place and moved there at the end, so that what stands there is whole.
    with temporary_folder(folder.parent, folder.name) as made:
        place = made / folder.name
        features = Box(-np.inf, np.inf, (log.features.shape[1],), np.float32)
        storage = MinariStorage.new(place, features, Discrete(len(log.products)))
        storage.update_metadata({"dataset_id": f"zoosim/{folder.stem}-v0", "minari_version": __version__})
        storage.update_episodes(_episodes(log, log.lives))
        assert MinariDataset(place).total_episodes > 0
        place.rename(folder)


def _episodes(log: Log, lives: Lives) -> Iterator[Any]:
    """Yield the life of each visitor as a buffer of Minari's."""
    from minari.data_collector import EpisodeBuffer

    order = np.lexsort((lives.step, lives.visit, lives.visitor))
    starts = np.flatnonzero(np.diff(lives.visitor[order])) + 1
    for rows in np.split(order, starts):
        is_last = np.arange(len(rows)) == len(rows) - 1
        yield EpisodeBuffer(
            observations=log.features[np.append(rows, rows[-1])].astype(np.float32),
            actions=log.actions[rows],
            rewards=log.rewards[rows],
            terminations=lives.ended[rows],
            truncations=is_last & ~lives.ended[rows],
            infos={
                "propensity": log.propensities[rows],
                "visit": lives.visit[rows],
                "action_mask": _masks(log, rows),
            },
        )


def _masks(log: Log, rows: IntArray) -> np.ndarray:
    """Return what could be shown in some rows `(len(rows), K)`, as flags."""
    return np.concatenate([log.available(row, row + 1) for row in rows]).astype(np.int8)
