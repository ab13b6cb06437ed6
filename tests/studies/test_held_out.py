"""Learning curves: scored on held-out visits, in units of the segments' best vectors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies import held_out as module
from studies.held_out import (
    boosts_reward,
    draw_held_out,
    learning_curve_of,
    open_shop,
    play,
    spec_of,
    view_of,
)
from tests.caches import use_cache
from zoosim.core.errors import ConfigError
from zoosim.core.id_table import find_slot
from zoosim.policies.boosts.simple import ConstantBoosts
from zoosim.policies.checks.sameness import same
from zoosim.policies.registry import make_entry
from zoosim.policies.templates.bandits import TemplateTS
from zoosim.worlds.search import optimum
from zoosim.worlds.search.boosts import BoostWorld
from zoosim.worlds.search.truth import SearchTruth

SMALL: dict[str, Any] = {"n_products": 60, "n_users": 40, "k": 5, "a_max": 0.5}
CHECKPOINTS = (5, 40)


@pytest.fixture(autouse=True)
def few_visits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_cache(monkeypatch, tmp_path)
    monkeypatch.setattr(optimum, "USUAL", optimum.SearchBudget(40, 60, 100))
    monkeypatch.setattr(module, "HELD_OUT_VISITS", 20)


def test_the_best_vectors_score_the_baseline() -> None:
    """With one vector for all segments, boosts and baseline are the same at every visit."""
    shop = open_shop(SMALL, 5)
    best = np.tile(np.linspace(-0.5, 0.5, 10), (4, 1))
    words = " ".join(str(2 * boost) for boost in best[0])
    policy = ConstantBoosts(spec_of(shop, 40), np.random.default_rng(0), boosts=words)
    curve = play(BoostWorld(shop), policy, CHECKPOINTS, best)
    assert curve.earned == 1.0
    assert [score.visits for score in curve.scores] == [5] * 5 + [40] * 5
    assert all(score.reward == score.optimum and score.error == 0.0 for score in curve.scores)
    total, *parts = (score.reward for score in curve.scores[:5])
    assert total == pytest.approx(np.dot([0.35, 0.25, 0.15, 0.25], parts))


def test_held_out_visits_are_of_each_segment_and_of_no_run() -> None:
    shop = open_shop(SMALL, 5)
    best = np.random.default_rng(0).uniform(-0.5, 0.5, (4, 10))
    held_out = draw_held_out(shop, best, n=7)
    for segment, part in enumerate(held_out.visits):
        assert [visit.segment for visit in part] == [segment] * 7
        assert all(visit.step >= module.HELD_OUT_START for visit in part)
        visit = part[3]
        baseline = held_out.baseline[segment, 3]
        assert baseline == SearchTruth(shop).rewards(visit, shop.rank(visit, best[segment]), 8).mean()
        assert baseline == boosts_reward(shop, visit, best[segment])


def test_a_learning_curve_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = make_entry("random-boosts")
    first = learning_curve_of(entry, SMALL, 5, CHECKPOINTS)
    assert first.seed == 5
    assert first.policy == "random-boosts"
    monkeypatch.setattr(module, "play", lambda *_: pytest.fail("played again"))
    assert learning_curve_of(entry, SMALL, 5, CHECKPOINTS) == first
    segments = ["all", "price_hunter", "pl_lover", "premium", "litter_heavy"]
    assert [score.segment for score in first.scores] == segments * 2


def test_bandits_over_templates_choose_by_their_context_and_recommend_without_exploring() -> None:
    shop = open_shop(SMALL, 5)
    for context_name, width in (("simple", 7), ("rich", 17)):
        world = view_of(shop, TemplateTS, {"context": context_name, "library": "shop"})
        spec = world.spec(40)
        assert (spec.product_dim, spec.user_dim) == (8, width)
        policy = TemplateTS(spec, np.random.default_rng(0), context=context_name, alpha=50.0)
        curve = play(world, policy, CHECKPOINTS, np.zeros((4, 10)))
        visit = world.arrive(7)
        context = world.context(visit)
        before = policy.state_dict()
        models = [find_slot(policy.state.templates, template) for template in range(8)]
        estimates = policy.state.ridge.theta[models] @ np.r_[1.0, shop.features(visit)[:width]]
        assert policy.recommend(context) == estimates.argmax()
        assert same(policy.state_dict(), before)
        assert (world.rank(visit, 3) == shop.rank_by_template(shop.arrive(7), 3)).all()
        assert curve.scores[0].visits == 5


def test_a_learning_curve_over_templates_has_the_name_of_its_entry() -> None:
    curve = learning_curve_of(make_entry("template-linucb", "discrete", {"context": "simple"}), SMALL, 5, CHECKPOINTS)
    assert {score.policy for score in curve.scores} == {"discrete"}
    with pytest.raises(ConfigError, match=r"context: got a policy that sees rich-oracle, expected simple or .* rich"):
        learning_curve_of(make_entry("template-ts", None, {"context": "rich-oracle"}), SMALL, 5, CHECKPOINTS)


def test_other_policies_and_shifting_shops_are_refused() -> None:
    with pytest.raises(ConfigError, match="policy random: chooses neither boosts"):
        learning_curve_of(make_entry("random"), SMALL, 5, CHECKPOINTS)
    shifted = SMALL | {"shifts": [{"step": 9, "name": "dear toys", "prices": {"toys": 3.0}}]}
    with pytest.raises(ConfigError, match=r"config\.shifts"):
        learning_curve_of(make_entry("random-boosts"), shifted, 5, CHECKPOINTS)
