"""Which policy is to be taken: what a rehearsal and a log say of each, by hand."""

from typing import Any

import numpy as np

from zoosim.core.errors import PolicyFailure
from zoosim.core.statistics import Interval
from zoosim.off_policy.compare import LOGGED, Difference, Lift
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK, Verdict
from zoosim.rehearsal.advice import BESIDE, FIRST, NOT, Advice, Evidence, advise, verdict
from zoosim.rehearsal.figures import Rehearsal, Rehearsed

SURE = Interval(0.3, 0.2, 0.4)
MAYBE = Interval(0.3, -0.1, 0.7)


def rehearsal(gains: dict[str, Interval]) -> Rehearsal:
    policies = tuple(
        Rehearsed(name, gain, gain, Interval(0.5, 0.4, 0.6), 7, 9, 2.0, 1e-3) for name, gain in gains.items()
    )
    today = Interval(0.1, 0.1, 0.1)
    return Rehearsal(policies, today, Interval(0.4, 0.3, 0.5), True, (1,), {}, 100, 10, 1.0)


def pair(a: str, b: str, p: float) -> dict[str, Any]:
    return {"a": a, "b": b, "difference": 0.1, "low": 0.0, "high": 0.2, "p": p}


def judged(word: str, low: float, high: float) -> Evaluation:
    """What a log says of the policy `linear`, which earns `low` to `high` more than what was logged."""
    value = (low + high) / 2
    result = Result("linear", "dr", 0.1 + value, 0.1 + low, 0.1 + high, 500.0, 1.0, 2.0, word, ())
    difference = Difference("linear", LOGGED, "dr", value, low, high, 0.01, 100, word)
    lift = Lift("linear", "dr", 10 * value, 10 * low, 10 * high, 1.0, word)
    return Evaluation((result,), (difference,), Interval(0.1, 0.1, 0.1), 900, 900, {}, "log", lifts=(lift,))


def evidence(**changes: Any) -> Evidence:
    gains = {"adaptive": SURE, "linucb": SURE, "random": Interval(-0.1, -0.2, 0.0)}
    pairs = [pair("adaptive", "linucb", 0.4), pair("adaptive", "random", 0.001)]
    usual = Evidence(Verdict(TRUST, ()), rehearsal(gains), pairs, (), None, {})
    return usual._replace(**changes)


def places(advice: list[Advice]) -> dict[str, str]:
    return {each.policy: each.place for each in advice}


def test_the_best_is_taken_first_and_what_is_not_told_apart_beside_it() -> None:
    advice = advise(evidence())
    assert places(advice) == {"adaptive": FIRST, "linucb": BESIDE, "random": NOT}
    assert advice[1].reason.endswith("not told apart from adaptive (p .400)")
    assert advice[2].reason.endswith("10.0 points of the best possible behind adaptive (p .001)")
    assert verdict(advice, evidence()).startswith("Take adaptive first: +30% (+20% to +40%) against today's choices")


def test_what_is_told_apart_from_the_first_is_not_tried() -> None:
    pairs = [pair("adaptive", "linucb", 0.01), pair("adaptive", "random", 0.001)]
    assert places(advise(evidence(pairs=pairs)))["linucb"] == NOT


def test_what_overtakes_the_first_is_tried_though_it_is_behind_in_all() -> None:
    pairs = [pair("adaptive", "linucb", 0.01), pair("adaptive", "random", 0.001)]
    run = evidence().rehearsal
    assert run is not None
    first, second, third = run.policies
    later = run._replace(policies=(first, second._replace(overtakes=("adaptive",)), third))
    advice = advise(evidence(pairs=pairs, rehearsal=later))
    assert places(advice)["linucb"] == BESIDE
    assert "it overtakes adaptive in the last fifth" in advice[1].reason


def test_no_policy_is_named_that_may_be_ahead_by_chance() -> None:
    unsure = evidence(rehearsal=rehearsal({"adaptive": MAYBE, "linucb": MAYBE}))
    advice = advise(unsure)
    assert set(places(advice).values()) == {NOT}
    assert "none is shown to earn more than today's choices, which earn 40.0%" in verdict(advice, unsure)
    one_seed = evidence(rehearsal=rehearsal({"adaptive": Interval(0.3, None, None)})._replace(seeds=1))
    assert "one seed does not tell chance apart" in verdict(advise(one_seed), one_seed)


def test_a_weak_rehearsal_names_none_and_says_what_to_try() -> None:
    weak = evidence(verdict=Verdict(WEAK, ("more responses came",)))
    advice = advise(weak)
    assert places(advice) == {"adaptive": BESIDE, "linucb": BESIDE, "random": NOT}
    assert verdict(advice, weak) == (
        "No policy is named: a rehearsal in a shop fitted to this log is not to be relied on (weak): more responses "
        "came. Try beside what is shown today, as an experiment: adaptive, linucb."
    )


def test_the_log_overrules_the_rehearsal() -> None:
    gains = {"linear": SURE, "adaptive": SURE}
    both = evidence(rehearsal=rehearsal(gains), pairs=[pair("linear", "adaptive", 0.3)])
    assert places(advise(both))["linear"] == FIRST
    worse = both._replace(evaluation=judged(TRUST, -0.05, -0.02))
    assert places(advise(worse)) == {"linear": NOT, "adaptive": FIRST}
    unknown = both._replace(evaluation=judged(DO_NOT_USE, -0.05, -0.02))
    assert places(advise(unknown))["linear"] == FIRST, "what cannot be used speaks neither for nor against"


def test_the_log_alone_names_a_policy_where_it_can_be_trusted() -> None:
    nothing = evidence(verdict=Verdict(DO_NOT_USE, ("too few",)), rehearsal=None, pairs=[])
    trusted = nothing._replace(evaluation=judged(TRUST, 0.02, 0.05))
    advice = advise(trusted)
    assert places(advice) == {"linear": FIRST}
    assert "by the log" in verdict(advice, trusted)
    for word, low in ((WEAK, 0.02), (TRUST, -0.02), (DO_NOT_USE, 0.02)):
        held = nothing._replace(evaluation=judged(word, low, 0.05))
        assert FIRST not in places(advise(held)).values()
        assert "too few" in verdict(advise(held), held)


def test_policies_that_fail_are_not_taken() -> None:
    failures = (PolicyFailure("own", 0, 5, "division by zero"),)
    failed = advise(evidence(failures=failures, notes={"linear": ("left out, no features",)}))
    told = {each.policy: each.reason for each in failed if each.place == NOT}
    assert told["own"] == "failed in the rehearsal: division by zero"
    assert told["linear"] == "left out, no features"
    assert np.all([name in told for name in ("own", "linear", "random")])
