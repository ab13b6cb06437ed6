"""A mixed model of the rewards, learned from a log: what visitors like in products, and each product's own effect."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy import special

from zoosim.core.arrays import with_ones
from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray, IntArray, PastLog, Progress
from zoosim.models.glm import Response, fit_glm
from zoosim.models.hierarchy import Design, make_design
from zoosim.models.product_pairs import sparse_products
from zoosim.policies.from_log.base import FromLog
from zoosim.policies.from_log.best_guess import Weights
from zoosim.policies.from_log.blocks import scale_blocks
from zoosim.policies.from_log.traits import MOST_TRAITS, Traits, find_traits

MOST_COEFFICIENTS = 1_500
"""With more pairs of visitors' and products' features, products are described by what they differ in most."""
RARE = 0.5
"""Rewards that are above 0 in less than this share of the rows, and else 0, have two parts."""
MAX_BYTES = 300_000_000
"""The most memory that one number for each product and feature of visitors may take."""
LARGEST_LOG = 700.0
"""The logarithm of a size that is as good as infinite."""
MANY_PRODUCTS, ROUNDS_OF_MANY = 1_000, 8
"""With more products each pass over the rows takes long, and fewer are made: a further one moves coefficients by 2% of
how far they lie apart, root mean square."""
LEAST_SIZES = 20
"""With fewer rewards above 0, their sizes are taken to be alike."""


class MixedEffects(FromLog):
    """Show what a mixed model favours: learned from a log alone, with effects that are shrunk as far as the log says.

    Visitors' features act on products' features and on each product by itself; how strong each kind of effect is, is
    estimated, so that a product that was seldom shown is judged by those alike. Clicks, and rewards that are mostly 0,
    such as revenue, have two parts: how likely there is one, by a logistic model, times its size, by a log-normal one
    (Duan et al. 1983, https://doi.org/10.1080/07350015.1983.10509330). Other rewards have a normal model.
    """

    name = "mixed-effects"
    _by_product: ClassVar = {"own": "shared", "size_own": "size_shared"}

    def _fit_model(self, log: PastLog, progress: Progress) -> tuple[Traits, dict[str, FloatArray]]:
        visitors = scale_blocks(log.features)
        traits, blocks = traits_in_blocks(log.products, MOST_COEFFICIENTS // (1 + self.spec.user_dim) - 1)
        columns = with_ones((log.features - visitors.centre) * visitors.scale)
        # Products that were never shown are left out: all that is known of them is what products share.
        seen, actions = np.unique(log.actions, return_inverse=True)
        _check_size(len(seen), columns.shape[1])
        sparse = sparse_products(log.products[seen], traits.mean, traits.weights, columns.shape[1])
        design = make_design(traits.scores[seen], visitors.blocks, blocks, sparse)
        is_two_part = has_two_parts(log.rewards)
        if is_two_part:
            is_above = log.rewards > 0.0
            rows = (columns, actions, is_above.astype(float))
            model = fit_glm(Response.CLICKS, *rows, design, rounds=rounds_for(len(seen)), progress=progress)
            weights = _weights(design, model.shared, model.mean)
            sizes = _size_weights(columns[is_above], actions[is_above], log.rewards[is_above], design)
        else:
            model = fit_glm(Response.AMOUNTS, columns, actions, log.rewards, design)
            weights = _weights(design, model.shared, model.mean)
            sizes = {name: np.zeros_like(array) for name, array in weights.items()}
        for array_by_name in (weights, sizes):
            array_by_name["own"] = _with_unseen(array_by_name["own"], seen, len(log.products))
        return traits, {
            **weights,
            **{f"size_{name}": array for name, array in sizes.items()},
            "has_two_parts": np.array(float(is_two_part)),
            "centre": visitors.centre,
            "scale": visitors.scale,
        }

    def _guess(self, weights: Mapping[str, FloatArray], represented: FloatArray) -> FloatArray:
        predicted = super()._guess(weights, represented)
        if not self._model["has_two_parts"]:
            return predicted
        log_size = weights["size_own"] @ represented
        return np.asarray(special.expit(predicted) * np.exp(np.minimum(log_size, LARGEST_LOG)))

    def _in_order(self, weights: Mapping[str, FloatArray]) -> Weights:
        # Where all sizes are alike, too: chances near 1 are equal numbers where their log odds still differ.
        if not self._model["has_two_parts"]:
            return super()._in_order(weights)
        return Weights(weights["own"], weights["size_own"])

    def _shapes(self, products: int, traits: int) -> dict[str, tuple[int, ...]]:
        dim = self.spec.user_dim
        weights = {"own": (products + 1, 1 + dim), "shared": (traits, 1 + dim)}
        sizes = {"size_" + name: shape for name, shape in weights.items()}
        return {**weights, **sizes, "has_two_parts": (), "centre": (dim,), "scale": (dim,)}


def rounds_for(n_products: int) -> int:
    """Return how many passes over the rows a model of clicks on so many products is fitted by."""
    return ROUNDS_OF_MANY if n_products > MANY_PRODUCTS else Response.CLICKS.rounds


def traits_in_blocks(products: FloatArray, most: int) -> tuple[Traits, IntArray]:
    """Return the scaled features of products as their traits.

    Where there are more than `most`, the largest blocks of features are replaced by what products differ in most there.

    Args:
        products: Features of products, `(K, d_p)`.
        most: Most traits that are wanted.

    Returns:
        The traits, and the number of the block that each one is in, `(p,)`.
    """
    scaling = scale_blocks(products)
    is_kept = np.ones(products.shape[1], bool)
    for block in np.argsort(-np.bincount(scaling.blocks), kind="stable"):
        if (is_kept.all() and len(is_kept) <= most) or is_kept.sum() <= max(most - MOST_TRAITS, 0):
            break
        is_kept &= scaling.blocks != block
    n_kept = int(is_kept.sum())
    rest = find_traits(products[:, ~is_kept]).weights[:, : max(most - n_kept, 0)]
    weights = np.zeros((products.shape[1], n_kept + rest.shape[1]))
    weights[is_kept, :n_kept] = np.diag(scaling.scale[is_kept])
    weights[~is_kept, n_kept:] = rest
    kept_blocks = np.unique(scaling.blocks[is_kept], return_inverse=True)[1]
    rest_blocks = len(np.unique(kept_blocks)) + np.arange(rest.shape[1])
    traits = Traits((products - scaling.centre) @ weights, scaling.centre, weights)
    return traits, np.append(kept_blocks, rest_blocks).astype(np.int64)


def has_two_parts(rewards: FloatArray) -> bool:
    """Return whether rewards are 0 or one number, or mostly 0 and else above it."""
    sizes = rewards[rewards != 0.0]
    if not len(sizes) or sizes.min() < 0.0:
        return False
    return bool(sizes.min() == sizes.max() or len(sizes) < RARE * len(rewards))


def _size_weights(
    visitors: FloatArray, actions: IntArray, rewards: FloatArray, design: Design
) -> dict[str, FloatArray]:
    """Return what makes the log of the mean size of rewards above 0."""
    log_sizes = np.log(rewards)
    if len(log_sizes) < LEAST_SIZES or log_sizes.std() < 1e-9:
        weights = _weights(design, np.zeros(design.shape), np.zeros((len(design.products), design.shape[0])))
        weights["own"][:, 0] = np.log(rewards.mean())
        return weights
    model = fit_glm(Response.AMOUNTS, visitors, actions, log_sizes, design)
    weights = _weights(design, model.shared, model.mean)
    weights["own"][:, 0] += 0.5 * model.noise * model.unit**2  # the mean of a log-normal variable
    return weights


def _weights(design: Design, shared: FloatArray, coefficients: FloatArray) -> dict[str, FloatArray]:
    """Return coefficients `(K, q)` as weights of visitors: by product, the last row for unknown ones, and by trait."""
    unknown = shared[:, 0]
    # b = M z + a: own weights are a and M's first column, that of the 1; a is 0 for unknown products.
    own = coefficients - design.products[:, 1:] @ shared[:, 1:].T
    return {"own": np.vstack([own, unknown]), "shared": np.ascontiguousarray(shared[:, 1:].T)}


def _with_unseen(own: FloatArray, seen: IntArray, n_products: int) -> FloatArray:
    """Return weights of all products and of unknown ones `(K + 1, q)`; those never shown are as unknown ones."""
    whole = np.tile(own[-1], (n_products + 1, 1))
    whole[seen] = own[:-1]
    return whole


def _check_size(n_products: int, n_columns: int) -> None:
    if 8 * n_products * n_columns > MAX_BYTES:
        size = f"{n_products:,} products and {n_columns - 1:,} features of visitors"
        raise ConfigError(f"mixed model: got {size}, too many for memory; leave some features out")
