"""The estimate by which each policy is spoken of, for one reward, and the comparisons between policies that go by it.

Pages, terminal output and sentences all take theirs from here, so that none contradicts another.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoosim.core.statistics import Interval, sign_of
from zoosim.off_policy.compare import LOGGED, Difference, Lift
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.intervals.comparisons import PolicyRank, rank_policies
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WORDS

if TYPE_CHECKING:
    from zoosim.off_policy.results import Evaluation, Result


def policies_of(evaluation: "Evaluation") -> list[str]:
    """List the policies in the order in which they were evaluated."""
    return list(dict.fromkeys(row.policy for row in evaluation.results))


def best_result(evaluation: "Evaluation", policy: str) -> "Result":
    """Return the estimate by which a policy is spoken of: that with the best verdict.

    Of several as good, one that rests on enough rewards to say how much, and of these the usual estimator's.
    """
    usual = _usual_estimator(evaluation)
    rows = [row for row in evaluation.results if row.policy == policy]

    def rank(row: "Result") -> tuple[int, bool, bool]:
        return WORDS.index(row.verdict), not row.is_comparable, row.estimator != usual

    return min(rows, key=rank)


def over_logged(evaluation: "Evaluation", result: "Result") -> Lift | Difference | None:
    """Return how much more an estimate is than what the logged choices earned, as a share of that where there is one.

    The share's interval may end at -100%, where nobody can earn less; where it therefore tells more or less than that
    of the difference, the difference is returned. None where the two are not compared, as nobody asked for that, or the
    estimate does not bear it.
    """
    if not result.is_comparable:
        return None
    of_policy = (result.policy, result.estimator)
    of_difference = (*of_policy, LOGGED)
    differences = (row for row in evaluation.differences if (row.policy, row.estimator, row.other) == of_difference)
    difference = next(differences, None)
    lift = next((row for row in evaluation.lifts if (row.policy, row.estimator) == of_policy), None)
    if lift is None or difference is None:
        return lift or difference
    is_alike = sign_of(lift.low, lift.high) == sign_of(difference.low, difference.high)
    return lift if is_alike else difference


def sign_over_logged(evaluation: "Evaluation", result: "Result") -> int:
    """Return 1 for an estimate above what the logged choices earned, beyond chance, -1 for one below, and else 0."""
    gain = over_logged(evaluation, result)
    return 0 if gain is None else sign_of(gain.low, gain.high)


def lies_above_logged(evaluation: "Evaluation", result: "Result") -> bool:
    """Return whether an estimate that rests on too few rewards to be compared lies above what was logged.

    Its whole interval does, which is enough to look further, and not to say how much more the policy earns.
    """
    if result.verdict == DO_NOT_USE or result.is_comparable or result.low is None:
        return False
    return result.low > evaluation.logged.mean


def best_differences(evaluation: "Evaluation") -> list[Difference]:
    """Return how far the best estimates of policies lie from the logged choices and from one another.

    Two policies whose best estimates come from different estimators are not compared.
    """
    best = {(policy, best_result(evaluation, policy).estimator) for policy in policies_of(evaluation)}
    return [
        row
        for row in evaluation.differences
        if (row.policy, row.estimator) in best and (row.other == LOGGED or (row.other, row.estimator) in best)
    ]


def best_ranking(evaluation: "Evaluation") -> Sequence[PolicyRank]:
    """List the policies whose best estimates are compared, with the logged choices if not with one another.

    The highest value comes first, which orders only those by the same estimator. A policy may be the best unless a
    difference of `best_differences` shows another one to earn more.
    """
    results = {policy: best_result(evaluation, policy) for policy in policies_of(evaluation)}
    differences = {(row.policy, row.other): row for row in best_differences(evaluation)}
    intervals = {pair: Interval(row.value, row.low, row.high) for pair, row in differences.items()}
    names = [name for name in results if (name, LOGGED) in differences]
    ranking = rank_policies(
        "",
        {name: results[name].value for name in names},
        {name: intervals[name, LOGGED] for name in names},
        {name: differences[name, LOGGED].p for name in names},
        {pair: interval for pair, interval in intervals.items() if pair[1] != LOGGED},
    )
    return [row._replace(estimator=results[row.policy].estimator) for row in ranking]


def _usual_estimator(evaluation: "Evaluation") -> str:
    """Return the estimator that can be used for the most policies, and trusted for the most; the last of several.

    Of several as good it is not the direct method, which rests on a model.
    """
    rows = evaluation.results
    names = list(dict.fromkeys(row.estimator for row in rows))

    def usefulness(name: str) -> tuple[int, int, bool, int]:
        words = [row.verdict for row in rows if row.estimator == name]
        is_by_weights = name != DIRECT_METHOD
        return len(words) - words.count(DO_NOT_USE), words.count(TRUST), is_by_weights, names.index(name)

    return max(names, key=usefulness)
