"""A linear model of the rewards of each product, learned from a log."""

import numpy as np

from zoosim.core.blocks import mapped
from zoosim.core.types import FloatArray, PastLog, Progress
from zoosim.core.user_groups import group_by_user
from zoosim.models.linear_rewards import FOLDS, fit_pooled_model
from zoosim.policies.base import reads_blocks
from zoosim.policies.from_log.base import FromLog
from zoosim.policies.from_log.traits import Traits, find_traits


class Linear(FromLog):
    """Show what a linear model for each product favours: learned from a log alone, shrunk towards products alike.

    The model is the reward model of the doubly robust estimators: ridge regression of each product's rewards on the
    visitor's features, shrunk towards one that is linear in what products differ in. How much is cross-validated.
    """

    name = "linear"

    @reads_blocks
    def _fit_model(self, log: PastLog, progress: Progress) -> tuple[Traits, dict[str, FloatArray]]:
        traits = find_traits(log.products)
        group = group_by_user(len(log), log.user_ids).group
        fold = mapped(lambda block: block % FOLDS, group, dtype=np.int64)
        n_products = len(log.products)
        scores = traits.scores if traits.scores.shape[1] else None
        fitted = fit_pooled_model(log.features, log.actions, log.rewards, n_products, fold, FOLDS, scores)
        of_all_products = fitted.shared[0]
        own = np.vstack([fitted.own + of_all_products, of_all_products])
        return traits, {"own": own, "shared": fitted.shared[1:], "centre": fitted.centre, "scale": fitted.scale}

    def _shapes(self, products: int, traits: int) -> dict[str, tuple[int, ...]]:
        dim = self.spec.user_dim
        return {"own": (products + 1, 1 + dim), "shared": (traits, 1 + dim), "centre": (dim,), "scale": (dim,)}
