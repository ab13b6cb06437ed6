"""Amounts that were cut, returns booked elsewhere or not yet, and rewards that clocks moved; and sound ones."""

import numpy as np
import pytest

from benchmarks.quality.fooled import amounts
from benchmarks.quality.fooled.amounts import SECOND
from benchmarks.quality.fooled.shop import START, Shop, Way, draw_rows
from benchmarks.quality.fooled.third_round import timing
from tests.off_policy.checks.test_checks import reasons_of
from zoosim.core.rng import stream
from zoosim.off_policy.verdict import TRUST

SEED = 0

FAULTS: list[tuple[Way, str]] = [
    (amounts.amounts_cut_at_the_90th_percentile, "the largest one, and others hardly ever the same"),
    (amounts.returns_booked_on_the_decisions_of_the_day, "negative rewards do not go by what was shown"),
    (amounts.returns_booked_once_a_week, "negative rewards come together in rows of a day"),
    (amounts.returns_not_yet_known, "returns may not be known yet; leave those rows out, or wait (rows "),
    (amounts.clock_of_one_host_ahead, "before their own: some stand in the wrong row, by clocks that differ"),
    (amounts.clock_of_clicks_ahead, "rewards go by what was shown 39.4 s before their own"),
    (timing.refunds_on_decisions_of_the_day, "as large, to the last digit, as those of other rows"),
    (timing.returns_on_lists_of_the_day, "60% of negative rewards are at other positions than positive ones"),
    (timing.clock_of_a_host_fast_in_a_busy_hour, "rewards go by what was shown 8.06 s before their own"),
]


@pytest.mark.parametrize(("way", "reason"), FAULTS, ids=[way.__name__ for way, _ in FAULTS])
def test_a_fault_of_rewards_is_named_and_never_trusted(way: Way, reason: str) -> None:
    case = way(stream(SEED, "fooled", way.__name__))
    verdict, reasons = reasons_of(case, "ips" if case.log.actions.ndim == 1 else "cascade-ips")
    assert any(reason in each for each in reasons), reasons
    assert verdict != TRUST


@pytest.mark.parametrize("way", amounts.SOUND_AMOUNTS, ids=[way.__name__ for way in amounts.SOUND_AMOUNTS])
def test_sound_rewards_have_none_of_the_faults(way: Way) -> None:
    _, reasons = reasons_of(way(stream(SEED, "fooled", way.__name__)))
    assert [each for each in reasons if "up the standard error" not in each] == []


@pytest.mark.parametrize(("sign", "when"), [(1, "before"), (-1, "after")])
def test_clocks_are_told_by_pauses_where_choices_hardly_tell(sign: int, when: str) -> None:
    """Half of the clicks are booked 40 s late, or early; what is clicked goes little by what was shown."""
    rng = stream(SEED, "clocks", str(sign))
    shop = Shop(rng)
    shop.taste *= 0.8
    times = START + np.cumsum(rng.exponential(15 * SECOND, size=4_000).astype(np.int64))
    rows = draw_rows(shop, times=times)
    place = np.arange(4_000)
    is_moved = (rng.random(4_000) < 0.5) & (rows.rewards > 0.0)
    moved = np.searchsorted(times, times[is_moved] + sign * 40 * SECOND, side="right") - 1
    place[is_moved] = np.maximum(moved, 0)
    rows.rewards = np.minimum(1.0, np.bincount(place, rows.rewards, 4_000))
    _, reasons = reasons_of(rows.case(shop.value()))
    assert any(f" s {when} their own: some stand in the wrong row" in each for each in reasons), reasons


def test_rewards_before_pauses_are_sound_where_no_clock_explains_them() -> None:
    """Who clicks stays for longer, so that the next decision is later; it goes by no earlier choice."""
    for seed in range(3):
        rng = stream(seed, "pauses")
        rows = draw_rows(Shop(rng))
        pauses = rng.exponential(15 * SECOND, size=len(rows)) * np.where(rows.rewards > 0.0, 3.0, 1.0)
        rows.times = START + np.cumsum(pauses.astype(np.int64))
        rows.times = np.append(START, rows.times[:-1])
        _, reasons = reasons_of(rows.case(rows.shop.value()))
        assert not any("stand in the wrong row" in each for each in reasons), reasons


def test_returns_on_rows_that_earn_are_no_sign_of_their_own_rows() -> None:
    """Returns anywhere leave 0 on rows that earn, so that fewer fall below 0 where more is bought."""
    for seed in (4, 10):
        way = amounts.returns_booked_on_the_decisions_of_the_day
        _, reasons = reasons_of(way(stream(seed, "fooled", way.__name__)))
        assert any("negative rewards do not go by what was shown" in each for each in reasons), reasons
