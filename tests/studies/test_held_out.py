"""The run of boost policies: scored apart from what they play, in units of the segments' best vectors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies import held_out as module
from studies.held_out import exam_of, expected, frame_of, open_shop, play, run_course, spec_of, view_of
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
    monkeypatch.setenv("ZOOSIM_CACHE", str(tmp_path))
    for name, count in (("ROUGH_VISITS", 40), ("FINE_VISITS", 60), ("JUDGED_VISITS", 100)):
        monkeypatch.setattr(optimum, name, count)
    monkeypatch.setattr(module, "EXAM_VISITS", 20)


def test_the_best_vectors_score_what_they_are_measured_by() -> None:
    """With one vector for all segments, boosts and bar are the same at every visit."""
    shop = open_shop(SMALL, 5)
    best = np.tile(np.linspace(-0.5, 0.5, 10), (4, 1))
    words = " ".join(str(2 * boost) for boost in best[0])
    policy = ConstantBoosts(spec_of(shop, 40), np.random.default_rng(0), boosts=words)
    course = play(BoostWorld(shop), policy, CHECKPOINTS, best)
    assert course.earned == 1.0
    assert [score.visits for score in course.scores] == [5] * 5 + [40] * 5
    assert all(score.reward == score.optimum and score.error == 0.0 for score in course.scores)
    total, *parts = (score.reward for score in course.scores[:5])
    assert total == pytest.approx(np.dot([0.35, 0.25, 0.15, 0.25], parts))


def test_an_exam_holds_visits_of_each_segment_that_nobody_plays() -> None:
    shop = open_shop(SMALL, 5)
    best = np.random.default_rng(0).uniform(-0.5, 0.5, (4, 10))
    exam = exam_of(shop, best, n=7)
    for segment, part in enumerate(exam.visits):
        assert [visit.segment for visit in part] == [segment] * 7
        assert all(visit.step >= module.EXAM for visit in part)
        visit, bar = part[3], exam.bars[segment, 3]
        assert bar == SearchTruth(shop).rewards(visit, shop.rank(visit, best[segment]), 8).mean()
        assert bar == expected(shop, visit, best[segment])


def test_a_course_is_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = make_entry("random-boosts")
    first = run_course(entry, SMALL, 5, CHECKPOINTS)
    assert first.seed == 5
    assert first.policy == "random-boosts"
    monkeypatch.setattr(module, "play", lambda *_: pytest.fail("played again"))
    assert run_course(entry, SMALL, 5, CHECKPOINTS) == first
    frame = frame_of([first])
    assert frame["segment"].to_list() == ["all", "price_hunter", "pl_lover", "premium", "litter_heavy"] * 2
    assert frame["share"].to_list() == pytest.approx((frame["reward"] / frame["optimum"]).to_list())


def test_bandits_over_templates_play_by_what_they_see_and_recommend_without_exploring() -> None:
    shop, seen = open_shop(SMALL, 5), {"simple": 7, "rich": 17}
    for sees, width in seen.items():
        world = view_of(shop, TemplateTS, {"context": sees})
        spec = world.spec(40)
        assert (spec.product_dim, spec.user_dim) == (8, width)
        policy = TemplateTS(spec, np.random.default_rng(0), context=sees, alpha=50.0)
        course = play(world, policy, CHECKPOINTS, np.zeros((4, 10)))
        visit = world.arrive(7)
        context, before = world.context(visit), policy.state_dict()
        models = [find_slot(policy.state.templates, template) for template in range(8)]
        estimates = policy.state.ridge.theta[models] @ np.r_[1.0, shop.features(visit)[:width]]
        assert policy.recommend(context) == estimates.argmax()
        assert same(policy.state_dict(), before)
        assert (world.rank(visit, 3) == shop.rank_by_template(shop.arrive(7), 3)).all()
        assert course.scores[0].visits == 5


def test_a_course_over_templates_is_played_by_name() -> None:
    course = run_course(make_entry("template-linucb", "discrete", {"context": "simple"}), SMALL, 5, CHECKPOINTS)
    assert {score.policy for score in course.scores} == {"discrete"}
    with pytest.raises(ConfigError, match=r"context: got a policy that sees rich-oracle, expected simple or .* rich"):
        run_course(make_entry("template-ts", None, {"context": "rich-oracle"}), SMALL, 5, CHECKPOINTS)


def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(ConfigError, match="policy random: chooses neither boosts"):
        run_course(make_entry("random"), SMALL, 5, CHECKPOINTS)
    shifted = SMALL | {"shifts": [{"step": 9, "name": "dear toys", "prices": {"toys": 3.0}}]}
    with pytest.raises(ConfigError, match=r"config\.shifts"):
        run_course(make_entry("random-boosts"), shifted, 5, CHECKPOINTS)
