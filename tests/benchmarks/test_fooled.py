"""The gallery of logs that may fool the verdict."""

import numpy as np
import pytest

from benchmarks.quality.fooled import held_out, rewards, sound, third_round
from benchmarks.quality.fooled.shop import Case, Shop, at, draw, draw_rankings, draw_rows, ranked_clicks
from benchmarks.quality.fooled_verdicts import CLASSES, HIDDEN, PARTS, SHOWN, SOUND, Counts, chosen_classes, count
from zoosim.core.rng import stream


def test_ways_are_many_and_each_has_a_name_of_its_own() -> None:
    names = [way.__name__ for ways in CLASSES.values() for way in ways]
    assert len(set(names)) == len(names)
    assert len(CLASSES) == sum(map(len, PARTS.values()))
    for kind, least in ((SHOWN, 100), (SOUND, 50), (HIDDEN, 12)):
        parts = [classes for part, classes in PARTS.items() if part.startswith(kind)]
        assert sum(len(ways) for classes in parts for ways in classes.values()) >= least
    assert all(way.__doc__ for ways in CLASSES.values() for way in ways)


@pytest.mark.parametrize(
    "name", [name for part in (third_round, held_out) for name in (*part.SHOWN, *part.SOUND, *part.HIDDEN)]
)
def test_logs_held_out_are_those_that_were_fixed(name: str) -> None:
    """A seed draws the same log again, of as many rows, which the policy's chances belong to."""
    way = CLASSES[name][0]
    log, policy, value = way(stream(0, "fooled", way.__name__))
    again = way(stream(0, "fooled", way.__name__))
    assert 2_500 <= len(log) <= 6_000
    assert np.isfinite(value)
    assert value == again.value
    np.testing.assert_array_equal(log.rewards, again.log.rewards)
    assert np.all((log.columns["p_new"] > 0.0) & (log.columns["p_new"] <= 1.0))
    if policy is not None:
        np.testing.assert_allclose(policy.sum(axis=1), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*held_out.SHOWN, *held_out.SOUND, *held_out.HIDDEN])
def test_weights_and_rewards_of_held_out_logs_are_as_meant(name: str) -> None:
    """Seen by the log alone a sound kind's interval holds, and that of a way to fool misses as a rule."""
    for way in CLASSES[name]:
        cases = [way(stream(seed, "fooled", way.__name__)) for seed in range(3)]
        errors = [_error(case) for case in cases]
        assert all(2_500 <= len(case.log) <= 6_200 for case in cases), way.__name__
        assert all(np.isfinite(case.log.rewards).all() for case in cases)
        assert all(((case.log.propensities > 0.0) & (case.log.propensities <= 1.0)).all() for case in cases)
        if name in held_out.SOUND:
            assert abs(np.mean(errors)) < 2.5, way.__name__  # of a standard deviation of 0.5, where all is sound
            continue
        assert np.max(np.abs(errors)) > 1.5, way.__name__


def _error(case: Case) -> float:
    """Return by how many standard errors of its rows the weighted mean misses the value."""
    weights = case.log.columns["p_new"] / case.log.propensities
    if weights.ndim > 1:
        weights = weights.cumprod(axis=1)
    terms = (weights * case.log.rewards).reshape(len(weights), -1).sum(axis=1)
    return float((terms.mean() - case.value) / (terms.std() / np.sqrt(len(terms))))


def test_classes_are_chosen_by_words_of_their_names() -> None:
    assert list(chosen_classes("bots, copies")) == ["bots", "copies"]
    assert not set(chosen_classes("-third round")) & set(third_round.SHOWN)
    assert chosen_classes("") == CLASSES
    with pytest.raises(SystemExit, match="got nothing like it, expected words of some of: sound"):
        chosen_classes("nothing like it")


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
