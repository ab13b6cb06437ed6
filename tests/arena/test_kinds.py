"""Who does best in which kind of world: figures by hand, and what a run of drawn shops says."""

from pathlib import Path

import pytest
from markupsafe import escape

import zoosim
from zoosim.arena.kinds import compare_by_kind
from zoosim.worlds.base import World
from zoosim.worlds.facts import Trait
from zoosim.worlds.shops.config import ShopsConfig
from zoosim.worlds.shops.draw import draw_kind
from zoosim.worlds.shops.traits import traits_of
from zoosim.worlds.shops.world import Shops

SMALL, LARGE = Trait("size", "small", 0, "little"), Trait("size", "large", 1, "much")
LATE = Trait("delay", "late", 0, "patience")


def test_worlds_are_grouped_by_each_trait_and_compared_over_the_same_seeds() -> None:
    """In the small ones b leads by .1 and .3: .2 on average, +- 12.706 * .1 (t of 1 degree of freedom)."""
    traits = {5: (LARGE, LATE), 6: (SMALL, LATE), 7: (SMALL, LATE)}
    fractions = {"a": {5: 0.9, 6: 0.5, 7: 0.5}, "b": {5: 0.1, 6: 0.6, 7: 0.8}}
    small, large, late = compare_by_kind(traits, fractions)
    assert (small["trait"], small["value"], small["asks"], small["seeds"]) == ("size", "small", "little", [6, 7])
    assert (small["best"], small["second"]) == ("b", "a")
    assert small["policies"] == pytest.approx({"a": 0.5, "b": 0.7})
    assert small["lead"]["mean"] == pytest.approx(0.2)
    assert small["lead"]["low"] == pytest.approx(0.2 - 12.706 * 0.1, abs=1e-3)
    assert (large["best"], large["lead"]["mean"], large["lead"]["low"]) == ("a", pytest.approx(0.8), None)
    assert (late["best"], late["seeds"]) == ("a", [5, 6, 7])


def test_one_policy_leads_nobody() -> None:
    [row] = compare_by_kind({1: (LATE,)}, {"a": {1: 0.5}})
    assert (row["best"], row["second"], row["lead"]) == ("a", None, None)


def test_every_drawn_shop_has_one_value_of_each_trait() -> None:
    seen: dict[str, set[str]] = {}
    for seed in range(300):
        kind = draw_kind(ShopsConfig(), seed)
        traits = traits_of(kind)
        assert len({trait.name for trait in traits}) == len(traits)
        assert kind.drift in {trait.value for trait in traits}
        for trait in traits:
            seen.setdefault(trait.name, set()).add(trait.value)
            assert trait.asks
    assert {name: len(values) for name, values in seen.items()} == {
        "clicks on products shown at random": 3,
        "products": 3,
        "effects of products that no feature tells": 2,
        "tastes": 4,
        "drift": 5,
        "rewards come": 3,
        "a visit pays": 5,
    }


def test_a_runs_delay_takes_the_place_of_a_shops_own() -> None:
    assert World.reported_traits is not Shops.reported_traits
    at_once = next(seed for seed in range(20) if draw_kind(ShopsConfig(), seed).delay == 0)

    def delay(late: int) -> str:
        return next(trait.value for trait in Shops(at_once, 100).reported_traits(late) if trait.name == "rewards come")

    assert [delay(0), delay(100), delay(1_000)] == ["at once", "up to 200 visits late", "later"]


def test_a_run_of_shops_says_who_wins_in_which_kind_and_its_page_shows_it(tmp_path: Path) -> None:
    result = zoosim.run("shops", policies=["random", "greedy"], seeds=3, steps=200, jobs=1, out=tmp_path / "run")
    kinds = result.summary["kinds"]
    drifts = [seed for row in kinds if row["trait"] == "drift" for seed in row["seeds"]]
    assert sorted(drifts) == [0, 1, 2]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Shops like yours" in page
    assert all(escape(row["asks"]) in page for row in kinds)
    assert "figure-kinds" in page


def test_worlds_that_are_all_of_one_kind_have_no_kinds(tmp_path: Path) -> None:
    result = zoosim.run("gauntlet", policies=["random"], seeds=2, steps=100, jobs=1, out=tmp_path / "run")
    assert "kinds" not in result.summary
    assert "Shops like yours" not in (tmp_path / "run" / "report.html").read_text()
