"""A small shop: challengers earn what they are said to earn, and visitors are always alike."""

from pathlib import Path

import numpy as np
import pytest

from zoosim.core.errors import ConfigError
from zoosim.playground.visitors import RATE, draw_visitors
from zoosim.playground.world import COUNTRIES, PRODUCTS, appeal_of, liking, rival_picks, small_shop, teach
from zoosim.policies.model import load_model


@pytest.mark.parametrize("effect", [-0.5, -0.2, 0.0, 0.1])
@pytest.mark.parametrize("exploration", [0.0, 0.05, 0.2])
def test_a_challenger_earns_exactly_so_much_more(effect: float, exploration: float) -> None:
    appeal = appeal_of(effect, exploration)
    places = np.arange(len(COUNTRIES))
    earned = [
        (1.0 - exploration) * appeal[places, picks] + exploration * appeal.mean(axis=1) for picks in rival_picks()
    ]
    np.testing.assert_allclose(earned, [np.ones(len(COUNTRIES)), np.full(len(COUNTRIES), 1.0 + effect)])
    assert (appeal >= 0.0).all()


def test_what_exploration_alone_earns_no_challenger_falls_below() -> None:
    with pytest.raises(ConfigError, match=r"effect: got -0\.9 with an exploration of 0\.5"):
        appeal_of(-0.9, 0.5)


def test_visitors_click_as_often_as_their_rates_say() -> None:
    visitors = draw_visitors(1, days=2)
    shop = small_shop(visitors, appeal_of(0.5, 0.0), 1)
    numbers = range(0, 30_000)
    own, other = (
        np.mean([shop.clicks(number, PRODUCTS[picks[shop.country[number]]]) for number in numbers])
        for picks in rival_picks()
    )
    assert own == pytest.approx(RATE, abs=4.0 * (RATE / len(numbers)) ** 0.5)
    assert other == pytest.approx(1.5 * RATE, abs=4.0 * (1.5 * RATE / len(numbers)) ** 0.5)
    shocked = shop.shocked()
    assert (shocked.appeal != shop.appeal).any()
    np.testing.assert_array_equal(shocked.appeal[1], shop.appeal[0])


def test_a_model_shows_what_it_was_taught(tmp_path: Path) -> None:
    picks = rival_picks()[1]
    model = load_model(teach(liking(picks), tmp_path / "model.zoosim"))
    shown = [model.recommend({"country": country}) for country in COUNTRIES]
    assert shown == [PRODUCTS[pick] for pick in picks]
    assert not model.policy.learns_from_rewards
