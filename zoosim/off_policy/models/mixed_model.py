"""A mixed model of what a visit earns by the product it shows, with draws from what the rows leave uncertain.

The reward is a product of parts that are learned apart, as in hurdle models (Duan et al. 1983): how likely it is above
0 (a hierarchical logistic model), and how large it is then (a log-normal one). A reward that only comes with another
one, such as revenue with a click, is that one's probability times what follows from it, so that the few orders need
not tell again who clicks. How often the log shows a product counts among the product's features: shops show what
sells, so a product that was hardly shown is rarely as good as the rest alike (Little & An 2004, on propensities as
covariates).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from zoosim.core.arrays import with_ones
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.models.glm import FittedGLM, Response, RowsByProduct, expected_probability, fit_glm
from zoosim.models.hierarchy import Design, draw_coefficients, make_design
from zoosim.models.product_pairs import sparse_products
from zoosim.policies.from_log.blocks import scale_blocks
from zoosim.policies.from_log.mixed_effects import (
    LARGEST_LOG,
    LEAST_SIZES,
    MOST_COEFFICIENTS,
    has_two_parts,
    traits_in_blocks,
)
from zoosim.policies.from_log.traits import Traits, find_traits

MOST_WORK = 5e7
"""Products times the cube of visitors' features: with more, visitors are described by what they differ in most."""

ROUNDS_OF_CLICKS, ROUNDS_OF_AMOUNTS = 6, 2
"""Passes over the rows: predictions of logged products are then within 4% of those after twice as many."""

DRAWS = 40
"""Draws from the posterior, by which the error of predictions is known to about a tenth."""

NORMAL, LOG_NORMAL, LOGISTIC = "normal", "log-normal", "logistic"


class Pairs(NamedTuple):
    """Visits and the product that each shows.

    `columns (m, q)` describe the visitors, after a leading 1; `traits (m, r)` the products, after a leading 1;
    `places (m,)` say which of the products that the model has seen it is, -1 for none.
    """

    columns: FloatArray
    traits: FloatArray
    places: IntArray


@dataclass(frozen=True)
class RewardFactor:
    """One factor of the reward: what a `model` of its probability, mean or logarithm predicts, as `family` says.

    Without a model it is `level` for every visit and product. Draws are those of the random `stream` of that name.
    """

    family: str
    level: float = 0.0
    model: FittedGLM | None = None
    stream: str = ""

    def predict(self, pairs: Pairs) -> FloatArray:
        """Return the expected factor of each pair `(m,)`, the uncertainty of coefficients included."""
        if self.model is None:
            return np.full(len(pairs.places), self.level)
        posterior = self.model.posterior
        is_seen = pairs.places >= 0
        linear = (pairs.columns * (pairs.traits @ posterior.shared.T)).sum(axis=1)
        # Of a product never seen, what products share is all that is known, and its own deviation varies as a priori.
        variances = pairs.columns**2 @ posterior.variances.of_deviations(self.model.design)
        seen = RowsByProduct(pairs.columns[is_seen], pairs.places[is_seen], len(posterior.mean))
        linear[is_seen], variances[is_seen] = seen.predictor(posterior.mean, posterior.covariance)
        return self._factor(self.model, linear, variances)

    def draw(self, pairs: Pairs) -> FloatArray:
        """Return the factor of each pair for coefficients drawn from the posterior `(DRAWS, m)`; always the same."""
        if self.model is None:
            return np.full((DRAWS, len(pairs.places)), self.level)
        shared, coefficients, unseen = self._draws
        is_seen = pairs.places >= 0
        seen = pairs.places[is_seen]
        nothing = np.zeros(len(pairs.places))
        out = np.empty((DRAWS, len(pairs.places)))
        for number in range(DRAWS):
            drawn = pairs.traits @ shared[number].T + unseen[number]
            drawn[is_seen] = coefficients[number][seen]
            out[number] = self._factor(self.model, (pairs.columns * drawn).sum(axis=1), nothing)
        return out

    @cached_property
    def _draws(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Draws of what products share `(DRAWS, q, r)`, of all coefficients `(DRAWS, K, q)`, and of what sets products
        apart that the rows do not show `(DRAWS, q)`: all alike, as nobody knows that their deviations cancel.
        """
        assert self.model is not None
        design, sums, posterior = self.model[:3]
        rng = stream(0, "mixed model", self.stream)  # its own, as the parts of a reward are learned apart
        drawn = draw_coefficients(design, sums, posterior, DRAWS, rng=rng, variances_are_known=True)
        spread = np.sqrt(posterior.variances.of_deviations(design))
        return *drawn, spread * rng.normal(size=(DRAWS, len(spread)))

    def _factor(self, model: FittedGLM, linear: FloatArray, variances: FloatArray) -> FloatArray:
        if self.family == LOGISTIC:
            return expected_probability(linear, variances)
        value = model.level + model.unit * linear
        if self.family == NORMAL:
            return np.asarray(value)
        excess = 0.5 * model.unit**2 * (model.noise + variances)  # the mean of a log-normal variable
        return np.asarray(np.exp(np.minimum(value + excess, LARGEST_LOG)))


class MixedModel(NamedTuple):
    """A fitted model; `parts` multiply. `is_positive` says that no reward was below 0."""

    parts: tuple[RewardFactor, ...]
    visitors: Traits
    products: FloatArray
    places: IntArray
    is_positive: bool

    def pairs(self, features: FloatArray, actions: IntArray) -> Pairs:
        """Return visits `(m, d_u)` and the products that they show `(m,)` as the model describes them."""
        columns = with_ones((features - self.visitors.mean) @ self.visitors.weights)
        return Pairs(columns, self.products[actions], self.places[actions])

    def predict(self, pairs: Pairs) -> FloatArray:
        """Return the expected reward of each pair `(m,)`."""
        return np.asarray(np.prod([part.predict(pairs) for part in self.parts], axis=0))

    def draw(self, pairs: Pairs) -> FloatArray:
        """Return the expected reward of each pair for coefficients drawn from the posterior `(DRAWS, m)`.

        The draws are the same whichever pairs are asked about, so that policies are compared under the same ones.
        """
        return np.asarray(np.prod([part.draw(pairs) for part in self.parts], axis=0))


def fit_mixed_models(log: Log, rewards: Sequence[FloatArray], name: str = "") -> list[MixedModel]:
    """Fit one model per reward to a log of products.

    Args:
        log: n rows; propensities are not needed.
        rewards: What each row earned `(n,)`, the objective first. A later one that is never above 0 without the
            objective is modelled as what follows from it.
        name: Models of another name draw independently.
    """
    counts = np.bincount(log.actions, minlength=log.n_actions)
    described = np.column_stack([log.products, np.log1p(counts)])
    seen, actions = np.unique(log.actions, return_inverse=True)
    visitors, blocks = _visitors(log.features, len(seen))
    columns = with_ones((log.features - visitors.mean) @ visitors.weights)
    traits, trait_blocks = traits_in_blocks(described, MOST_COEFFICIENTS // columns.shape[1] - 1)
    sparse = sparse_products(described[seen], traits.mean, traits.weights, columns.shape[1])
    design = make_design(traits.scores[seen], blocks, trait_blocks, sparse)
    places = np.full(log.n_actions, -1)
    places[seen] = np.arange(len(seen))
    objective = rewards[0]
    parts = [_fit_parts(columns, actions, objective, design, name)]
    for number, reward in enumerate(rewards[1:], start=1):
        parts.append(_fit_later_reward(columns, actions, (objective, reward), design, parts[0], f"{name} {number}"))
    products = with_ones(traits.scores)
    return [
        MixedModel(tuple(of_reward), visitors, products, places, bool(reward.min() >= 0.0))
        for of_reward, reward in zip(parts, rewards, strict=True)
    ]


def _visitors(features: FloatArray, n_products: int) -> tuple[Traits, IntArray]:
    """Return how visitors are described, and the block of each of the columns."""
    if n_products * (1.0 + features.shape[1]) ** 3 > MOST_WORK:
        traits = find_traits(features)
        return traits, np.arange(traits.weights.shape[1])
    scaling = scale_blocks(features)
    return Traits(features, scaling.centre, np.diag(scaling.scale)), scaling.blocks


def _fit_later_reward(
    columns: FloatArray,
    actions: IntArray,
    objective_and_reward: tuple[FloatArray, FloatArray],
    design: Design,
    of_objective: list[RewardFactor],
    name: str,
) -> list[RewardFactor]:
    """Return the parts of a reward beside the objective, which it may follow from."""
    objective, reward = objective_and_reward
    comes = objective > 0.0
    # Such as revenue, which comes with a click alone.
    is_nested = of_objective[0].family == LOGISTIC and has_two_parts(reward) and not (reward[~comes] != 0.0).any()
    if not is_nested or comes.sum() < LEAST_SIZES:
        return _fit_parts(columns, actions, reward, design, name)
    return [of_objective[0], *_fit_parts(columns[comes], actions[comes], reward[comes], design, name)]


def _fit_parts(
    columns: FloatArray, actions: IntArray, rewards: FloatArray, design: Design, name: str
) -> list[RewardFactor]:
    """Return the factors of a reward: its probability and its size, or its mean alone."""
    if not has_two_parts(rewards):
        if rewards.min() == rewards.max():
            return [RewardFactor(NORMAL, float(rewards.mean()))]
        return [_amounts(NORMAL, columns, actions, rewards, design, name)]
    is_above = rewards > 0.0
    sizes = rewards[is_above]
    parts = []
    if not is_above.all():
        rows = (columns, actions, is_above.astype(float))
        clicks = fit_glm(Response.CLICKS, *rows, design, rounds=ROUNDS_OF_CLICKS)
        parts.append(RewardFactor(LOGISTIC, model=clicks, stream=f"{name} comes"))
    if len(sizes) < LEAST_SIZES or np.log(sizes).std() < 1e-9:
        return [*parts, RewardFactor(NORMAL, float(sizes.mean()))]
    return [*parts, _amounts(LOG_NORMAL, columns[is_above], actions[is_above], np.log(sizes), design, name)]


def _amounts(
    family: str, columns: FloatArray, actions: IntArray, amounts: FloatArray, design: Design, name: str
) -> RewardFactor:
    model = fit_glm(Response.AMOUNTS, columns, actions, amounts, design, rounds=ROUNDS_OF_AMOUNTS)
    return RewardFactor(family, model=model, stream=f"{name} size")
