"""Evaluate policies on logs of visitors who come back: what a new one brings from the first decision to the last."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from zoosim.core.action_space import PRODUCTS
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.statistics import t_quantile
from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.logs.log import Log
from zoosim.off_policy.actions.base import ActionSpaceEvaluator, Estimated, PolicyEvaluation, VisitWeights
from zoosim.off_policy.actions.product_weights import WeightsAndPredictions, weigh_and_predict
from zoosim.off_policy.diagnostics import WeightFigures, error_figures
from zoosim.off_policy.estimators import lives
from zoosim.off_policy.estimators.lives import LifeRows, final_weights, life_rows, life_weights
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.intervals.clusters import Clusters, group_sums, standard_error
from zoosim.off_policy.life_verdict import LifeFigures, judge_life, life_figures
from zoosim.off_policy.models.life_values import Choices, LinearValues, Predictions, marginalised
from zoosim.off_policy.models.mixed_horizons import magic
from zoosim.off_policy.models.network_values import network_terms
from zoosim.off_policy.models.visitor_values import VisitorValues, ask_in_states, learn_visitors
from zoosim.off_policy.targets.products import Target, distinct_contexts, make_target
from zoosim.off_policy.verdict import Verdict
from zoosim.policies.model import Model

FITTED_Q = "fqe"
NETWORK = "fqe-network"
MODELLED = "model"
MARGINALISED = "mis"
MIXED = "magic"
BY_WEIGHTS = {
    "trajectory-is": lives.trajectory_is,
    "per-decision": lives.per_decision,
    "weighted-per-decision": lives.weighted_per_decision,
}
WITH_VALUES = {"dr": lives.doubly_robust, "wdr": lives.weighted_doubly_robust}
BY_VALUES = (*WITH_VALUES, MIXED, FITTED_Q, NETWORK)
ESTIMATORS = (*BY_WEIGHTS, MARGINALISED, *BY_VALUES, MODELLED)
MODELS = (FITTED_Q, NETWORK, MODELLED)
"""Those that are compared with an estimate by weights, where the others are compared with that of `fqe`."""

DEFAULT = ("weighted-per-decision", MARGINALISED, "wdr", FITTED_Q)

MOST_FEATURES = 600
"""The most products of a visitor's and a product's features, for which linear systems are solved."""

LEAST_RECURRENCE = 5.0
"""Decisions for each different state of visitors, at least, so that a table of states tells of moves between them."""


@dataclass(frozen=True)
class VisitorLog(Log):
    """A log of one row per visitor: the first decision, with what the visitor brought in all as its reward.

    Args:
        decisions: The log of all decisions.
        life: The order in which they stand in visitors' lives.
    """

    decisions: Log | None = None
    life: LifeRows | None = None

    @property
    def all_rows(self) -> tuple[Log, LifeRows]:
        """Return the log of all decisions, and the order of these."""
        assert self.decisions is not None
        assert self.life is not None
        return self.decisions, self.life


def visitors_of(log: Log, gamma: float) -> VisitorLog:
    """Return the visitors of a log of lives; raises `ConfigError` or `DataError`."""
    if isinstance(gamma, bool) or not isinstance(gamma, int | float | np.floating) or not 0.0 < gamma <= 1.0:
        raise ConfigError(f"gamma: got {gamma!r}, expected above 0 and at most 1, what the next reward counts for")
    if log.action_space != PRODUCTS:
        raise DataError(
            f"{log.source}: holds visitors who come back to {log.action_space}, and only what single products bring "
            "later can be estimated; drop the column visitor to have each decision judged by its own reward"
        )
    assert log.lives is not None
    rows = life_rows(log.lives, gamma)
    first = rows.order[rows.starts[:-1]]
    late = first[log.lives.visit[first] > 0]
    if len(late):
        row = int(log.row_numbers[late[0]])
        raise DataError(
            f"{log.source}: row {row} is the first of its visitor and of visit {log.lives.visit[late[0]]}, expected "
            "visit 0; leave out visitors whose first visits the log does not hold"
        )

    def returns(rewards: FloatArray) -> FloatArray:
        return rows.by_visitor(rows.discount * rows.scale * rewards[rows.order])

    taken = log.rows(first)
    fields = {name: getattr(taken, name) for name in Log.__dataclass_fields__}
    fields["rewards"] = returns(log.rewards)
    fields["rewards_by_name"] = {name: returns(values) for name, values in log.rewards_by_name.items()}
    return VisitorLog(**fields, decisions=log, life=rows)


class LifeEvaluator(ActionSpaceEvaluator):
    """Evaluates policies that choose a product at each decision of visitors' lives."""

    estimators = ESTIMATORS
    default = DEFAULT
    unit = "visitors"
    takes_models = False
    can_spread = True
    checks_rows = False

    @classmethod
    def units(cls, log: Log, gamma: float) -> Log:
        """Return the visitors of a log."""
        return visitors_of(log, gamma)

    def prepare(self, given: Any, progress: Progress) -> Callable[[], PolicyEvaluation]:
        """Check a policy."""
        if isinstance(given, Model):
            raise PolicyError(
                "is a model that learned from single decisions; judge a policy that was saved, or a column"
            )
        assert isinstance(self.log, VisitorLog)
        decisions, _ = self.log.all_rows
        return partial(self._evaluate, make_target(given, decisions, progress))

    def _evaluate(self, target: Target) -> PolicyEvaluation:
        assert isinstance(self.log, VisitorLog)
        decisions, rows = self.log.all_rows
        products = _product_features(decisions)
        shown = products if target.whole else None
        asked = weigh_and_predict(decisions, target, [], shown=shown, spread=self.spread)[0]
        model = self._model(products, asked, rows) if target.whole else None
        states = None
        if MARGINALISED in self.wanted and len(decisions) >= LEAST_RECURRENCE * (int(self._states.max()) + 1):
            states = self._states[rows.order]
        evaluation = LifeEvaluation(self.log, self.clusters, asked.weights[rows.order], model, states, self.wanted)
        if MODELLED in self.wanted and model is not None:
            try:
                evaluation.add(MODELLED, self._modelled(target, products, model))
            except (DataError, PolicyError) as error:
                evaluation.notes += (f"{MODELLED} is left out: {error}",)
        return evaluation

    def _modelled(self, target: Target, products: FloatArray, linear: LinearValues) -> Terms:
        """Return the terms of a policy's value in the model of visitors; raises `DataError` or `PolicyError`."""
        assert isinstance(self.log, VisitorLog)
        decisions, _ = self.log.all_rows
        values, kind_of = self._visitor_values
        policy = ask_in_states(target, decisions, values.states, kind_of)
        of_kinds = np.empty((policy.shape[1], products.shape[1]))
        of_kinds[kind_of] = products
        # Who knows more of visitors than their features, or does not look at them, answers otherwise at decisions.
        if not np.allclose((policy @ of_kinds)[values.of_decisions], linear.choices.meant, atol=1e-6):
            raise PolicyError("the policy's probabilities do not follow from visitors' features")
        return values.terms(policy)

    @cached_property
    def _visitor_values(self) -> tuple[VisitorValues, IntArray]:
        assert isinstance(self.log, VisitorLog)
        return learn_visitors(*self.log.all_rows)

    def _model(self, products: FloatArray, asked: WeightsAndPredictions, rows: LifeRows) -> LinearValues:
        assert isinstance(self.log, VisitorLog)
        assert asked.mean_shown is not None
        decisions, _ = self.log.all_rows
        users = np.column_stack([np.ones(len(decisions)), decisions.features])
        choices = Choices(
            users[rows.order], products[decisions.actions[rows.order]], np.asarray(asked.mean_shown[rows.order])
        )
        # Users, not visitors, are independent of one another.
        halves = np.repeat(self.clusters.group % 2, np.diff(rows.starts))
        return LinearValues(rows, choices, halves)

    @cached_property
    def _states(self) -> IntArray:
        """The number of the state that each row of the log is in `(n,)`: rows are alike whose features are."""
        assert isinstance(self.log, VisitorLog)
        decisions, _ = self.log.all_rows
        return distinct_contexts(decisions, 0, len(decisions), False)[1]


def _product_features(log: Log) -> FloatArray:
    """Return features of the products `(K, d_p)`, 1 among them: their own, or one for each where there are none."""
    features = np.eye(log.n_actions) if not log.products.shape[1] else log.products
    with_one = np.column_stack([np.ones(log.n_actions), features])
    width = with_one.shape[1] * (1 + log.features.shape[1])
    if width > MOST_FEATURES:
        raise DataError(
            f"{log.source}: {log.features.shape[1]:,} features of visitors by {features.shape[1]:,} of products are "
            f"{width:,} products of the two, expected at most {MOST_FEATURES}; describe both by fewer"
        )
    return with_one


class LifeEvaluation(PolicyEvaluation):
    """One policy on a log of lives, by one reward.

    Args:
        log: The visitors.
        clusters: Which of them are one user.
        ratios: Target over logging probability of each decision's action, in the order of lives `(n,)`.
        model: Values from a decision on; None where the policy's probabilities of other products are not known.
        states: The number of each decision's state, in the order of lives `(n,)`; None where states hardly recur.
        wanted: The names of the estimators that are asked for.
    """

    known = "the probabilities of logged actions, and visitors who are hardly ever in the same state"

    def __init__(
        self,
        log: VisitorLog,
        clusters: Clusters,
        ratios: FloatArray,
        model: LinearValues | None,
        states: IntArray | None,
        wanted: Sequence[str],
    ) -> None:
        known = [
            *BY_WEIGHTS,
            *([MARGINALISED] if states is not None else []),
            *(BY_VALUES if model is not None else []),
        ]
        decisions, self._rows = log.all_rows
        self._rewards = decisions.rewards[self._rows.order]
        self._ratios = ratios
        self._weights = life_weights(self._rows, ratios)
        self._model = model
        self._states = states
        self._terms = dict[str, Terms]()
        super().__init__(log, clusters, known)
        figures = self._figures
        notes = [figures.horizon_sentence(self._first_decisions(figures.horizon))]
        if MARGINALISED in wanted and states is None:
            notes.append(f"{MARGINALISED} is left out: visitors are hardly ever in the same state")
        self.notes = tuple(notes)

    def for_reward(self, name: str) -> "LifeEvaluation":
        """Return the evaluation by one of the log's other rewards."""
        decisions, rows = self._visitors.all_rows
        evaluation = copy(self)
        evaluation.log = self.log.for_reward(name)
        evaluation._rewards = decisions.rewards_by_name[name][rows.order]
        evaluation._terms = {}
        evaluation.estimators = tuple(estimator for estimator in self.estimators if estimator != MODELLED)
        evaluation.__dict__.pop("_predictions", None)
        return evaluation

    def add(self, estimator: str, terms: Terms) -> None:
        """Add the terms of an estimator of the log's objective, and of no other reward."""
        self.estimators += (estimator,)
        self._terms[estimator] = terms

    @property
    def _visitors(self) -> VisitorLog:
        assert isinstance(self.log, VisitorLog)
        return self.log

    @cached_property
    def _figures(self) -> LifeFigures:
        return life_figures(self._rows, self._weights)

    @cached_property
    def _predictions(self) -> Predictions:
        assert self._model is not None
        return self._model.held_out(self._rewards)

    def weights(self, estimator: str) -> VisitWeights:
        """Return the weights of visitors' whole lives; figures are those of the decision where they are worst."""
        return _LifeWeights(final_weights(self._rows, self._weights), self.clusters, self._figures)

    def terms(self, estimator: str) -> Terms:
        """Return the terms of an estimate, one per visitor."""
        if estimator not in self._terms:  # others are compared with them
            self._terms[estimator] = self._computed(estimator)
        return self._terms[estimator]

    def _computed(self, estimator: str) -> Terms:
        if estimator in BY_WEIGHTS:
            return BY_WEIGHTS[estimator](self._rows, self._weights, self._rewards)
        if estimator == MARGINALISED:
            assert self._states is not None
            return marginalised(self._rows, self._states, self._ratios, self._rewards)
        if estimator == FITTED_Q:
            assert self._model is not None
            return self._model.terms(self._rewards)
        if estimator == NETWORK:
            assert self._model is not None
            return network_terms(self._model, self._rewards)
        if estimator == MIXED:
            assert self._model is not None
            return magic(self._rows, self._weights, self._rewards, self._model)
        return WITH_VALUES[estimator](self._rows, self._weights, self._rewards, *self._predictions)

    def verdict(self, estimator: str, estimated: Estimated) -> Verdict:
        """Judge an estimate by the weights of lives, and by an estimate of the other family."""
        apart = None
        if self._model is not None:
            other = self.terms("weighted-per-decision" if estimator in MODELS else FITTED_Q)
            sums = group_sums(self.clusters, other)
            error = np.hypot(standard_error(sums), standard_error(estimated.sums))
            apart = float(abs(sums.value - estimated.sums.value) / error) if error > 0.0 else 0.0
        errors = error_figures(estimated.sums, None, estimated.drift)
        n_clusters = self.clusters.n_clusters
        return judge_life(self._figures, errors, estimated.interval, n_clusters, apart, estimated.min_groups)

    def _first_decisions(self, count: int) -> tuple[float, float]:
        """Return what a new visitor brings in the first decisions, and half the width of its 95% interval."""
        rewards = np.where(self._rows.step < count, self._rewards, 0.0)
        sums = group_sums(self.clusters, lives.weighted_per_decision(self._rows, self._weights, rewards))
        return sums.value, t_quantile(max(len(sums.sizes) - 1, 1), 0.975) * standard_error(sums)


class _LifeWeights(VisitWeights):
    """Weights of whole lives `(V,)`, with the least effective size and the largest share of any decision."""

    def __init__(self, values: FloatArray, clusters: Clusters, life: LifeFigures) -> None:
        super().__init__(values, clusters)
        self._life = life

    @cached_property
    def figures(self) -> WeightFigures:
        """The figures of the weights."""
        return super().figures._replace(ess=self._life.least_ess, max_share=self._life.largest_share)
