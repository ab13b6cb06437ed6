"""The Q-ensemble's loop: its replay, its schedules, its regions, and an oracle world that it must learn."""

import numpy as np
import pytest

from studies.boost_curves.learners import PLAIN_LOOP
from studies.held_out import open_shop, spec_of
from zoosim import Context
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.policies.boosts.q_replay import Replay
from zoosim.policies.boosts.rank_guardrail import RankGuardrail
from zoosim.policies.boosts.simple import RandomBoosts
from zoosim.policies.checks.boosts import BOOST_CHECKS
from zoosim.policies.checks.contract import run_check
from zoosim.policies.checks.maker import Maker
from zoosim.policies.checks.search_shop import LARGER, SMALL
from zoosim.ranking.stability import products_leaving
from zoosim.worlds.search.boosts import context_of

BEST = np.array([0.5, -0.5, 0.5, 0.0])


def earned(shop_visit: int, action: FloatArray) -> float:
    """Return what boosts earn in the oracle world: the nearer to `BEST`, the more, with noise."""
    noise = np.random.default_rng((9, shop_visit)).normal(0.0, 0.1)
    return float(2.0 - 2.0 * np.sum((action - BEST) ** 2) + noise)


def walk(policy: BoostPolicy, visits: int) -> list[FloatArray]:
    """Let a policy serve visits of the oracle world."""
    actions = []
    for visit in range(visits):
        context = LARGER.context(visit)
        actions.append(policy.select_action(context))
        policy.update(context, actions[-1], earned(visit, actions[-1]))
    return actions


def made(**params: object) -> QEnsemble:
    return QEnsemble(LARGER.spec, np.random.default_rng(0), **params)


def distance(policy: BoostPolicy) -> float:
    """Return how far from the best boosts a policy's recommendations are, on average."""
    return float(np.mean([np.linalg.norm(policy.recommend(LARGER.context(10_000 + i)) - BEST) for i in range(20)]))


@pytest.mark.parametrize("explore", ["thompson", "ucb"])
def test_it_finds_the_best_boosts_of_a_world_with_a_known_answer(explore: str) -> None:
    policy = made(view="boosts", explore=explore, learning_rate=3e-3)
    walk(policy, 400)
    nothing = RandomBoosts(LARGER.spec, np.random.default_rng(0))
    assert distance(policy) < 0.35
    assert distance(nothing) > 0.8, "no boosts at all lie .87 away"


@pytest.mark.parametrize("policy_class", [QEnsemble, RankGuardrail])
def test_open_decisions_teach_in_any_order(policy_class: type[BoostPolicy]) -> None:
    """All decisions are made before the first reward comes, and rewards come shuffled."""
    policy = policy_class(LARGER.spec, np.random.default_rng(0))
    inside = policy.inside if isinstance(policy, RankGuardrail) else policy
    assert isinstance(inside, QEnsemble)
    inside.view = "boosts"
    actions = [inside.select_action(LARGER.context(visit)) for visit in range(400)]
    for visit in np.random.default_rng(0).permutation(400):
        policy.update(LARGER.context(visit), actions[visit], earned(visit, actions[visit]))
    assert distance(inside) < 0.35


def test_a_nan_reward_is_refused_and_poisons_nothing() -> None:
    policy, other = made(), made()
    for each in (policy, other):
        walk(each, 40)
    context = LARGER.context(0)
    for wrong in (float("nan"), float("inf"), 1e12):
        with pytest.raises(DataError, match="q-ensemble: reward: got"):
            policy.update(context, np.zeros(4), wrong)
    np.testing.assert_array_equal(walk(policy, 20), walk(other, 20))


def test_beta_falls_as_visits_pass() -> None:
    policy = made(explore="ucb", beta=2.0, decay=3.0)
    before = policy.beta_now()
    walk(policy, 20)
    assert before == 2.0
    assert policy.beta_now() == pytest.approx(2.0 * np.exp(-3.0 * 20 / LARGER.spec.steps))


def test_beta_grows_as_the_root_of_the_logarithm_where_that_is_asked() -> None:
    policy = made(explore="ucb", beta=2.0, schedule="logarithmic")
    before = policy.beta_now()
    walk(policy, 20)
    assert before == 0.0  # log 1, at the first visit
    assert policy.beta_now() == pytest.approx(2.0 * np.sqrt(np.log(21.0)))


def test_the_plain_loop_decides_by_the_last_weights_of_two_layers_trained_on_rewards_as_they_come() -> None:
    policy = QEnsemble(LARGER.spec, np.random.default_rng(0), **PLAIN_LOOP)
    walk(policy, 40)
    trained = policy._q.network().trained
    np.testing.assert_array_equal(policy._average, trained)
    inputs = policy._q.state_dim + 4
    assert trained.shape == (5, 3, (inputs + 1) * 64 + 65 * 64 + 65)  # weights, and Adam's moments
    averaged = made()
    walk(averaged, 40)
    assert (averaged._average != averaged._q.network().trained).any()


@pytest.mark.parametrize("scaled", [True, False])
def test_predictions_are_in_units_of_rewards(scaled: bool) -> None:
    policy = made(view="boosts", scaled=scaled, learning_rate=3e-3)
    walk(policy, 300)
    context = LARGER.context(1)
    mean, std = policy.predict(context, np.array([BEST, -BEST]))
    assert mean[0] == pytest.approx(2.0, abs=0.6)  # `earned` at its best
    assert mean[0] > mean[1] + 1.0
    assert std.shape == (2,)
    assert (std > 0.0).all()
    with pytest.raises(DataError, match="q-ensemble: boosts"):
        policy.predict(context, np.zeros((1, 3)))


def test_rewards_may_be_drawn_as_they_came() -> None:
    replay = Replay(10, 1, 1, 1)
    for visit in range(10):
        replay.add(np.zeros(1), np.zeros(1), float(visit), 0)
    batch = replay.draw(50, scaled=False, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(batch.targets, batch.numbers)


def test_widths_of_layers_are_read_or_refused() -> None:
    for wrong in ("", "64-", "0", "64,64"):
        with pytest.raises(ConfigError, match=r"q-ensemble.hidden: got .*, expected 1 to 8 layer sizes"):
            made(hidden=wrong)


def test_boosts_stay_in_their_trust_region() -> None:
    centre = 0.5 * np.array([0.0, 0.0, 1.0, 0.0])
    fixed = made(trust_region="fixed", radius=0.2, base="0 0 1 0")
    assert max(np.linalg.norm(action - centre) for action in walk(fixed, 60)) <= 0.2 + 1e-12
    adaptive = made(trust_region="adaptive", radius=0.6, narrow=0.05, base="0 0 1 0")
    far = [float(np.linalg.norm(action - centre)) for action in walk(adaptive, 60)]
    assert max(far) <= 0.6 + 1e-12
    ranking = made(trust_region="ranking", limit=2)
    for visit, action in enumerate(walk(ranking, 60)):
        context = LARGER.context(visit)
        assert products_leaving(context.base_scores, context.boost_features, action) <= 2
    free = [
        products_leaving(LARGER.context(visit).base_scores, LARGER.context(visit).boost_features, action)
        for visit, action in enumerate(walk(made(), 60))
    ]
    assert max(free) > 2


@pytest.mark.parametrize("region", ["fixed", "adaptive"])
def test_around_the_last_boosts_it_walks_far_in_small_steps(region: str) -> None:
    start = 0.5 * np.array([0.0, 0.0, 1.0, 0.0])
    policy = made(trust_region=region, around="previous", radius=0.2, base="0 0 1 0")
    last: dict[tuple[int, int], FloatArray] = {}
    far = []
    for visit, action in enumerate(walk(policy, 60)):
        features = LARGER.context(visit).features
        pair = int(features[:3].argmax()), int(features[3:5].argmax())
        assert np.linalg.norm(action - last.get(pair, start)) <= 0.2 + 1e-12
        last[pair] = action
        far.append(float(np.linalg.norm(action - start)))
    assert max(far) > 0.4


def test_around_the_last_boosts_a_ranking_moves_little_at_each_step_and_far_in_the_end() -> None:
    policy = made(trust_region="ranking", around="previous", limit=2)
    last: dict[tuple[int, int], FloatArray] = {}
    far = []
    for visit, action in enumerate(walk(policy, 60)):
        context = LARGER.context(visit)
        pair = int(context.features[:3].argmax()), int(context.features[3:5].argmax())
        base, features = context.base_scores, context.boost_features
        old = base + features @ last.get(pair, np.zeros(4))
        assert products_leaving(old, features, action - last.get(pair, np.zeros(4))) <= 2
        last[pair] = action
        far.append(products_leaving(base, features, action))
    assert max(far) > 4


def test_an_adaptive_region_shrinks_as_the_ensemble_learns() -> None:
    policy = made(trust_region="adaptive", radius=0.6, narrow=0.05, base="0 0 1 0")
    centre = 0.5 * np.array([0.0, 0.0, 1.0, 0.0])
    far = [float(np.linalg.norm(action - centre)) for action in walk(policy, 300)]
    early, late = (max(far[start : start + 20]) for start in (40, 280))
    assert early > 1.5 * late


def test_an_actor_learns_from_searches_and_takes_their_place() -> None:
    policy = made(view="boosts", learning_rate=3e-3, planner="actor", lessons=0.5)
    walk(policy, 300)
    assert policy._student.is_ready
    assert distance(policy) < 0.5
    contexts = [LARGER.context(20_000 + visit) for visit in range(20)]
    learned = [policy.recommend(context) for context in contexts]
    policy.planner = "cem"
    searched = [policy.recommend(context) for context in contexts]
    assert np.mean([np.linalg.norm(one - other) for one, other in zip(learned, searched, strict=True)]) < 0.3


def test_gradients_end_where_searches_do() -> None:
    policy = made(view="boosts", learning_rate=3e-3, planner="gradient", penalty=0.1)
    walk(policy, 300)
    contexts = [LARGER.context(20_000 + visit) for visit in range(20)]
    climbed = [policy.recommend(context) for context in contexts]
    policy.planner = "cem"
    for context, action in zip(contexts, climbed, strict=True):
        assert _penalised(policy, context, action) > _penalised(policy, context, policy.recommend(context)) - 0.05


def _penalised(policy: QEnsemble, context: Context, action: FloatArray) -> float:
    """Return what a search looks for, on the critic's scale."""
    _, unit = policy._scale_of(policy._segment(context))
    mean, _ = policy.predict(context, action[np.newaxis])
    return float(mean[0] / unit - policy.penalty * np.sum((action / 0.5) ** 2))


def test_held_out_visits_are_told_in_eur_with_what_was_predicted() -> None:
    policy = made(held_out=10, warm_up=5)
    actions = walk(policy, 40)
    judged = policy.judged()
    np.testing.assert_allclose(judged.reward, [earned(visit, actions[visit]) for visit in range(30, 40)])
    assert (judged.std > 0.0).all()
    before = made(held_out=10, warm_up=5)
    walk(before, 39)
    context = LARGER.context(39)
    mean, std = before.predict(context, before.select_action(context)[np.newaxis])
    np.testing.assert_allclose([mean[0], std[0]], [judged.mean[-1], judged.std[-1]])


def test_beta_is_fitted_to_held_out_visits() -> None:
    policy = made(explore="ucb", confidence="limit", level=0.8, held_out=200)
    scheduled = policy.beta_now()
    walk(policy, 200)
    judged = policy.judged()
    assert scheduled == 1.0
    covered = np.mean(judged.reward <= judged.mean + policy.beta_now() * judged.std + 1e-9)
    assert covered == pytest.approx(0.8, abs=0.02)
    mended = made(explore="ucb", confidence="recalibrated", held_out=200)
    walk(mended, 200)
    assert mended._optimism().scale != 1.0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"planner": "gradient"}, "q-ensemble.planner: got gradient with view slate"),
        ({"planner": "gradient", "view": "boosts", "trust_region": "ranking"}, "trust_region ranking, expected"),
        ({"confidence": "limit", "held_out": 50}, "q-ensemble.confidence: got limit, expected explore ucb"),
        ({"confidence": "recalibrated", "explore": "ucb"}, "q-ensemble.held_out: got 0, expected at least 20"),
    ],
)
def test_what_does_not_go_together_is_refused(params: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(**params)


def test_a_penalty_makes_boosts_smaller() -> None:
    policy = made()
    walk(policy, 100)
    sizes = []
    for penalty in (0.0, 0.1, 10.0):
        policy.penalty = penalty
        sizes.append(float(np.linalg.norm(policy.recommend(LARGER.context(7)))))
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize(
    "params",
    [
        {"view": "boosts"},
        {"explore": "ucb"},
        {"trust_region": "adaptive"},
        {"trust_region": "ranking", "around": "previous"},
        {"hidden": "6-4"},
        {"planner": "actor", "warm_up": 5, "anywhere": 0.0},
        {"planner": "gradient", "view": "boosts"},
        {"explore": "ucb", "confidence": "limit", "held_out": 20, "warm_up": 5},
    ],
)
@pytest.mark.parametrize("name", ["saves", "recommends"])
def test_variants_keep_the_contract(params: dict[str, object], name: str) -> None:
    check = next(check for check in BOOST_CHECKS if check.name == name)
    run_check(check, Maker(QEnsemble, params))


def test_a_state_of_another_policy_is_refused() -> None:
    policy = made()
    with pytest.raises(ConfigError, match=r"q-ensemble: the saved state .* \(q.trained is of shape"):
        policy.load_state_dict(made(hidden=3).state_dict())
    with pytest.raises(ConfigError, match=r"q-ensemble.base: got '2', expected 4 numbers from -1 to 1"):
        made(base="2")


def test_it_serves_the_shop_and_learns_without_feedback() -> None:
    shop = open_shop({"n_products": 200, "a_max": 0.5}, seed=1)
    policy = QEnsemble(spec_of(shop, 60), np.random.default_rng(0))
    for step in range(60):
        visit = shop.arrive(step)
        context = context_of(shop, visit)
        action = policy.select_action(context)
        policy.update(context, action, shop.serve(visit, shop.rank(visit, action)).reward)
    assert np.abs(policy.recommend(context)).max() <= 0.5


def test_rewards_are_brought_to_one_scale_within_each_segment() -> None:
    replay, rng = Replay(500, 1, 1, 2), np.random.default_rng(0)
    for visit in range(400):
        segment = visit % 2
        replay.add(np.array([segment]), np.zeros(1), float(rng.normal(*((70.0, 60.0), (1.0, 2.0))[segment])), segment)
    means, units = replay.scales()
    np.testing.assert_allclose(means, [70.0, 1.0], atol=12.0)
    assert units[0] > 3.0 * units[1], "the root of 60 / 2 is 5.5, less as two visits of all count with each"
    batch = replay.draw(2_000, rng=rng)
    for segment in (0, 1):
        own = batch.targets[batch.states[:, 0] == segment]
        assert abs(own.mean()) < 0.2
    assert set(batch.numbers) <= set(range(400))


def test_a_full_memory_forgets_the_oldest_and_numbers_go_on() -> None:
    replay = Replay(10, 1, 1, 1)
    for visit in range(25):
        replay.add(np.array([float(visit)]), np.zeros(1), float(visit), 0)
    batch = replay.draw(200, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(batch.numbers, batch.states[:, 0])
    assert batch.numbers.min() == 15
    with pytest.raises(
        ConfigError, match=r"Replay: the saved state .* \(states is of shape \(11, 1\), expected \(10, 1\)"
    ):
        replay.load_state_dict(Replay(11, 1, 1, 1).state_dict())


def test_smaller_shops_have_fewer_columns() -> None:
    policy = QEnsemble(SMALL.spec, np.random.default_rng(0))
    assert policy.recommend(SMALL.context(0)).shape == (4,)
