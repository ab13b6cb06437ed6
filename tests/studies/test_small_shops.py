"""Small drawn shops, and the studies of how far policies get in them: what is measured is what runs would say."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies import reward_kinds
from studies.product_effects import STUDY as EFFECTS
from studies.reached import OF_THE_WAY, ReachedStudy
from studies.reward_kinds import PAYMENTS, SCALES
from studies.reward_kinds import STUDY as REWARDS
from studies.rows import rows_where, values_where
from studies.small_shops import Payment, payment_world, swapped_world
from studies.swapped_personas import STUDY as SWAPPED
from tests.caches import use_cache
from zoosim.arena.loop import play
from zoosim.arena.past import fit_policy
from zoosim.core.errors import ConfigError
from zoosim.policies.registry import make_entry


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cache(monkeypatch, tmp_path / "cache")


@pytest.mark.parametrize("name", PAYMENTS)
def test_what_a_shop_pays_has_the_mean_that_its_truth_says(name: str) -> None:
    world = payment_world(PAYMENTS[name], 3, 20_000)
    errors = world.rewards - world.periods[0].table[world.segments]
    by_visit = errors.mean(axis=1)  # products of a visit are independent, given who comes
    standard_error = by_visit.std(ddof=1) / np.sqrt(len(by_visit))
    assert abs(by_visit.mean()) < 4 * standard_error


def test_a_wrong_truth_would_be_noticed() -> None:
    """The same test fails where the truth leaves out the mean of a log-normal size, exp(spread^2 / 2)."""
    world = payment_world(PAYMENTS["revenue"], 3, 20_000)
    table = world.periods[0].table / np.exp(0.5)
    by_visit = (world.rewards - table[world.segments]).mean(axis=1)
    assert abs(by_visit.mean()) > 4 * by_visit.std(ddof=1) / np.sqrt(len(by_visit))


def test_rewards_of_another_scale_are_the_same_visits() -> None:
    plain = payment_world(PAYMENTS["revenue"], 5, 500)
    for name in SCALES:
        other = payment_world(PAYMENTS[name], 5, 500)
        assert np.array_equal(other.segments, plain.segments)
        assert np.allclose(other.rewards, PAYMENTS[name].scale * plain.rewards, rtol=1e-12)


def test_personas_change_places_twice_and_drift_between() -> None:
    world = swapped_world(3, 3_000)
    standing = swapped_world(3, 3_000, drifts=False)
    assert np.array_equal(world.periods[0].table, standing.periods[0].table)
    assert len(standing.periods) == 1

    def largest_change(step: int) -> float:
        return float(np.abs(world.period(step).table - world.period(step - 1).table).max())

    steps = [period.start for period in world.periods[1:]]
    assert min(map(largest_change, steps)) > 0  # drift
    jumps = [step for step in steps if largest_change(step) > 0.05]  # a step of drift is below .9 / 200
    assert jumps == [1_000, 2_000]


@pytest.mark.slow
def test_one_that_knows_how_a_shop_was_drawn_leads_in_it() -> None:
    """Of worlds that are named, with no twin where that is not among them."""
    knows = str(Path(reward_kinds.__file__).parent / "knows_the_shop.py") + ":KnowsTheShop"
    rows = REWARDS.measure(seeds="3:7", jobs=1, steps=8_000, policies=f"{knows},linucb", worlds="revenue")
    assert {(row.world, row.changed) for row in rows} == {("revenue", None)}
    means = [np.mean(values_where(rows, "way", policy=policy, visits=8_000)) for policy in (knows, "linucb")]
    assert means[0] > 60
    assert means[0] > means[1] + 10
    with pytest.raises(ConfigError, match="worlds: got 'revenues', expected some of clicks, revenue, margin"):
        REWARDS.measure(worlds="revenue,revenues")
    names: Any = ["revenue"]
    with pytest.raises(ConfigError, match=r"worlds: got \['revenue'\], expected names with commas between"):
        REWARDS.measure(worlds=names)
    with pytest.raises(ConfigError, match=r"policies: got \['revenue'\], expected names with commas between"):
        REWARDS.measure(policies=names)


def test_what_is_reached_is_summed_up_to_each_checkpoint() -> None:
    study = ReachedStudy(
        {"pays": partial(payment_world, Payment(0.2))}, ("random", "linucb"), (200, 400, 1_000), OF_THE_WAY
    )
    rows = study.measure(seeds="3:4", jobs=1, steps=400)
    assert {row.visits for row in rows} == {200, 400}
    world = payment_world(Payment(0.2), 3, 400)
    policy, _ = fit_policy(make_entry("linucb"), world, 400, print)
    [block] = play(world, policy, 400)
    table = world.periods[0].table[world.segments]
    best, random = table.max(axis=1)[:200].sum(), table.mean(axis=1)[:200].sum()
    reached = block.expected_rewards[:200].sum()
    [row] = rows_where(rows, policy="linucb", visits=200)
    assert row.way == pytest.approx(100 * (reached - random) / (best - random))
    assert row.oracle == pytest.approx(100 * reached / best)


def test_the_oracle_has_the_whole_way_and_random_choices_none() -> None:
    rows = EFFECTS.measure(seeds="3:6", jobs=1, policies="random", steps=3_000)
    ways = values_where(rows, "way", world="own effects")
    assert np.abs(ways).max() < 8  # 3,000 random choices: about 2% of the way is a standard error


def test_other_scales_are_held_against_the_unscaled_decisions() -> None:
    rows = REWARDS.measure(seeds="3:4", jobs=1, policies="linucb,random", steps=300)
    changed = {(row.world, row.policy): row.changed for row in rows}
    assert changed["clicks", "linucb"] is None
    assert all(changed[name, "random"] == 0.0 for name in SCALES)
    assert (changed["revenue x 1,024", "linucb"] or 0.0) > 10  # its width suits rewards of about 1
    page = REWARDS.build_page(rows)
    assert page.tables[0].heads[-1] == "other decisions, %"
    assert {len(row) for row in page.tables[0].rows} == {len(page.tables[0].heads)}


def test_the_page_has_a_row_for_each_world_and_policy_the_best_first() -> None:
    page = SWAPPED.build_page(SWAPPED.measure(seeds="3:5", jobs=1, policies="random,d-linucb", steps=500))
    rows = [tuple(row[:2]) for row in page.tables[0].rows]
    assert rows == [(world, policy) for world in SWAPPED.worlds for policy in ("d-linucb", "random")]
    assert page.drawings[0].figure.layout.height


def test_unknown_policies_and_too_many_visits_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown policy"):
        SWAPPED.measure(policies="linucbb", seeds=1)
    with pytest.raises(ConfigError, match="steps"):
        SWAPPED.measure(steps=40_001, seeds=1)
