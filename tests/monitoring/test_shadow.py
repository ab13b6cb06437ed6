"""What a policy that decides for nobody would have earned: in a made-up shop whose truth is known."""

import math

import numpy as np
import pytest

from zoosim.monitoring.shadow import ALL_VISITORS, Judged, ShadowEstimate, ShadowEvidence

CLICKS = np.array([[0.5, 0.2, 0.1], [0.1, 0.3, 0.5]])
"""Click rates `(segment, product)`."""

CHAMPION = np.array([[0.2, 0.6, 0.2], [0.2, 0.6, 0.2]])
SHADOW = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
TRUE = float(((SHADOW - CHAMPION) * CLICKS).sum() / 2)


def shop(seed: int, visitors: int, looks: int, *, wrong: bool = False) -> list[ShadowEstimate]:
    """Return what is estimated at each look; visitors come 1 to 4 times.

    Each visitor clicks more or less than the others of the segment, at all visits alike. With `wrong` probabilities the
    champion is taken for one that draws evenly.
    """
    rng = np.random.default_rng(seed)
    evidence = ShadowEvidence()
    estimates = []
    logged = np.full_like(CHAMPION, 1 / 3) if wrong else CHAMPION
    ids = rng.integers(2**63, size=visitors).tolist()
    segments = rng.integers(2, size=visitors)
    tastes = rng.uniform(0.3, 1.7, size=visitors)
    visits = rng.integers(1, 5, size=visitors)
    for number in range(visitors):
        segment = segments[number]
        # A draw of a product by the sums of its row, which is .2, .8 and 1 in both.
        actions = np.searchsorted(np.cumsum(CHAMPION[segment]), rng.random(visits[number]))
        clicks = rng.random(visits[number]) < tastes[number] * CLICKS[segment, actions]
        weights = SHADOW[segment, actions] / logged[segment, actions]
        for click, weight in zip(clicks.tolist(), weights.tolist(), strict=True):
            evidence.update(Judged(ids[number], float(click), weight, 0.4, 0.0))
        if (number + 1) % (visitors // looks) == 0:
            estimates.append(evidence.estimate())
    return estimates


def holds(estimate: ShadowEstimate) -> bool:
    return estimate.difference.low <= TRUE <= estimate.difference.high


def test_the_true_difference_lies_in_the_interval_at_every_look() -> None:
    """Of 100 shops with 20 looks each at most 5 may miss it; and intervals are narrow enough to tell."""
    assert sum(not all(map(holds, shop(seed, 400, 20))) for seed in range(100)) <= 5
    last = [shop(seed, 800, 1)[0] for seed in range(40)]
    assert all(not estimate.reason for estimate in last)
    assert sum("It would earn more" in estimate.sentence for estimate in last) > 36
    values = np.array([estimate.difference.value for estimate in last])
    assert abs(values.mean() - TRUE) < 4 * values.std() / math.sqrt(40)


def test_wrong_probabilities_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are named; and the estimate by them would miss the truth."""
    assert all("the probabilities are wrong" in shop(seed, 800, 1, wrong=True)[0].sentence for seed in range(20))
    monkeypatch.setattr("zoosim.monitoring.shadow.MEAN_ERRORS", math.inf)
    assert not any(holds(shop(seed, 800, 1, wrong=True)[0]) for seed in range(20))


@pytest.mark.slow
def test_what_is_told_of_rare_choices_holds() -> None:
    """Clicks of 5%, and a champion that shows the shadow's choice in one of 200 decisions; 20 looks at 60 shops."""
    rates = np.full(10, 0.05)
    rates[1] = 0.08
    champion, shadow = (np.full(10, 0.005) + 0.95 * (np.arange(10) == best) for best in (0, 1))
    true = float(((shadow - champion) * rates).sum())
    misses = 0
    for seed in range(1_000, 1_060):
        rng = np.random.default_rng(seed)
        evidence = ShadowEvidence()
        shown = rng.choice(10, p=champion / champion.sum(), size=40_000)
        clicks = rng.random(40_000) < rates[shown]
        weights = (shadow / champion)[shown]
        ids = np.repeat(rng.integers(2**63, size=20_000), 2)
        estimates = []
        for number, each in enumerate(zip(ids.tolist(), clicks.tolist(), weights.tolist(), strict=True), 1):
            evidence.update(Judged(each[0], float(each[1]), each[2], 0.05, 0.0))
            if number % 2_000 == 0:
                estimates.append(evidence.estimate().difference)
        misses += not all(estimate.low <= true <= estimate.high for estimate in estimates)
    assert misses <= 3


def test_what_it_says_is_worked_by_hand() -> None:
    """Of rewards 0 and 1 with weights .5 and 2: guesses 0 and 0, so estimates 0 and 2, mean 1; earned .5."""
    evidence = ShadowEvidence()
    assert "no decision is over" in evidence.estimate().sentence
    evidence.update(Judged(1, 0.0, 0.5, 0.6, 0.0))
    evidence.update(Judged(2, 1.0, 2.0, 0.8, 0.02))
    estimate = evidence.estimate()
    assert (estimate.value.value, estimate.earned, estimate.difference.value) == (1.0, 0.5, 0.5)
    assert (estimate.agreement, estimate.unsupported) == pytest.approx((0.7, 0.01))
    assert estimate.effective == pytest.approx(2.5**2 / 4.25)
    # A third with reward 1 and weight 3: the guess is .5, the estimate .5 + 3 (1 - .5) = 2.
    evidence.update(Judged(3, 1.0, 3.0, 0.8, 0.0))
    assert evidence.estimate().value.value == pytest.approx(4 / 3)


def evidence_of(weights: np.ndarray, rewards: np.ndarray, unsupported: float = 0.0) -> ShadowEvidence:
    rng = np.random.default_rng(0)
    evidence = ShadowEvidence()
    for weight, reward in zip(weights, rewards, strict=True):
        evidence.update(Judged(int(rng.integers(2**63)), float(reward), float(weight), 0.5, unsupported))
    return evidence


def test_it_says_why_it_cannot_tell() -> None:
    rng = np.random.default_rng(1)
    even = rng.integers(2, size=2_000) * 2.0
    clicks = (rng.random(2_000) < 0.3).astype(float)
    sentence = evidence_of(even, clicks).estimate().sentence
    assert sentence.startswith("Cannot tell yet whether it would earn more")
    assert "never shows 5%" in evidence_of(even, clicks, 0.05).estimate().sentence
    assert "rewards say as much as" in evidence_of(even, np.zeros(2_000)).estimate().sentence
    heavy = np.where(rng.random(2_000) < 0.005, 200.0, 0.0)
    assert "of its own, and 100 are needed" in evidence_of(heavy, clicks).estimate().sentence
    assert "the probabilities are wrong" in evidence_of(even * 1.5, clicks).estimate().sentence
    alike = ShadowEvidence()
    alike.update(Judged(1, 1.0, 1.0, 1.0, 0.0))
    assert "both choose alike" in alike.estimate().sentence


def test_of_many_visitors_a_part_counts_and_tells_the_same() -> None:
    """With room for 500 of 4,000 visitors an eighth is left, as one sees who takes that eighth alone."""
    rng = np.random.default_rng(2)
    small, part = ShadowEvidence(most_visitors=500), ShadowEvidence()
    judged = [
        Judged(
            int(rng.integers(2**64, dtype=np.uint64)),
            float(rng.random() < 0.3),
            float(rng.choice([0.5, 1.5])),
            0.5,
            0.0,
        )
        for _ in range(4_000)
    ]
    for each in judged:
        small.update(each)
    estimate = small.estimate()
    assert estimate.part in (1 / 8, 1 / 16)
    for each in judged:
        if each.visitor < ALL_VISITORS * estimate.part:
            part.update(each)
    assert (estimate.visitors, estimate.decisions) == (part.estimate().visitors, part.estimate().decisions)
    assert estimate.difference.value == pytest.approx(part.estimate().difference.value, abs=0.02)
    assert estimate.effective == pytest.approx(part.estimate().effective, rel=0.1)
