"""The guardrail holds whatever is asked, tells the log what it did, and has no density where it has none."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from studies.held_out import open_shop, spec_of
from zoosim import Context
from zoosim.core.errors import DataError, PolicyError
from zoosim.core.types import FloatArray
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.policies.boosts.rank_guardrail import RankGuardrail
from zoosim.policies.boosts.simple import RandomBoosts
from zoosim.policies.checks.boosts import BOOST_CHECKS
from zoosim.policies.checks.contract import run_check
from zoosim.policies.checks.maker import Maker
from zoosim.ranking.stability import products_leaving, rank_change
from zoosim.worlds.search.boosts import context_of

CONFIG = {"n_products": 300, "a_max": 0.5}


class Wild(BoostPolicy):
    """Asks for a corner of the box at every visit, and remembers what it learned from."""

    name = "wild"
    taught: FloatArray

    def select_action(self, context: Context) -> FloatArray:
        return self.spec.a_max * self.rng.choice([-1.0, 1.0], self.spec.product_dim)

    def recommend(self, context: Context) -> FloatArray:
        return np.full(self.spec.product_dim, self.spec.a_max)

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        self.taught = action


def test_no_more_leave_than_the_limit_at_1000_visits_of_the_shop() -> None:
    shop = open_shop(CONFIG, seed=3)
    policy, broken = Wild(spec_of(shop, 1_000), np.random.default_rng(0)), 0
    guarded = RankGuardrail.around(policy, limit=3)
    for step in range(1_000):
        visit = shop.arrive(step)
        context = context_of(shop, visit)
        action = guarded.select_action(context)
        left = set(visit.baseline[:10].tolist()) - set(shop.rank(visit, action)[:10].tolist())
        assert len(left) <= 3
        assert guarded.last is not None
        assert guarded.last.change == len(left)
        broken += len(set(visit.baseline[:10].tolist()) - set(shop.rank(visit, guarded.last.asked)[:10].tolist())) > 3
    assert broken > 900, "without the guardrail nearly all would break it"
    assert guarded.n_changed == broken


def test_no_more_leave_the_last_ranking_than_the_limit_and_steps_add_up() -> None:
    """The last boosts of each segment and query type are kept here as well, and ranked by the shop itself."""
    shop = open_shop(CONFIG, seed=3)
    guarded = RankGuardrail.around(Wild(spec_of(shop, 500), np.random.default_rng(0)), limit=3, against="previous")
    last: dict[tuple[int, int], FloatArray] = {}
    far, broken = 0, 0
    for step in range(500):
        visit = shop.arrive(step)
        before = shop.rank(visit, last.get((visit.segment, visit.query_type), np.zeros(10)))
        action = guarded.select_action(context_of(shop, visit))
        assert guarded.last is not None
        assert rank_change(before, shop.rank(visit, action)) <= 6, "3 have left and 3 have come"
        assert rank_change(before, shop.rank(visit, action)) == 2 * guarded.last.change
        assert np.abs(action).max() <= 0.5
        far += rank_change(visit.baseline, shop.rank(visit, action)) > 6
        broken += rank_change(before, shop.rank(visit, guarded.last.asked)) > 6
        last[visit.segment, visit.query_type] = action
    assert broken > 400, "without the guardrail most would break it"
    assert guarded.n_changed == broken
    assert far > 100, "many steps lead away from the base ranker"


def test_the_policy_inside_walks_from_what_was_served() -> None:
    shop = open_shop(CONFIG, seed=3)
    inside = QEnsemble(spec_of(shop, 10), np.random.default_rng(0), trust_region="fixed", around="previous", radius=0.2)
    guarded = RankGuardrail.around(inside, limit=1, against="previous")
    visit = shop.arrive(0)
    context = context_of(shop, visit)
    for _ in range(20):
        served = guarded.select_action(context)
        assert guarded.last is not None
        assert float(np.linalg.norm(inside.select_action(context) - served)) <= 0.2 + 1e-9
        inside.note_decision(context, served)
    assert guarded.n_changed > 0


@pytest.mark.parametrize("name", ["saves", "recommends", "late", "candidates"])
def test_held_against_the_last_ranking_it_keeps_the_contract(name: str) -> None:
    check = next(check for check in BOOST_CHECKS if check.name == name)
    run_check(check, Maker(RankGuardrail, {"against": "previous"}))


def test_it_tells_what_was_asked_what_was_done_and_why() -> None:
    shop = open_shop(CONFIG, seed=3)
    guarded = RankGuardrail.around(Wild(spec_of(shop, 10), np.random.default_rng(0)))
    context = context_of(shop, shop.arrive(0))
    action = guarded.select_action(context)
    last = guarded.last
    assert last is not None
    np.testing.assert_array_equal(action, last.scale * last.asked)
    assert last.asked_change == products_leaving(context.base_scores, context.boost_features, last.asked) > 3
    assert last.change <= 3
    assert last.why == f"{last.asked_change} of the top 10 would leave, the limit is 3"
    guarded.update(context, action, 1.0)
    assert isinstance(guarded.inside, Wild)
    np.testing.assert_array_equal(guarded.inside.taught, action)


def test_what_keeps_the_limit_is_left_alone() -> None:
    shop = open_shop(CONFIG, seed=3)
    guarded = RankGuardrail.around(RandomBoosts(spec_of(shop, 10), np.random.default_rng(0)), limit=10)
    decided = guarded.held(context_of(shop, shop.arrive(0)), np.full(10, 0.5))
    assert decided.why == ""
    np.testing.assert_array_equal(decided.done, np.full(10, 0.5))


def test_density_inside_on_and_beyond_the_limit() -> None:
    shop = open_shop({**CONFIG, "a_max": 0.4}, seed=3)
    guarded = RankGuardrail.around(RandomBoosts(spec_of(shop, 10), np.random.default_rng(0)))
    context = context_of(shop, shop.arrive(0))
    limit = guarded.held(context, np.full(10, 0.4)).done
    assert guarded.density(context, 0.5 * limit) == pytest.approx(0.8**-10)
    assert guarded.density(context, 1.5 * limit) == 0.0
    with pytest.raises(PolicyError, match="on the limit have no density"):
        guarded.density(context, limit)


def test_density_is_that_along_the_ray_from_the_last_boosts() -> None:
    shop = open_shop({**CONFIG, "a_max": 0.4}, seed=3)
    guarded = RankGuardrail.around(RandomBoosts(spec_of(shop, 10), np.random.default_rng(0)), against="previous")
    context = context_of(shop, shop.arrive(0))
    start = guarded.select_action(context)
    limit = guarded.held(context, np.full(10, 0.4)).done
    assert guarded.density(context, start + 0.5 * (limit - start)) == pytest.approx(0.8**-10)
    assert guarded.density(context, start + 1.5 * (limit - start)) == 0.0
    with pytest.raises(PolicyError, match="on the limit have no density"):
        guarded.density(context, limit)


def test_density_of_a_decision_against_the_last_ranking_is_that_of_before_it_was_taken() -> None:
    shop = open_shop({**CONFIG, "a_max": 0.4}, seed=3)
    policy = RandomBoosts(spec_of(shop, 10), np.random.default_rng(0))
    guarded = RankGuardrail.around(policy, limit=7, against="previous")
    held_back = 0
    for step in range(40):
        context = context_of(shop, shop.arrive(step))
        action = guarded.select_action(context)
        assert guarded.last is not None
        if guarded.last.why:
            held_back += 1
            with pytest.raises(PolicyError, match="on the limit have no density"):
                guarded.density(context, action)
        else:
            assert guarded.density(context, action) == pytest.approx(0.8**-10)
    assert 0 < held_back < 40


def test_bad_wishes_and_bad_insides_are_refused() -> None:
    shop = open_shop(CONFIG, seed=3)
    spec, rng = spec_of(shop, 10), np.random.default_rng(0)
    guarded = RankGuardrail.around(RandomBoosts(spec, rng))
    with pytest.raises(DataError, match="random-boosts: action: got nan at"):
        guarded.held(context_of(shop, shop.arrive(0)), np.full(10, np.nan))
    with pytest.raises(PolicyError, match="expected a policy of boosts without guardrail"):
        RankGuardrail(spec, rng, policy="linucb")
