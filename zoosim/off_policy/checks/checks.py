"""All checks of a log of products or rankings: of its rows, of a policy's weights, and of an estimate."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from zoosim.core.action_space import PRODUCTS
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.checks.balance import check_actions, check_balance, imbalances
from zoosim.off_policy.checks.bookings import check_bookings
from zoosim.off_policy.checks.choices import ChoiceTerms
from zoosim.off_policy.checks.clocks import check_clocks
from zoosim.off_policy.checks.copies import check_copies
from zoosim.off_policy.checks.crowds import check_crowds
from zoosim.off_policy.checks.dependence import check_dependence
from zoosim.off_policy.checks.leaks import check_features, check_reward_in_hand
from zoosim.off_policy.checks.order import (
    ActionChanges,
    RewardDrift,
    action_changes,
    check_action_changes,
    check_change,
    check_shift,
    check_visitor_change,
    reward_change,
    visitor_change,
)
from zoosim.off_policy.checks.probe import Probe, runs_of_rows
from zoosim.off_policy.checks.returns import check_list_returns, check_returns
from zoosim.off_policy.checks.seen_rows import check_seen_rows, most_terms
from zoosim.off_policy.checks.selection import check_selection
from zoosim.off_policy.checks.tails import check_cut, check_tail
from zoosim.off_policy.intervals.clusters import Clusters
from zoosim.off_policy.verdict import TRUST, Verdict, VerdictReasons

FEWEST_ROWS = 100
"""Rows from which on a log can tell anything by its order, its neighbours or its copies."""

MOST_ROWS, RUNS = 200_000, 20
"""Rows that are looked at; of larger logs, as many runs of neighbouring rows, spread evenly."""

MOST_SCALED = 100.0
"""By how much rewards of a position may be scaled to be as large as those of others."""

MOST_GROUPED = 40_000
"""Rows of which users and other groups are summed up, chosen likewise."""


class LogChecks:
    """Checks for what speaks against any estimate by one reward of a log.

    Args:
        log: A log of single products or of rankings, which count by their top products.
        clusters: Which of its visits belong together.
        are_estimated: Whether the log's propensities were estimated, so that they fit by construction.
    """

    def __init__(self, log: Log, clusters: Clusters, are_estimated: bool) -> None:
        self.has_rankings = log.propensities.ndim > 1
        user_share = clusters.n_clusters / len(log)
        length = log.n_positions
        self.shown_rows = runs_of_rows(len(log), RUNS, MOST_GROUPED // length)
        self._shown_rankings = None
        if self.has_rankings:
            self._shown_rankings = _probe_of(log, clusters, user_share, self.shown_rows)
            log = _top_products(log)
        self.rows = runs_of_rows(len(log), RUNS, MOST_ROWS)
        self.probe = _probe_of(log, clusters, user_share, self.rows)
        self.grouped_rows = runs_of_rows(len(log), RUNS, MOST_GROUPED)
        self.grouped = self.probe
        if len(self.grouped_rows) < len(self.rows):
            self.grouped = _probe_of(log, clusters, user_share, self.grouped_rows)
        self.are_estimated = are_estimated

    @property
    def is_telling(self) -> bool:
        """True if there are enough rows for the checks."""
        return len(self.probe) >= FEWEST_ROWS

    @cached_property
    def copies(self) -> Verdict:
        """The verdict on rows that are there more than once."""
        findings = VerdictReasons()
        if self.is_telling:
            check_copies(findings, self.probe)
        return findings.verdict()

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict on the log's rewards, features and propensities."""
        findings = VerdictReasons()
        if self.is_telling:
            check_shift(findings, self.probe)
            check_features(findings, self.probe)
            check_tail(findings, self.probe.log.rewards, self.probe.log.row_numbers)
            check_cut(findings, self.probe)
            check_returns(findings, self.grouped, self.choices)
            if self._shown_rankings is not None:
                check_list_returns(findings, self._shown_rankings.log)
            check_clocks(findings, self.grouped, self.choices)
            check_crowds(findings, self.probe)
            if self.copies.word == TRUST:  # else users' rewards are alike for that reason alone
                check_bookings(findings, self.grouped)
            if not self.are_estimated:
                check_actions(findings, self.probe)
                check_selection(findings, self.probe)
                check_reward_in_hand(findings, self.probe)
        return findings.verdict()

    @cached_property
    def choices(self) -> ChoiceTerms:
        """The terms that tell the log's choices apart."""
        return ChoiceTerms(self.grouped, most_terms(len(self.grouped)))

    @cached_property
    def shown(self) -> Probe:
        """The products of all positions of a log of rankings."""
        assert self._shown_rankings is not None
        return _probe_of_positions(self._shown_rankings)

    @cached_property
    def shown_choices(self) -> ChoiceTerms:
        """The terms that tell those products apart."""
        return ChoiceTerms(self.shown, most_terms(len(self.shown)))

    @cached_property
    def change(self) -> RewardDrift | None:
        """The change of rewards over the log; None without one."""
        return reward_change(self.probe)

    @cached_property
    def action_changes(self) -> ActionChanges:
        """The change of each action's rewards at the log's end."""
        return action_changes(self.probe)


def _probe_of(log: Log, clusters: Clusters, user_share: float, rows: IntArray) -> Probe:
    """Return some rows of a log under examination."""
    if len(rows) < len(log) or log.is_streamed:
        log = log.rows(rows)
        group = clusters.group[rows]
        clusters = clusters._replace(group=group, sizes=np.bincount(group).astype(np.float64))
    return Probe(log, clusters, user_share)


def _top_products(log: Log) -> Log:
    """Return a log of rankings as one of the products at their tops, each with what its whole visit earned."""
    return replace(
        log,
        actions=log.actions[:, 0],
        propensities=log.propensities[:, 0],
        rewards=log.visit_rewards,
        positions=np.zeros(len(log), np.int64),
        columns={},
        rewards_by_name={},
        action_space=PRODUCTS,
        marginals=None,
    )


def _probe_of_positions(rankings: Probe) -> Probe:
    """Return the probe of a log of rankings as one of single products: each product that a ranking shows is a row.

    Rewards are scaled to the same mean size at each position, as far as there are enough.
    """
    log = rankings.log
    length = log.actions.shape[1]
    rows = np.repeat(np.arange(len(log)), length)
    sizes = np.abs(log.rewards).mean(axis=0)
    scale = np.minimum(sizes.max() / np.maximum(sizes, 1e-300), MOST_SCALED)
    products = replace(
        _top_products(log).rows(rows),
        actions=log.actions.ravel(),
        propensities=log.propensities.ravel(),
        rewards=(log.rewards * scale).ravel(),
        positions=np.tile(np.arange(length), len(log)),
    )
    clusters = rankings.clusters
    clusters = clusters._replace(group=clusters.group[rows], sizes=clusters.sizes * length)
    return Probe(products, clusters, rankings.user_share)


def _shares_of_positions(chances: FloatArray) -> FloatArray:
    """Return a policy's share of each product of rankings, by its chance given those above: `(n, L)`."""
    shares = np.zeros_like(chances)
    left = np.ones(len(chances))
    for position in range(chances.shape[1]):
        shares[:, position] = chances[:, position] * left
        left = np.maximum(left - shares[:, position], 0.0)
    return shares


class PolicyChecks:
    """Checks for what speaks against any estimate of one policy.

    Args:
        log: What is known of the log.
        weights: The policy's importance weights `(n,)`.
        shown_weights: Those of each product given those above it in a ranking `(n, L)`; the same for single products.
    """

    def __init__(self, log: LogChecks, weights: Any, shown_weights: Any) -> None:
        self._first_weights = shown_weights[log.grouped_rows].reshape(len(log.grouped_rows), -1)[:, 0]
        self._shown_weights = shown_weights[log.shown_rows]
        self.log = log
        self.weights = weights[log.rows]
        self.grouped_weights = weights[log.grouped_rows]

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict on the policy's probabilities of the logged actions."""
        findings = VerdictReasons()
        if not self.log.is_telling:
            return findings.verdict()
        chances = self._first_weights * self.log.grouped.log.propensities
        check_seen_rows(findings, self.log.grouped, self.log.choices, chances)
        if self.log.has_rankings and findings.verdict().word == TRUST:
            shown = self.log.shown
            chances = self._shown_weights * shown.log.propensities.reshape(self._shown_weights.shape)
            check_seen_rows(findings, shown, self.log.shown_choices, _shares_of_positions(chances).ravel())
        return findings.verdict()

    @cached_property
    def change(self) -> RewardDrift | None:
        """The change of weighted rewards over the log; without one, that of rewards as they are."""
        return reward_change(self.log.probe, self.weights) or self.log.change

    @cached_property
    def visitor_change(self) -> RewardDrift | None:
        """The change of weighted rewards with who came; None without one."""
        return visitor_change(self.log.probe, self.weights)

    @cached_property
    def imbalances(self) -> list[tuple[str, float]]:
        """The columns that the weights shift, and by how much."""
        return imbalances(self.log.probe, self.weights)

    def estimate_verdict(self, influence_of: Callable[[IntArray], FloatArray], interval: Interval) -> Verdict:
        """Return the verdict on an estimate by a function that gives the influence of rows, and its interval."""
        findings = VerdictReasons()
        probe = self.log.probe
        grouped_influence = influence_of(self.log.grouped_rows)
        influence = influence_of(self.log.rows)
        if self.log.is_telling:
            if not self.log.are_estimated and not self.log.has_rankings:  # whose weights are means over positions
                check_balance(findings, probe, self.imbalances, interval)
            if self.change is not None:
                check_change(findings, self.change, probe, influence, interval)
            if self.visitor_change is not None:
                check_visitor_change(findings, self.visitor_change, probe, influence, interval)
            if self.log.copies.word == TRUST:  # else neighbours go together for that reason alone
                check_dependence(findings, self.log.grouped, grouped_influence, self.grouped_weights)
            check_action_changes(findings, probe, self.log.action_changes, self.weights, interval)
        return findings.verdict()
