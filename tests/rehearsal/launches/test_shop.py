"""What visits earn in a fitted shop by today's choices and by a new model."""

from dataclasses import replace

import numpy as np
import pytest

from tests.fitting.shops import shop_log
from zoosim.fitting import fit_shop
from zoosim.logs.log import Log
from zoosim.rehearsal.launches.shop import RehearsedShop
from zoosim.worlds.fitted.shop import ResponseChange

N = 1_500


def log_of(amounts: bool) -> Log:
    log = shop_log(np.random.default_rng(0), N)
    return replace(log, rewards=log.rewards * (5.0 + 10.0 * (log.actions % 2))) if amounts else log


@pytest.fixture(scope="module", params=[False, True], ids=["clicks", "amounts"])
def shop(request: pytest.FixtureRequest) -> RehearsedShop:
    log = log_of(request.param)
    fitted = fit_shop(log).shop
    chances = np.zeros((N, log.n_actions))
    chances[:, 4] = 0.25
    chances[:, 7] = 0.75
    return RehearsedShop(fitted, np.arange(N), log.actions, chances)


def test_expected_rewards_are_those_of_the_products_that_are_shown(shop: RehearsedShop) -> None:
    earnings = shop.earnings(3)
    rows = np.arange(N)
    draw = shop.shop.draw(3)
    fours, sevens = (shop.shop.expected_rewards_of(draw, rows, np.full(N, place)) for place in (4, 7))
    assert earnings.new == pytest.approx(0.25 * fours + 0.75 * sevens)
    assert earnings.today == pytest.approx(shop.shop.expected_rewards_of(draw, rows, shop.today))


@pytest.mark.parametrize("is_new", [False, True])
def test_what_visits_earn_is_on_average_what_is_expected(shop: RehearsedShop, is_new: bool) -> None:
    """60 draws of 1,500 visits, seed 0: within 4 standard errors."""
    earnings = shop.earnings(3)
    expected = (earnings.new if is_new else earnings.today).mean()
    rng = np.random.default_rng(0)
    means = [earnings.draw(np.arange(N), is_new, rng).mean() for _ in range(60)]
    assert np.mean(means) == pytest.approx(expected, abs=4 * np.std(means) / np.sqrt(60))
    other = (earnings.today if is_new else earnings.new).mean()
    assert abs(np.mean(means) - other) > 4 * np.std(means) / np.sqrt(60)


def test_the_shop_is_as_it_is_after_its_changes(shop: RehearsedShop) -> None:
    fitted = shop.shop
    effects = np.full((int(fitted.segments.max()) + 1, len(fitted.category_names)), 1.0)
    changed = replace(shop, shop=replace(fitted, changes=(ResponseChange(N - 1, effects),)))
    assert (changed.earnings(0).today > shop.earnings(0).today).all()


def test_exploring_shows_each_candidate_alike(shop: RehearsedShop) -> None:
    even = np.full(shop.chances.shape, 1.0 / shop.shop.n_products)
    by_chance = replace(shop, chances=even)
    assert shop.exploring(0, even) == pytest.approx(by_chance.earnings(0).new.mean())
