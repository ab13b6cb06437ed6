"""Estimate the probabilities with which a log's products were shown, where the log does not say.

Every row's probability comes from a model that has not seen its user (cross-fitting, Chernozhukov et al. 2018). So
estimated, probabilities add an error of their own to an estimate of a policy's value: to first order, the slope of the
value along the model's parameters times these parameters' error. `error_terms` spreads it over the rows.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import FOLDS
from zoosim.off_policy.intervals.clusters import Clusters
from zoosim.off_policy.propensities.multinomial import (
    Contexts,
    Counts,
    Multinomial,
    ObservedChoices,
    Shrinkage,
    count_choices,
    fit_multinomial,
    loss_of,
    scores_along,
    solve_information,
    weighted_slope,
)

MULTINOMIAL = "multinomial"
PROPENSITY_MODELS = (MULTINOMIAL,)

STRENGTHS = (3_000.0, 1_000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
"""Strengths of the shrinkage of weights, in rows of the log; tried in turn while unseen rows get likelier."""

CALIBRATION = (0.25, 4.0)
"""Between which factors the weights of features may be scaled for unseen rows to be likeliest."""

MOST_CROSSED = 100
"""Products of two features that are tried beside the features themselves; of more, none."""

LEAST = 1e-12
"""The smallest probability that is taken for one: what is less likely would have been shown by no chance."""

MOST_LOOKED_AT = 1_000
"""Rows by which a feature of two values is known."""

CONFIDENT = 0.9
"""From which probability on a model says that it knows which product comes."""

MOST_FIT_CELLS = 20_000_000
MOST_INFORMATION_CELLS = 500_000
"""Rows times products that a model is fitted to, and that its information is summed over; of more, a part is taken."""

BIN_EDGES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


class CalibrationBin(NamedTuple):
    """Counts of products with an estimated probability of `low` to `high`: as `expected` by it, and as `shown`."""

    low: float
    high: float
    expected: float
    shown: int


class PropensityFigures(NamedTuple):
    """Figures of the model of probabilities, and of how well it predicts rows of users that it has not seen.

    `shrinkage` is how many rows that of the weights counts for; `calibration` the factor that weights of features were
    scaled by; `crossed` says that products of two features are among these. The log chose as if among `choices`
    products with equal chances, exp of the mean -log probability, and by the products' shares alone among
    `choices_by_share`. In a `predicted` share of rows the likeliest product was shown. In a `confident` share one had a
    probability of `CONFIDENT` or more; of these, a share of `surprises` showed another. `bins` tell whether
    probabilities hold.
    """

    model: str
    features: int
    crossed: bool
    folds: int
    shrinkage: Shrinkage
    calibration: float
    choices: float
    choices_by_share: float
    predicted: float
    confident: float
    surprises: float
    bins: tuple[CalibrationBin, ...]

    @property
    def plain(self) -> dict[str, Any]:
        """The figures as plain values for JSON."""
        nested = {"shrinkage": self.shrinkage._asdict(), "bins": [each._asdict() for each in self.bins]}
        return self._asdict() | nested

    @property
    def sentence(self) -> str:
        """Say so in words."""
        crossed = " and their products" if self.crossed else ""
        return (
            f"probabilities were estimated from the log: {self.model} by {self.features} features{crossed}, in "
            f"{self.folds} folds of users. On users it has not seen the shop chose as if among {self.choices:.3g} "
            f"products, by their shares alone among {self.choices_by_share:.3g}. The verdict is weak at best: values "
            "are wrong where choices went by something that is not among the features and moves rewards, too"
        )


@dataclass(frozen=True)
class EstimatedPropensities:
    """Probabilities of the logged products `values (n,)`, and the models by `fold (n,)` that they come from."""

    values: FloatArray
    figures: PropensityFigures
    choices: ObservedChoices
    fold: IntArray
    models: tuple[Multinomial, ...]

    def error_terms(self, carried: FloatArray) -> FloatArray:
        """Return what the models' errors add to each row's share in mean(`carried`) `(n,)`, where weights carry it.

        `carried (n,)` are terms in proportion to importance weights, 1 / probability. With slope g of their mean along
        the parameters, Fisher information H and scores s, row i adds -g' H^-1 s_i (Newey & McFadden 1994, section 6);
        of mean 0, so that estimates stay where they are. No row's share rests on its own user's rows.
        """
        shares = np.zeros(len(carried))
        most = MOST_INFORMATION_CELLS // len(self.choices.contexts.traits)
        for fold, model in enumerate(self.models):
            own_rows = np.flatnonzero(self.fold == fold)
            others = np.flatnonzero(self.fold != fold)
            if not len(own_rows) or not carried[others].any():
                continue
            slope = weighted_slope(model, self.choices.rows(others), carried[others])
            part = _part(others, most)
            contexts = self.choices.contexts.rows(part)
            # Information is a sum over visits: that of a part is scaled up to all that the model was fitted to.
            direction = solve_information(model, contexts, slope, scale=len(others) / len(part))
            shares[own_rows] = -scores_along(model, self.choices.rows(own_rows), direction)
        return np.asarray(shares - shares.mean())


def estimate_propensities(
    log: Log, clusters: Clusters, progress: Progress = lambda line: None
) -> EstimatedPropensities:
    """Fit a multinomial model of a log's products by visitors' features, its shrinkage chosen by unseen users."""
    with threadpool_limits(1):  # matrices are small, and with more the last digits depend on how many there are
        return _estimated(log, clusters, progress)


def _estimated(log: Log, clusters: Clusters, progress: Progress) -> EstimatedPropensities:
    """Fit, calibrate, and ask about each row the model that has not seen its user."""
    choices = choices_of(log)
    n_plain = choices.contexts.n_plain
    folds = _Folds(choices, clusters.group % FOLDS)
    models, loss_by_share = _best_models(folds, n_plain, progress)
    # The width tells which models won: with products of features, or without.
    width = models[0].own.shape[1]
    folds = folds.narrowed(width)
    choices = choices.narrowed(width)
    factor = float(minimize_scalar(partial(_scaled_loss, models, folds), bounds=CALIBRATION, options={"xatol": 0.02}).x)
    calibrated = tuple(model.scaled(factor) for model in models)
    values = np.empty(len(log))
    likeliest = np.empty(len(log))
    is_predicted = np.empty(len(log), bool)
    for f, model in enumerate(calibrated):
        rows = np.flatnonzero(folds.fold == f)
        for block, contexts in choices.contexts.rows(rows).blocks:
            chances = model.probabilities(contexts)
            of_shown = chances[np.arange(len(chances)), choices.actions[rows[block]]]
            values[rows[block]] = np.maximum(of_shown, LEAST)
            likeliest[rows[block]] = chances.max(axis=1)
            is_predicted[rows[block]] = chances.argmax(axis=1) == choices.actions[rows[block]]
    is_confident = likeliest >= CONFIDENT
    is_surprise = is_confident & ~is_predicted
    figures = PropensityFigures(
        model=MULTINOMIAL,
        features=n_plain - 1,
        crossed=width > n_plain,
        folds=FOLDS,
        shrinkage=models[0].shrinkage,
        calibration=factor,
        choices=float(np.exp(-np.log(values).mean())),
        choices_by_share=float(np.exp(loss_by_share / len(log))),
        predicted=float(is_predicted.mean()),
        confident=float(is_confident.mean()),
        surprises=float(is_surprise.sum() / max(1, is_confident.sum())),
        bins=_bins(calibrated, folds.held_out),
    )
    return EstimatedPropensities(values, figures, choices, folds.fold, calibrated)


def _bins(models: Sequence[Multinomial], held_out: Sequence[Counts]) -> tuple[CalibrationBin, ...]:
    """Compare how often products were shown with how often models say that have not seen these visits."""
    expected, shown = np.zeros((2, len(BIN_EDGES) - 1))
    for model, counts in zip(models, held_out, strict=True):
        visits = np.bincount(counts.context, counts.times, len(counts.contexts.inputs))
        for block, contexts in counts.contexts.blocks:
            pairs = counts.pairs_in(block)
            chances = model.probabilities(contexts)
            of_shown = chances[counts.context[pairs] - block.start, counts.action[pairs]]
            expected += np.histogram(chances, BIN_EDGES, weights=chances * visits[block, None])[0]
            shown += np.histogram(of_shown, BIN_EDGES, weights=counts.times[pairs])[0]
    bins = map(CalibrationBin, BIN_EDGES[:-1], BIN_EDGES[1:], expected.tolist(), shown.astype(int).tolist())
    return tuple(each for each in bins if each.expected >= 0.5 or each.shown)


def choices_of(log: Log) -> ObservedChoices:
    """Return a log's choices.

    Inputs are a 1, the features, and, where these are few, products of two of them and squares, all scaled to variance
    1; those that do not vary are left out.
    """
    features = _scaled(log.features)
    n_features = features.shape[1]
    crossed = np.zeros((len(log), 0))
    n_crossed = n_features * (n_features + 1) // 2
    if n_crossed <= MOST_CROSSED and n_crossed * len(log) <= MOST_FIT_CELLS:
        varied = log.features[:, log.features.std(axis=0) > 0.0]
        first, second = np.triu_indices(n_features)
        is_binary = np.array([len(np.unique(column[:MOST_LOOKED_AT])) < 3 for column in varied.T], bool)
        told_apart = (first != second) | ~is_binary[first]  # the square of a column of two values is the column
        crossed = _scaled(varied[:, first[told_apart]] * varied[:, second[told_apart]])
    inputs = np.ascontiguousarray(np.hstack([np.ones((len(log), 1)), features, crossed]))
    return ObservedChoices(
        Contexts(inputs, log.candidates, log.candidate_set, _traits(log), 1 + n_features), log.actions
    )


def _scaled(columns: FloatArray) -> FloatArray:
    """Return the columns that vary, of mean 0 and variance 1."""
    spread: FloatArray = columns.std(axis=0)
    varied = spread > 0.0
    return np.asarray((columns[:, varied] - columns[:, varied].mean(axis=0)) / spread[varied])


def _traits(log: Log) -> FloatArray:
    """Return what products share: their features and categories, centred, of size 1 on average `(K, p)`."""
    columns = [log.products]
    levels = sorted(set(log.categories))
    # One category for all, or one for each product, says nothing that products' own weights do not.
    if 1 < len(levels) < log.n_actions:
        columns.append(np.equal.outer(log.categories, levels).astype(float))
    traits: FloatArray = np.hstack(columns)
    traits = traits - traits.mean(axis=0)
    size = float((traits**2).sum() / len(traits))
    return traits / np.sqrt(size) if size > 0.0 else traits[:, :0]


class _Folds:
    """Choices counted, of each fold and of all others; of many, a part of these."""

    def __init__(self, choices: ObservedChoices, fold: IntArray) -> None:
        most = MOST_FIT_CELLS // len(choices.contexts.traits)
        parts = [_part(np.flatnonzero(fold != f), most) for f in range(FOLDS)]
        self.fold = fold
        self.width = choices.contexts.inputs.shape[1]
        self.has_traits = choices.contexts.traits.shape[1] > 0
        self.training = [count_choices(choices.rows(rows)) for rows in parts]
        self.held_out = [count_choices(choices.rows(np.flatnonzero(fold == f))) for f in range(FOLDS)]

    def narrowed(self, width: int) -> "_Folds":
        """Return the same with the first inputs alone."""
        narrow = copy(self)
        narrow.training = [counts.narrowed(width) for counts in self.training]
        narrow.held_out = [counts.narrowed(width) for counts in self.held_out]
        return narrow

    def loss(self, models: Sequence[Multinomial]) -> float:
        """Return minus the log-likelihood of each fold by the model that has not seen it."""
        return sum(loss_of(model, counts) for model, counts in zip(models, self.held_out, strict=True))


class _Search(NamedTuple):
    """The models without each fold under the best shrinkage so far, and their loss on the folds' rows."""

    models: Sequence[Multinomial | None]
    shrinkage: Shrinkage
    loss: float


def _best_models(folds: _Folds, n_plain: int, progress: Progress) -> tuple[list[Multinomial], float]:
    """Return the models without each fold under the best shrinkage, and the loss of products' shares alone.

    Products' shares come first, then the weights that they share, then their own: fitted at once, what a trait
    explains would be shrunk for the sake of products' own weights. The first `n_plain` inputs come before all others,
    which are used where unseen rows get likelier by them.
    """
    strongest = STRENGTHS[0]
    search = _Search([None] * FOLDS, Shrinkage(strongest, strongest, strongest, strongest), np.inf)
    search = _along(search, "share", folds.narrowed(1), progress)
    loss_by_share = search.loss
    if n_plain > 1:
        for part in ("shared", "own") if folds.has_traits else ("own",):
            search = _along(search, part, folds.narrowed(n_plain), progress)
    if folds.width > n_plain:
        crossed = _along(search, "crossed", folds, progress)
        search = min(search, crossed, key=lambda each: each.loss)
    return [model for model in search.models if model is not None], loss_by_share


def _along(search: _Search, part: str, folds: _Folds, progress: Progress) -> _Search:
    """Shrink one `part` of the weights less and less, as long as rows that models have not seen get likelier."""
    best = search._replace(loss=np.inf)
    for strength in STRENGTHS:
        shrinkage = search.shrinkage._replace(**{part: strength})
        progress(f"probabilities: shrinkage of {part} weights {strength:g}")
        # From the strongest shrinkage on: each fit starts at the one before, which is near its end.
        starts = zip(folds.training, best.models, strict=True)
        models = [fit_multinomial(counts, shrinkage, start) for counts, start in starts]
        loss = folds.loss(models)
        if loss > best.loss:
            break
        best = _Search(models, shrinkage, loss)
    return best


def _scaled_loss(models: Sequence[Multinomial], folds: _Folds, factor: float) -> float:
    return folds.loss([model.scaled(factor) for model in models])


def _part(rows: IntArray, most: int) -> IntArray:
    """Return all `rows (m,)`, or about `most` of them, evenly spread."""
    return rows[:: max(1, -(-len(rows) // max(1, most)))]
