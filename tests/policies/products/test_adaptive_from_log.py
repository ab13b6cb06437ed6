"""What `adaptive` makes of a log: it begins where a mixed model of it is, explores little, and goes on from there."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import special

from zoosim.core.errors import ConfigError
from zoosim.core.types import Context, FloatArray, frozen
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.off_policy.targets.products import spec_of
from zoosim.policies.from_log.mixed_effects import MixedEffects
from zoosim.policies.products.adaptive import MODEL_SHARE, Adaptive
from zoosim.policies.products.adaptive_explained import LOG_NAME
from zoosim.policies.products.adaptive_from_log import (
    MODEL,
    OWN,
    TEMPERATURE,
    LogModel,
    fit_log_model,
    learn_weight,
    model_weight,
    new_log_model,
    predict_rewards,
)
from zoosim.policies.products.adaptive_state import new_candidates

PRODUCTS, ROWS = 60, 6_000
TRUTH = np.random.default_rng(3).normal(0.0, 0.8, (4, PRODUCTS))
"""Logits `(4, K)`: of each product, and by each of three features of visitors."""


def chances(users: FloatArray) -> FloatArray:
    return np.asarray(special.expit(-3.0 + TRUTH[0] + users @ TRUTH[1:]))


def shop_log(rows: int = ROWS, sizes: bool = False) -> Log:
    """A log of uniformly random choices among 60 products of 6 brands; clicks, or amounts of 0 and around 20."""
    rng = np.random.default_rng(5)
    users = frozen(np.where(np.arange(3) < 1, rng.integers(0, 2, (rows, 3)), rng.normal(size=(rows, 3))))
    actions = rng.integers(PRODUCTS, size=rows)
    rewards = (rng.random(rows) < chances(users)[np.arange(rows), actions]).astype(float)
    if sizes:
        rewards *= np.exp(rng.normal(3.0 + 0.2 * TRUTH[0][actions], 0.5))
    brands = frozen(np.eye(6)[rng.integers(6, size=PRODUCTS)])
    zeros = np.zeros(rows, np.int64)
    everything = CandidateSets.everything(PRODUCTS)
    return Log(actions, np.full(rows, 1 / PRODUCTS), rewards, everything, zeros, users, zeros, brands)


LOG = shop_log()


def trained(log: Log = LOG, **params: Any) -> Adaptive:
    policy = Adaptive(spec_of(log), np.random.default_rng(0), **params)
    policy.fit(log)
    return policy


@pytest.fixture(scope="module")
def warm() -> Adaptive:
    return trained()


def request(row: int, log: Log = LOG, available: Any = None) -> Context:
    return Context(
        user_id=0,
        user=log.features[row],
        product_ids=log.product_ids,
        products=log.products,
        available=np.ones(log.n_actions, bool) if available is None else available,
    )


def values(policy: Any, rows: range) -> float:
    """Return the mean true chance of a click of what a policy shows, which draws but does not learn."""
    return float(np.mean([policy.propensities(request(row)) @ chances(LOG.features[row]) for row in rows]))


@pytest.mark.parametrize("sizes", [False, True])
def test_the_model_says_what_mixed_effects_says(sizes: bool) -> None:
    """To rounding, of products that the log knew and of one that it did not."""
    log = shop_log(2_000, sizes)
    mixed = MixedEffects(spec_of(log), np.random.default_rng(0))
    mixed.fit(log)
    model = fit_log_model(log, spec_of(log), lambda line: None)
    ids = np.append(log.product_ids[::-1], 10**15)
    products = np.vstack([log.products[::-1], log.products[:1]])
    candidates = new_candidates(ids, products, np.ones(products.shape[1], np.bool_), model)
    weights = candidates.weights, candidates.size_weights
    for row in range(3):
        available = np.ones(len(ids), bool)
        context = Context(user_id=0, user=log.features[row], product_ids=ids, products=products, available=available)
        expected = predict_rewards(model, *weights, log.features[row], True)
        np.testing.assert_allclose(expected, mixed.predict(context), rtol=1e-9)
        logits = predict_rewards(model, *weights, log.features[row], False)
        assert (np.argsort(logits) == np.argsort(expected)).all() or sizes


def test_rewards_that_a_mixed_model_has_no_chance_of_leave_none() -> None:
    for rewards in (LOG.rewards - 1.0, np.zeros(ROWS)):
        model = fit_log_model(replace(LOG, rewards=rewards), spec_of(LOG), lambda line: None)
        assert len(model.own) == 0
        assert model_weight(model) == 0.0


def test_whoever_predicts_better_gains() -> None:
    """Losses are those of the answers, each faded by what is kept; 4 nats more weigh 2.7 times less."""
    model = new_log_model(spec_of(LOG), 1, 0)
    weights = np.array([[np.log(4.0), 0.0, 0.0, 0.0]])  # a chance of .8, whoever comes
    assert model_weight(model) == 0.5
    learn_weight(model, weights, np.zeros(3), 0, True, 0.5, 0.9)
    learn_weight(model, weights, np.zeros(3), 0, False, 0.5, 0.9)
    np.testing.assert_allclose(model.losses[OWN], -(0.9 + 1.0) * np.log(0.5))
    np.testing.assert_allclose(model.losses[MODEL], -0.9 * np.log(0.8) - np.log(0.2))
    model.losses[:] = TEMPERATURE, 0.0
    assert model_weight(model) == pytest.approx(np.e / (1.0 + np.e))


def test_a_warm_start_earns_what_its_model_earns(warm: Adaptive) -> None:
    """Over 300 visitors; without the model, which knows what each product is to whom, it earns some 77% of that."""
    mixed = MixedEffects(spec_of(LOG), np.random.default_rng(0), explore=0.0)
    mixed.fit(LOG)
    rows = range(300)
    model = values(mixed, rows)
    assert values(warm, rows) > 0.97 * model
    without = copy.deepcopy(warm)
    without.state.model.losses[:] = 0.0, 1_000.0
    assert values(without, rows) < 0.9 * model


def test_what_is_expected_to_earn_less_than_the_margin_allows_is_not_tried(warm: Adaptive) -> None:
    """Right after the log; the margin doubles when as much again was learned."""
    for row in range(20):
        propensities = warm.propensities(request(row))
        assert propensities.sum() == pytest.approx(1.0)
        assert propensities[warm.recommend(request(row))] > 0.0
        assert (propensities > 0.0).sum() < PRODUCTS / 2
    none = Adaptive(spec_of(LOG), np.random.default_rng(0), margin=0.0)
    none.load_state_dict(warm.state_dict())
    for row in range(20):
        assert none.propensities(request(row))[none.recommend(request(row))] == 1.0


def test_actions_come_as_often_as_their_propensities_say(warm: Adaptive) -> None:
    """1,000 draws of a request with several near the best: within 5 standard errors."""
    row = max(range(50), key=lambda row: float((warm.propensities(request(row)) > 0.05).sum()))
    propensities = warm.propensities(request(row))
    assert (propensities > 0.05).sum() >= 2
    policy = copy.deepcopy(warm)
    counts = np.zeros(PRODUCTS)
    for number in range(1_000):
        counts[policy.decide(request(row), (number + 0.5) / 1_000).action] += 1
    error = np.sqrt(propensities * (1.0 - propensities) / 1_000)
    assert (np.abs(counts / 1_000 - propensities) <= 5 * error + 1e-9).all()


def test_it_goes_on_after_loading_as_it_would_have(warm: Adaptive) -> None:
    policy = copy.deepcopy(warm)
    loaded = Adaptive(spec_of(LOG), np.random.default_rng(9))
    loaded.load_state_dict(policy.state_dict())
    for row in range(60):
        actions = [each.select_action(request(row)) for each in (policy, loaded)]
        assert actions[0] == actions[1]
        np.testing.assert_array_equal(policy.propensities(request(row)), loaded.propensities(request(row)))
        for each in (policy, loaded):
            each.update(request(row), actions[0], float(row % 3 == 0))
    for (name, one), other in zip(policy.state_dict().items(), loaded.state_dict().values(), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert policy.state.model.losses.any()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("model.rows", lambda array: array + 10**6),
        ("model.losses", lambda array: array - 1.0),
        ("model.product_ids", lambda array: array[::-1]),
        ("model.own", lambda array: array[1:]),
        ("model.scale", lambda array: array * np.nan),
    ],
)
def test_a_broken_model_is_refused(warm: Adaptive, name: str, change: Any) -> None:
    state = warm.state_dict()
    with pytest.raises(ConfigError, match=r"the saved state is"):
        warm.load_state_dict({**state, name: np.ascontiguousarray(change(state[name]))})


def test_its_say_is_explained(warm: Adaptive) -> None:
    weights = warm.explain(request(0)).weights
    assert weights[LOG_NAME] == pytest.approx(MODEL_SHARE)
    assert sum(weights.values()) == pytest.approx(1.0)
    cold = Adaptive(spec_of(LOG), np.random.default_rng(0))
    assert LOG_NAME not in cold.explain(request(0)).weights


def test_every_field_of_a_mixed_model_is_kept(warm: Adaptive) -> None:
    mixed = MixedEffects(spec_of(LOG), np.random.default_rng(0))
    mixed.fit(LOG)
    fields = set(mixed.state_dict()["model"]) - {"has_two_parts"}
    assert fields == set(LogModel._fields) - {"rows", "losses"}


@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_many_requests_are_answered_as_one_by_one(floor: float) -> None:
    """To the bit, for more visitors and candidates than are asked about at once, of which some are not available."""
    policy = trained() if floor == 0.0 else trained(floor=floor)
    candidates = policy.attach_block(LOG.product_ids, LOG.products, 1)
    n = 37
    masks = np.ones((2, LOG.n_actions), bool)
    masks[1, ::2] = False
    mask_of = np.arange(n) % 3 // 2
    out = np.zeros((n, LOG.n_actions))
    [(state, candidates)] = policy.readers(candidates, 1)
    policy.tabulate(state, candidates, np.zeros(n, np.int64), LOG.features[:n], masks, mask_of, out)
    for row in range(n):
        context = request(row, available=masks[mask_of[row]])
        np.testing.assert_array_equal(out[row], policy.propensities(context))
