"""A mixed model of the rewards, learned from a log: what visitors like in products, and each product's own effect."""

from typing import ClassVar

import numpy as np
from scipy import special

from zoosim.core.types import FloatArray, IntArray, PastLog, Progress
from zoosim.models.mixed_effects import (
    Choices,
    Groups,
    MixedModel,
    fit_mixed_model,
    group_coefficients,
    scale_blocks,
    with_leading_one,
)
from zoosim.policies.from_log.base import FromLog
from zoosim.policies.from_log.traits import MOST_TRAITS, Traits, find_traits

MOST_COEFFICIENTS = 1_500
"""With more pairs of visitors' and products' features, products are described by what they differ in most."""
RARE = 0.5
"""Rewards that are above 0 in less than this share of the rows, and else 0, have two parts."""
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
    _by_product: ClassVar = ("own", "size_own")

    def _fit_model(self, log: PastLog, progress: Progress) -> tuple[Traits, dict[str, FloatArray]]:
        visitors = scale_blocks(log.features)
        traits, blocks = _traits_in_blocks(log.products, MOST_COEFFICIENTS // (1 + self.spec.user_dim) - 1)
        groups = group_coefficients(visitors.blocks, blocks)
        choices = Choices(
            with_leading_one((log.features - visitors.centre) * visitors.scale),
            with_leading_one(traits.scores),
            log.actions,
            log.rewards,
        )
        if _has_two_parts(log.rewards):
            is_above = log.rewards > 0.0
            odds = choices._replace(rewards=is_above.astype(float))
            model = fit_mixed_model(odds, groups, clicks=True, progress=progress)
            weights = _weights(model) | _size_weights(choices, groups, progress)
        else:
            model = fit_mixed_model(choices, groups, clicks=False, progress=progress)
            weights = _weights(model)
            weights |= {"size_" + name: np.zeros_like(array) for name, array in weights.items()}
        has_two_parts = np.array(float(_has_two_parts(log.rewards)))
        return traits, {**weights, "has_two_parts": has_two_parts, "centre": visitors.centre, "scale": visitors.scale}

    def _guess(self, places: IntArray, traits: FloatArray, represented: FloatArray) -> FloatArray:
        predicted = self._linear("own", "shared", places, traits, represented)
        if not self._model["has_two_parts"]:
            return predicted
        log_size = self._linear("size_own", "size_shared", places, traits, represented)
        return np.asarray(special.expit(predicted) * np.exp(log_size))

    def _shapes(self, products: int, traits: int) -> dict[str, tuple[int, ...]]:
        dim = self.spec.user_dim
        weights = {"own": (products + 1, 1 + dim), "shared": (traits, 1 + dim)}
        sizes = {"size_" + name: shape for name, shape in weights.items()}
        return {**weights, **sizes, "has_two_parts": (), "centre": (dim,), "scale": (dim,)}


def _traits_in_blocks(products: FloatArray, most: int) -> tuple[Traits, IntArray]:
    """Return the scaled features of products as their traits, and the block that each trait is in.

    Where there are more than `most`, the largest blocks of features are replaced by what products differ in most there.
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


def _has_two_parts(rewards: FloatArray) -> bool:
    """Return whether rewards are 0 or one number, or mostly 0 and else above it."""
    sizes = rewards[rewards != 0.0]
    if not len(sizes) or sizes.min() < 0.0:
        return False
    return bool(sizes.min() == sizes.max() or len(sizes) < RARE * len(rewards))


def _size_weights(choices: Choices, groups: Groups, progress: Progress) -> dict[str, FloatArray]:
    """Return what makes the log of the mean size of rewards above 0."""
    is_above = choices.rewards > 0.0
    log_sizes = np.log(choices.rewards[is_above])
    n_products, p = len(choices.products), choices.visitors.shape[1]
    if len(log_sizes) < LEAST_SIZES or log_sizes.std() < 1e-9:
        weights = {
            "size_own": np.zeros((n_products + 1, p)),
            "size_shared": np.zeros((choices.products.shape[1] - 1, p)),
        }
        weights["size_own"][:, 0] = np.log(choices.rewards[is_above].mean())
        return weights
    above = Choices(choices.visitors[is_above], choices.products, choices.actions[is_above], log_sizes)
    model = fit_mixed_model(above, groups, clicks=False, progress=progress)
    weights = {"size_" + name: array for name, array in _weights(model).items()}
    weights["size_own"][:, 0] += 0.5 * model.noise  # the mean of a log-normal variable
    return weights


def _weights(model: MixedModel) -> dict[str, FloatArray]:
    """Return a model's effects as weights of visitors: by product, the last row for unknown ones, and by trait."""
    unknown = model.effects.shared[:, 0]
    own = np.vstack([model.effects.own + unknown, unknown])
    return {"own": own, "shared": np.ascontiguousarray(model.effects.shared[:, 1:].T)}
