"""Policies that find their candidates themselves, judged over a log's whole catalogue by what else it could show."""

import numpy as np

from zoosim.core.blame import blamed
from zoosim.core.blocks import block_any
from zoosim.core.distributions import Distributions
from zoosim.core.errors import PolicyError
from zoosim.core.types import POOL, BoolArray, Context, Distribution, FloatArray, IntArray, Progress, frozen
from zoosim.logs.log import Log
from zoosim.off_policy.targets.products import PolicyTarget, row_number
from zoosim.policies.base import Policy
from zoosim.policies.requests import SUM_TOLERANCE, checked_distribution


class RetrievingTarget(PolicyTarget):
    """A policy that is asked about all products of the log, whose candidates were found by something else.

    Weights are its probabilities by the log's own from wherever candidates may have come (`Log.marginals`), a mixture
    over the log's sources: what multiple importance sampling calls the balance heuristic (Veach & Guibas 1995). The
    policy chooses among what could be shown (`Log.could_be_shown`), where the log does not say what among all products.
    Where no source of the log is drawn from all products, what the policy shows beside a row's candidates is `missed`.
    """

    whole = False

    def __init__(self, policy: Policy, log: Log, progress: Progress = lambda line: None) -> None:
        super().__init__(policy, log, progress)
        sources = log.candidate_sources
        comes_by_chance = sources is not None and block_any(lambda share: share < 1.0, sources.propensities)
        if comes_by_chance and log.marginals is None:
            raise PolicyError(
                "looks at other candidates than the log's, which come from several sources and has no "
                "marginal_propensity to weigh it by; log it, or judge by the log's candidates alone"
            )
        reaches_any = sources is not None and any(name == POOL for name, _ in sources.names)
        self._may_miss = not reaches_any and not log.candidates.are_lacking
        self._products = frozen(np.array(log.products))
        self._everything = frozen(np.ones(log.n_actions, bool))
        # Choices that could not be shown, rows that do not say what could be, and rows.
        self.counts = np.zeros(3)

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
        missed, _, n_rows = self.counts
        return float(missed / max(n_rows, 1.0))

    @property
    def notes(self) -> tuple[str, ...]:
        """A line where it chose among products of which some could perhaps not be shown."""
        _, n_unknown, n_rows = self.counts
        if not n_unknown:
            return ()
        share = f"{100 * n_unknown / n_rows:.3g}%"
        asked = f"in {share} of the rows it chose among all {len(self._everything):,} products"
        return (f"{asked}: the log does not say which could be shown",)

    def distributions(self, log: Log, start: int, stop: int) -> Distributions:
        """Return the probability of each row's action; of the others, what is missed is summed up."""
        chances = np.empty(stop - start)
        lists = log.candidate_lists(start, stop)
        for row in range(start, stop):
            available = self._available(log, row)
            products, probabilities, spread = self._answer(log, row, available)
            even = spread / available.sum()
            chances[row - start] = probabilities[products == log.actions[row]].sum() + even
            if self._may_miss:
                listed = lists.of(row - start)
                within = np.isin(products, listed)
                self.counts[0] += 1.0 - probabilities[within].sum() - even * len(listed)
            self.counts[2] += 1.0
            self._n_judged += 1
            self._countdown.report(self._n_judged)
        places = np.arange(stop - start)
        return Distributions.over(log.actions[start:stop], places, np.ones(stop - start, np.int64), chances)

    def _available(self, log: Log, row: int) -> BoolArray:
        """Return what it may choose in a row; the same array where that is everything, by which policies know it."""
        could_be_shown = log.could_be_shown(row)
        self.counts[1] += could_be_shown is None
        if could_be_shown is None or could_be_shown.all():
            return self._everything
        return frozen(could_be_shown)

    def _answer(self, log: Log, row: int, available: BoolArray) -> tuple[IntArray, FloatArray, float]:
        """Return the products that are likelier than others in a row `(m,)`, by how much `(m,)`, and what all share."""
        user: FloatArray = np.array(log.features[row])
        context = Context(
            user_id=-1 if log.user_ids is None else int(log.user_ids[row]),
            user=frozen(user),
            product_ids=log.product_ids,
            products=self._products,
            available=available,
        )
        with blamed(f"row {row_number(log, row)}: "):
            answer = self.policy.propensities(context)
            if not isinstance(answer, Distribution):
                answer = Distribution(log.product_ids, answer, 0.0)
            products, probabilities = checked_distribution(answer, log.product_ids)
            _check_sums(products, probabilities, answer.spread, available)
        return products, probabilities, answer.spread


def _check_sums(products: IntArray, probabilities: FloatArray, spread: float, available: BoolArray) -> None:
    """Refuse what is no distribution over products that could be shown: `PolicyError`."""
    # Not `< 0`, which is false of NaN.
    if not (probabilities >= 0.0).all() or not spread >= 0.0:
        raise PolicyError("gives a probability below 0, or none, expected 0 to 1")
    total = probabilities.sum() + spread
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise PolicyError(f"probabilities add up to {total:.9g}, expected 1")
    outside = products[(probabilities > 0.0) & ~available[products]]
    if len(outside):
        raise PolicyError(f"gives action {outside[0]} a probability, which could not be shown")
