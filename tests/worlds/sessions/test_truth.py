"""The exact worth of sessions: by hand, against the ladder that was computed elsewhere, and against simulated lives."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.config import PERSONAS
from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.laws import laws_of
from zoosim.worlds.sessions.simulation import simulate
from zoosim.worlds.sessions.truth import SessionTruth
from zoosim.worlds.sessions.visitors import LEVEL
from zoosim.worlds.sessions.world import Sessions

VISITORS = 20_000
SHOCK = {"step": 5, "name": "fish", "set": {"new_puppy_parent": {"Fish Supplies": 0.9}}}


@pytest.fixture(scope="module")
def truth() -> SessionTruth:
    return SessionTruth(SessionConfig())


def config(**changes: Any) -> SessionConfig:
    return SessionConfig(**changes)


def test_a_chain_by_hand() -> None:
    """One category, nothing but a click: each decision is clicked by .25, and the visitor returns by .5 at its end."""
    plain = config(
        personas={"all": {"books": 0.25}},
        companions={},
        boredom=0.0,
        teaser=0.0,
        go_on=0.0,
        comes_back=0.5,
        return_by_click=0.0,
        return_by_satisfaction=0.0,
    )
    truth = SessionTruth(plain)
    assert truth.value(truth.optimum) == pytest.approx(0.25 / 0.5)
    assert truth.occupancy(truth.optimum).sum() == pytest.approx(2.0)
    # Visits of 4 decisions on average, twice as many visits by a click that brings everybody back once more often.
    longer = SessionTruth(plain.model_copy(update={"go_on": 0.75}))
    assert longer.value(longer.optimum) == pytest.approx(0.25 * 4 * 2)


def test_the_ladder(truth: SessionTruth) -> None:
    """Figures of another implementation of the same laws."""
    shares = {step.name: 100 * step.share for step in truth.ladder()}
    known = {
        "random": 26.2,
        "best product": 48.1,
        "myopic": 66.5,
        "best for this visit": 66.6,
        "no teasers": 83.2,
        "shaped bandit": 83.2,
        "teasers where satisfaction is full": 92.7,
        "optimum": 100.0,
    }
    for name, share in known.items():
        assert shares[name] == pytest.approx(share, abs=0.05), name
    assert shares["no teasers, planned"] == pytest.approx(83.4, abs=0.1)
    assert shares["persona and last click"] == pytest.approx(92.3, abs=0.5)
    assert max(shares.values()) <= 100.0 + 1e-9
    np.testing.assert_allclose(truth.by_persona(truth.optimum), [13.9, 16.3, 10.2, 8.3], atol=0.05)
    myopic = truth.by_persona(truth.rungs["myopic"]) / truth.by_persona(truth.optimum)
    np.testing.assert_allclose(100 * myopic, [61, 58, 77, 81], atol=0.5)


def test_the_best_product_is_that_of_all_that_are_tried(truth: SessionTruth) -> None:
    """Against the whole shop; the truth itself looks at one category at a time."""
    kinds = truth.laws.kinds
    always = np.eye(kinds)[:, np.newaxis, np.newaxis] * np.ones((1, truth.n_personas, truth.optimum.shape[1], 1))
    worth = np.array([truth.by_persona(policy) for policy in always])
    np.testing.assert_allclose(truth.by_persona(truth.rungs["best product"]), worth.max(axis=0))


def test_no_change_at_one_last_click_improves_the_best_by_persona_and_last_click(truth: SessionTruth) -> None:
    policy = truth.rungs["persona and last click"][0]
    best = truth.values(policy, 0)[truth.start]
    lasts = truth.laws.shape[0]
    by_last = policy.reshape(lasts, -1, truth.laws.kinds)
    assert (by_last == by_last[:, :1]).all()
    for last in range(lasts):
        for kind in range(truth.laws.kinds):
            other = by_last.copy()
            other[last] = np.eye(truth.laws.kinds)[kind]
            assert truth.values(other.reshape(policy.shape), 0)[truth.start] <= best + 1e-9


def test_where_satisfaction_does_not_matter_looking_ahead_is_worth_nothing() -> None:
    flat = SessionTruth(config(return_by_satisfaction=0.0))
    assert flat.value(flat.rungs["myopic"]) > 0.998 * flat.value(flat.optimum)


def test_values_and_decisions_add_up(truth: SessionTruth) -> None:
    """A visitor's clicks are those of all decisions, by how often each state is met."""
    for policy in (truth.optimum, truth.rungs["random"]):
        clicks = (truth.occupancy(policy)[:, :, np.newaxis] * policy * truth.clicks).sum()
        assert clicks == pytest.approx(truth.value(policy))
    best = truth.optimal_values[0, truth.start]
    assert best.max() == pytest.approx(truth.by_persona(truth.optimum)[0])


def random_policy(truth: SessionTruth, seed: int) -> FloatArray:
    shape = (truth.n_personas, *truth.clicks.shape[1:])
    drawn = np.random.default_rng(seed).gamma(0.3, size=shape)
    policy: FloatArray = drawn / drawn.sum(axis=2, keepdims=True)
    return policy


def test_simulated_lives_have_the_exact_mean(truth: SessionTruth) -> None:
    """20 policies, 20,000 visitors each: the largest of 20 gaps stays below 3.5 standard errors, their squares even."""
    policies = [*truth.rungs.values(), truth.optimum, *(random_policy(truth, seed) for seed in range(9))]
    gaps = []
    for number, policy in enumerate(policies):
        lives = simulate(truth.laws, policy, VISITORS, seed=number)
        error = lives.clicks.std() / np.sqrt(VISITORS)
        gaps.append((lives.clicks.mean() - truth.value(policy)) / error)
    assert len(gaps) >= 19
    assert np.abs(gaps).max() < 3.5
    assert 0.3 < np.mean(np.square(gaps)) < 2.2


def test_clicks_that_are_seldom_paid_are_worth_the_same() -> None:
    """One in five is paid, and worth 5: rewards spread more, and add up to as much."""
    seldom = SessionTruth(config(paid=0.2))
    lives = simulate(seldom.laws, seldom.optimum, VISITORS, seed=3)
    always = simulate(seldom.laws._replace(paid=1.0), seldom.optimum, VISITORS, seed=3)
    np.testing.assert_array_equal(lives.steps, always.steps)
    assert set(np.unique(lives.clicks) % 5.0) == {0.0}
    assert abs(lives.clicks.mean() - seldom.value(seldom.optimum)) < 3 * lives.clicks.std() / np.sqrt(VISITORS)
    assert lives.clicks.std() > 1.05 * always.clicks.std()


def test_the_optimum_where_products_sell_out_by_hand() -> None:
    """Two kinds, one decision: the better one unless it is missing alone; if both are missing, both are there."""
    shop = config(
        personas={"all": {"books": 0.25}},
        companions={},
        teaser=float(np.log(3.0)),  # odds of 1, instead of 1 to 3
        go_on=0.0,
        comes_back=1e-6,
        return_by_click=0.0,
        return_by_satisfaction=0.0,
        sold_out=0.4,
        per_kind=2,
    )
    truth = SessionTruth(shop)
    missing = 0.4**2
    worse = missing * (1.0 - missing)
    assert truth.value(truth.optimum) == pytest.approx((1.0 - worse) * 0.5 + worse * 0.25, rel=1e-5)
    assert truth.shows(np.array([1.0, 2.0])).sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_lives_where_products_sell_out_have_the_exact_mean() -> None:
    """Visitors of the world itself, who are shown the best of what is there, and something worse: 3 standard errors."""
    world = Sessions(3, 1_500, sold_out=0.5, per_kind=1)
    truth = world.truth_of(0)
    always = SessionTruth(config())
    assert truth.value(truth.optimum) < 0.95 * always.value(always.optimum)
    ladder = {step.name: step.share for step in truth.ladder()}
    assert max(ladder.values()) == ladder["optimum"]
    assert ladder["best for this visit"] > ladder["random"]
    # The product with the highest number that is there.
    last = truth.shows(np.broadcast_to(np.arange(10.0), truth.optimum.shape))
    for policy in (truth.optimum, last):
        clicks = np.zeros(1_500)
        for visitor in range(len(clicks)):
            visit: Any = world.arrive(visitor)
            while visit is not None:
                there = world.context(visit).available
                assert there.any()
                action = world.truth(visit).best_action if policy is truth.optimum else int(np.flatnonzero(there)[-1])
                outcome = world.serve(visit, action)
                clicks[visitor] += outcome.reward
                visit = outcome.next.visit if outcome.next else None
        error = clicks.std() / np.sqrt(len(clicks))
        assert abs(clicks.mean() - truth.value(policy)) < 3 * error


def test_no_other_order_of_kinds_is_worth_more_where_products_sell_out() -> None:
    truth = SessionTruth(config(sold_out=0.3, per_kind=1))
    best = truth.value(truth.optimum)
    rng = np.random.default_rng(0)
    for spread in (0.1, 1.0, 5.0):
        scores = truth.optimal_values + rng.normal(0.0, spread, truth.optimum.shape)
        assert truth.value(truth.shows(scores)) < best
    assert truth.value(truth.shows(truth.optimal_values)) == pytest.approx(best)


def test_satisfaction_that_is_felt_a_visit_later() -> None:
    """Nothing that is shown in the first visit moves its return; the exact worth is that of lives."""
    later = SessionTruth(config(felt_after=1))
    lasts, satisfactions, counts = later.laws.shape
    assert satisfactions == 49
    by_level = later.laws.returns.reshape(7, 7, counts)
    np.testing.assert_array_equal(by_level, np.broadcast_to(by_level[:, :1], by_level.shape))
    np.testing.assert_array_equal(by_level[:, 0], SessionTruth(config()).laws.returns)
    for number, policy in enumerate((later.optimum, later.myopic, random_policy(later, 5))):
        lives = simulate(later.laws, policy, VISITORS, seed=10 + number)
        assert abs(lives.clicks.mean() - later.value(policy)) < 3 * lives.clicks.std() / np.sqrt(VISITORS)
    # In the last visit that matters, what is felt later is not felt any more: myopia costs less.
    assert later.value(later.myopic) / later.value(later.optimum) > 0.8
    one_visit = SessionTruth(config(felt_after=1, return_by_click=0.0, level=1e-9))
    assert one_visit.value(one_visit.optimum) == pytest.approx(
        SessionTruth(config(return_by_click=0.0, level=1e-9)).value(one_visit.optimum[:, _without_felt(lasts, counts)])
    )


def _without_felt(lasts: int, counts: int) -> IntArray:
    """Return the states, where satisfaction is felt later, in which it was the first one at the visit before."""
    states: IntArray = np.arange(lasts * 49 * counts).reshape(lasts, 7, 7, counts)[:, 3].ravel()
    return states


def test_a_visitor_who_is_followed_no_longer_is_cut_off_and_not_gone() -> None:
    world = Sessions(0, 400, followed=3)
    assert world.truth_of(0).value(world.truth_of(0).optimum) == pytest.approx(world.optimal_clicks)
    cut_off = 0
    for visitor in range(400):
        visit: Any = world.arrive(visitor)
        for step in range(3):
            outcome = world.serve(visit, 1)
            if outcome.next is None:
                break
            assert outcome.next.cut_off == (step == 2)
            visit = outcome.next.visit
        else:
            cut_off += 1
    assert 200 < cut_off < 390


def test_two_policies_meet_the_same_visitors(truth: SessionTruth) -> None:
    myopic, sound = (truth.rungs[name] for name in ("myopic", "no teasers"))
    same, other = (simulate(truth.laws, policy, 4_000, seed=1).clicks for policy in (myopic, sound))
    apart = simulate(truth.laws, sound, 4_000, seed=2).clicks
    assert np.var(other - same) < 0.8 * np.var(apart - same)


def test_the_world_lives_by_the_same_laws() -> None:
    """Visitors of the world itself, decision by decision, under the optimum: 3 standard errors."""
    world = Sessions(0, 1_200)
    truth = world.truth_of(0)
    clicks = np.zeros(1_200)
    for visitor in range(len(clicks)):
        visit: Any = world.arrive(visitor)
        while visit is not None:
            best = world.truth(visit)
            outcome = world.serve(visit, best.best_action)
            clicks[visitor] += outcome.reward
            visit = outcome.next.visit if outcome.next else None
    error = clicks.std() / np.sqrt(len(clicks))
    assert abs(clicks.mean() - truth.value(truth.optimum)) < 3 * error


@pytest.mark.parametrize(
    ("observe", "width"),
    [("state", 4 + 6 + 7 + 11), ("shop", 4 + 11 + 7 + 11), ("anonymous", 29 + 55), ("behaviour", 24)],
)
def test_what_is_observed_has_names(observe: str, width: int) -> None:
    world = Sessions(0, 10, observe=observe)
    visit = world.arrive(0)
    for action in (0, 11, 2, 3, 4, 5, 6):
        outcome = world.serve(visit, action)
        if outcome.next is None:
            break
        visit = outcome.next.visit
        user = world.context(visit).user
        assert user.shape == (width,) == (len(world.user_columns),) == (world.spec(10).user_dim,)
        assert set(user) == {0.0, 1.0}


def test_a_shop_counts_clicks_by_itself_and_not_by_levels_of_satisfaction() -> None:
    """Five sound clicks and two on teasers, where visitors have six levels above the first."""
    one = {"all": {"books": 1 - 1e-9}}
    world = Sessions(0, 10, levels=6, go_on=0.99, return_by_satisfaction=0.0, personas=one, companions={})
    visit: Any = world.arrive(0)
    seen = []
    for action in (0, 0, 0, 0, 0, 1, 1):
        visit = world.serve(visit, action).next.visit  # type: ignore[union-attr]
        named = zip(world.user_columns, world.context(visit).user, strict=True)
        seen.append([name for name, value in named if value == 1.0])
    assert [names[2] for names in seen] == [f"sound less teasers {count}" for count in (1, 2, 3, 3, 3, 2, 1)]
    assert seen[-1] == ["all", "last: books, teaser", "sound less teasers 1", "clicks 7"]
    assert visit[LEVEL] == 6 + 3


def test_a_shock_changes_the_laws_from_a_visitor_on() -> None:
    world = Sessions(0, 10, shocks=[SHOCK])
    assert [change.step for change in world.reported_shocks] == [5]
    before, after = (world.truth_of(visitor).laws.clicks for visitor in (4, 5))
    assert (before[0, -1, 0], after[0, -1, 0]) == (pytest.approx(0.02), pytest.approx(0.9))


def test_chances_that_are_next_to_none_overflow_nowhere() -> None:
    shop = config(
        personas={"all": {"books": 1e-300}}, companions={}, teaser=-20.0, return_by_click=-20.0, most_clicks=100
    )
    laws = laws_of(shop, shop.tables()[0])
    assert laws.clicks.max() < 1e-299
    assert laws.returns.min() == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"companions": {"Cat Food": "Bird Toy"}}, "companions: unknown category 'Bird Toy'"),
        ({"personas": {"all": {"books": 1.0}}, "companions": {}}, "got a click probability of 1, expected one above 0"),
        ({"persona_mix": {"nobody": 1.0}}, "persona_mix: unknown persona 'nobody'"),
        ({"persona_mix": dict.fromkeys(PERSONAS, 0.5)}, "shares add up to 2, expected 1"),
        (
            {"levels": 50, "most_clicks": 100, "level": 0.1, "return_by_click": 0.01},
            "visitors have 244,824 states, expected at most 200,000",
        ),
        ({"go_on": 1.0}, "go_on"),
        (
            {"return_by_click": 3.0},
            "visitors return with a probability of up to 1.00000, and come for up to .* expected at most 2,000; lower",
        ),
        (
            {"go_on": 0.99, "return_by_satisfaction": 0.0, "comes_back": 0.96},
            "come for up to 17,834 decisions on average",
        ),
        ({"comes_back": 1e-320}, "comes_back: got 1e-320, expected greater than or equal to 0.000001"),
        ({"personas": {"all": {"books": 0.5}}}, "companions: the default ones are of other categories; give them, too"),
        (
            {
                "personas": {"all": {f"c{n}": 0.1 for n in range(2_000)}},
                "companions": {},
                "levels": 1,
                "most_clicks": 1,
            },
            "12,006 states, 4,000 kinds of products and 0 shocks make 48,024,000 values, expected at most 20,000,000",
        ),
        ({"shocks": [SHOCK, SHOCK]}, "two shocks are called 'fish'; give each its own name"),
        ({"shocks": [SHOCK, SHOCK | {"name": "more"}]}, "two shocks at step 5 set new_puppy_parent x Fish Supplies"),
        ({"shocks": [{"step": 10, "name": "late", "set": {}}]}, "shocks.0.set"),
        (
            {"shocks": [{"step": 10, "name": "late", "set": {"cat_connoisseur": {"Cat Toy": 0.1}}}]},
            "beyond the run of 10",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Sessions(0, 10, **changes)
