"""What the verdict says of figures set by hand, at each side of its limits."""

import math

import pytest

from zoosim.core.statistics import Interval
from zoosim.off_policy.diagnostics import Drift, ErrorFigures, RewardCount, WeightFigures
from zoosim.off_policy.verdict import DO_NOT_USE, EFFECTIVE_GROUPS_ASYMPTOTIC, TRUST, WEAK, judge_weighted

GOOD = WeightFigures(5_000.0, 1.0, 0.01, 3.0, 0.001, 0.0, None)
ERRORS = ErrorFigures(0.001, 500.0, 0.1)
REWARDS = RewardCount(300.0, 300.0)
NARROW, WIDE = Interval(0.1, 0.098, 0.102), Interval(0.1, 0.05, 0.15)


def word(
    weights: WeightFigures = GOOD,
    errors: ErrorFigures = ERRORS,
    interval: Interval = NARROW,
    n: int = 900,
    rewards: float = 300.0,
) -> str:
    """Return the verdict of figures that are good but for what is given."""
    return judge_weighted(weights, errors, interval, n, RewardCount(rewards, 0.0)).word


def test_good_figures_are_trusted() -> None:
    assert judge_weighted(GOOD, ERRORS, NARROW, 900, REWARDS) == (TRUST, ())


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [(20.0, TRUST), (19.9, WEAK), (5.0, WEAK), (4.9, DO_NOT_USE), (0.0, DO_NOT_USE), (math.nan, DO_NOT_USE)],
)
def test_effective_rewards(rewards: float, expected: str) -> None:
    """Few rewards spoil an estimate whose weights are good."""
    verdict = judge_weighted(GOOD, ERRORS, NARROW, 900, RewardCount(rewards, 0.0))
    assert verdict.word == expected
    assert (verdict.reasons == ()) == (expected == TRUST)


def test_rewards_that_did_not_come_count_where_many_should_have() -> None:
    """A policy that earns next to nothing, of rows that hold 300 rewards at the log's rate, is told by that."""
    assert judge_weighted(GOOD, ERRORS, NARROW, 900, RewardCount(1.0, 300.0)) == (TRUST, ())
    assert judge_weighted(GOOD, ERRORS, NARROW, 900, RewardCount(1.0, 6.0)).word == WEAK


@pytest.mark.parametrize(("rewards", "words"), [(0.2, "no reward at all"), (1.2, "about 1 reward,"), (7.0, "about 7 ")])
def test_few_rewards_are_named(rewards: float, words: str) -> None:
    assert f"it rests on {words}" in judge_weighted(GOOD, ERRORS, NARROW, 900, RewardCount(rewards, 0.0)).reasons[0]


@pytest.mark.parametrize(("ess", "told"), [(101.0, TRUST), (99.0, WEAK), (14.0, DO_NOT_USE), (math.nan, DO_NOT_USE)])
def test_effective_sample_size(ess: float, told: str) -> None:
    assert word(GOOD._replace(ess=ess)) == told


@pytest.mark.parametrize(("share", "told"), [(0.04, TRUST), (0.06, WEAK), (0.21, DO_NOT_USE)])
def test_share_of_the_largest_weight(share: float, told: str) -> None:
    assert word(GOOD._replace(max_share=share)) == told


@pytest.mark.parametrize(("effective_groups", "told"), [(41.0, TRUST), (39.0, WEAK), (1.1, WEAK), (0.0, DO_NOT_USE)])
def test_rows_that_carry_the_error(effective_groups: float, told: str) -> None:
    assert word(errors=ERRORS._replace(effective_groups=effective_groups)) == told


def test_no_spread_is_not_blamed_on_one_row() -> None:
    same = ERRORS._replace(error=0.0, effective_groups=0.0)
    verdict = judge_weighted(GOOD, same, Interval(1.0, 1.0, 1.0), 900, REWARDS)
    assert verdict == (DO_NOT_USE, ("all users or rows say the same, so nothing tells how large its error is",))


def test_an_interval_of_normal_errors_needs_more_rows_that_carry_it() -> None:
    few = ERRORS._replace(effective_groups=4.0)
    assert judge_weighted(GOOD, few, NARROW, 900, REWARDS, min_groups=EFFECTIVE_GROUPS_ASYMPTOTIC).word == DO_NOT_USE
    assert judge_weighted(GOOD, few, NARROW, 900, REWARDS).word == WEAK


@pytest.mark.parametrize(("mean", "told"), [(1.02, TRUST), (1.04, WEAK), (1.06, DO_NOT_USE), (0.94, DO_NOT_USE)])
def test_a_mean_weight_that_is_not_one(mean: float, told: str) -> None:
    assert word(GOOD._replace(mean_weight=mean)) == told


@pytest.mark.parametrize(
    ("figures", "cause"),
    [
        (GOOD._replace(ess=90_000.0, mean_weight=0.968), "this may be chance (3.2 standard errors)"),
        (GOOD._replace(ess=90_000.0, mean_weight=0.96), "the propensities are wrong, or rows are missing"),
        (GOOD._replace(mean_weight=0.74, mean_weight_error=0.1), "this may be chance (2.6 standard errors)"),
        (GOOD._replace(mean_weight=0.96, mean_is_telling=False), "too few rows overlap with the policy's choices"),
        (GOOD._replace(mean_weight=math.nan), "too few rows overlap with the policy's choices"),
    ],
)
def test_the_cause_of_a_mean_weight_is_one_that_can_be(figures: WeightFigures, cause: str) -> None:
    reason = judge_weighted(figures, ERRORS, NARROW, 900, REWARDS).reasons[0]
    assert f", expected 1: {cause}" in reason


def test_a_mean_weight_that_rounding_moved_is_one() -> None:
    """Weights that are all alike have next to no standard error, by which any rounding is far off."""
    assert word(GOOD._replace(mean_weight=1.0 - 1e-15, mean_weight_error=1e-17)) == TRUST
    assert word(GOOD._replace(mean_weight=0.9999, mean_weight_error=1e-9)) == TRUST  # thirds, logged as .3333
    off = judge_weighted(GOOD._replace(mean_weight=1.0012, mean_weight_error=1e-9), ERRORS, WIDE, 900, REWARDS)
    assert off.word == WEAK
    assert off.reasons[0].startswith("the mean weight is 1.0012, expected 1")


@pytest.mark.parametrize(("lost", "told"), [(0.005, TRUST), (0.05, WEAK), (0.12, DO_NOT_USE)])
def test_choices_that_are_hardly_in_the_log(lost: float, told: str) -> None:
    assert word(GOOD._replace(unsupported_mass=lost, unsupported_action="action 3")) == told


def test_a_fault_is_set_against_the_interval() -> None:
    """Off by 6% or 12% of .1 is nothing in an interval of +-.05; half of the weight amiss is grave anywhere."""
    assert word(GOOD._replace(mean_weight=1.06), interval=WIDE) == WEAK
    assert word(GOOD._replace(unsupported_mass=0.12, unsupported_action="action 3"), interval=WIDE) == WEAK
    assert word(GOOD._replace(mean_weight=1.06), interval=Interval(0.1, None, None)) == DO_NOT_USE
    assert word(GOOD._replace(mean_weight=1.51), interval=WIDE) == DO_NOT_USE
    assert word(GOOD._replace(unsupported_mass=0.51, unsupported_action="action 3"), interval=WIDE) == DO_NOT_USE
    assert word(GOOD._replace(mean_weight=math.nan), interval=WIDE) == DO_NOT_USE


def test_few_users_and_no_interval() -> None:
    assert word(n=39) == WEAK
    assert word(n=9) == DO_NOT_USE
    assert word(interval=Interval(0.1, None, None)) == DO_NOT_USE
    assert word(interval=Interval(0.1, -math.inf, math.inf)) == DO_NOT_USE


def test_an_open_end_is_weak_and_named() -> None:
    found = judge_weighted(GOOD, ERRORS, Interval(0.1, 0.05, math.inf), 900, REWARDS)
    assert found == (WEAK, ("too few rewards: the interval has no upper end",))


def test_a_value_that_moved_is_weak_however_far() -> None:
    assert word(errors=ERRORS._replace(drift=Drift(0.1, 0.12, 2.9))) == TRUST
    for far in (3.1, 50.0, math.inf):
        found = judge_weighted(GOOD, ERRORS._replace(drift=Drift(0.1, 0.12, far)), NARROW, 900, REWARDS)
        assert found.word == WEAK
        assert found.reasons[0].startswith("drift: 0.1 in the first half of the log, 0.12 in the second")


def test_the_gravest_reason_comes_first() -> None:
    found = judge_weighted(GOOD._replace(max_share=0.06, ess=10.0), ERRORS, NARROW, 900, REWARDS)
    assert found.word == DO_NOT_USE
    assert [reason.split(" ")[0:2] for reason in found.reasons] == [["the", "effective"], ["the", "largest"]]
