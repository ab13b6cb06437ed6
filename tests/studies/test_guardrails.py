"""The study of guardrails: its streams, the interval that it compares with, what it measures, and its page."""

import math

import numpy as np
import pytest

from studies.guardrails import build_page, measure
from studies.guardrails.growthbook import GrowthBookTest
from studies.guardrails.measuring import METHODS, Run, fixed_events
from studies.guardrails.page import median
from studies.guardrails.streams import NUMBER_OF_STRATA, Stream, World, explained
from zoosim.core.errors import ConfigError


def test_streams_are_as_they_say() -> None:
    world = World(0.1, (0.25, 0.75), drop=0.5, harmless=100_000, span=200_000)
    stream = Stream(world, np.random.default_rng(1))
    first, second = stream.next(100_000), stream.next(100_000)
    assert (first.share[0], second.share[-1]) == (0.25, 0.75)
    assert first.treated.mean() == pytest.approx(0.25, abs=0.01)
    assert first.click.mean() == pytest.approx(0.1, abs=0.005)
    assert second.click[second.treated].mean() == pytest.approx(0.05, abs=0.005)
    assert set(first.stratum) == set(range(NUMBER_OF_STRATA))
    rates = [second.click[(second.stratum == k) & ~second.treated].mean() for k in range(NUMBER_OF_STRATA)]
    assert rates == pytest.approx([0.06, 0.1, 0.2], abs=0.02)
    # Rates spread by their mean: p^2 of p (1 - p).
    assert explained(0.1) == pytest.approx(0.1 / 0.9, rel=0.02)


def test_the_interval_is_the_published_one() -> None:
    """800 events, half of each arm: at a click rate of 1/2 and 1/8 the variances are 1/4 and 7/64."""
    treated = np.tile([False, True], 400)
    clicks = np.where(treated, np.arange(800) // 2 % 8 == 0, np.arange(800) // 2 % 2 == 0).astype(float)
    events = Stream(World(0.1, (0.5,)), np.random.default_rng(1)).next(800)._replace(treated=treated, click=clicks)
    rho2 = (-2 * math.log(0.02) + math.log(1 - 2 * math.log(0.02))) / 100
    n = 16 * np.arange(1, 51)
    scaled = n * rho2 + 1
    half = np.sqrt((0.25 + 7 / 64) * 2) * np.sqrt(2 * scaled / (n * n * rho2) * np.log(1 + np.sqrt(scaled) / 0.02))
    test = GrowthBookTest(0.01, 100)
    test.update(events)
    # Rates are those every 16 events.
    assert test.found_at == pytest.approx(n[np.argmax(half < 0.375)], abs=8)


def test_a_fixed_test_needs_what_is_printed() -> None:
    assert fixed_events(0.1, 0.9) == pytest.approx(13_283, abs=1)
    assert fixed_events(0.1, 0.5) == pytest.approx(4_427, abs=1)


def test_medians_have_intervals_by_order() -> None:
    assert median([3.0, 1.0, 2.0]) == (2.0, None, None)
    interval = median(list(range(1, 101)))
    assert interval == (50.5, 40.0, 61.0)


def test_the_page_says_what_was_found() -> None:
    rows = [
        Run(seed, shares, rate, drop, harmless, method, 1_000_000, found)
        for seed in range(8)
        for method in METHODS
        for shares, rate, drop, harmless, found in [
            ("10% holdback", 0.1, 0.0, 0, 5_000 if seed == 0 else 0),
            ("equal shares", 0.1, 0.0, 0, 0),
            ("ramp", 0.1, 0.0, 0, 0),
            *(
                (name, rate, 0.2, 0, int(2 * fixed_events(rate, share)) + seed)
                for name, share in (("10% holdback", 0.9), ("equal shares", 0.5))
                for rate in (0.02, 0.05, 0.1, 0.3)
            ),
            ("10% holdback", 0.1, 0.2, 20_000, 60_000),
            ("10% holdback", 0.1, 0.2, 200_000, 190_000 if seed == 0 else 280_000),
        ]
    ]
    page = build_page(rows)
    assert page.verdict == (
        "1 of 8 runs alarm falsely; a drop is found after 2.00 times the events of a fixed test, "
        "2.00 with less variance."
    )
    alarms, detections, said, late = page.tables
    assert alarms.rows[0][:2] == ["betting", "1 of 8 (2.2\N{EN DASH}47.1%)"]
    assert [row[0] for row in detections.rows] == ["10% holdback"] * 4 + ["equal shares"] * 4
    assert said.rows[2][4] == "-16%"
    assert [row[1] for row in late.rows[1:]] == ["40,000 (40,000\N{EN DASH}40,000)", "80,000 (80,000\N{EN DASH}80,000)"]


@pytest.mark.slow
def test_every_method_is_measured_in_every_stream() -> None:
    rows = measure(seeds="0:1", jobs=1, events=1_000)
    assert len(rows) == len(METHODS) * 13
    assert {row.events for row in rows if row.drop == 0.0} == {1_000, 200}
    assert all(row.found_at for row in rows if row.drop > 0.0)


def test_a_number_of_events_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="guardrails: events"):
        measure(seeds="0:1", jobs=1, events=10)
