"""Crowds in some hours: bots, which earn otherwise than customers do, and customers, who do not."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.quality.fooled.shop import START, Case, Shop, Way, draw_rows
from benchmarks.quality.fooled.third_round import identities
from tests.off_policy.checks.test_checks import reasons_of
from zoosim.core.durations import DAY, HOUR
from zoosim.core.rng import stream
from zoosim.off_policy.verdict import TRUST

CROWD = "of the rows came in hours with over 3 times as many as on other days, and earn otherwise"

CROWDS: list[tuple[Way, str]] = [
    (identities.scraper_that_never_clicks, "ips"),
    (identities.farm_by_night_for_one_seller, "ips"),
    (identities.farm_on_lists, "cascade-ips"),
]


@pytest.mark.parametrize(("way", "estimator"), CROWDS, ids=[way.__name__ for way, _ in CROWDS])
def test_crowds_that_earn_otherwise_are_named_and_never_trusted(way: Way, estimator: str) -> None:
    verdict, reasons = reasons_of(way(stream(0, "fooled", way.__name__)), estimator)
    assert any(CROWD in each and " (rows " in each for each in reasons), reasons
    assert verdict != TRUST


def test_crowds_that_earn_as_others_do_are_sound() -> None:
    """1,000 of 4,000 visits come in ten of 28 nights; who comes then is as others are."""
    for seed in range(3):
        rng = stream(seed, "crowds")
        nights = START + rng.choice(28, size=10, replace=False) * DAY + 2 * HOUR
        crowd = rng.choice(nights, size=1_000) + rng.integers(2 * HOUR, size=1_000)
        times = np.sort(np.append(START + rng.integers(28 * DAY, size=3_000), crowd))
        rows = draw_rows(Shop(rng), times=times)
        _, reasons = reasons_of(rows.case(rows.shop.value()))
        assert not any(CROWD in each or "go together" in each for each in reasons), reasons


def test_a_crowd_that_comes_each_week_is_none() -> None:
    """Saturdays have five times the visits, and more of them click."""
    for seed in range(2):
        rng = stream(seed, "saturdays")
        day = rng.choice(28, size=4_000, p=np.where(np.arange(28) % 7 == 5, 5.0, 1.0) / 44.0)
        times = np.sort(START + day * DAY + rng.integers(DAY, size=4_000))
        is_saturday = (times - START) // DAY % 7 == 5
        rows = draw_rows(Shop(rng), times=times, shift=np.where(is_saturday, 0.6, 0.0)[:, None])
        assert not any(CROWD in each for each in reasons_of(rows.case(0.0))[1])


def test_rare_clicks_on_many_products_in_a_crowd_say_nothing() -> None:
    for seed in range(2):
        rng = stream(seed, "rare")
        begin = START + 10 * DAY + 12 * HOUR
        times = np.sort(np.append(START + rng.integers(28 * DAY, size=8_000), begin + rng.integers(HOUR, size=2_000)))
        log = draw_rows(Shop(rng, n_actions=100), len(times), times=times).case(0.0).log
        log = replace(log, rewards=(rng.random(len(log)) < 0.02).astype(float))
        assert not any(CROWD in each for each in reasons_of(Case(log, None, 0.0))[1])


def test_a_sale_to_users_who_come_at_other_times_too_is_sound() -> None:
    rng = stream(0, "sale")
    begin = START + 10 * DAY + 12 * HOUR
    times = np.append(START + rng.integers(28 * DAY, size=3_000), begin + rng.integers(2 * HOUR, size=1_000))
    order = np.argsort(times)
    users = np.append(rng.integers(800, size=3_000), rng.permutation(1_000) % 800)[order]
    rows = draw_rows(Shop(rng), times=times[order], shift=np.where(order >= 3_000, 1.5, 0.0)[:, None])
    assert any(CROWD in each for each in reasons_of(rows.case(0.0))[1])
    rows.users = users
    assert not any(CROWD in each for each in reasons_of(rows.case(0.0))[1])


def test_crowds_are_found_whatever_the_unit_and_where_a_product_was_never_shown() -> None:
    case = identities.scraper_that_never_clicks(stream(1, "fooled", "scraper_that_never_clicks"))
    log = case.log.rows(np.flatnonzero(case.log.actions < case.log.n_actions - 1))
    for unit in (1.0, 1e-150):
        found = reasons_of(Case(replace(log, rewards=unit * log.rewards), None, 0.0))[1]
        assert any(CROWD in each for each in found), found
