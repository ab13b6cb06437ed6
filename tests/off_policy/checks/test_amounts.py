"""Amounts that were cut, returns booked elsewhere or not yet, and rewards that clocks moved; and sound ones."""

import pytest

from benchmarks.quality.fooled import amounts
from benchmarks.quality.fooled.shop import Way
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
]


@pytest.mark.parametrize(("way", "reason"), FAULTS, ids=[way.__name__ for way, _ in FAULTS])
def test_a_fault_of_rewards_is_named_and_never_trusted(way: Way, reason: str) -> None:
    verdict, reasons = reasons_of(way(stream(SEED, "fooled", way.__name__)))
    assert any(reason in each for each in reasons), reasons
    assert verdict != TRUST


@pytest.mark.parametrize("way", amounts.SOUND_AMOUNTS, ids=[way.__name__ for way in amounts.SOUND_AMOUNTS])
def test_sound_rewards_have_none_of_the_faults(way: Way) -> None:
    _, reasons = reasons_of(way(stream(SEED, "fooled", way.__name__)))
    assert [each for each in reasons if "up the standard error" not in each] == []
