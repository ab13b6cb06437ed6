"""Search shops drawn at random: what was drawn holds in what visitors do, and policies can be run and scored there."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.quality.search_shops import entry_of, open_search_shop, play
from tests.caches import use_cache
from zoosim.api.runs import run
from zoosim.core.config import build
from zoosim.core.errors import ConfigError
from zoosim.worlds.search import template_arms
from zoosim.worlds.search_shops.config import SearchShopsConfig
from zoosim.worlds.search_shops.draw import draw_search_shop

SMALL: dict[str, Any] = {"products": [60, 80], "users": 300, "shown": [5, 8]}


def drawn(seed: int, steps: int = 100, **settings: Any) -> Any:
    return draw_search_shop(build(SearchShopsConfig, {**SMALL, **settings}, "env"), seed=seed, steps=steps)


@pytest.mark.parametrize("seed", range(3))
def test_products_at_random_are_clicked_and_bought_as_often_as_they_should_be(seed: int) -> None:
    """At the first position, which every visitor who looks at all looks at."""
    rates = {"click_rate": [0.3, 0.3], "purchase_rate": [0.4, 0.4]}
    shop = open_search_shop(seed, 3_000, {**SMALL, **rates, "changes": {"share": 0}})
    rng = np.random.default_rng(seed)
    count = len(shop.world.catalogue.ids)
    outcomes = []
    for step in range(3_000):
        outcomes.append(shop.serve(shop.arrive(step), rng.choice(count, shop.k, replace=False)).outcome)
    clicks = np.array([outcome.click[0] for outcome in outcomes if outcome.examined[0]])
    bought = np.array([outcome.purchases[0] for outcome in outcomes if outcome.clicks[0]])
    assert clicks.mean() == pytest.approx(0.3, rel=0.15)
    assert bought.mean() == pytest.approx(0.4, rel=0.2)


def test_a_seed_is_one_shop_and_shops_differ() -> None:
    assert drawn(3) == drawn(3)
    shops = [drawn(seed) for seed in range(12)]
    assert {shop.context for shop in shops} == {"rich", "simple"}
    assert {bool(shop.shifts) for shop in shops} == {True, False}
    assert {np.sign(shop.behaviour.price) for shop in shops} == {-1.0, 1.0}
    assert all(0 < shift.step < 100 for shop in shops for shift in shop.shifts)


def test_nothing_changes_where_no_shop_changes() -> None:
    assert not any(drawn(seed, changes={"share": 0}).shifts for seed in range(8))


def test_a_range_whose_lower_end_is_not_first_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"env\.click_rate"):
        drawn(0, click_rate=[0.5, 0.1])


def test_policies_are_scored_in_the_last_market() -> None:
    shop = open_search_shop(0, 40, {**SMALL, "changes": {"share": 1}})
    best = np.zeros((len(shop.world.config.segments), 10))
    for name in ("constant-boosts", "template-ts"):
        start, end = play(shop, entry_of(name), (0, 40), best)
        assert (start.visits, end.visits) == (0, 40)
        assert start.optimum == end.optimum > 0.0
    assert len(shop.world.markets) > 1
    constant = play(shop, entry_of("constant-boosts"), (0,), best)
    assert constant[0].reward == constant[0].optimum


def test_an_experiment_runs_policies_of_both_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cache(monkeypatch, tmp_path)
    monkeypatch.setattr(template_arms, "TRUTH_VISITS", 400)
    result = run(
        "search-shops",
        seeds=1,
        steps=30,
        jobs=1,
        policies=["random-boosts", "template-ts", "template-neutral"],
        out=tmp_path / "run",
        settings=[f"env.{name}={value}".replace(" ", "") for name, value in SMALL.items()],
    )
    policies = result.summary["policies"]
    assert all(np.isfinite(policy["gmv"]["mean"]) for policy in policies.values())
    assert "Reward by segment" not in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
