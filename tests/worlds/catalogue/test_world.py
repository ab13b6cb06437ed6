"""The shop of many products: what its visitors like, what changes, and that nothing of it is copied per visitor."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError
from zoosim.worlds.catalogue.world import Catalogue
from zoosim.worlds.check import check_worlds_of
from zoosim.worlds.registry import find_world

CHANGES = {
    "shocks": [{"step": 200, "name": "winter", "size": 2.0}],
    "arrivals": [{"step": 100, "share": 0.5, "new_category": True, "appeal": 1.0}, {"step": 150, "share": 0.01}],
    "run_outs": [{"step": 20, "until": 40, "share": 0.5}, {"step": 110, "share": 0.25}],
}


def shop(seed: int = 0, steps: int = 400, **changes: Any) -> Catalogue:
    """Return a small shop with shocks, newcomers and products that run out."""
    return Catalogue(seed, steps, **{"n_products": 300, "n_users": 50, **CHANGES, **changes})


def test_it_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoosim.worlds.check.LONG", 600)
    assert [result.message for result in check_worlds_of(Catalogue, shop) if not result.ok] == []


def test_a_click_has_the_logit_that_the_parameters_say() -> None:
    """By hand, of one visitor: base + appeal a + taste <t + m, z> / sqrt(n), with what the features do not hide."""
    world = shop(hidden=0.0)
    visit = world.arrive(250)
    context = world.context(visit)
    moved = world.offer(250).moved
    for product in (0, 7):
        *tastes, appeal = context.products[product].astype(float)
        logit = -4.5 + 0.8 * appeal + 1.2 * float(np.dot(visit.tastes + moved, tastes)) / np.sqrt(8)
        expected = world.truth(visit).expected_reward(product)
        assert expected == pytest.approx(1 / (1 + np.exp(-logit)), rel=1e-6)


def test_the_best_product_is_that_of_a_scan() -> None:
    world = shop()
    for step in (0, 30, 120, 300):
        visit = world.arrive(step)
        context = world.context(visit)
        truth = world.truth(visit)
        chances = [truth.expected_reward(k) if context.available[k] else 0.0 for k in range(len(context.available))]
        assert (truth.best_action, truth.best_reward) == (int(np.argmax(chances)), max(chances))


def test_tastes_and_appeal_vary_as_drawn() -> None:
    """300 products: means of squares have a standard error of sqrt(2 / 300) = 0.08, within 4 of which they lie."""
    products = shop(n_categories=1, in_category=0.0).products
    opening = products.effects[:300].astype(float)
    np.testing.assert_allclose((opening**2).mean(axis=0), 1.0, atol=0.33)
    seen = np.array([np.corrcoef(products.features[:300, j], opening[:, j])[0, 1] for j in range(9)])
    np.testing.assert_allclose(seen, np.sqrt(0.9), atol=0.05)


def test_categories_share_a_part_of_their_tastes() -> None:
    products = shop(in_category=1.0, hidden=0.0).products
    first = products.features[:300][products.categories[:300] == 0]
    np.testing.assert_array_equal(first[:, :-1], np.broadcast_to(first[0, :-1], first[:, :-1].shape))
    assert len(np.unique(first[:, -1])) == len(first)  # appeal is each product's own


def test_newcomers_stand_behind_and_may_be_of_a_new_category() -> None:
    world = shop()
    before, after, later = (world.context(world.arrive(step)) for step in (99, 100, 150))
    assert [len(context.product_ids) for context in (before, after, later)] == [300, 450, 453]
    np.testing.assert_array_equal(after.product_ids[:300], before.product_ids)
    assert set(after.categories[300:]) == {50}
    assert after.categories[:300].max() < 50
    assert after.products[300:, -1].mean() == pytest.approx(1.0, abs=0.4)


def test_stock_runs_out_and_comes_back_or_not() -> None:
    world = shop()
    shares = {step: world.context(world.arrive(step)).available[:300].mean() for step in (19, 20, 40, 110, 399)}
    assert shares[19] == shares[40] == 1.0
    assert shares[20] == pytest.approx(0.5, abs=0.12)
    assert shares[110] == shares[399] == pytest.approx(0.75, abs=0.1)


def test_a_shock_moves_what_all_visitors_like_and_nothing_else() -> None:
    world = shop()
    calm = shop(shocks=[])
    best = [[each.truth(each.arrive(step)).best_action for step in range(150, 250)] for each in (world, calm)]
    same = np.array(best[0]) == np.array(best[1])
    assert same[:50].all()
    assert same[50:].mean() < 0.5


def test_contexts_share_their_arrays() -> None:
    """Views of one array for all time: a visit copies nothing, and policies know by identity that nothing changed."""
    world = shop()
    first, second, later = (world.context(world.arrive(step)) for step in (41, 99, 399))
    assert all(first[name] is second[name] for name in ("product_ids", "products", "available", "categories"))
    assert np.shares_memory(first.products, later.products)
    assert first.products.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        world.products.features[0, 0] = 1.0


def test_luck_follows_the_visit_and_the_product() -> None:
    """In another shop that differs by later shocks alone, the same product at the same visit is clicked alike."""
    world = shop()
    calm = shop(shocks=[], arrivals=[])
    for step in range(40):
        outcomes = {each.serve(each.arrive(step), 3).reward for each in (world, calm)}
        assert len(outcomes) == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_products": 6_000_000}, "env.n_products: got 6000000, expected less than or equal to 5000000"),
        ({"run_outs": [{"step": 5, "until": 5}]}, "until is 5, expected a step after 5"),
        ({"shocks": [{"step": 5, "name": "a"}, {"step": 6, "name": "a"}]}, "got 'a' twice"),
    ],
)
def test_what_cannot_be_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Catalogue(0, 100, **parameters)


def test_nothing_in_stock_is_refused() -> None:
    world = shop(run_outs=[{"step": 10, "share": 1.0}])
    with pytest.raises(ConfigError, match="nothing is in stock from visit 10 on; lower a share"):
        world.context(world.arrive(10))


def test_a_run_takes_the_shocks_that_fit_and_refuses_given_ones_that_do_not() -> None:
    config, _ = Catalogue.read_parameters({}, [], 100, finished=False)
    assert config.shocks == []
    with pytest.raises(ConfigError, match="'winter' is at step 200, beyond the run of 100 steps"):
        Catalogue.read_parameters({"shocks": CHANGES["shocks"]}, [], 100, finished=False)
    assert [change.name for change in shop().reported_shocks] == ["new products 1", "new products 2", "winter"]


def test_it_is_found_by_its_name() -> None:
    assert find_world("catalogue") is Catalogue
