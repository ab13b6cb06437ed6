"""Policies that find their candidates themselves, judged over a log's whole catalogue by what else it could show."""

import numpy as np

from zoosim.core.distributions import Distributions
from zoosim.core.errors import PolicyError
from zoosim.core.types import POOL, BoolArray, Context, Distribution, FloatArray, IntArray, Progress, frozen
from zoosim.logs.log import Log
from zoosim.logs.sources import REQUEST
from zoosim.off_policy.targets.products import PolicyTarget
from zoosim.policies.base import Policy
from zoosim.policies.requests import places_among


class RetrievingTarget(PolicyTarget):
    """A policy that is asked about all products of the log, whose candidates were found by something else.

    Weights are its probabilities by the log's own from wherever candidates may have come (`Log.marginals`), a mixture
    over the log's sources: what multiple importance sampling calls the balance heuristic (Veach & Guibas 1995). In rows
    whose request named the candidates it chooses among these. Where
    no source of the log is drawn from all products, what the policy shows beside a row's candidates is `missed`.
    """

    whole = False

    def __init__(self, policy: Policy, log: Log, progress: Progress = lambda line: None) -> None:
        super().__init__(policy, log, progress)
        sources = log.candidate_sources
        if sources is not None and log.marginals is None and (sources.propensities < 1.0).any():
            raise PolicyError(
                "looks at other candidates than the log's, which come from several sources and has no "
                "marginal_propensity to weigh it by; log it, or judge by the log's candidates alone"
            )
        self._shows_any = sources is not None and any(name == POOL for name, _ in sources.names)
        named = () if sources is None else sources.names
        self._of_request = np.array([name == REQUEST for name, _ in named], bool)
        self._products = frozen(np.array(log.products))
        self._available = frozen(np.ones(log.n_actions, bool))
        self._missed = 0.0
        self._n_asked = 0

    @property
    def answers_any(self) -> bool:
        """False: what it would show others lies beside what other policies are compared on."""
        return False

    def logged(self, log: Log) -> FloatArray:
        """Return the log's probabilities of its actions, wherever their candidates may have come from `(n,)`."""
        return log.propensities if log.marginals is None else log.marginals

    @property
    def missed(self) -> float:
        """The share of its choices that could not be shown in the rows that it was asked about."""
        return self._missed / max(self._n_asked, 1)

    def distributions(self, log: Log, start: int, stop: int) -> Distributions:
        """Return the probability of each row's action; of the others, what is missed is summed up."""
        chances = np.empty(stop - start)
        lists = log.candidate_lists(start, stop)
        for row in range(start, stop):
            listed = lists.of(row - start)
            available = self._available
            if log.candidates.are_lacking and len(listed):
                available = frozen(np.isin(np.arange(log.n_actions), listed, invert=True))
            elif not log.candidates.are_lacking and self._is_of_request(log, row):
                available = frozen(np.isin(np.arange(log.n_actions), listed))
            answer = self._answer(log, row, available)
            products = places_among(log.product_ids, answer.ids)
            even = answer.spread / available.sum()
            chances[row - start] = answer.probabilities[products == log.actions[row]].sum() + even
            if log.candidates.are_lacking:
                within = (products >= 0) & available[products]
                self._missed += 1.0 - answer.probabilities[within].sum() - answer.spread
            elif not self._shows_any:
                within = (products >= 0) & np.isin(products, listed)
                self._missed += 1.0 - answer.probabilities[within].sum() - even * len(listed)
            self._n_asked += 1
            self._countdown.report(self._n_asked)
        places = np.arange(stop - start)
        return Distributions.over(log.actions[start:stop], places, np.ones(stop - start, np.int64), chances)

    def _is_of_request(self, log: Log, row: int) -> bool:
        """Return whether a row's request named the candidates, so that nothing else could be shown."""
        sources = log.candidate_sources
        return sources is not None and bool(self._of_request[sources.source[row]])

    def _answer(self, log: Log, row: int, available: BoolArray) -> Distribution:
        user: FloatArray = np.array(log.features[row])
        ids: IntArray = log.product_ids
        context = Context(
            user_id=-1 if log.user_ids is None else int(log.user_ids[row]),
            user=frozen(user),
            product_ids=ids,
            products=self._products,
            available=available,
        )
        answer: Distribution = self.policy.propensities(context)  # type: ignore[assignment]
        return answer
