"""Templates as a world: it settles beforehand what the shop gives; its truth is what cells earn on average."""

from pathlib import Path

import numpy as np
import pytest

from zoosim.core.search_config import SearchConfig
from zoosim.envs import template_world as module
from zoosim.envs.search_shop import SearchShop
from zoosim.envs.template_world import earnings, expected_rewards, template_world
from zoosim.world.search import build_search_world

SMALL = SearchConfig(n_products=80, n_users=50)


@pytest.fixture(autouse=True)
def few_visits_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "APART_VISITS", 400)
    monkeypatch.setenv("ZOOSIM_CACHE", str(tmp_path))
    module._world.cache_clear()
    module._settled.cache_clear()


def test_what_each_template_earns_is_what_the_shop_gives() -> None:
    world, shop = template_world(SMALL, seed=4, steps=30), SearchShop(build_search_world(SMALL, seed=4))
    for step in range(30):
        visit = shop.arrive(step)
        assert np.array_equal(world.users[step], shop.features(visit))
        assert world.segments[step] == visit.segment * 3 + visit.kind
        for template in range(8):
            result = shop.serve(visit, shop.rank_by_template(visit, template))
            assert world.rewards[step, template] == pytest.approx(result.reward, rel=1e-12)
            found = {name: part[step, template] for name, part in world.parts.items()}
            exposure = shop.world.catalogue.strategic[result.shown].mean()
            bought = result.outcome.purchases.sum()
            assert found == {**result.parts._asdict(), "purchases": bought, "exposure": exposure}


def test_what_is_observed_changes_no_reward() -> None:
    worlds = [
        template_world(SMALL.model_copy(update={"context": c}), seed=4, steps=20) for c in ("simple", "rich-oracle")
    ]
    assert [world.users.shape[1] for world in worlds] == [7, 17]
    assert worlds[0].rewards is worlds[1].rewards or np.array_equal(worlds[0].rewards, worlds[1].rewards)
    assert np.array_equal(worlds[0].stretches[0].table, worlds[1].stretches[0].table)


def test_the_truth_is_the_mean_of_each_cell() -> None:
    shop = SearchShop(build_search_world(SMALL, seed=4))
    found = earnings(shop, module.APART, module.APART + 400)
    rewards = found.gmv + 0.4 * found.cm2 + 2.0 * found.strategic + 0.1 * found.clicks
    visits = [shop.arrive(module.APART + n) for n in range(400)]
    cells = np.array([visit.segment * 3 + visit.kind for visit in visits])
    truth = expected_rewards(shop)
    assert truth.shape == (12, 8)
    for cell in np.unique(cells):
        np.testing.assert_allclose(truth[cell], rewards[cells == cell].mean(axis=0), rtol=1e-12, atol=1e-12)


def test_it_is_kept_on_disk_and_made_again_where_that_is_damaged(tmp_path: Path) -> None:
    first = template_world(SMALL, seed=4, steps=20)
    (path,) = (tmp_path / "templates").iterdir()
    for damage in (b"", path.read_bytes()[:200]):
        path.write_bytes(damage)
        module._world.cache_clear()
        module._settled.cache_clear()
        assert np.array_equal(template_world(SMALL, seed=4, steps=20).rewards, first.rewards)
    assert path.stat().st_size > 200
