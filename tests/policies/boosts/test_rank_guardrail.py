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
from zoosim.policies.boosts.rank_guardrail import RankGuardrail
from zoosim.policies.boosts.simple import RandomBoosts
from zoosim.ranking.stability import rank_change
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


def test_it_tells_what_was_asked_what_was_done_and_why() -> None:
    shop = open_shop(CONFIG, seed=3)
    guarded = RankGuardrail.around(Wild(spec_of(shop, 10), np.random.default_rng(0)))
    context = context_of(shop, shop.arrive(0))
    action = guarded.select_action(context)
    last = guarded.last
    assert last is not None
    np.testing.assert_array_equal(action, last.scale * last.asked)
    assert last.asked_change == rank_change(context.base_scores, context.boost_features, last.asked) > 3
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


def test_bad_wishes_and_bad_insides_are_refused() -> None:
    shop = open_shop(CONFIG, seed=3)
    spec, rng = spec_of(shop, 10), np.random.default_rng(0)
    guarded = RankGuardrail.around(RandomBoosts(spec, rng))
    with pytest.raises(DataError, match="random-boosts: action: got nan at"):
        guarded.held(context_of(shop, shop.arrive(0)), np.full(10, np.nan))
    with pytest.raises(PolicyError, match="expected a policy of boosts without guardrail"):
        RankGuardrail(spec, rng, policy="linucb")
