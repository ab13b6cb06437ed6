"""What launches say together, and how sentences say it."""

import numpy as np
import pytest

from zoosim.monitoring.launch import State
from zoosim.off_policy.verdict import TRUST, WEAK, Verdict
from zoosim.rehearsal.launches.figures import launch_figures, spread_of
from zoosim.rehearsal.launches.outcome import Outcome
from zoosim.rehearsal.launches.price import Price
from zoosim.rehearsal.launches.sentences import Told, conclusion

TOLD = Told("linucb", "clicks", 30.0, 0.01)


def launch(number: int, state: State, effect: float, net: float, hour: float = 48.0) -> Outcome:
    return Outcome(number, state, hour, effect, net, 20.0, 1_000.0, (0.0,), (0.01,))


OUTCOMES = [
    *(launch(number, State.COMPLETED, 0.1, 100.0) for number in range(12)),
    *(launch(number, State.COMPLETED, -0.02, -19.0) for number in range(12, 14)),
    *(launch(number, State.ROLLED_BACK, -0.2, -5.0) for number in range(14, 17)),
    launch(17, State.ROLLED_BACK, 0.1, 2.0),
    *(launch(number, State.CANNOT_TELL, -0.05, -20.0, 720.0) for number in range(18, 20)),
]


def test_chances_are_shares_of_launches() -> None:
    figures = launch_figures(OUTCOMES, 0.01)
    assert figures.regret.mean == 4 / 20, "two that shipped and two that wait cost more than 10 of 1,000"
    assert (figures.shipped.mean, figures.taken_back.mean, figures.untold.mean) == (14 / 20, 4 / 20, 2 / 20)
    assert (figures.shipped_worse.mean, figures.taken_back_better.mean) == (2 / 20, 1 / 20)
    assert figures.better.mean == 13 / 20
    assert figures.net.mean == pytest.approx((1_200 - 38 - 15 + 2 - 40) / 20)
    assert figures.hours_to_ship is not None
    assert figures.hours_to_ship.mean == 48.0
    low, high = figures.regret[1:]
    assert low is not None
    assert high is not None
    assert low < 0.2 < high


def test_a_further_value_lies_within_the_interval_as_often_as_it_says() -> None:
    """By ranks: in 2,000 samples of 99, 95% of further values; 4 standard errors are 2%."""
    rng = np.random.default_rng(0)
    held = []
    for _ in range(2_000):
        mean, low, high = spread_of(rng.exponential(size=99))
        assert low is not None
        assert high is not None
        assert low < mean < high
        held.append(low < rng.exponential() < high)
    assert np.mean(held) == pytest.approx(0.96, abs=0.02)


def test_sentences_say_whether_to_launch_the_risk_and_the_price() -> None:
    prices = [Price(0.1, 0.05, 41.0, 38.0)]
    sentences = conclusion(launch_figures(OUTCOMES, 0.01), TOLD, prices, Verdict(TRUST, ()))
    assert sentences[0] == (
        "Launch linucb: the chance that you regret it, as it costs over 1% of today's clicks, is 20% (8 to 42%)."
    )
    assert "after 2 days in the median" in sentences[1]
    assert sentences[-1] == (
        "To tell +10% takes 41 days with 5% of the visitors, and costs 38 clicks a day if the model is 10% worse "
        "instead."
    )
    assert any("truly earns less, in 10%" in sentence for sentence in sentences)


def test_what_is_expected_to_lose_is_not_launched() -> None:
    sentences = conclusion(launch_figures(OUTCOMES[12:], 0.01), TOLD, [], Verdict(WEAK, ("few rewards",)))
    assert sentences[0].startswith("Do not launch linucb: it is expected to lose; the chance that it costs over 1%")
    assert sentences[1] == "Take this as weak evidence: few rewards."
