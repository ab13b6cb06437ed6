"""The study of rehearsed launches: its shops, true launches, and its page."""

from dataclasses import replace

import numpy as np
import pytest

from studies.launch_rehearsal import build_page, measure
from studies.launch_rehearsal.measuring import NOTHING, REFUSED, Replayed
from studies.launch_rehearsal.shops import true_launch, true_shop
from zoosim.core.errors import ConfigError
from zoosim.core.statistics import Interval


def test_a_shop_logs_what_it_says() -> None:
    """4 standard errors of 20,000 true visits and the log's rows, seed 0."""
    shop = true_shop(0)
    log = shop.log()
    earnings, traffic = true_launch(shop, shop.today, np.random.default_rng(0))
    error = np.sqrt(log.rewards.var() / len(log))
    assert log.rewards.mean() == pytest.approx(earnings.today.mean(), abs=5 * error)
    assert earnings.new == pytest.approx(earnings.today)
    assert traffic.visits_per_hour == pytest.approx(len(log) / 168.0)
    assert log.user_ids is not None
    assert len(np.unique(log.user_ids)) == len(log) / 2


def row(seed: int, regret: float, regretted: int, held: int) -> Replayed:
    effect = Interval(0.0, -0.1, 0.1)
    return Replayed(
        seed=seed,
        words="12 products",
        policy="linear",
        believed="trust",
        regret=regret,
        true_effect=0.05,
        replays=10,
        regretted=regretted,
        effect=effect,
        net=effect,
        asking=effect,
        hours=effect,
        net_held=held,
        asking_held=held,
        hours_held=held,
        shipped=3,
        mean_net=-10.0,
    )


def test_the_page_sets_what_was_printed_beside_what_came() -> None:
    rows = [row(0, 0.0, 0, 10), row(1, 0.1, 2, 9), row(2, 0.5, 6, 8)]
    refused = replace(rows[0], seed=3, believed=REFUSED, effect=NOTHING, net=NOTHING)
    page = build_page([*rows, refused])
    assert page.answer.startswith("Rehearsals print a chance of regret of 20.0%; 27% (")
    assert page.details == ["In 1 of 4 shops nothing was rehearsed: the fitted shop told nothing."]
    calibration, held, shops = page.tables
    assert [line[1] for line in calibration.rows] == ["3", "1", "1", "1"]
    assert calibration.rows[3][2] == "50.0%"
    assert held.rows[0][1].startswith("90%")
    assert held.rows[3][1].startswith("100%")
    assert shops.rows[3][3:7] == (REFUSED, "-", "-", "-")


def test_options_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="launch-rehearsal: replays"):
        measure(seeds="0:1", jobs=1, replays=0)


@pytest.mark.slow
def test_launches_are_rehearsed_and_replayed() -> None:
    (only,) = measure(seeds="0:1", jobs=1, launches=5, replays=3)
    assert only.was_rehearsed
    assert only.replays == 3
    assert only.shipped <= 3
