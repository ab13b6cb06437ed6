"""The test of a difference: against a plain computation, to the bit, and against its promise."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.monitoring import BETTER, HARM, NOT_WORSE, DifferenceTest, Reward
from zoosim.monitoring.wealth import PACE

CLICK = Reward("click")
MARGIN = Reward("click", margin=0.1)
PROFIT = Reward("profit", low=-1.0, high=3.0, margin=0.05, drop=0.2, lift=0.1, relative=False)


class Events(NamedTuple):
    treated: BoolArray
    share: FloatArray
    reward: FloatArray
    prediction: FloatArray
    stratum: IntArray


def events(seed: int, n: int, *, drop: float = 0.0, rate: float = 0.3, share: float = 0.5) -> Events:
    """Return clicks of two kinds of visitors, of which one clicks twice as often, at rates that swing by the hour."""
    rng = np.random.default_rng(seed)
    treated = rng.random(n) < share
    stratum = rng.integers(0, 2, n)
    liking = rng.choice([0.5, 1.5], n)
    swing = np.where(np.arange(n) // 500 % 2 == 0, 0.8, 1.2)
    chance = rate * swing * liking * (1 + stratum) / 1.5 * np.where(treated, 1.0 - drop, 1.0)
    return Events(treated, np.full(n, share), (rng.random(n) < chance).astype(float), rate * liking, stratum)


def fed(reward: Reward, seen: Events, **options: Any) -> DifferenceTest:
    test = DifferenceTest(reward, strata=2, **options)
    test.update(*seen)
    return test


def plain(reward: Reward, seen: Events) -> list[float]:
    """Return the evidence for the three claims, computed from the definitions alone."""
    span = reward.high - reward.low
    accounts = [[0.75 * part for part in (0.25, 0.5, 0.25)] for _ in range(3)]
    information = [0.0, 0.0, 0.0]
    past: list[tuple[float, float, int]] = []
    squares = cross = predictions = largest = 0.0
    for a, s, raw, guessed, stratum in zip(*(values.tolist() for values in seen), strict=True):
        x, f = raw / span, guessed / span
        n = len(past)
        own = [(y, g) for y, g, k in past if k == stratum]
        mean = sum(y for y, _, _ in past) / (n + 1)
        mean_f = sum(g for _, g, _ in past) / (n + 1)
        level = (sum(y for y, _ in own) + 20 * mean) / (len(own) + 20)
        deviation = f - (sum(g for _, g in own) + 20 * mean_f) / (len(own) + 20)
        q = min(max(level + cross / (predictions + 1) * deviation, reward.low / span), reward.high / span)
        v = (squares + min(largest or 1.0, 0.25)) / (n + 1)
        unit = max(mean, 0.0) if reward.relative else 1 / span
        z = (a - s) * (x - q)
        if reward.relative:
            z_margin = (a - s) * ((x if a else (1 - reward.margin) * x) - q)
        else:
            z_margin = z + s * (1 - s) * reward.margin / span
        distances = (reward.drop - reward.margin, reward.margin or reward.lift, reward.lift)
        for claim, outcome in enumerate((-z_margin, z_margin, z)):
            stake = distances[claim] * unit / v
            before = 0.25 / math.sqrt(1 + information[claim] / PACE)
            information[claim] += min(stake, 0.6) ** 2 * s * (1 - s) * v
            released = before - 0.25 / math.sqrt(1 + information[claim] / PACE)
            accounts[claim] = [
                (wealth + released * part) * (1 + min(multiple * stake, 0.6) * outcome)
                for wealth, part, multiple in zip(accounts[claim], (0.25, 0.5, 0.25), (0.5, 1, 2), strict=True)
            ]
        squares += (x - q) ** 2
        largest = max(largest, (x - q) ** 2)
        cross += deviation * (x - level)
        predictions += deviation**2
        past.append((x, f, stratum))
    return [sum(own) + 0.25 / math.sqrt(1 + known / PACE) for own, known in zip(accounts, information, strict=True)]


@pytest.mark.parametrize("reward", [CLICK, MARGIN, PROFIT], ids=["no margin", "relative margin", "absolute margin"])
def test_the_evidence_is_what_the_definitions_say(reward: Reward) -> None:
    seen = events(1, 400, drop=0.3)
    share = np.random.default_rng(2).choice([0.1, 0.5, 0.9], 400)
    seen = seen._replace(share=share, reward=seen.reward * (reward.high - 1.0 / 3.0) + min(reward.low, 0.0))
    if reward is not PROFIT:
        seen = seen._replace(reward=np.minimum(seen.reward, 1.0))
    assert fed(reward, seen).evidence == pytest.approx(plain(reward, seen), rel=1e-9)


def test_two_events_by_hand() -> None:
    # The first click is met without a stake. Then the mean is 1/2, the variance (1 + 1/4) / 2 = 5/8 and the best stake
    # .2 * 1/2 / (5/8) = .16. The guess is (1 + 20 * 1/2) / 21 = 11/21, so that z = (0 - 1/2) (0 - 11/21) = 11/42; the
    # bettor against no harm loses c * .16 * 11/42 of each account, of all on average a c of 1.125.
    test = DifferenceTest(CLICK)
    test.update([True], 0.5, [1.0])
    assert test.evidence.tolist() == [1.0, 1.0, 1.0]
    test.update([False], 0.5, [0.0])
    assert test.evidence[HARM] == pytest.approx(1 - 0.75 * 1.125 * 0.16 * 11 / 42, abs=1e-4)


def state_of(test: DifferenceTest) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in test.state_dict().items()}


def test_batches_of_any_size_and_saved_states_leave_the_same_bits() -> None:
    seen = events(3, 1_000, drop=0.2)
    whole = fed(MARGIN, seen)
    parts = DifferenceTest(MARGIN, strata=2)
    for start, stop in ((0, 0), (0, 1), (1, 2), (2, 300), (300, 301), (301, 1_000)):
        if start == 300:
            again = DifferenceTest(MARGIN, strata=2)
            again.load_state_dict(parts.state_dict())
            parts = again
        parts.update(*(values[start:stop] for values in seen))
    assert state_of(parts) == state_of(whole)
    assert parts.events == 1_000


def test_a_state_of_another_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match="saved state"):
        DifferenceTest(CLICK, strata=3).load_state_dict(DifferenceTest(CLICK).state_dict())


def found(reward: Reward, claim: int, level: float, runs: int, n: int, **options: Any) -> int:
    """Return in how many runs a claim is ever shown."""
    shown = 0
    for seed in range(runs):
        test = fed(reward, events(seed, n, **options), levels=(level,) * 3)
        shown += bool(test.shown[claim])
    return shown


@pytest.mark.parametrize(
    ("reward", "claim", "drop"),
    [(CLICK, HARM, 0.0), (CLICK, BETTER, 0.0), (MARGIN, HARM, 0.1), (MARGIN, NOT_WORSE, 0.1)],
)
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_false_alarms_are_as_rare_as_promised(reward: Reward, claim: int, drop: float, share: float) -> None:
    """300 runs of 3,000 events on the edge of the hypothesis, looked at after each: at most 5%, 3 standard errors."""
    alarms = found(reward, claim, 0.05, 300, 3_000, drop=drop, share=share)
    assert alarms <= 300 * 0.05 + 3 * math.sqrt(300 * 0.05 * 0.95)


def test_visits_of_visitors_who_keep_their_arm_are_no_events() -> None:
    """100 runs: each visit by itself breaks the bound, the sum of a visitor's ten visits keeps it."""
    bound = 100 * 0.05 + 3 * math.sqrt(100 * 0.05 * 0.95)
    by_visit = by_visitor = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        treated = rng.random(300) < 0.5
        clicks = (rng.random((300, 10)) < rng.choice([0.02, 0.6], (300, 1))).astype(float)
        visits = DifferenceTest(CLICK, levels=(0.05,) * 3)
        visits.update(np.repeat(treated, 10), 0.5, clicks.ravel())
        visitors = DifferenceTest(Reward("clicks", high=10.0), levels=(0.05,) * 3)
        visitors.update(treated, 0.5, clicks.sum(axis=1))
        by_visit += bool(visits.shown[HARM])
        by_visitor += bool(visitors.shown[HARM])
    assert by_visit > bound >= by_visitor


def test_a_prediction_that_knows_the_arm_hides_a_drop() -> None:
    seen = events(5, 20_000, drop=0.2)
    hidden = fed(CLICK, seen._replace(prediction=np.asarray(seen.treated, np.float64)))
    assert not hidden.shown[HARM]


def test_a_drop_is_found_and_an_improvement_shown() -> None:
    assert fed(CLICK, events(5, 20_000, drop=0.2)).shown.tolist() == [True, False, False]
    assert fed(CLICK, events(5, 20_000, drop=-0.2)).shown.tolist() == [False, True, True]
    inside = fed(MARGIN, events(6, 60_000, drop=0.0))
    assert inside.shown.tolist() == [False, True, False]
    assert 0 < inside.shown_at[NOT_WORSE] < 60_000
    assert inside.peaks[NOT_WORSE] >= 100.0


def test_a_drop_after_a_long_harmless_past_is_found_soon() -> None:
    test = fed(CLICK, events(7, 200_000))
    assert test.evidence[HARM] > 1e-4  # 200,000 events at full stake would leave 1e-30
    test.update(*events(8, 12_000, drop=0.2))
    assert test.shown[HARM]


def test_predictions_and_strata_lower_the_variance() -> None:
    seen = events(9, 20_000)
    alone = DifferenceTest(CLICK)
    alone.update(*seen[:3])
    # Chances are .3 x (.5 or 1.5) x (2/3 or 4/3): their variance, .045 with the swing's part, is what can be guessed.
    chances = 0.3 * np.outer([0.5, 1.5], [2 / 3, 4 / 3])
    explained = chances.var() / 0.21
    left = fed(CLICK, seen).state_dict()["state.fit"][0] / alone.state_dict()["state.fit"][0]
    assert left == pytest.approx(1 - explained, abs=0.02)


def test_the_estimate_holds_through_a_ramp_and_a_swing() -> None:
    """Clicks get rarer while the share of the new policy grows: their means differ by more than ever at one time."""
    rng = np.random.default_rng(10)
    share = np.repeat([0.1, 0.5, 0.9], 10_000)
    treated = rng.random(30_000) < share
    chance = np.repeat([0.4, 0.3, 0.1], 10_000) - 0.03 * treated
    clicks = (rng.random(30_000) < chance).astype(float)
    test = DifferenceTest(CLICK)
    test.update(treated, share, clicks)
    estimate = test.estimate()
    assert clicks[treated].mean() - clicks[~treated].mean() < -0.15
    assert estimate.low < -0.03 < estimate.high
    assert estimate.difference == pytest.approx(-0.03, abs=0.02)
    assert 0.0 < estimate.high - estimate.low < 0.08
    weights = np.repeat([0.09, 0.25, 0.09], 10_000)
    assert estimate.holdback == pytest.approx(np.average(np.repeat([0.4, 0.3, 0.1], 10_000), weights=weights), abs=0.02)


def test_intervals_miss_as_seldom_as_promised() -> None:
    """100 runs, each looked at four times: both ends together miss in at most 2 x 5%, 3 standard errors."""
    missed = 0
    for seed in range(100):
        test = DifferenceTest(Reward("profit", low=-1.0, high=3.0))
        seen = events(seed, 3_000, share=0.9)
        is_outside = False
        for start in range(0, 3_000, 750):
            batch = slice(start, start + 750)
            test.update(seen.treated[batch], seen.share[batch], seen.reward[batch] * 4.0 - 1.0)
            estimate = test.estimate(0.05)
            is_outside |= not estimate.low <= 0.0 <= estimate.high
        missed += is_outside
    assert missed <= 100 * 0.1 + 3 * math.sqrt(100 * 0.1 * 0.9)
    assert -1.0 < estimate.low < estimate.high < 1.0


def test_a_bound_above_all_rewards_costs_little() -> None:
    """Revenue of 0 to 10 at a variance of 5.7, of which .2 are to be found: up to about 14 the bound costs little."""
    rng = np.random.default_rng(12)
    treated = rng.random(40_000) < 0.5
    revenue = np.where(rng.random(40_000) < np.where(treated, 0.16, 0.2), rng.uniform(0, 10, 40_000), 0.0)
    shown_at = []
    for high in (10.0, 14.0):
        test = DifferenceTest(Reward("revenue", high=high))
        test.update(treated, 0.5, revenue)
        shown_at.append(int(test.shown_at[HARM]))
    assert 0 < shown_at[1] < 1.2 * shown_at[0]


def test_before_events_nothing_is_known() -> None:
    test = DifferenceTest(MARGIN)
    assert test.events == 0
    assert test.evidence.tolist() == [1.0, 1.0, 1.0]
    assert math.isnan(test.estimate().difference)
    assert test.remaining(HARM, 0.5) == math.inf
    test.update([], 0.5, [])
    assert test.shown_at.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward": [2.0]}, "reward click: reward: got 2.0, expected 0 to 1"),
        ({"reward": [math.nan]}, "reward click: reward: got a number that is not finite"),
        ({"reward": [[1.0]]}, r"reward click: reward: got the shape \(1, 1\), expected one per event"),
        ({"share": 1.0}, r"reward click: share: got 1.0, expected a chance inside \(0, 1\)"),
        ({"treated": [2]}, "reward click: treated: got 2, expected 0 or 1"),
        ({"treated": [0, 1]}, r"reward click: treated: got the shape \(2,\), expected \(1,\), one per event"),
        ({"stratum": [1]}, "reward click: stratum: got 1, expected 0 to 0"),
        ({"prediction": ["much"]}, "reward click: prediction: expected numbers, got"),
    ],
)
def test_what_is_out_of_range_is_refused_and_changes_nothing(options: dict[str, Any], message: str) -> None:
    test = DifferenceTest(CLICK)
    before = state_of(test)
    with pytest.raises(DataError, match=f"^{message}"):
        test.update(**{"treated": [True], "share": 0.5, "reward": [1.0], **options})
    assert state_of(test) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 0.5}, "reward r: low 0.5, high 1; expected low <= 0 < high"),
        ({"margin": 0.2}, "reward r: margin 0.2, drop 0.2; expected 0 <= margin < drop <= 1"),
        ({"lift": 0.0}, "reward r: lift 0, expected above 0"),
        ({"drop": math.nan}, "reward r: "),
    ],
)
def test_rewards_that_cannot_be_tested_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        Reward("r", **options)


@pytest.mark.parametrize("options", [{"levels": (0.01, 0.01)}, {"levels": (0.0, 0.1, 0.1)}, {"strata": 0}])
def test_levels_and_strata_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^reward click: .*, expected "):
        DifferenceTest(CLICK, **options)
