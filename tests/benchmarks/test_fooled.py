"""The gallery of logs that may fool the verdict."""

import numpy as np
import pytest

from benchmarks.quality.fooled import rewards, sound
from benchmarks.quality.fooled.shop import Shop, at, draw, draw_rankings, draw_rows, ranked_clicks
from benchmarks.quality.fooled_verdicts import CLASSES, HIDDEN, SOUND, Counts, count


def test_ways_are_many_and_each_has_a_name_of_its_own() -> None:
    names = [way.__name__ for ways in CLASSES.values() for way in ways]
    assert len(set(names)) == len(names)
    assert sum(len(ways) for name, ways in CLASSES.items() if name not in (SOUND, HIDDEN)) >= 40
    assert all(way.__doc__ for ways in CLASSES.values() for way in ways)


def test_the_value_of_a_policy_is_what_it_earns() -> None:
    """200,000 visits that the policy itself serves earn its value, within four standard errors."""
    shop = Shop(np.random.default_rng(0))
    features = shop.visitors(200_000)
    actions = draw(shop.rng, shop.target(features))
    clicks = shop.rng.random(200_000) < at(shop.click_rates(features), actions)
    error = np.sqrt(clicks.var() / 200_000 + 0.02 / 20_000)  # of the clicks, and of the visitors of `value`
    assert abs(clicks.mean() - shop.value()) < 4.0 * error


def test_weights_have_a_mean_of_one() -> None:
    rows = draw_rows(Shop(np.random.default_rng(0)), 20_000)
    weights = at(rows.target, rows.actions) / rows.propensities
    assert weights.mean() == pytest.approx(1.0, abs=4.0 * weights.std() / np.sqrt(20_000))


def test_rankings_are_drawn_by_their_propensities() -> None:
    """The policy's weights of whole rankings have a mean of one, and weigh clicks to its value."""
    rows = draw_rankings(Shop(np.random.default_rng(0)), 40_000)
    log = rows.case(0.0).log
    weights = (log.columns["p_new"] / log.propensities).prod(axis=1)
    weighted = weights * log.visit_rewards
    value = ranked_clicks(rows.shop.rng, rows.target, rows.click_rates)
    assert weights.mean() == pytest.approx(1.0, abs=4.0 * weights.std() / 200.0)
    assert weighted.mean() == pytest.approx(value, abs=4.0 * weighted.std() / 200.0)


def test_counts_are_of_both_forms_of_a_policy() -> None:
    good = count(sound.same_policy, range(2))
    assert good == Counts(
        12, 12, 12, refused=0, missing=0, fooled_unchecked=0, fooled=0
    )  # ips, snips, dr, dm; ips, snips
    assert count(rewards.chances_with_the_reward_in_hand, range(2)).intervals == 4  # the column alone
