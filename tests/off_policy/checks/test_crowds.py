"""Crowds in some hours: bots, which earn otherwise than customers do, and customers, who do not."""

import numpy as np
import pytest

from benchmarks.quality.fooled.shop import START, Shop, Way, draw_rows
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
        assert not any(CROWD in each for each in reasons), reasons
