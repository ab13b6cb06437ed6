"""The Bernoulli Thompson sampling policy of the Open Bandit Dataset, from its priors."""

from pathlib import Path

import numpy as np

from zoosim.core.config import read_yaml
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray

PRIORS = "prior_bts.yaml"
DRAWS, SEED, BLOCK = 100_000, 12_345, 5_000


def item_probabilities(folder: Path, campaign: str, n_items: int, draws: int = DRAWS) -> FloatArray:
    """Return how often each item stands at positions 1 to 3, `(K, 3)`, counted over `draws` (Saito et al. 2021).

    A draw takes beta(alpha, beta) of every item and shows the three largest; `numpy.random.RandomState(12345)` makes
    them, as the published answers do. The priors stand in `folder`/prior_bts.yaml. Raises `ConfigError` without it, and
    `DataError` for priors of other items.
    """
    alpha, beta = priors(folder / PRIORS, campaign, n_items)
    rng, counts = np.random.RandomState(SEED), np.zeros((n_items, 3))
    for start in range(0, draws, BLOCK):
        theta = rng.beta(alpha, beta, size=(min(BLOCK, draws - start), n_items))
        first = np.argsort(-theta, axis=1)[:, :3]
        for position in range(3):
            counts[:, position] += np.bincount(first[:, position], minlength=n_items)
    return counts / draws


def priors(path: Path, campaign: str, n_items: int) -> tuple[FloatArray, FloatArray]:
    """Return alpha and beta of each item, `(K,)`."""
    if not path.is_file():
        raise ConfigError(f"open-bandit: no file {path}; it holds alpha and beta of each item, by campaign")
    own = read_yaml(path).get(campaign, {})
    found = [np.asarray(own.get(name, ()), float) for name in ("alpha", "beta")]
    for name, values in zip(("alpha", "beta"), found, strict=True):
        if values.shape != (n_items,) or not (values > 0.0).all():
            got = f"{campaign}.{name}: got {values.size} numbers"
            raise DataError(f"{path}: {got}, expected one above 0 for each of {n_items} items")
    return found[0], found[1]
