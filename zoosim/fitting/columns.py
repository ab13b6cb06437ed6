"""The worth of the columns of a shop's tables: what a fitted world loses without each of them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from zoosim.core.arrays import evenly_spread
from zoosim.core.rng import stream
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, IntArray
from zoosim.fitting.fit import FittedModels
from zoosim.logs.log import Log
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.intervals.bootstrap import SAMPLES
from zoosim.off_policy.intervals.clusters import group_sums, make_clusters
from zoosim.off_policy.intervals.intervals import bootstrap_interval
from zoosim.schema.encoder import parts
from zoosim.worlds.fitted.shop import FittedShop

DRAWS = 20
MOST_ROWS = 20_000
"""Held-out rows by which columns are judged, spread evenly."""
MOST_COLUMNS = 40
"""Columns without a name that are judged one by one; beyond, all of them together."""
SAMPLES_PER_COLUMN = 80
"""Bootstrap samples for each column that is judged: two lie beyond either end of its interval."""
CHANCE = 1e-6

VISITORS, PRODUCTS = "visitors", "products"
ITSELF = "the product itself"
"""Products' own effects, beyond what their columns tell."""


class ColumnGain(NamedTuple):
    """The worth of a column of `visitors` or `products` for telling responses.

    `gain` is the log likelihood of 1,000 held-out rows that is lost when its values are shuffled. The intervals of all
    columns hold together with 95%.
    """

    of: str
    name: str
    gain: Interval

    @property
    def tells(self) -> bool:
        """True where the column is shown to tell anything."""
        return self.gain.low is not None and self.gain.low > 0.0


def column_gains(models: FittedModels, shop: FittedShop, later: Log) -> tuple[ColumnGain, ...]:
    """Return what each column tells of the responses of held-out rows (permutation, Breiman 2001).

    Args:
        models: Models of the earlier rows.
        shop: Their shop, whose visits are the held-out rows.
        later: These rows.
    """
    rows = evenly_spread(len(later), MOST_ROWS)
    actions = later.actions[rows]
    responses = (later.rewards[rows] != 0.0).astype(float)
    clusters = make_clusters(len(rows), None if later.user_ids is None else later.user_ids[rows])
    # The same draws with and without a column, so that few of them are enough to tell the difference.
    shop = replace(shop, coefficients=shop.coefficients[:DRAWS])
    whole = log_likelihood(responses, _chances(shop, rows, actions))
    losses = {
        (of, name): whole - log_likelihood(responses, _chances(changed, rows, actions))
        for of, name, changed in _without_columns(models, shop, later)
    }
    # Bonferroni, which needs no independence: columns say much the same as each other.
    level = 1.0 - 0.05 / max(1, len(losses))
    samples = max(SAMPLES, SAMPLES_PER_COLUMN * len(losses))
    return tuple(
        ColumnGain(of, name, bootstrap_interval(group_sums(clusters, Terms(1e3 * loss)), level, samples=samples))
        for (of, name), loss in losses.items()
    )


def log_likelihood(responses: FloatArray, chance: FloatArray) -> FloatArray:
    """Return the log likelihood of each row's response `(n,)` at its probability."""
    # No response is taken to be impossible: a single row would else decide.
    chance = np.clip(chance, CHANCE, 1.0 - CHANCE)
    return np.asarray(responses * np.log(chance) + (1.0 - responses) * np.log1p(-chance))


def _chances(shop: FittedShop, rows: IntArray, actions: IntArray) -> FloatArray:
    """Return the mean probability of each row's response `(n,)` over the draws of a shop."""
    draws = range(shop.n_draws)
    return np.asarray(sum(shop.chances_of(shop.draw(number), rows, actions) for number in draws) / len(draws))


def _without_columns(models: FittedModels, shop: FittedShop, later: Log) -> Iterator[tuple[str, str, FittedShop]]:
    """Yield whose column it is, its name, and the shop as it is with that column shuffled."""
    for name, part in _visitor_columns(later).items():
        features = later.features.copy()
        # By a stream of the column's own name: its permutation does not depend on which other columns there are. All
        # features of a column move together, so that one-hot rows stay one-hot.
        features[:, part] = features[stream(0, "shuffled visitors", name).permutation(len(features)), part]
        yield VISITORS, name, replace(shop, features=features)

    posterior = models.clicks.posterior
    design = models.features.design
    for number, name in enumerate(models.features.product_columns, 1):
        order = stream(0, "shuffled products", name).permutation(len(design.products))
        # Coefficients are M z and a product's own: with the features z shuffled, M z alone moves.
        change = np.where(design.product_block == number, design.products[order] - design.products, 0.0)
        yield PRODUCTS, name, replace(shop, coefficients=shop.coefficients + change @ posterior.shared.T)
    # The deviations a_k = b_k - M z_k of `zoosim.models.hierarchy`, in the posterior mean.
    itself = posterior.mean - design.products @ posterior.shared.T
    yield PRODUCTS, ITSELF, replace(shop, coefficients=shop.coefficients - itself)


def _visitor_columns(log: Log) -> dict[str, slice]:
    """Return where the features of each column of visitors stand, of those that vary."""
    width = log.features.shape[1]
    columns = {f"column {number}": slice(number, number + 1) for number in range(width)}
    if log.fitted is not None:
        columns = parts(log.fitted.visitors)
    # Corrected for very many columns, hardly any interval would leave out 0.
    elif width > MOST_COLUMNS:
        columns = {"all columns": slice(0, width)}
    # Shuffling a constant changes nothing, and each column that is judged widens the intervals of all.
    varies = log.features.std(axis=0) > 0.0
    return {name: part for name, part in columns.items() if varies[part].any()}
